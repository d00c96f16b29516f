//! Pages of objects: the index and the overlay merged in byte order of the keys, common prefixes rolled up. A page
//! costs no more than its entries: one seek skips all keys of a prefix, and rows that only the index has go to the sink
//! of the page without a copy.

use std::collections::VecDeque;
use std::ops::Bound;

use bytes::Bytes;

use crate::Catalog;
use crate::recent::key_changes::{Current, NewerChanges};
use orcas_base::error::{Error, Result};
use orcas_checksum::{ChecksumAlgorithm, ChecksumType, Etag};
use orcas_index::{ListedRow, Reader};
use orcas_log::LogPosition;
use orcas_record::{BucketId, Object, Sequence, StorageClass};

/// The parameters of a page of ListObjects, in either version.
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

/// The columns of an entry, besides its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub modified_ms: u64,
    pub size: u64,
    pub etag: Etag,
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The storage class; `None` for `STANDARD`.
    pub class: Option<StorageClass>,
}

/// Takes a page while it is read: entries and common prefixes in byte order.
pub trait PageSink {
    fn entry(&mut self, key: &[u8], listed: &Listed);
    fn prefix(&mut self, prefix: &[u8]);
    /// Drops all entries and prefixes so far: the page begins anew.
    fn restart(&mut self);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    pub key: Bytes,
    pub listed: Listed,
}

/// A page as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    pub entries: Vec<ListEntry>,
    pub prefixes: Vec<Bytes>,
    /// The last key or common prefix of a page after which there is more.
    pub next: Option<Bytes>,
}

impl PageSink for ListPage {
    fn entry(&mut self, key: &[u8], listed: &Listed) {
        self.entries.push(ListEntry { key: Bytes::copy_from_slice(key), listed: *listed });
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.prefixes.push(Bytes::copy_from_slice(prefix));
    }

    fn restart(&mut self) {
        *self = Self::default();
    }
}

/// Rows that a cursor fetches after a seek; doubled with every further fetch, since a seek is often followed by the
/// next one.
const FETCH_FIRST: usize = 4;
const FETCH_MAX: usize = 1_024;
/// Times a page starts over because the applier moved records out of the overlay between the two looks.
pub const RESTARTS_MAX: usize = 16;

/// A key as a cursor sees it.
struct ScannedKey {
    key: Bytes,
    sequence: Sequence,
    shown: Shown,
}

enum Shown {
    Listed(Listed),
    /// The key has no current version, and the index does not have that change yet.
    Nothing,
    /// The newest version in the index that these changes do not hide.
    Below(NewerChanges),
}

enum Read {
    /// The page, with the last key or prefix when there is more.
    Done(Option<Bytes>),
    /// The overlay lost records that the read transaction does not see.
    Moved,
}

/// A page of objects, handed over while it is read. Returns its last key or common prefix when there is more.
///
/// # Errors
/// When the index cannot be read.
pub fn list_objects(catalog: &Catalog, list: &ListObjects, sink: &mut dyn PageSink) -> Result<Option<Bytes>> {
    if list.max_keys == 0 {
        return Ok(None);
    }
    for _ in 0..RESTARTS_MAX {
        let mut reader = catalog.index.read()?;
        let transaction = reader.begin()?;
        let applied = applied_to(&transaction)?;
        let index = Cursor::new(IndexRows { reader: &transaction, bucket: list.bucket });
        let overlay = Cursor::new(OverlayRows { catalog, bucket: list.bucket, applied, moves: None });
        let page = Page { list, sink, count: 0, last: None };
        if let Read::Done(next) = (Merge { page, index, overlay }).read()? {
            return Ok(next);
        }
        sink.restart();
    }
    Err(Error::Index { reason: "a page could not be read between two commits".into() })
}

/// The last record that the index has.
pub fn applied_to(transaction: &Reader<'_>) -> Result<Sequence> {
    let Some(position) = transaction.position()? else { return Ok(0) };
    let position = LogPosition::decode(&position);
    let unreadable = Error::Record { reason: "the index holds a position that cannot be read" };
    Ok(position.ok_or(unreadable)?.sequence)
}

/// Keys in order, fetched a few at a time.
trait KeySource {
    /// Up to `limit` rows from `from` on. `None` when the source has moved on under the reader.
    fn fetch(&mut self, from: Bound<&[u8]>, limit: usize, out: &mut VecDeque<ScannedKey>) -> Result<Option<()>>;
}

struct IndexRows<'r, 'i> {
    reader: &'r Reader<'i>,
    bucket: BucketId,
}

impl IndexRows<'_, '_> {
    fn scan(&self, from: Bound<&[u8]>, limit: usize, visit: &mut dyn FnMut(ListedRow<'_>) -> bool) -> Result<()> {
        let (key, inclusive) = match from {
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
            Bound::Unbounded => (&b""[..], true),
        };
        self.reader.scan_current(self.bucket, key, inclusive, None, limit, visit)
    }

    /// The newest version of a key that `changes` do not hide, unless it is a delete marker.
    fn newest(&self, key: &[u8], changes: &NewerChanges) -> Result<Option<Listed>> {
        let mut newest = None;
        self.reader.versions_of_key((self.bucket, key), Sequence::MAX, usize::MAX, &mut |row| {
            let hidden = changes.hide(row.version_id, row.listed.sequence);
            if !hidden && !row.delete_marker {
                newest = Some(of_listed(&row.listed));
            }
            hidden
        })?;
        Ok(newest)
    }
}

impl KeySource for IndexRows<'_, '_> {
    fn fetch(&mut self, from: Bound<&[u8]>, limit: usize, out: &mut VecDeque<ScannedKey>) -> Result<Option<()>> {
        self.scan(from, limit, &mut |row| {
            let (key, shown) = (Bytes::copy_from_slice(&row.key), Shown::Listed(of_listed(&row)));
            out.push_back(ScannedKey { key, sequence: row.sequence, shown });
            true
        })?;
        Ok(Some(()))
    }
}

pub fn of_listed(row: &ListedRow<'_>) -> Listed {
    Listed { modified_ms: row.modified_ms, size: row.size, etag: row.etag, checksum: row.checksum, class: row.class }
}

struct OverlayRows<'s> {
    catalog: &'s Catalog,
    bucket: BucketId,
    /// The sequence up to which the read transaction of the index sees records.
    applied: Sequence,
    /// As [`Overlay::may_go_on`](crate::recent::overlay::Overlay::may_go_on) has it.
    moves: Option<u64>,
}

impl KeySource for OverlayRows<'_> {
    fn fetch(&mut self, from: Bound<&[u8]>, limit: usize, out: &mut VecDeque<ScannedKey>) -> Result<Option<()>> {
        let overlay = self.catalog.overlay.read();
        if !overlay.may_go_on(self.applied, &mut self.moves) {
            return Ok(None);
        }
        for (key, recent) in overlay.range(self.bucket, from).take(limit) {
            let (sequence, shown) = match recent.current() {
                Current::Object(object) => (object.sequence, Shown::Listed(of_object(object))),
                Current::None => (recent.newest_sequence(), Shown::Nothing),
                // The index has nothing newer.
                Current::Below => (Sequence::MAX, Shown::Below(NewerChanges::of(recent))),
            };
            out.push_back(ScannedKey { key: key.clone(), sequence, shown });
        }
        Ok(Some(()))
    }
}

pub fn of_object(object: &Object) -> Listed {
    let version = &object.version;
    Listed {
        modified_ms: version.modified_ms,
        size: version.size,
        etag: version.etag,
        checksum: version.checksum.map(|whole| (whole.checksum.algorithm(), whole.kind())),
        class: version.headers.storage_class.as_deref().and_then(StorageClass::from_name),
    }
}

struct Cursor<R> {
    rows: R,
    fetched: VecDeque<ScannedKey>,
    /// The key at which the next fetch begins; `None` when there is nothing beyond `fetched`.
    from: Option<Bound<Bytes>>,
    fetch: usize,
}

impl<R: KeySource> Cursor<R> {
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

    fn is_over(&self) -> bool {
        self.fetched.is_empty() && self.from.is_none()
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

/// The page as far as it was read.
struct Page<'l> {
    list: &'l ListObjects,
    sink: &'l mut dyn PageSink,
    /// Entries and common prefixes.
    count: usize,
    /// The last of them, once the page is full.
    last: Option<Bytes>,
}

/// The effect of a key on a page.
enum Step {
    More,
    /// A common prefix was taken.
    Rolled(Bytes),
    /// No key after this one belongs to the list.
    Over,
    /// The page is full, and there is more.
    Full,
}

impl Page<'_> {
    fn offer(&mut self, key: &[u8], listed: &Listed) -> Step {
        if !key.starts_with(&self.list.prefix) {
            return Step::Over;
        }
        if self.count == self.list.max_keys {
            return Step::Full;
        }
        self.count += 1;
        let rolled = common_prefix(&self.list.prefix, self.list.delimiter.as_ref(), key);
        match &rolled {
            Some(prefix) => self.sink.prefix(prefix),
            None => self.sink.entry(key, listed),
        }
        let shown = rolled.unwrap_or(key);
        if self.count == self.list.max_keys {
            self.last = Some(Bytes::copy_from_slice(shown));
        }
        rolled.map_or(Step::More, |prefix| Step::Rolled(Bytes::copy_from_slice(prefix)))
    }
}

/// The part of a key that stands for all keys with it.
pub fn common_prefix<'k>(prefix: &[u8], delimiter: Option<&Bytes>, key: &'k [u8]) -> Option<&'k [u8]> {
    let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty())?;
    let rest = key.strip_prefix(prefix)?;
    let at = memchr::memmem::find(rest, delimiter)?;
    Some(&key[..prefix.len() + at + delimiter.len()])
}

struct Merge<'l, I, O> {
    page: Page<'l>,
    index: Cursor<I>,
    overlay: Cursor<O>,
}

impl<O: KeySource> Merge<'_, IndexRows<'_, '_>, O> {
    fn read(mut self) -> Result<Read> {
        self.seek(start_of(self.page.list));
        loop {
            if self.overlay.fill()?.is_none() {
                return Ok(Read::Moved);
            }
            let step = if self.overlay.is_over() { self.read_index()? } else { self.read_next()? };
            match step {
                Step::More => {}
                Step::Rolled(prefix) => match successor(&prefix) {
                    Some(beyond) => self.seek(Bound::Included(beyond)),
                    None => return Ok(Read::Done(None)),
                },
                Step::Over => return Ok(Read::Done(None)),
                Step::Full => return Ok(Read::Done(self.page.last)),
            }
        }
    }

    /// Reads the next key, while the overlay has changes.
    fn read_next(&mut self) -> Result<Step> {
        self.index.fill()?;
        let Some(row) = self.next() else { return Ok(Step::Over) };
        let listed = match row.shown {
            Shown::Listed(listed) => Some(listed),
            Shown::Nothing => None,
            Shown::Below(changes) => self.index.rows.newest(&row.key, &changes)?,
        };
        Ok(listed.map_or(Step::More, |listed| self.page.offer(&row.key, &listed)))
    }

    /// Reads the rest of the page from the index, as long as nothing has to be skipped. Never `Step::More`.
    fn read_index(&mut self) -> Result<Step> {
        while let Some(row) = self.index.fetched.pop_front() {
            let Shown::Listed(listed) = &row.shown else { continue };
            match self.page.offer(&row.key, listed) {
                Step::More => {}
                step => return Ok(step),
            }
        }
        let Self { page, index, .. } = self;
        let Some(from) = &index.from else { return Ok(Step::Over) };
        let from = from.as_ref().map(|key| key.as_ref());
        let limit = page.list.max_keys - page.count + 1;
        let mut stopped = None;
        index.rows.scan(from, limit, &mut |row| match page.offer(&row.key, &of_listed(&row)) {
            Step::More => true,
            step => {
                stopped = Some(step);
                false
            }
        })?;
        Ok(stopped.unwrap_or(Step::Over))
    }

    fn seek(&mut self, to: Bound<Bytes>) {
        self.index.seek(to.clone());
        self.overlay.seek(to);
    }

    /// The next key in order; where both have it, the newer record speaks.
    fn next(&mut self) -> Option<ScannedKey> {
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

/// The first key that may be on the page.
pub fn start_of(list: &ListObjects) -> Bound<Bytes> {
    let prefix = &list.prefix;
    let Some(after) = list.after.as_ref().filter(|after| *after >= prefix) else {
        return Bound::Included(prefix.clone());
    };
    // A page that ended with a common prefix is followed by what comes after all of its keys.
    match common_prefix(prefix, list.delimiter.as_ref(), after).filter(|rolled| rolled == after).and_then(successor) {
        Some(beyond) => Bound::Included(beyond),
        None => Bound::Excluded(after.clone()),
    }
}

/// The smallest byte string that is greater than every string with this prefix; `None` when there is none.
pub fn successor(prefix: &[u8]) -> Option<Bytes> {
    let end = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut out = prefix[..=end].to_vec();
    out[end] += 1;
    Some(out.into())
}
