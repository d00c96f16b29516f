//! Publication: records become visible to reads when they enter the overlay, and leave it once the index has them.

use std::sync::Arc;

use super::queue::{AppendedBatch, Sequenced};
use crate::state::{EngineState, UpkeepTask};
use orcas_base::planted::{self, Bug};
use orcas_base::sync::atomic::Ordering;
use orcas_catalog::{BucketTable, keys_of, shared_head};
use orcas_record::{DocumentKind, Record};

/// What a list that is being read must know of.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moved {
    pub prefix: bool,
    /// Versions went from one layer to another, or were put into theirs again.
    pub layer: bool,
}

impl EngineState {
    /// Makes records visible: the overlay first, then what the cache has of their keys goes.
    /// `moved` tells what was moved.
    pub fn publish(&self, records: &[Arc<Sequenced>], buckets: &Arc<BucketTable>, moved: Moved) {
        self.note_heads(records);
        {
            let mut overlay = self.catalog.overlay.write();
            for record in records {
                overlay.insert(record.sequence, &record.record, buckets);
            }
            if moved.prefix {
                overlay.note_move();
            }
            if moved.layer {
                overlay.note_merge();
            }
        }
        if records.iter().any(|record| BucketTable::concerns(&record.record)) {
            *self.catalog.buckets.write() = Arc::clone(buckets);
            self.lifecycle.note_buckets(buckets.documents().in_use(DocumentKind::Lifecycle));
            self.logs_buckets.store(buckets.documents().in_use(DocumentKind::Logging) > 0, Ordering::Relaxed);
            let encryptions = buckets.documents().in_use(DocumentKind::Encryption);
            self.default_encryptions.store(encryptions as u64, Ordering::Relaxed);
        }
        for record in records {
            if planted::is(Bug::UpdateLeftInCache) && matches!(record.record, Record::UpdateVersion { .. }) {
                continue;
            }
            for (bucket, key) in keys_of(&record.record) {
                self.catalog.cache.remove(bucket, key);
            }
        }
    }

    /// Takes what the index has out of the overlay, a few records at a time.
    pub fn trim(&self, batches: &[AppendedBatch], at_a_time: usize) {
        for batch in batches {
            for records in batch.records.chunks(at_a_time) {
                let mut overlay = self.catalog.overlay.write();
                for record in records {
                    overlay.trim(record.sequence, &record.record);
                }
            }
        }
    }

    /// Tells the filter of shared blobs that are being published.
    fn note_heads(&self, records: &[Arc<Sequenced>]) {
        let heads = records.iter().filter_map(|record| shared_head(&record.record));
        if self.heads.note(heads) {
            self.request(UpkeepTask::Heads);
        }
    }
}
