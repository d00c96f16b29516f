//! What there is in a store now: its buckets, objects, versions and uploads, as the index has them and, above it, the
//! records that are published and not yet in the index.
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
mod versions;

use std::sync::Arc;

use orcas_base::sync::RwLock;
use orcas_index::Index;
use orcas_record::Bucket;

pub use buckets::BucketTable;
pub use cache::{CacheCounts, LocatedObject, ObjectCache};
pub use documents::{Document, Documents};
pub use epochs::{EpochPin, Epochs};
pub use hidden::{HiddenRuns, PASSED_MAX, Passed, pass_all};
pub use merges::LayerMerge;
pub use objects::PinnedObject;
pub use pages::layered_versions::{ScanStart, ScannedVersions};
pub use pages::objects::{ListEntry, ListObjects, ListPage, Listed, PageSink, successor};
pub use pages::uploads::{ListParts, ListUploads, PartEntry, PartPage, UploadEntry, UploadPage, initiated_ms};
pub use pages::versions::{ListVersions, ListedVersion, VersionMarker, VersionScanRow, VersionSink, VersionStart};
pub use pause::{PauseGuard, ReclaimPause};
pub use recent::blob_references::shared_head;
#[cfg(debug_assertions)]
pub use recent::key_changes::ADDED;
pub use recent::key_changes::{Change, Current, KeyChanges, Known, NewerChanges};
pub use recent::overlay::{BlobPlace, Overlay, StoredBytes, keys_of};
pub use retired_segments::RetiredSegments;

/// What there is.
pub struct Catalog {
    pub index: Index,
    /// Published, and not in the index yet.
    pub overlay: RwLock<Overlay>,
    /// Replaced as a whole.
    pub buckets: RwLock<Arc<BucketTable>>,
    pub cache: ObjectCache,
    pub hidden: HiddenRuns,
    pub epochs: Arc<Epochs>,
    pub retired_segments: Arc<RetiredSegments>,
    pub reclaim_pause: Arc<ReclaimPause>,
}

impl Catalog {
    pub fn new(index: Index, buckets: BucketTable) -> Self {
        Self {
            index,
            overlay: RwLock::new(Overlay::default()),
            buckets: RwLock::new(Arc::new(buckets)),
            cache: ObjectCache::default(),
            hidden: HiddenRuns::default(),
            epochs: Arc::default(),
            retired_segments: Arc::default(),
            reclaim_pause: Arc::default(),
        }
    }

    /// One of clients.
    pub fn bucket(&self, name: &[u8]) -> Option<Arc<Bucket>> {
        self.buckets.read().by_name(name).cloned()
    }
}
