//! The contents of a store at present: its buckets, objects, versions and uploads, as the index has them and, above it,
//! the records that are published and not yet in the index.
//!
//! Only what the engine publishes changes it. Lookups and pages find what was published before they began; what they
//! find stays readable while its epoch is pinned.
#![forbid(unsafe_code)]

mod buckets;
mod cache;
mod documents;
mod epochs;
mod hidden;
mod indexed_layers;
mod layers;
mod merges;
mod objects;
mod pages;
mod passing;
mod pause;
mod recent;
mod retired_segments;
mod sharing;
mod under_prefix;
mod versions;

use std::sync::Arc;

use orcas_base::planted::{self, Bug};
use orcas_base::sync::atomic::{AtomicU64, Ordering};
use orcas_base::sync::{RwLock, Snapshot};
use orcas_index::Index;
use orcas_record::{Bucket, Record, Sequence};
use recent::blob_references::shared_prefix_hash;
use recent::overlay::keys_of;

pub use buckets::BucketTable;
pub use cache::{CacheCounts, LocatedObject, ObjectCache};
pub use documents::{Document, Documents, KindsInUse};
pub use epochs::{EpochPin, Epochs};
pub use hidden::{HiddenRuns, PASSED_MAX, Passed, pass_all};
pub use merges::LayerMerge;
pub use objects::PinnedObject;
pub use pages::layered_objects::{list_objects_in, list_versions_in, shows_nothing};
pub use pages::layered_versions::{ScanStart, ScannedVersions, list_histories, scan_histories};
pub use pages::objects::{ListEntry, ListObjects, ListPage, Listed, PageSink, list_objects, successor};
pub use pages::uploads::{
    ListParts, ListUploads, PartEntry, PartPage, UploadEntry, UploadPage, initiated_ms, list_parts, list_uploads,
};
pub use pages::versions::{
    ListVersions, ListedVersion, VersionMarker, VersionScanRow, VersionSink, VersionStart, list_versions, scan_versions,
};
pub use passing::pass_published;
pub use pause::{PauseGuard, ReclaimPause};
#[cfg(debug_assertions)]
pub use recent::key_changes::ADDED;
pub use recent::key_changes::{Change, Current, KeyChanges, Known, NewerChanges};
pub use recent::overlay::{BlobPlace, Overlay, StoredBytes};
pub use retired_segments::RetiredSegments;
pub use sharing::{
    FingerprintPins, PrefixHashFilter, fill_prefix_hash_filter, instant_source, pin_known, published_blob,
};
pub use under_prefix::under_prefix;

/// The contents of a store at present: the index, and the published records above it.
pub struct Catalog {
    pub index: Index,
    /// Published, and not in the index yet.
    pub overlay: RwLock<Overlay>,
    pub buckets: Snapshot<BucketTable>,
    pub kinds_in_use: KindsInUse,
    /// UpdateVersion records that were published since the store was opened.
    pub updates: AtomicU64,
    /// The sequence of the last record that everybody sees.
    pub published: AtomicU64,
    pub cache: ObjectCache,
    pub hidden: HiddenRuns,
    pub epochs: Arc<Epochs>,
    pub retired_segments: Arc<RetiredSegments>,
    pub reclaim_pause: Arc<ReclaimPause>,
    /// The prefix hashes of shared blobs.
    pub prefix_hashes: PrefixHashFilter,
    pub pins: Arc<FingerprintPins>,
}

/// Moves since a list was begun that the list must know of.
#[derive(Clone, Copy, Default)]
pub struct Moved {
    pub prefix: bool,
    /// Versions went from one layer to another, or were put into theirs again.
    pub layer: bool,
}

impl Catalog {
    pub fn new(index: Index, buckets: BucketTable) -> Self {
        Self {
            index,
            overlay: RwLock::new(Overlay::default()),
            kinds_in_use: KindsInUse::of(buckets.documents()),
            updates: AtomicU64::new(0),
            published: AtomicU64::new(0),
            buckets: Snapshot::new(Arc::new(buckets)),
            cache: ObjectCache::default(),
            hidden: HiddenRuns::default(),
            epochs: Arc::default(),
            retired_segments: Arc::default(),
            reclaim_pause: Arc::default(),
            prefix_hashes: PrefixHashFilter::default(),
            pins: Arc::default(),
        }
    }

    /// Makes records visible: the overlay first, then what the cache has of their keys goes. `decided` has the records,
    /// `buckets` are those after them, and `moved` tells what was moved. True, once, when the filter of prefix hashes
    /// is to be filled anew.
    pub fn publish<'r>(
        &self,
        records: impl Iterator<Item = (Sequence, &'r Record)> + Clone,
        decided: &Overlay,
        buckets: &Arc<BucketTable>,
        moved: Moved,
    ) -> bool {
        let wants_refill =
            self.prefix_hashes.note(records.clone().filter_map(|(_, record)| shared_prefix_hash(record)));
        {
            let mut overlay = self.overlay.write();
            for (sequence, record) in records.clone() {
                overlay.insert_decided(sequence, record, buckets, Some(decided));
            }
            if moved.prefix {
                overlay.note_move();
            }
            if moved.layer {
                overlay.note_merge();
            }
        }
        if records.clone().any(|(_, record)| BucketTable::concerns(record)) {
            self.buckets.replace(Arc::clone(buckets));
            self.kinds_in_use.show(buckets.documents());
        }
        let (mut updates, mut last) = (0, None);
        for (sequence, record) in records {
            last = Some(sequence);
            let is_update = matches!(record, Record::UpdateVersion { .. });
            updates += u64::from(is_update);
            if is_update && planted::is(Bug::UpdateLeftInCache) {
                continue;
            }
            for (bucket, key) in keys_of(record) {
                self.cache.remove(bucket, key);
            }
        }
        self.updates.fetch_add(updates, Ordering::Release);
        if let Some(last) = last {
            self.published.store(last, Ordering::Release);
        }
        wants_refill
    }

    /// Shows what the index has and nothing else: it was replaced by one with later records, up to `last`.
    pub fn restart(&self, buckets: BucketTable, last: Sequence) {
        let mut overlay = self.overlay.write();
        overlay.clear();
        overlay.note_move();
        overlay.note_merge();
        drop(overlay);
        self.kinds_in_use.show(buckets.documents());
        self.buckets.replace(Arc::new(buckets));
        self.cache.clear();
        self.published.store(last, Ordering::Release);
    }

    /// The bucket of clients with this name.
    pub fn bucket(&self, name: &[u8]) -> Option<Arc<Bucket>> {
        self.buckets.load().by_name(name).cloned()
    }
}
