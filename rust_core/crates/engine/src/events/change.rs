//! The change that a record made, as the journal keeps it. `docs/format.md` specifies the bytes.

use std::num::NonZeroU8;

use bytes::Bytes;

use orcas_checksum::Etag;
use orcas_journal::Place;
use orcas_record::{BucketId, Cause, RequestCause, VersionId};

/// The codes of causes that no request has.
const ENGINE: u8 = 0;
const LIFECYCLE: u8 = 255;
const SEALING: NonZeroU8 = NonZeroU8::new(254).unwrap();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChangeKind {
    BucketCreated = 1,
    BucketRemoved = 2,
    /// An object was stored or copied.
    Stored = 3,
    /// An object was put together from its parts.
    Completed = 4,
    /// An object has a new name. Its old name is removed.
    Renamed = 5,
    /// A version is gone, or the object of a bucket that never had versioning.
    Removed = 6,
    /// A delete marker was made.
    Marked = 7,
    /// Attributes of a version were changed: the operation tells which.
    Updated = 8,
    /// A client has written the notification configuration of a bucket, and it is not empty.
    Configured = 9,
}

impl ChangeKind {
    const ALL: [Self; 9] = [
        Self::BucketCreated,
        Self::BucketRemoved,
        Self::Stored,
        Self::Completed,
        Self::Renamed,
        Self::Removed,
        Self::Marked,
        Self::Updated,
        Self::Configured,
    ];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub place: Place,
    /// Milliseconds since the Unix epoch.
    pub time_ms: u64,
    pub kind: ChangeKind,
    pub cause: Cause,
    pub bucket: BucketId,
    pub bucket_name: Bytes,
    pub owner: Bytes,
    /// Empty if the change is about the bucket itself.
    pub key: Bytes,
    /// The version; `None` in a bucket that never had versioning.
    pub version: Option<VersionId>,
    /// Size and entity tag of what was stored: an object, or the configuration.
    pub content: Option<(u64, Etag)>,
}

impl Change {
    /// Appends everything but place and time.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let request = match &self.cause {
            Cause::Engine | Cause::Lifecycle | Cause::Sealing => None,
            Cause::Request(request) => Some(request),
        };
        let operation = match &self.cause {
            Cause::Engine => ENGINE,
            Cause::Lifecycle => LIFECYCLE,
            Cause::Sealing => SEALING.get(),
            Cause::Request(request) => request.operation.get(),
        };
        let version = match self.version {
            None => 0,
            Some(VersionId::Null) => 1,
            Some(VersionId::Named(_)) => 2,
        };
        out.extend_from_slice(&[self.kind as u8, operation, version, u8::from(self.content.is_some())]);
        out.extend_from_slice(&self.bucket.0.to_le_bytes());
        if let Some(request) = request {
            out.extend_from_slice(&request.request.to_le_bytes());
            out.extend_from_slice(&request.principal);
        }
        if let Some(VersionId::Named(id)) = self.version {
            out.extend_from_slice(&id);
        }
        if let Some((size, etag)) = &self.content {
            out.extend_from_slice(&size.to_le_bytes());
            out.extend_from_slice(&etag.md5);
            out.extend_from_slice(&etag.parts.to_le_bytes());
        }
        for text in [&self.bucket_name, &self.owner, &self.key] {
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text);
        }
    }

    /// The change with this payload; `None` for what `encode` cannot have written.
    pub fn decode(place: Place, time_ms: u64, payload: &[u8]) -> Option<Self> {
        let mut input = Input(payload);
        let [kind, operation, version, has_content] = input.array()?;
        let kind = ChangeKind::ALL.into_iter().find(|known| *known as u8 == kind)?;
        let bucket = BucketId(u64::from_le_bytes(input.array()?));
        let cause = match NonZeroU8::new(operation) {
            None => Cause::Engine,
            Some(NonZeroU8::MAX) => Cause::Lifecycle,
            Some(SEALING) => Cause::Sealing,
            Some(operation) => {
                let request = u64::from_le_bytes(input.array()?);
                Cause::Request(RequestCause { operation, request, principal: input.array()? })
            }
        };
        let version = match version {
            0 => None,
            1 => Some(VersionId::Null),
            2 => Some(VersionId::Named(input.array()?)),
            _ => return None,
        };
        let content = match has_content {
            0 => None,
            1 => {
                let (size, md5) = (u64::from_le_bytes(input.array()?), input.array()?);
                Some((size, Etag { md5, parts: u16::from_le_bytes(input.array()?) }))
            }
            _ => return None,
        };
        let [bucket_name, owner, key] = [input.text()?, input.text()?, input.text()?];
        let whole = input.0.is_empty();
        whole.then_some(Self { place, time_ms, kind, cause, bucket, bucket_name, owner, key, version, content })
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn text(&mut self) -> Option<Bytes> {
        let length = u16::from_le_bytes(self.array()?);
        let (text, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        Some(Bytes::copy_from_slice(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(cause: Cause, version: Option<VersionId>, content: Option<(u64, Etag)>) -> Change {
        Change {
            place: Place { sequence: 7, ordinal: 1 },
            time_ms: 1_700_000_000_123,
            kind: ChangeKind::Renamed,
            cause,
            bucket: BucketId(3),
            bucket_name: Bytes::from_static(b"bucket"),
            owner: Bytes::from_static(b"root"),
            key: Bytes::from_static("schlüssel\0".as_bytes()),
            version,
            content,
        }
    }

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format.md");

    /// Length and text of each field in the document's table of the payload.
    fn documented() -> Vec<(String, String)> {
        let document = std::fs::read_to_string(DOCUMENT).unwrap();
        let (_, after) = document.split_once("the events of that record. The payload:").expect("the line is there");
        let rows = after.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        let row = |line: &str| {
            let (length, text) = line.trim_matches('|').split_once('|').expect("a row of two cells");
            (length.trim().to_owned(), text.trim().to_owned())
        };
        rows.skip(2).map(row).collect()
    }

    fn number(text: &str) -> u8 {
        text.trim().split(' ').next().and_then(|word| word.parse().ok()).expect("it begins with a number")
    }

    #[test]
    fn the_payload_is_as_documented() {
        let rows = documented();
        let kinds = rows[0].1.strip_prefix("kind: ").unwrap().split(',').map(number);
        assert_eq!(kinds.collect::<Vec<_>>(), ChangeKind::ALL.map(|kind| kind as u8));
        let versions = rows[2].1.strip_prefix("version: ").unwrap().split(',').map(number);
        assert_eq!(versions.collect::<Vec<_>>(), [0, 1, 2]);
        assert!(rows[5].1.ends_with(&format!("unless `operation` is {ENGINE}, {SEALING} or {LIFECYCLE}")));
        let operation = NonZeroU8::new(9).unwrap();
        let request = RequestCause { operation, request: 0x0102_0304_0506_0708, principal: [5; 32] };
        let etag = Etag { md5: [6; 16], parts: 300 };
        let (whole, version) = (Some((0x1112_1314_1516_1718, etag)), Some(VersionId::Named([4; 16])));
        let (long, short) =
            (change(Cause::Request(request), version, whole), change(Cause::Lifecycle, Some(VersionId::Null), None));
        for (it, optional) in [(&long, true), (&short, false)] {
            let when = |bytes: Vec<u8>| if optional { bytes } else { Vec::new() };
            let text = |text: &Bytes| [&(text.len() as u16).to_le_bytes()[..], text].concat();
            let fields = [
                ("kind:", vec![it.kind as u8]),
                ("`operation` of the", vec![if optional { operation.get() } else { LIFECYCLE }]),
                ("version:", vec![if optional { 2 } else { 1 }]),
                ("1 if size and entity tag follow", vec![u8::from(optional)]),
                ("id of the bucket", it.bucket.0.to_le_bytes().to_vec()),
                ("`request` and `principal`", when([&request.request.to_le_bytes()[..], &[5; 32]].concat())),
                ("id of the version, if it is named", when(vec![4; 16])),
                (
                    "size, and MD5 and number of parts",
                    when([&0x1112_1314_1516_1718u64.to_le_bytes()[..], &etag.md5, &etag.parts.to_le_bytes()].concat()),
                ),
                ("length and bytes of the name of the bucket", text(&it.bucket_name)),
                ("the same of the id of its owner", text(&it.owner)),
                ("the same of the key", text(&it.key)),
            ];
            assert_eq!(rows.len(), fields.len());
            for ((length, text), (begins, bytes)) in rows.iter().zip(&fields) {
                assert!(text.starts_with(begins), "{text:?} instead of {begins:?}");
                let fixed: usize = length.split(" + ").filter_map(|part| part.parse::<usize>().ok()).sum();
                let known = bytes.is_empty() || length.ends_with('n') || bytes.len() == fixed;
                assert!(known, "{text}: {length} for {}", bytes.len());
            }
            let mut payload = Vec::new();
            it.encode(&mut payload);
            assert_eq!(payload, fields.map(|(_, bytes)| bytes).concat());
        }
    }

    #[test]
    fn every_change_is_decoded_as_it_was_and_no_part_of_one_is() {
        let operation = NonZeroU8::new(9).unwrap();
        let request = Cause::Request(RequestCause { operation, request: u64::MAX - 1, principal: [5; 32] });
        let etag = Etag { md5: [6; 16], parts: 300 };
        for cause in [Cause::Engine, Cause::Lifecycle, Cause::Sealing, request] {
            for version in [None, Some(VersionId::Null), Some(VersionId::Named([4; 16]))] {
                for content in [None, Some((u64::MAX, etag))] {
                    let change = change(cause, version, content);
                    let mut payload = Vec::new();
                    change.encode(&mut payload);
                    let decode = |payload: &[u8]| Change::decode(change.place, change.time_ms, payload);
                    assert_eq!(decode(&payload).as_ref(), Some(&change));
                    for end in 0..payload.len() {
                        assert_eq!(decode(&payload[..end]), None, "the first {end} bytes");
                    }
                    payload.push(0);
                    assert_eq!(decode(&payload), None);
                }
            }
        }
    }
}
