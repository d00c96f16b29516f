//! Pages of versions of buckets that have layers and versioning: the histories of a key in all layers, one after the
//! other, as the amendments above them leave them. A page costs what it shows, what it passes over, and a lookup for
//! each version of a key that has amendments.

use bytes::Bytes;

use super::objects::{RESTARTS_MAX, applied_to};
use super::versions::{
    ListStart, ListVersions, Merge, Next, Page, Read, VersionMarker, VersionRows, VersionScanRow, VersionSink,
    VersionStart,
};
use crate::Catalog;
use crate::indexed_layers::IndexedLayers;
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_decide::Layers;
use orcas_index::Reader;
use orcas_record::{Bucket, BucketId, LayerKind, Sequence, VersionId};

/// The place from which versions of a bucket with layers are read.
#[derive(Clone)]
pub enum LayeredStart {
    At(VersionStart),
    /// After a version with this sequence in a layer.
    Within {
        key: Bytes,
        layer: BucketId,
        sequence: Sequence,
    },
    /// After a version that is gone. Its key is read from its newest version on, without those that came later.
    AfterGone {
        key: Bytes,
        id: VersionId,
    },
}

impl LayeredStart {
    fn continued(&self) -> Option<Bytes> {
        match self {
            Self::At(start) => start.continued(),
            Self::Within { key, .. } => Some(key.clone()),
            Self::AfterGone { key, id } => id.first_sequence().map(|_| key.clone()),
        }
    }
}

/// Versions that were read for rules, newest first within their keys.
pub struct ScannedVersions {
    pub rows: Vec<VersionScanRow>,
    /// The place at which the next versions begin, if there may be more.
    pub next: Option<ScanStart>,
    /// The layers were merged or replaced since the versions before were read: the key in hand begins anew.
    pub again: bool,
    /// The top layer of the bucket at that moment; `None` if it is gone.
    pub top: Option<BucketId>,
}

/// The place at which a scan goes on, and the state that it carries over.
#[derive(Clone)]
pub struct ScanStart {
    from: LayeredStart,
    merges: u64,
    /// The top layer as of the versions before.
    top: Option<BucketId>,
}

impl ScanStart {
    pub fn from_prefix(prefix: Bytes) -> Self {
        Self { from: LayeredStart::At(VersionStart::From(prefix)), merges: 0, top: None }
    }
}

/// A page of versions of the bucket that `list` names, as it is now. Returns its last entry when there is more.
pub fn list_histories(
    catalog: &Catalog,
    list: &ListVersions,
    sink: &mut dyn VersionSink,
) -> Result<Option<VersionMarker>> {
    if list.max_keys == 0 {
        return Ok(None);
    }
    while let Some(bucket) = catalog.present_bucket(list.bucket) {
        let next = list_histories_in(catalog, &bucket, list, sink)?;
        if catalog.is_present(&bucket) {
            return Ok(next);
        }
        sink.restart();
    }
    Ok(None)
}

/// Whether a bucket that has layers shows no version.
pub fn shows_no_version(catalog: &Catalog, bucket: &Bucket) -> Result<bool> {
    struct Any(bool);
    impl VersionSink for Any {
        fn version(&mut self, _: &super::versions::ListedVersion<'_>) {
            self.0 = true;
        }
        fn prefix(&mut self, _: &[u8]) {}
        fn restart(&mut self) {
            self.0 = false;
        }
    }
    let list = ListVersions { bucket: bucket.id, prefix: Bytes::new(), delimiter: None, after: None, max_keys: 1 };
    let mut any = Any(false);
    list_histories_in(catalog, bucket, &list, &mut any)?;
    Ok(!any.0)
}

fn list_histories_in(
    catalog: &Catalog,
    bucket: &Bucket,
    list: &ListVersions,
    sink: &mut dyn VersionSink,
) -> Result<Option<VersionMarker>> {
    let (mut pause, mut attempt) = (None, 0);
    let mut page = Page::new(list, sink, None);
    while attempt < RESTARTS_MAX {
        catalog.hold_merges(attempt, &mut pause);
        let merges = catalog.overlay.read().merges();
        let rest = page.rest();
        let start = layered_start(catalog, bucket, rest.as_ref().unwrap_or(list))?;
        let mut reader = catalog.index.read()?;
        let transaction = reader.begin()?;
        let lists = lists_of(bucket);
        let mut rows = LayeredRows::new(catalog, &transaction, &lists)?;
        if rows.lookups.merges() != merges {
            // The version that the page begins after may have another place now.
            attempt += 1;
            continue;
        }
        rows.begin(&start);
        if rest.is_none() {
            page.key = start.continued();
        }
        match page.read(&mut rows)? {
            Read::Done(next) => return Ok(next),
            // It goes on where it is: a page of many layers takes longer than the overlay keeps what the index has.
            Read::Moved => attempt = if rows.last.is_some() { 1 } else { attempt + 1 },
        }
    }
    Err(Error::Index { reason: "a page could not be read between two commits".into() })
}

/// As `scan_versions`, of a bucket that has layers and versioning.
pub fn scan_histories(catalog: &Catalog, bucket: BucketId, start: &ScanStart, limit: usize) -> Result<ScannedVersions> {
    let mut pause = None;
    for attempt in 0..RESTARTS_MAX {
        catalog.hold_merges(attempt, &mut pause);
        let Some(bucket) = catalog.present_bucket(bucket) else { break };
        let merges = catalog.overlay.read().merges();
        // A restore may keep the layer in hand, and give up those above it that were read before.
        let is_kept = start.top.is_none_or(|top| bucket.layers.contains(&top));
        let (from, again) = match &start.from {
            LayeredStart::Within { key, .. } if start.merges != merges || !is_kept => {
                (LayeredStart::At(VersionStart::From(key.clone())), true)
            }
            from => (from.clone(), false),
        };
        let mut reader = catalog.index.read()?;
        let transaction = reader.begin()?;
        let lists = lists_of(&bucket);
        let mut merged = LayeredRows::new(catalog, &transaction, &lists)?;
        merged.begin(&from);
        let mut rows = Vec::with_capacity(limit);
        let mut ended = false;
        while rows.len() < limit {
            match merged.next()? {
                Next::Version(Some(row)) => rows.push(row),
                Next::Version(None) => {
                    ended = true;
                    break;
                }
                Next::Moved => break,
            }
        }
        // What was read before the overlay moved on counts.
        if !ended && rows.is_empty() || !catalog.is_present(&bucket) || catalog.overlay.read().merges() != merges {
            continue;
        }
        let next = merged.last.filter(|_| !ended).map(|(key, layer, sequence)| ScanStart {
            from: LayeredStart::Within { key, layer, sequence },
            merges,
            top: Some(bucket.top()),
        });
        return Ok(ScannedVersions { rows, next, again, top: Some(bucket.top()) });
    }
    if catalog.present_bucket(bucket).is_none() {
        return Ok(ScannedVersions { rows: Vec::new(), next: None, again: false, top: None });
    }
    Err(Error::Index { reason: "a page could not be read between two commits".into() })
}

fn layered_start(catalog: &Catalog, bucket: &Bucket, list: &ListVersions) -> Result<LayeredStart> {
    let (key, id) = match list.start() {
        ListStart::At(start) => return Ok(LayeredStart::At(start)),
        ListStart::AfterVersion(key, id) => (key.clone(), id),
    };
    for layer in &bucket.layers {
        if catalog.kind(*layer) != LayerKind::Amendments
            && let Some(found) = catalog.version(*layer, &key, id)?
        {
            return Ok(LayeredStart::Within { key, layer: *layer, sequence: found.object.sequence });
        }
    }
    Ok(LayeredStart::AfterGone { key, id })
}

/// Without a limit: how many versions of a layer are passed over for each that is shown, only the layers above tell.
fn lists_of(bucket: &Bucket) -> Vec<ListVersions> {
    let of = |layer: &BucketId| ListVersions {
        bucket: *layer,
        prefix: Bytes::new(),
        delimiter: None,
        after: None,
        max_keys: usize::MAX,
    };
    bucket.layers.iter().map(of).collect()
}

/// The versions of one layer.
struct LayerRows<'r, 'i> {
    layer: BucketId,
    kind: LayerKind,
    merge: Merge<'r, 'i>,
    next: Option<VersionScanRow>,
    ended: bool,
}

impl LayerRows<'_, '_> {
    fn seek(&mut self, to: VersionStart) {
        self.merge.seek(to);
        (self.next, self.ended) = (None, false);
    }

    /// Makes sure that the next version is there if there is one. `None` when the overlay has moved on.
    fn fill(&mut self) -> Result<Option<()>> {
        if self.next.is_none() && !self.ended {
            match self.merge.next()? {
                Next::Version(next) => (self.ended, self.next) = (next.is_none(), next),
                Next::Moved => return Ok(None),
            }
        }
        Ok(Some(()))
    }

    fn has(&self, key: &Bytes) -> bool {
        self.next.as_ref().is_some_and(|row| row.key == *key)
    }
}

/// The versions that all layers show.
struct LayeredRows<'r, 'i> {
    lookups: IndexedLayers<'r, 'i>,
    /// The newest first.
    layers: Vec<LayerRows<'r, 'i>>,
    /// Below this layer, nothing counts for this key.
    over: Option<(Bytes, usize)>,
    /// Versions of this key that were first put with this sequence or a later one were read before.
    seen: Option<(Bytes, Sequence)>,
    /// The version that came last: its key, its layer and its sequence there.
    last: Option<(Bytes, BucketId, Sequence)>,
}

impl<'r, 'i> LayeredRows<'r, 'i> {
    /// `lists`: of all layers.
    fn new(catalog: &'r Catalog, reader: &'r Reader<'i>, lists: &'r [ListVersions]) -> Result<Self> {
        let lookups = IndexedLayers::new(catalog, reader, applied_to(reader)?);
        let mut layers = Vec::with_capacity(lists.len());
        for list in lists {
            let (layer, kind) = (list.bucket, catalog.kind(list.bucket));
            layers.push(LayerRows { layer, kind, merge: Merge::new(catalog, reader, list)?, next: None, ended: false });
        }
        Ok(Self { lookups, layers, over: None, seen: None, last: None })
    }

    fn begin(&mut self, start: &LayeredStart) {
        match start {
            LayeredStart::At(start) => self.seek(start.clone()),
            LayeredStart::AfterGone { key, id } => {
                self.seek(VersionStart::From(key.clone()));
                self.seen = id.first_sequence().map(|sequence| (key.clone(), sequence));
            }
            LayeredStart::Within { key, layer, sequence } => {
                let at = self.layers.iter().position(|rows| rows.layer == *layer).unwrap_or_default();
                for (place, rows) in self.layers.iter_mut().enumerate() {
                    rows.seek(match place.cmp(&at) {
                        std::cmp::Ordering::Less if rows.kind != LayerKind::Amendments => {
                            VersionStart::After(key.clone())
                        }
                        std::cmp::Ordering::Equal => VersionStart::Within(key.clone(), *sequence),
                        _ => VersionStart::From(key.clone()),
                    });
                }
                self.over = (self.layers[at].kind == LayerKind::Single).then(|| (key.clone(), at));
            }
        }
    }

    /// The next version as its layer has it, and where that layer is. `Ok(None)` when the overlay has moved on.
    fn next_stored(&mut self) -> Result<Option<Option<(usize, VersionScanRow)>>> {
        for rows in &mut self.layers {
            if rows.fill()?.is_none() {
                return Ok(None);
            }
        }
        let has_versions = |rows: &&mut LayerRows<'_, '_>| rows.kind != LayerKind::Amendments;
        let keys =
            self.layers.iter_mut().filter(has_versions).filter_map(|rows| rows.next.as_ref()).map(|row| &row.key);
        let Some(key) = keys.min().cloned() else { return Ok(Some(None)) };
        for rows in self.layers.iter_mut().filter(|rows| rows.kind == LayerKind::Amendments) {
            if rows.next.as_ref().is_some_and(|row| row.key < key) {
                rows.seek(VersionStart::From(key.clone()));
                if rows.fill()?.is_none() {
                    return Ok(None);
                }
            }
        }
        let is_next =
            |(_, rows): &(usize, &mut LayerRows<'_, '_>)| rows.kind != LayerKind::Amendments && rows.has(&key);
        let first = self.layers.iter_mut().enumerate().find(is_next);
        Ok(Some(first.and_then(|(at, rows)| Some((at, rows.next.take()?)))))
    }

    /// A version of the layer at this place as the layers above it show it.
    fn shown(&self, at: usize, row: VersionScanRow) -> Result<Option<VersionScanRow>> {
        let mut amended = None;
        for above in &self.layers[..at] {
            match above.kind {
                LayerKind::Amendments if amended.is_none() && above.has(&row.key) => {
                    if !planted::is(Bug::AmendmentsIgnored) {
                        amended = self.lookups.version(above.layer, &row.key, row.id)?;
                    }
                }
                LayerKind::Amendments => {}
                // A null version hides those below it. An amendment above concerns it then, and not those below.
                LayerKind::History | LayerKind::Single => {
                    if row.id == VersionId::Null && self.lookups.version(above.layer, &row.key, row.id)?.is_some() {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(match amended {
            Some(amended) => (!amended.version.delete_marker).then(|| VersionScanRow::of_object(&row.key, &amended)),
            None => Some(row),
        })
    }
}

impl VersionRows for LayeredRows<'_, '_> {
    fn next(&mut self) -> Result<Next> {
        loop {
            let Some(stored) = self.next_stored()? else { return Ok(Next::Moved) };
            let Some((at, row)) = stored else { return Ok(Next::Version(None)) };
            if self.over.as_ref().is_some_and(|(key, over)| *key == row.key && at > *over) {
                continue;
            }
            let is_single = self.layers[at].kind == LayerKind::Single;
            if is_single {
                self.over = Some((row.key.clone(), at));
            }
            let was_seen = |(key, seen): &(Bytes, Sequence)| {
                *key == row.key && row.id.first_sequence().is_some_and(|first| first >= *seen)
            };
            if is_single && row.delete_marker || self.seen.as_ref().is_some_and(was_seen) {
                continue;
            }
            let place = (row.key.clone(), self.layers[at].layer, row.sequence);
            let shown = self.shown(at, row)?;
            if self.lookups.has_moved() {
                return Ok(Next::Moved);
            }
            if shown.is_some() {
                self.last = Some(place);
                return Ok(Next::Version(shown));
            }
        }
    }

    fn seek(&mut self, to: VersionStart) {
        self.layers.iter_mut().for_each(|rows| rows.seek(to.clone()));
        (self.over, self.seen) = (None, None);
    }
}
