//! Entries and heads as bytes. docs/format.md has the fields.

use bytes::Bytes;
use orcas_http::{hex, parse_hex};
use orcas_shared_log::objects::Head;
use orcas_shared_log::{Cursor, Entry, EntryId, NodeId, Snapshot};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"orcaslog";
const VERSION: u8 = 1;
const FENCE: u8 = 0;
const BATCH: u8 = 1;
const HEADER: usize = 51;
const CHECKSUM: usize = 32;

/// What an entry has beside its batch, in bytes.
pub(crate) const OVERHEAD: usize = HEADER + CHECKSUM;

pub(crate) fn encode_entry(entry: &Entry<Bytes>) -> Bytes {
    let batch = entry.batch.as_deref().unwrap_or_default();
    let mut out = Vec::with_capacity(OVERHEAD + batch.len());
    out.extend_from_slice(MAGIC);
    out.push(VERSION);
    out.push(if entry.batch.is_some() { BATCH } else { FENCE });
    out.push(u8::from(entry.previous.is_some()));
    out.extend_from_slice(&entry.id.0.to_be_bytes());
    out.extend_from_slice(&entry.term.to_le_bytes());
    out.extend_from_slice(&entry.previous.map_or(0, |id| id.0).to_be_bytes());
    out.extend_from_slice(batch);
    out.extend_from_slice(blake3::hash(&out).as_bytes());
    out.into()
}

/// `None` if these are not the bytes of an entry.
pub(crate) fn decode_entry(bytes: &Bytes) -> Option<Entry<Bytes>> {
    let end = bytes.len().checked_sub(CHECKSUM).filter(|end| *end >= HEADER)?;
    let (fields, checksum) = bytes.split_at(end);
    let is_whole = fields.starts_with(MAGIC) && fields[8] == VERSION && blake3::hash(fields) == *checksum;
    let batch = match (is_whole, fields[9]) {
        (true, FENCE) if end == HEADER => None,
        (true, BATCH) => Some(bytes.slice(HEADER..end)),
        _ => return None,
    };
    let number = |at: usize| fields[at..at + 16].try_into().map(u128::from_be_bytes).ok();
    let previous = match (fields[10], number(35)?) {
        (0, 0) => None,
        (1, id) => Some(EntryId(id)),
        _ => return None,
    };
    let term = u64::from_le_bytes(fields[27..35].try_into().ok()?);
    Some(Entry { id: EntryId(number(11)?), term, previous, batch })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadText {
    format: u8,
    term: u64,
    owner: String,
    changes: u64,
    floor: u64,
    snapshots: Vec<SnapshotText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotText {
    next: u64,
    last: Option<String>,
    term: u64,
}

pub(crate) fn encode_head(head: &Head) -> String {
    text(&HeadText {
        format: VERSION,
        term: head.term,
        owner: hex(&head.owner.0.to_be_bytes()),
        changes: head.changes,
        floor: head.floor,
        snapshots: head.snapshots.iter().map(to_text).collect(),
    })
}

pub(crate) fn decode_head(bytes: &[u8]) -> Option<Head> {
    let HeadText { format, term, owner, changes, floor, snapshots } = serde_json::from_slice(bytes).ok()?;
    let snapshots = snapshots.iter().map(from_text).collect::<Option<_>>()?;
    (format == VERSION).then_some(Head { term, owner: NodeId(number(&owner)?), changes, floor, snapshots })
}

pub(crate) fn encode_snapshots(snapshots: &[Snapshot]) -> String {
    text(&snapshots.iter().map(to_text).collect::<Vec<_>>())
}

pub(crate) fn decode_snapshots(text: &str) -> Option<Vec<Snapshot>> {
    serde_json::from_str::<Vec<SnapshotText>>(text).ok()?.iter().map(from_text).collect()
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| unreachable!("numbers and text are always JSON"))
}

fn to_text(snapshot: &Snapshot) -> SnapshotText {
    let last = snapshot.at.last.map(|id| hex(&id.0.to_be_bytes()));
    SnapshotText { next: snapshot.at.next, last, term: snapshot.term }
}

fn from_text(text: &SnapshotText) -> Option<Snapshot> {
    let last = match &text.last {
        Some(last) => Some(EntryId(number(last)?)),
        None => None,
    };
    Some(Snapshot { at: Cursor { next: text.next, last }, term: text.term })
}

fn number(text: &str) -> Option<u128> {
    parse_hex(text.as_bytes()).map(u128::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(batch: Option<&'static [u8]>, previous: Option<u128>) -> Entry<Bytes> {
        Entry { id: EntryId(7 << 100), term: 3, previous: previous.map(EntryId), batch: batch.map(Bytes::from_static) }
    }

    #[test]
    fn entries_come_back_as_they_were() {
        for entry in [entry(None, None), entry(Some(b""), Some(1)), entry(Some(b"a batch"), Some(u128::MAX))] {
            assert_eq!(decode_entry(&encode_entry(&entry)), Some(entry));
        }
    }

    #[test]
    fn no_other_bytes_are_an_entry() {
        let whole = encode_entry(&entry(Some(b"batch"), Some(1)));
        for at in 0..whole.len() {
            assert_eq!(decode_entry(&whole.slice(..at)), None, "cut at {at}");
            let mut changed = whole.to_vec();
            changed[at] ^= 1;
            assert_eq!(decode_entry(&changed.into()), None, "changed at {at}");
        }
        // No entry before, and its id.
        let mut fields = whole[..whole.len() - CHECKSUM].to_vec();
        fields[10] = 0;
        fields.extend_from_slice(blake3::hash(&fields).as_bytes());
        assert_eq!(decode_entry(&fields.into()), None);
    }

    #[test]
    fn heads_come_back_as_they_were() {
        let at = Cursor { next: 9, last: Some(EntryId(u128::MAX)) };
        let snapshots = vec![Snapshot { at, term: 2 }, Snapshot { at: Cursor::default(), term: 1 }];
        let head = Head { term: 3, owner: NodeId(1 << 99), changes: 4, floor: 5, snapshots };
        assert_eq!(decode_head(encode_head(&head).as_bytes()), Some(head.clone()));
        assert_eq!(decode_snapshots(&encode_snapshots(&head.snapshots)), Some(head.snapshots.clone()));
        assert_eq!(decode_head(encode_head(&head).replace("\"format\":1", "\"format\":2").as_bytes()), None);
        assert_eq!(decode_head(b"<html>"), None);
    }
}
