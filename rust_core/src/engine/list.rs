//! Pages of objects: the index and the overlay merged in byte order of the keys, common prefixes rolled up. A page
//! costs what it holds: a prefix is left behind with one seek, however many keys it covers.

use std::collections::VecDeque;
use std::ops::Bound;

use bytes::Bytes;

use super::Shared;
use crate::checksum::{ChecksumAlgorithm, ChecksumType, Etag};
use crate::error::{Error, Result};
use crate::index::{HeadRow, Reader};
use crate::log::LogPosition;
use crate::record::{BucketId, Object, Sequence};

/// What a page of ListObjects, in either version, is asked for.
#[derive(Clone, Debug)]
pub struct ListObjects {
    pub bucket: BucketId,
    pub prefix: Bytes,
    pub delimiter: Option<Bytes>,
    /// Keys after this one; as the end of an earlier page it may also be a common prefix, whose keys are all skipped.
    pub after: Option<Bytes>,
    /// Keys and prefixes together, at most 1,000.
    pub max_keys: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    pub key: Bytes,
    pub modified_ms: u64,
    pub size: u64,
    pub etag: Etag,
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    pub entries: Vec<ListEntry>,
    pub prefixes: Vec<Bytes>,
    /// There is more after `last`.
    pub truncated: bool,
    /// The last key or common prefix of the page.
    pub last: Option<Bytes>,
}

/// Rows that a cursor fetches after a seek; doubled with every further fetch, since a seek is often followed by the
/// next one.
const FETCH_FIRST: usize = 4;
const FETCH_MAX: usize = 1_024;
/// Times a page starts over because the applier moved records out of the overlay between the two looks.
const RESTARTS_MAX: usize = 16;

/// One key as a cursor sees it; `entry` is `None` for a deletion that the index does not know yet.
struct Row {
    key: Bytes,
    sequence: Sequence,
    entry: Option<ListEntry>,
}

enum Page {
    Ready(ListPage),
    /// The overlay lost records that the snapshot of the index does not have.
    Moved,
}

impl Shared {
    pub fn list_objects(&self, list: &ListObjects) -> Result<ListPage> {
        if list.max_keys == 0 {
            return Ok(ListPage::default());
        }
        for _ in 0..RESTARTS_MAX {
            let mut reader = self.index.read()?;
            let snapshot = reader.begin()?;
            let applied = match snapshot.position()? {
                None => 0,
                Some(position) => {
                    LogPosition::decode(&position)
                        .ok_or(Error::Record { reason: "the index holds a position that cannot be read" })?
                        .sequence
                }
            };
            let index = Cursor::new(IndexRows { reader: &snapshot, bucket: list.bucket });
            let overlay = Cursor::new(OverlayRows { shared: self, bucket: list.bucket, applied });
            let merge = Merge { list, index, overlay };
            if let Page::Ready(page) = merge.page()? {
                return Ok(page);
            }
        }
        Err(Error::Index { reason: "a page could not be read between two commits".into() })
    }
}

/// Keys in order, fetched a few at a time.
trait Rows {
    /// Up to `limit` rows from `from` on. `None` when the source has moved on under the reader.
    fn fetch(&mut self, from: Bound<&[u8]>, limit: usize, out: &mut VecDeque<Row>) -> Result<Option<()>>;
}

struct IndexRows<'r, 'i> {
    reader: &'r Reader<'i>,
    bucket: BucketId,
}

impl Rows for IndexRows<'_, '_> {
    fn fetch(&mut self, from: Bound<&[u8]>, limit: usize, out: &mut VecDeque<Row>) -> Result<Option<()>> {
        let (key, inclusive) = match from {
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
            Bound::Unbounded => (&b""[..], true),
        };
        self.reader.scan_heads(self.bucket, key, inclusive, None, limit, &mut |head| {
            out.push_back(of_head(&head));
            true
        })?;
        Ok(Some(()))
    }
}

fn of_head(head: &HeadRow<'_>) -> Row {
    let key = Bytes::copy_from_slice(&head.key);
    let entry = ListEntry {
        key: key.clone(),
        modified_ms: head.modified_ms,
        size: head.size,
        etag: head.etag,
        checksum: head.checksum,
    };
    Row { key, sequence: head.sequence, entry: Some(entry) }
}

struct OverlayRows<'s> {
    shared: &'s Shared,
    bucket: BucketId,
    /// What the snapshot of the index has.
    applied: Sequence,
}

impl Rows for OverlayRows<'_> {
    fn fetch(&mut self, from: Bound<&[u8]>, limit: usize, out: &mut VecDeque<Row>) -> Result<Option<()>> {
        let overlay = self.shared.overlay.read();
        if overlay.trimmed() > self.applied {
            return Ok(None);
        }
        for (key, change) in overlay.range(self.bucket, from).take(limit) {
            let entry = change.value.as_deref().map(of_object);
            out.push_back(Row { key: key.clone(), sequence: change.sequence, entry });
        }
        Ok(Some(()))
    }
}

fn of_object(object: &Object) -> ListEntry {
    let version = &object.version;
    ListEntry {
        key: version.key.clone(),
        modified_ms: version.modified_ms,
        size: version.size,
        etag: version.etag,
        checksum: version.checksum.map(|whole| (whole.checksum.algorithm(), whole.kind())),
    }
}

struct Cursor<R> {
    rows: R,
    fetched: VecDeque<Row>,
    /// Where the next fetch begins; `None` when there is nothing beyond `fetched`.
    from: Option<Bound<Bytes>>,
    fetch: usize,
}

impl<R: Rows> Cursor<R> {
    fn new(rows: R) -> Self {
        Self { rows, fetched: VecDeque::new(), from: Some(Bound::Unbounded), fetch: FETCH_FIRST }
    }

    /// Leaves everything before `to` behind.
    fn seek(&mut self, to: Bound<Bytes>) {
        let before = |key: &Bytes| match &to {
            Bound::Included(to) => key < to,
            Bound::Excluded(to) => key <= to,
            Bound::Unbounded => false,
        };
        while self.fetched.front().is_some_and(|row| before(&row.key)) {
            self.fetched.pop_front();
        }
        if self.fetched.is_empty() && self.from.is_some() {
            self.from = Some(to);
            self.fetch = FETCH_FIRST;
        }
    }

    /// Makes sure that the next row is fetched if there is one.
    fn fill(&mut self) -> Result<Option<()>> {
        if !self.fetched.is_empty() {
            return Ok(Some(()));
        }
        let Some(from) = &self.from else { return Ok(Some(())) };
        let from = from.as_ref().map(|key| key.as_ref());
        if self.rows.fetch(from, self.fetch, &mut self.fetched)?.is_none() {
            return Ok(None);
        }
        let complete = self.fetched.len() < self.fetch;
        self.from = self.fetched.back().filter(|_| !complete).map(|row| Bound::Excluded(row.key.clone()));
        self.fetch = (self.fetch * 4).min(FETCH_MAX);
        Ok(Some(()))
    }
}

struct Merge<'l, I, O> {
    list: &'l ListObjects,
    index: Cursor<I>,
    overlay: Cursor<O>,
}

impl<I: Rows, O: Rows> Merge<'_, I, O> {
    fn page(mut self) -> Result<Page> {
        let mut page = ListPage::default();
        self.seek(self.start());
        loop {
            if self.index.fill()?.is_none() || self.overlay.fill()?.is_none() {
                return Ok(Page::Moved);
            }
            let Some(row) = self.next() else { break };
            if !row.key.starts_with(&self.list.prefix) {
                break;
            }
            let Some(entry) = row.entry else { continue };
            if page.entries.len() + page.prefixes.len() == self.list.max_keys {
                page.truncated = true;
                break;
            }
            match self.common_prefix(&row.key) {
                Some(prefix) => {
                    let beyond = successor(&prefix);
                    page.last = Some(prefix.clone());
                    page.prefixes.push(prefix);
                    match beyond {
                        Some(beyond) => self.seek(Bound::Included(beyond)),
                        None => break,
                    }
                }
                None => {
                    page.last = Some(row.key);
                    page.entries.push(entry);
                }
            }
        }
        Ok(Page::Ready(page))
    }

    fn seek(&mut self, to: Bound<Bytes>) {
        self.index.seek(to.clone());
        self.overlay.seek(to);
    }

    /// The first key that may be on the page.
    fn start(&self) -> Bound<Bytes> {
        let prefix = &self.list.prefix;
        let Some(after) = self.list.after.as_ref().filter(|after| *after >= prefix) else {
            return Bound::Included(prefix.clone());
        };
        // A page that ended with a common prefix is followed by what comes after all of its keys.
        match self.common_prefix(after).filter(|rolled| rolled == after).as_ref().and_then(successor) {
            Some(beyond) => Bound::Included(beyond),
            None => Bound::Excluded(after.clone()),
        }
    }

    fn common_prefix(&self, key: &Bytes) -> Option<Bytes> {
        let delimiter = self.list.delimiter.as_ref().filter(|delimiter| !delimiter.is_empty())?;
        let rest = key.strip_prefix(self.list.prefix.as_ref())?;
        let at = memchr::memmem::find(rest, delimiter)?;
        Some(key.slice(..self.list.prefix.len() + at + delimiter.len()))
    }

    /// The next key in order; where both have it, the newer record speaks.
    fn next(&mut self) -> Option<Row> {
        let order = match (self.index.fetched.front(), self.overlay.fetched.front()) {
            (Some(index), Some(overlay)) => index.key.cmp(&overlay.key),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, _) => std::cmp::Ordering::Greater,
        };
        match order {
            std::cmp::Ordering::Less => self.index.fetched.pop_front(),
            std::cmp::Ordering::Greater => self.overlay.fetched.pop_front(),
            std::cmp::Ordering::Equal => {
                let (index, overlay) = (self.index.fetched.pop_front()?, self.overlay.fetched.pop_front()?);
                Some(if overlay.sequence > index.sequence { overlay } else { index })
            }
        }
    }
}

/// The smallest byte string that is greater than every string with this prefix; `None` when there is none.
pub(super) fn successor(prefix: &Bytes) -> Option<Bytes> {
    let end = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut out = prefix[..=end].to_vec();
    out[end] += 1;
    Some(out.into())
}
