//! Pages of versions: the index and the overlay merged, keys in byte order and of each key the newest version first,
//! common prefixes rolled up. A page costs no more than its entries and the changes of their keys in the overlay.
//!
//! Of a key that the overlay has changes of, the versions there come first: they are newer than all that only the index
//! has (`key_changes`). Then come those of the index that the changes do not hide.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::objects::{Listed, RESTARTS_MAX, applied_to, common_prefix, of_listed, of_object, successor};
use crate::Catalog;
use crate::recent::key_changes::NewerChanges;
use orcas_base::error::{Error, Result};
use orcas_index::{Reader, VersionFrom, VersionRow};
use orcas_record::{BucketId, Object, Sequence, VersionId};

/// The parameters of a page of ListObjectVersions.
#[derive(Clone, Debug)]
pub struct ListVersions {
    pub bucket: BucketId,
    pub prefix: Bytes,
    pub delimiter: Option<Bytes>,
    /// Versions after this one of this key; without a version, keys after this one. As the end of an earlier page it
    /// may also be a common prefix, whose keys are all skipped.
    pub after: Option<(Bytes, Option<VersionId>)>,
    /// Versions and prefixes together, at most 1,000.
    pub max_keys: usize,
}

/// An entry of a page.
#[derive(Clone, Copy, Debug)]
pub struct ListedVersion<'a> {
    pub key: &'a [u8],
    pub id: VersionId,
    /// The newest of its key.
    pub is_latest: bool,
    pub delete_marker: bool,
    pub listed: Listed,
}

/// Takes a page while it is read: versions and common prefixes in order.
pub trait VersionSink {
    fn version(&mut self, version: &ListedVersion<'_>);
    fn prefix(&mut self, prefix: &[u8]);
    /// Drops all entries and prefixes so far: the page begins anew.
    fn restart(&mut self);
}

/// The last entry of a page after which there is more: a key and its version, or a common prefix.
pub type VersionMarker = (Bytes, Option<VersionId>);

/// Rows and keys that are fetched at first; more with every further fetch.
const FETCH_FIRST: usize = 8;
const FETCH_MAX: usize = 1_024;

/// A page of versions, handed over while it is read. Returns its last entry when there is more.
///
/// # Errors
/// When the index cannot be read.
pub fn list_versions(
    catalog: &Catalog,
    list: &ListVersions,
    sink: &mut dyn VersionSink,
) -> Result<Option<VersionMarker>> {
    if list.max_keys == 0 {
        return Ok(None);
    }
    let start = start_of(catalog, list)?;
    for _ in 0..RESTARTS_MAX {
        let mut reader = catalog.index.read()?;
        let transaction = reader.begin()?;
        let mut merge = Merge::new(catalog, &transaction, list)?;
        merge.seek(start.clone());
        match Page::new(list, sink, start.continued()).read(&mut merge)? {
            Read::Done(next) => return Ok(next),
            Read::Moved => sink.restart(),
        }
    }
    Err(Error::Index { reason: "a page could not be read between two commits".into() })
}

/// Up to `limit` versions from `from` on, delete markers included, in the order of a listing, and where the next ones
/// begin if there may be more.
pub fn scan_versions(
    catalog: &Catalog,
    bucket: BucketId,
    from: &VersionStart,
    limit: usize,
) -> Result<(Vec<VersionScanRow>, Option<VersionStart>)> {
    let list = ListVersions { bucket, prefix: Bytes::new(), delimiter: None, after: None, max_keys: limit };
    for _ in 0..RESTARTS_MAX {
        let mut reader = catalog.index.read()?;
        let transaction = reader.begin()?;
        let mut merge = Merge::new(catalog, &transaction, &list)?;
        merge.seek(from.clone());
        let mut rows = Vec::with_capacity(limit);
        while rows.len() < limit {
            match merge.next()? {
                Next::Version(Some(row)) => rows.push(row),
                Next::Version(None) => return Ok((rows, None)),
                Next::Moved => break,
            }
        }
        if let Some(last) = rows.last().filter(|_| rows.len() == limit) {
            let next = VersionStart::Within(last.key.clone(), last.sequence);
            return Ok((rows, Some(next)));
        }
    }
    Err(Error::Index { reason: "a page could not be read between two commits".into() })
}

fn start_of(catalog: &Catalog, list: &ListVersions) -> Result<VersionStart> {
    let (key, id) = match list.start() {
        ListStart::At(start) => return Ok(start),
        ListStart::AfterVersion(key, id) => (key, id),
    };
    Ok(match sequence_of(catalog, list.bucket, key, id)? {
        Some(sequence) => VersionStart::Within(key.clone(), sequence),
        None => VersionStart::From(key.clone()),
    })
}

/// The sequence of a version that exists or was removed. `None` for a null version that is gone: its key is listed from
/// its newest version on, since an entry that comes twice does less harm than one that never comes.
fn sequence_of(catalog: &Catalog, bucket: BucketId, key: &[u8], id: VersionId) -> Result<Option<Sequence>> {
    if let Some(located) = catalog.version_below(bucket, key, id, NewerChanges::default())? {
        return Ok(Some(located.object.sequence));
    }
    Ok(id.first_sequence())
}

/// The place at which a page begins.
pub enum ListStart<'l> {
    At(VersionStart),
    /// After a version, wherever that is.
    AfterVersion(&'l Bytes, VersionId),
}

impl ListVersions {
    pub fn start(&self) -> ListStart<'_> {
        let Some((key, id)) = self.after.as_ref().filter(|(key, _)| *key >= self.prefix) else {
            return ListStart::At(VersionStart::From(self.prefix.clone()));
        };
        let rolled = common_prefix(&self.prefix, self.delimiter.as_ref(), key).filter(|rolled| rolled == key);
        match (rolled.and_then(successor), id) {
            // A page that ended with a common prefix is followed by what comes after all of its keys.
            (Some(beyond), _) => ListStart::At(VersionStart::From(beyond)),
            (None, None) => ListStart::At(VersionStart::After(key.clone())),
            (None, Some(id)) => ListStart::AfterVersion(key, *id),
        }
    }
}

/// The place from which versions are read.
#[derive(Clone)]
pub enum VersionStart {
    /// The newest version of this key or a later one.
    From(Bytes),
    /// The newest version of a later key.
    After(Bytes),
    /// The versions of this key with lower sequences, then later keys.
    Within(Bytes, Sequence),
}

impl VersionStart {
    pub fn continued(&self) -> Option<Bytes> {
        match self {
            Self::Within(key, _) => Some(key.clone()),
            Self::From(_) | Self::After(_) => None,
        }
    }
}

pub enum Read {
    Done(Option<VersionMarker>),
    /// The overlay lost records that the read transaction does not see.
    Moved,
}

/// A version on its way to the page.
pub struct VersionScanRow {
    pub key: Bytes,
    pub sequence: Sequence,
    pub id: VersionId,
    pub delete_marker: bool,
    pub listed: Listed,
}

impl VersionScanRow {
    pub fn of_object(key: &Bytes, object: &Object) -> Self {
        let version = &object.version;
        let (id, delete_marker) = (version.version_id, version.delete_marker);
        Self { key: key.clone(), sequence: object.sequence, id, delete_marker, listed: of_object(object) }
    }

    fn of_row(row: &VersionRow<'_>) -> Self {
        Self {
            key: Bytes::copy_from_slice(&row.listed.key),
            sequence: row.listed.sequence,
            id: row.version_id,
            delete_marker: row.delete_marker,
            listed: of_listed(&row.listed),
        }
    }
}

/// Versions in the index, fetched a few at a time.
struct IndexRows<'r, 'i> {
    reader: &'r Reader<'i>,
    bucket: BucketId,
    rows: VecDeque<VersionScanRow>,
    /// The version at which the next fetch begins; `None` when there is nothing beyond `rows`.
    from: Option<VersionStart>,
    fetch: usize,
}

impl IndexRows<'_, '_> {
    fn seek(&mut self, to: VersionStart) {
        self.rows.clear();
        self.from = Some(to);
        self.fetch = FETCH_FIRST;
    }

    fn fill(&mut self) -> Result<()> {
        while self.rows.is_empty()
            && let Some(from) = self.from.take()
        {
            let (reader, bucket, limit, rows) = (self.reader, self.bucket, self.fetch, &mut self.rows);
            let visit = &mut |row: VersionRow<'_>| {
                rows.push_back(VersionScanRow::of_row(&row));
                true
            };
            match &from {
                VersionStart::From(key) => reader.scan_versions(bucket, VersionFrom::Key(key), limit, visit)?,
                VersionStart::After(key) => reader.scan_versions(bucket, VersionFrom::AfterKey(key), limit, visit)?,
                VersionStart::Within(key, below) => reader.versions_of_key((bucket, key), *below, limit, visit)?,
            }
            self.from = match (self.rows.back(), from) {
                (Some(last), _) if self.rows.len() == limit => {
                    Some(VersionStart::Within(last.key.clone(), last.sequence))
                }
                (_, VersionStart::Within(key, _)) => Some(VersionStart::After(key)),
                (_, VersionStart::From(_) | VersionStart::After(_)) => None,
            };
            self.fetch = (self.fetch * 4).min(FETCH_MAX);
        }
        Ok(())
    }
}

/// A key that the overlay has changes of.
struct ChangedKey {
    key: Bytes,
    /// Newest first.
    live: VecDeque<Arc<Object>>,
    changes: NewerChanges,
}

/// Changed keys, fetched a few at a time.
struct OverlayKeys<'s> {
    catalog: &'s Catalog,
    list: &'s ListVersions,
    /// The sequence up to which the read transaction of the index sees records.
    applied: Sequence,
    /// As [`Overlay::may_go_on`](crate::recent::overlay::Overlay::may_go_on) has it.
    moves: Option<u64>,
    keys: VecDeque<ChangedKey>,
    from: Option<Bound<Bytes>>,
    /// A key of which only versions with lower sequences are read.
    below: Option<(Bytes, Sequence)>,
    fetch: usize,
}

impl OverlayKeys<'_> {
    fn seek(&mut self, to: VersionStart) {
        self.keys.clear();
        self.fetch = FETCH_FIRST;
        self.below = None;
        self.from = Some(match to {
            VersionStart::From(key) => Bound::Included(key),
            VersionStart::After(key) => Bound::Excluded(key),
            VersionStart::Within(key, below) => {
                self.below = Some((key.clone(), below));
                Bound::Included(key)
            }
        });
    }

    /// Reads changed keys from the overlay. `None` when the overlay has moved on.
    fn fill(&mut self) -> Option<()> {
        if !self.keys.is_empty() {
            return Some(());
        }
        let Some(from) = self.from.take() else { return Some(()) };
        let overlay = self.catalog.overlay.read();
        if !overlay.may_go_on(self.applied, &mut self.moves) {
            return None;
        }
        let from = from.as_ref().map(|key| key.as_ref());
        for (key, recent) in overlay.range(self.list.bucket, from).take(self.fetch) {
            let below = self.below.as_ref().filter(|(of, _)| of == key).map_or(Sequence::MAX, |(_, below)| *below);
            let live = recent.live().filter(|object| object.sequence < below);
            // Only so many fit on a page.
            let live = live.take(self.list.max_keys.saturating_add(1)).cloned().collect();
            self.keys.push_back(ChangedKey { key: key.clone(), live, changes: NewerChanges::of(recent) });
        }
        let complete = self.keys.len() < self.fetch;
        self.from = self.keys.back().filter(|_| !complete).map(|last| Bound::Excluded(last.key.clone()));
        self.fetch = (self.fetch * 4).min(FETCH_MAX);
        Some(())
    }
}

/// Versions in the order of a listing.
pub trait VersionRows {
    fn next(&mut self) -> Result<Next>;
    fn seek(&mut self, to: VersionStart);
}

/// The versions under one bucket id, of a bucket or a layer, from the index and the overlay.
pub struct Merge<'r, 'i> {
    index: IndexRows<'r, 'i>,
    overlay: OverlayKeys<'r>,
}

/// The next version, `None` at the end.
pub enum Next {
    Version(Option<VersionScanRow>),
    Moved,
}

impl<'r, 'i> Merge<'r, 'i> {
    pub fn new(catalog: &'r Catalog, reader: &'r Reader<'i>, list: &'r ListVersions) -> Result<Self> {
        let applied = applied_to(reader)?;
        let index = IndexRows { reader, bucket: list.bucket, rows: VecDeque::new(), from: None, fetch: 0 };
        let keys = VecDeque::new();
        let overlay = OverlayKeys { catalog, list, applied, moves: None, keys, from: None, below: None, fetch: 0 };
        Ok(Self { index, overlay })
    }
}

impl VersionRows for Merge<'_, '_> {
    fn seek(&mut self, to: VersionStart) {
        self.index.seek(to.clone());
        self.overlay.seek(to);
    }

    fn next(&mut self) -> Result<Next> {
        loop {
            self.index.fill()?;
            if self.overlay.fill().is_none() {
                return Ok(Next::Moved);
            }
            let Some(changed) = self.overlay.keys.front_mut() else {
                return Ok(Next::Version(self.index.rows.pop_front()));
            };
            let row = self.index.rows.front();
            if row.is_some_and(|row| row.key < changed.key) {
                return Ok(Next::Version(self.index.rows.pop_front()));
            }
            if let Some(object) = changed.live.pop_front() {
                return Ok(Next::Version(Some(VersionScanRow::of_object(&changed.key, &object))));
            }
            let same_key = self.index.rows.front().is_some_and(|row| row.key == changed.key);
            match if same_key { self.index.rows.pop_front() } else { None } {
                Some(row) if changed.changes.hide(row.id, row.sequence) => {}
                Some(row) => return Ok(Next::Version(Some(row))),
                None => drop(self.overlay.keys.pop_front()),
            }
        }
    }
}

/// The page as far as it was read.
pub struct Page<'l> {
    list: &'l ListVersions,
    sink: &'l mut dyn VersionSink,
    /// Versions and common prefixes.
    count: usize,
    last: Option<VersionMarker>,
    /// The key of the version before.
    pub key: Option<Bytes>,
}

impl<'l> Page<'l> {
    /// `continued`: a key some of whose versions are on an earlier page.
    pub fn new(list: &'l ListVersions, sink: &'l mut dyn VersionSink, continued: Option<Bytes>) -> Self {
        Self { list, sink, count: 0, last: None, key: continued }
    }

    /// Reads on. What was read before the overlay moved on stays.
    pub fn read(&mut self, merge: &mut impl VersionRows) -> Result<Read> {
        loop {
            let row = match merge.next()? {
                Next::Version(Some(row)) if row.key.starts_with(&self.list.prefix) => row,
                Next::Version(_) => return Ok(Read::Done(None)),
                Next::Moved => return Ok(Read::Moved),
            };
            if self.count == self.list.max_keys {
                return Ok(Read::Done(self.last.take()));
            }
            self.count += 1;
            let Some(prefix) = common_prefix(&self.list.prefix, self.list.delimiter.as_ref(), &row.key) else {
                self.show(row);
                continue;
            };
            self.sink.prefix(prefix);
            self.last = Some((Bytes::copy_from_slice(prefix), None));
            match successor(prefix) {
                Some(beyond) => merge.seek(VersionStart::From(beyond)),
                None => return Ok(Read::Done(None)),
            }
        }
    }

    /// The list as it goes on after what was read, if anything was.
    pub fn rest(&self) -> Option<ListVersions> {
        let after = self.last.clone()?;
        Some(ListVersions { after: Some(after), ..self.list.clone() })
    }

    fn show(&mut self, row: VersionScanRow) {
        let VersionScanRow { key, id, delete_marker, listed, .. } = row;
        let is_latest = self.key.as_ref() != Some(&key);
        self.sink.version(&ListedVersion { key: &key, id, is_latest, delete_marker, listed });
        self.last = Some((key.clone(), Some(id)));
        self.key = Some(key);
    }
}
