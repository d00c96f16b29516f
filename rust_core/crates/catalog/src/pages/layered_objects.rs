//! Pages of buckets that have several layers: all layers merged in byte order of the keys. Of each key, the newest
//! layer that has it decides, or with versioning, its newest version in that layer, unless amendments concern the key.
//! A page costs its entries times the layers, and what they hide.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use bytes::Bytes;

use super::layered_versions::{list_histories, shows_no_version};
use super::objects::{
    ListObjects, ListPage, Listed, PageSink, RESTARTS_MAX, applied_to, common_prefix, list_objects, of_listed,
    of_object, start_of, successor,
};
use super::versions::{ListVersions, ListedVersion, VersionMarker, VersionSink, list_versions};
use crate::Catalog;
use crate::indexed_layers::IndexedLayers;
use crate::recent::key_changes::{Current, KeyChanges, NewerChanges};
use orcas_base::error::{Error, Result};
use orcas_decide::{Layers, find_newest};
use orcas_index::{Reader, VersionFrom};
use orcas_record::{Bucket, BucketId, LayerKind, Sequence, VersionId};

/// Rows of a layer that are fetched at first; more with every further fetch.
const FETCH_FIRST: usize = 16;
const FETCH_MAX: usize = 1_024;

/// As [`list_objects`], in all layers of `bucket`, which `list` names. Blocking.
///
/// # Errors
/// When the index cannot be read.
pub fn list_objects_in(
    catalog: &Catalog,
    bucket: &Bucket,
    list: &ListObjects,
    sink: &mut dyn PageSink,
) -> Result<Option<Bytes>> {
    if bucket.layers.is_empty() { list_objects(catalog, list, sink) } else { list_present(catalog, list, sink) }
}

/// As [`list_versions`], in all layers of `bucket`, which `list` names. Blocking.
///
/// # Errors
/// When the index cannot be read.
pub fn list_versions_in(
    catalog: &Catalog,
    bucket: &Bucket,
    list: &ListVersions,
    sink: &mut dyn VersionSink,
) -> Result<Option<VersionMarker>> {
    if bucket.layers.is_empty() {
        return list_versions(catalog, list, sink);
    }
    if bucket.amendments().is_some() {
        return list_histories(catalog, list, sink);
    }
    let objects = ListObjects {
        bucket: list.bucket,
        prefix: list.prefix.clone(),
        delimiter: list.delimiter.clone(),
        after: list.after.as_ref().map(|(key, _)| key.clone()),
        max_keys: list.max_keys,
    };
    let mut versions = NullVersions { sink, last_is_key: false };
    let next = list_present(catalog, &objects, &mut versions)?;
    let id = versions.last_is_key.then_some(VersionId::Null);
    Ok(next.map(|key| (key, id)))
}

/// Passes objects on as the null versions that they are.
struct NullVersions<'s> {
    sink: &'s mut dyn VersionSink,
    last_is_key: bool,
}

impl PageSink for NullVersions<'_> {
    fn entry(&mut self, key: &[u8], listed: &Listed) {
        self.last_is_key = true;
        let (id, listed) = (VersionId::Null, *listed);
        self.sink.version(&ListedVersion { key, id, is_latest: true, delete_marker: false, listed });
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.last_is_key = false;
        self.sink.prefix(prefix);
    }

    fn restart(&mut self) {
        self.sink.restart();
    }
}

/// A page of the bucket that `list` names, as it is now.
fn list_present(catalog: &Catalog, list: &ListObjects, sink: &mut dyn PageSink) -> Result<Option<Bytes>> {
    while let Some(bucket) = catalog.present_bucket(list.bucket) {
        let next = list_layers(catalog, &bucket, list, sink)?;
        if catalog.is_present(&bucket) {
            return Ok(next);
        }
        sink.restart();
    }
    Ok(None)
}

/// Whether the layers of a bucket that has some show no version.
pub fn shows_nothing(catalog: &Catalog, bucket: &Bucket) -> Result<bool> {
    if bucket.amendments().is_some() {
        return shows_no_version(catalog, bucket);
    }
    let (prefix, delimiter, after) = (Bytes::new(), None, None);
    let mut page = ListPage::default();
    list_layers(catalog, bucket, &ListObjects { bucket: bucket.id, prefix, delimiter, after, max_keys: 1 }, &mut page)?;
    Ok(page.entries.is_empty())
}

/// A page of the layers that `bucket` names. Returns the last key or common prefix when there is more after it.
fn list_layers(
    catalog: &Catalog,
    bucket: &Bucket,
    list: &ListObjects,
    sink: &mut dyn PageSink,
) -> Result<Option<Bytes>> {
    if list.max_keys == 0 {
        return Ok(None);
    }
    let mut page = Page { list, sink, count: 0, last: None, from: start_of(list) };
    let (mut attempts, mut pause) = (0, None);
    while attempts < RESTARTS_MAX {
        catalog.hold_merges(attempts, &mut pause);
        let mut reader = catalog.index.read()?;
        let transaction = reader.begin()?;
        let applied = applied_to(&transaction)?;
        let from = page.from.clone();
        let lookups = IndexedLayers::new(catalog, &transaction, applied);
        let merges = lookups.merges();
        let lowest = bucket.layers.last();
        let rows = |layer: &BucketId| LayerRows {
            catalog,
            reader: &transaction,
            layer: *layer,
            kind: catalog.kind(*layer),
            is_lowest: lowest == Some(layer),
            applied,
            merges,
            fetched: VecDeque::new(),
            from: Some(from.clone()),
            fetch: FETCH_FIRST,
        };
        let layers = bucket.layers.iter().map(rows).collect();
        let mut merge = Merge { layers, bucket, lookups };
        if let Some(next) = merge.read(&mut page)? {
            return Ok(next);
        }
        // It goes on where it is: many hidden keys take longer than the overlay keeps what the index has.
        attempts = if page.from == from { attempts + 1 } else { 0 };
    }
    Err(Error::Index { reason: "a page could not be read between two commits".into() })
}

/// A key of a layer, and what it shows; `None` for a delete marker.
struct LayerKey {
    key: Bytes,
    listed: Option<Listed>,
}

/// The keys of a layer in order, in the index and in the overlay, fetched a few at a time.
struct LayerRows<'r, 'i> {
    catalog: &'r Catalog,
    reader: &'r Reader<'i>,
    layer: BucketId,
    kind: LayerKind,
    /// The layer is the lowest, so its delete markers hide nothing.
    is_lowest: bool,
    /// The sequence up to which the read transaction of the index sees records.
    applied: Sequence,
    /// The number of merges when the page was begun. A key that was looked for in a layer before it was moved there,
    /// and later in the one that it was moved from, would be passed over.
    merges: u64,
    fetched: VecDeque<LayerKey>,
    /// The key at which the next fetch begins; `None` when there is nothing beyond `fetched`.
    from: Option<Bound<Bytes>>,
    fetch: usize,
}

/// The state of a key of a layer in the overlay.
enum Recent {
    Shown(Option<Listed>),
    Gone,
    /// The index knows, once these changes are taken into account.
    Below(NewerChanges),
}

impl LayerRows<'_, '_> {
    fn seek(&mut self, to: &Bound<Bytes>) {
        let before = |key: &Bytes| match to {
            Bound::Included(to) => key < to,
            Bound::Excluded(to) => key <= to,
            Bound::Unbounded => false,
        };
        while self.fetched.front().is_some_and(|row| before(&row.key)) {
            self.fetched.pop_front();
        }
        if self.fetched.is_empty() && self.from.is_some() {
            self.from = Some(to.clone());
            self.fetch = FETCH_FIRST;
        }
    }

    /// Makes sure that the next key is fetched if there is one. `None` when the overlay has moved on.
    fn fill(&mut self) -> Result<Option<()>> {
        while self.fetched.is_empty()
            && let Some(from) = self.from.take()
        {
            let (mut rows, stored) = self.stored(&from)?;
            let Some(recent) = self.recent(&from) else { return Ok(None) };
            // Beyond the end of either there may be keys that were not fetched.
            let full = |count: usize| count == self.fetch;
            let is_dense = full(stored) && rows.len() < stored / 4;
            let ends = [
                rows.last_key_value().filter(|_| full(stored)).map(|(key, _)| key.clone()),
                recent.last().filter(|_| full(recent.len())).map(|(key, _)| key.clone()),
            ];
            for (key, change) in recent {
                match change {
                    Recent::Shown(listed) => drop(rows.insert(key, listed)),
                    Recent::Gone => drop(rows.remove(&key)),
                    Recent::Below(changes) => match self.newest(&key, &changes)? {
                        Some(listed) => drop(rows.insert(key, listed)),
                        None => drop(rows.remove(&key)),
                    },
                }
            }
            let end = ends.into_iter().flatten().min();
            let counts = |key: &Bytes| end.as_ref().is_none_or(|end| key <= end);
            self.fetched.extend(
                rows.into_iter().take_while(|(key, _)| counts(key)).map(|(key, listed)| LayerKey { key, listed }),
            );
            self.from = end.map(Bound::Excluded);
            // Of keys with many versions, the next fetch would read more in vain.
            self.fetch = if is_dense { FETCH_FIRST } else { (self.fetch * 4).min(FETCH_MAX) };
        }
        Ok(Some(()))
    }

    /// The newest version of each key, as the index has it, and how many rows were read.
    fn stored(&self, from: &Bound<Bytes>) -> Result<(BTreeMap<Bytes, Option<Listed>>, usize)> {
        let (mut rows, mut read) = (BTreeMap::new(), 0);
        if self.is_lowest {
            let (key, inclusive) = match from {
                Bound::Included(key) => (&key[..], true),
                Bound::Excluded(key) => (&key[..], false),
                Bound::Unbounded => (&b""[..], true),
            };
            self.reader.scan_current(self.layer, key, inclusive, None, self.fetch, &mut |row| {
                rows.insert(Bytes::copy_from_slice(&row.key), Some(of_listed(&row)));
                true
            })?;
            read = rows.len();
            return Ok((rows, read));
        }
        let from = match from {
            Bound::Included(key) => VersionFrom::Key(key),
            Bound::Excluded(key) => VersionFrom::AfterKey(key),
            Bound::Unbounded => VersionFrom::Key(b""),
        };
        self.reader.scan_versions(self.layer, from, self.fetch, &mut |row| {
            let listed = (!row.delete_marker).then(|| of_listed(&row.listed));
            rows.entry(Bytes::copy_from_slice(&row.listed.key)).or_insert(listed);
            read += 1;
            true
        })?;
        Ok((rows, read))
    }

    /// The newest version in the index that `changes` do not hide: what it shows, or a delete marker.
    fn newest(&self, key: &[u8], changes: &NewerChanges) -> Result<Option<Option<Listed>>> {
        let mut newest = None;
        self.reader.versions_of_key((self.layer, key), Sequence::MAX, usize::MAX, &mut |row| {
            let hidden = changes.hide(row.version_id, row.listed.sequence);
            if !hidden {
                newest = Some((!row.delete_marker).then(|| of_listed(&row.listed)));
            }
            hidden
        })?;
        Ok(newest)
    }

    fn recent(&self, from: &Bound<Bytes>) -> Option<Vec<(Bytes, Recent)>> {
        let overlay = self.catalog.overlay.read();
        if overlay.merges() != self.merges || overlay.trimmed() > self.applied {
            return None;
        }
        let rows = overlay.range(self.layer, from.as_ref().map(|key| key.as_ref())).take(self.fetch);
        let of = |(key, recent): (&Bytes, &KeyChanges)| {
            let change = match recent.current() {
                Current::Object(object) => Recent::Shown(Some(of_object(object))),
                Current::None if recent.live().next().is_some() => Recent::Shown(None),
                Current::None => Recent::Gone,
                Current::Below => Recent::Below(NewerChanges::of(recent)),
            };
            (key.clone(), change)
        };
        Some(rows.map(of).collect())
    }
}

/// The page as far as it was read.
struct Page<'l> {
    list: &'l ListObjects,
    sink: &'l mut dyn PageSink,
    /// Entries and common prefixes.
    count: usize,
    last: Option<Bytes>,
    /// The first key that was not looked at.
    from: Bound<Bytes>,
}

struct Merge<'r, 'i> {
    /// The newest first.
    layers: Vec<LayerRows<'r, 'i>>,
    bucket: &'r Bucket,
    lookups: IndexedLayers<'r, 'i>,
}

impl Merge<'_, '_> {
    /// The last key or prefix when there is more; `None` when the overlay has moved on.
    fn read(&mut self, page: &mut Page<'_>) -> Result<Option<Option<Bytes>>> {
        let list = page.list;
        loop {
            let Some(next) = self.next()? else { return Ok(None) };
            let Some(LayerKey { key, listed }) = next.filter(|row| row.key.starts_with(&list.prefix)) else {
                return Ok(Some(None));
            };
            page.from = Bound::Excluded(key.clone());
            let Some(listed) = listed else { continue };
            if page.count == list.max_keys {
                return Ok(Some(page.last.take()));
            }
            page.count += 1;
            let Some(prefix) = common_prefix(&list.prefix, list.delimiter.as_ref(), &key) else {
                page.sink.entry(&key, &listed);
                page.last = Some(key);
                continue;
            };
            page.sink.prefix(prefix);
            page.last = Some(Bytes::copy_from_slice(prefix));
            let Some(beyond) = successor(prefix).map(Bound::Included) else { return Ok(Some(None)) };
            self.layers.iter_mut().for_each(|layer| layer.seek(&beyond));
            page.from = beyond;
        }
    }

    /// The next key, as the newest layer that has it shows it: `Some(None)` at the end.
    fn next(&mut self) -> Result<Option<Option<LayerKey>>> {
        for layer in &mut self.layers {
            if layer.fill()?.is_none() {
                return Ok(None);
            }
        }
        let first = self.layers.iter().filter_map(|layer| layer.fetched.front()).map(|row| &row.key).min();
        let Some(key) = first.cloned() else { return Ok(Some(None)) };
        let (mut newest, mut is_amended) = (None, false);
        for layer in &mut self.layers {
            if layer.fetched.front().is_none_or(|row| row.key != key) {
                continue;
            }
            let row = layer.fetched.pop_front();
            if layer.kind == LayerKind::Amendments {
                is_amended |= newest.is_none();
            } else if newest.is_none() {
                newest = row;
            }
        }
        if is_amended {
            let found = find_newest(&self.lookups, &self.bucket.layers, &key)?;
            if self.lookups.has_moved() {
                return Ok(None);
            }
            let shown = found.filter(|found| !found.version.delete_marker);
            newest = Some(LayerKey { key, listed: shown.map(|shown| of_object(&shown)) });
        }
        Ok(Some(newest))
    }
}
