//! Merges layers that a deletion has left in the same stacks, some versions at a time: what the upper one has is moved to
//! the lower one. What that replaces is dead then, unless others refer to it.

use std::sync::Arc;

use bytes::Bytes;

use super::super::key_changes::NewerChanges;
use super::super::maintenance::{MaintenanceIntent, MergedVersion};
use super::super::merges::LayerMerge;
use super::limits::Step;
use super::work::{Activity, FollowUp, Reclaimer};
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_decide::record_len;
use orcas_index::VersionFrom;
use orcas_record::{BucketId, Sequence};

/// Versions that one intent moves, and bytes of their records, as they are estimated.
const VERSIONS_MAX: usize = 256;
const RECORDS_LEN_MAX: usize = 1 << 20;

impl Reclaimer {
    /// The next part of a merge. The published table is asked: whoever reads has seen the last write to both layers.
    pub(super) fn choose_merge(&mut self) -> Result<Option<Step>> {
        let buckets = Arc::clone(&self.shared.buckets.read());
        if self.merged.as_ref().is_some_and(|merged| Arc::ptr_eq(merged, &buckets)) {
            return Ok(None);
        }
        let Some(merge) = buckets.mergeable() else {
            self.merged = Some(buckets);
            return Ok(None);
        };
        // It writes before it frees anything.
        if self.shared.check_space().is_err() {
            return Ok(None);
        }
        let (versions, bytes) = self.next_merged(merge, buckets.below(merge.lower))?;
        let intent = MaintenanceIntent::MergeLayers { merge, versions };
        let step = self.submit(intent, FollowUp::Merged, Activity::Idle);
        Ok(Some(if step == Step::Idle { step } else { Step::Worked { bytes: bytes as u64 } }))
    }

    /// Versions of the upper layer, and bytes of the records that move them. `below` are the layers below both.
    fn next_merged(&self, merge: LayerMerge, below: &[BucketId]) -> Result<(Vec<MergedVersion>, usize)> {
        let mut keys = Vec::new();
        self.shared.index.read()?.scan_versions(merge.upper, VersionFrom::Key(b""), VERSIONS_MAX, &mut |row| {
            keys.push(Bytes::copy_from_slice(&row.head.key));
            true
        })?;
        let (mut versions, mut bytes) = (Vec::new(), 0);
        for key in keys {
            // A deletion from before the layer was frozen may not be in the index.
            let newest = self.shared.newest_below(merge.upper, &key, Sequence::MAX, NewerChanges::default())?;
            let Some(found) = newest.map(|located| located.object) else { continue };
            let ends = found.version.delete_marker && !self.is_shown(below, &key)?;
            bytes += record_len(&found.version);
            versions.push(MergedVersion { found, ends });
            if bytes >= RECORDS_LEN_MAX {
                break;
            }
        }
        Ok((versions, bytes))
    }

    fn is_shown(&self, layers: &[BucketId], key: &Bytes) -> Result<bool> {
        Ok(self.shared.lookup_in(layers, key)?.is_some() && !planted::is(Bug::MergeForgetsMarkers))
    }
}
