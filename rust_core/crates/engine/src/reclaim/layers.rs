//! Removes layers that were dropped, and merges layers that a deletion has left in the same stacks, some versions at a
//! time: what the upper one has goes to the lower one. What was removed or replaced is dead then, unless others refer to
//! it.
//!
//! What becomes of a version depends on the kinds of both layers (`docs/adr/0018-merges-of-layers.md`). It is looked up
//! here, while nothing but this thread changes either layer, except for content that is sealed.

use std::sync::Arc;

use bytes::Bytes;

use super::super::maintenance::{MaintenanceIntent, MergeFate, MergedVersion};
use super::limits::Step;
use super::work::{Activity, FollowUp, Reclaimer};
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_catalog::{BucketTable, LayerMerge, NewerChanges};
use orcas_decide::{find_version, record_len};
use orcas_index::{VersionFrom, VersionRow};
use orcas_record::{BucketId, LayerKind, Object, Sequence, VersionId};

/// Versions that one intent removes with a layer.
const REMOVED_MAX: usize = 1_000;
/// Versions that one intent merges, and bytes of their records, as they are estimated.
const VERSIONS_MAX: usize = 256;
const RECORDS_LEN_MAX: usize = 1 << 20;
/// Newer versions of a key that are put again in one decision, and bytes of their records, as when what is stored is
/// sealed.
const AGAIN_MAX: usize = if cfg!(test) { 100 } else { 10_000 };
const AGAIN_LEN_MAX: usize = 32 << 20;

/// A layer below an amendment, which has it if the lower one lacks the version: its kind, and the layers below it.
type Reached<'t> = Option<(BucketId, LayerKind, &'t [BucketId])>;

/// The next versions of a merge, and bytes of the records that merge them. `None` if none of those that are left can be.
type NextMerged = Option<(Vec<MergedVersion>, usize)>;

impl Reclaimer {
    /// The next part of a layer that goes. The published table is asked, so that whoever reads the layer can find out.
    pub(super) fn choose_layer(&mut self) -> Result<Option<Step>> {
        let Some(layer) = self.shared.catalog.buckets.load().dropped() else { return Ok(None) };
        let mut versions = Vec::new();
        // The oldest of a key first: then none becomes the current one meanwhile.
        self.shared.catalog.index.read()?.oldest_versions(layer, REMOVED_MAX, &mut |row| {
            versions.push((Bytes::copy_from_slice(&row.listed.key), row.version_id));
            true
        })?;
        let intent = MaintenanceIntent::RemoveLayer { layer, versions };
        Ok(Some(self.submit(intent, FollowUp::Emptied, Activity::Idle)))
    }

    /// The next part of a merge. The published table is asked: whoever reads has seen the last write to both layers.
    pub(super) fn choose_merge(&mut self) -> Result<Option<Step>> {
        let buckets = Arc::clone(&self.shared.catalog.buckets.load());
        if self.merged.as_ref().is_some_and(|merged| Arc::ptr_eq(merged, &buckets)) {
            return Ok(None);
        }
        while let Some(merge) = buckets.mergeable(&self.kept_apart) {
            // It writes before it frees anything.
            if self.shared.space.check().is_err() {
                return Ok(None);
            }
            let Some((versions, bytes)) = self.next_merged(&buckets, merge)? else {
                self.kept_apart.insert(merge);
                continue;
            };
            let intent = MaintenanceIntent::MergeLayers { merge, versions };
            let step = self.submit(intent, FollowUp::Merged, Activity::Idle);
            return Ok(Some(if step == Step::Idle { step } else { Step::Worked { bytes: bytes as u64 } }));
        }
        self.merged = Some(buckets);
        Ok(None)
    }

    fn next_merged(&self, buckets: &BucketTable, merge: LayerMerge) -> Result<NextMerged> {
        let kind = |layer| buckets.by_id(layer).map_or(LayerKind::History, |layer| layer.layer_kind());
        let below = buckets.below(merge.lower);
        match (kind(merge.upper), kind(merge.lower)) {
            (LayerKind::History, _) => self.next_of_history(merge).map(Some),
            (LayerKind::Amendments, LayerKind::History) => {
                let reached = buckets.reached_below(merge, below);
                let reached = reached.map(|layer| (layer, kind(layer), buckets.below(layer)));
                self.next_amendments(merge, below, reached)
            }
            _ => self.next_singles(merge, below).map(Some),
        }
    }

    /// The next versions of a layer to merge, the oldest of each key first: each of them becomes the newest of the
    /// lower layer.
    fn next_of_history(&self, LayerMerge { upper, lower }: LayerMerge) -> Result<(Vec<MergedVersion>, usize)> {
        let mut rows = Vec::new();
        let visit = &mut |row: VersionRow<'_>| {
            rows.push((Bytes::copy_from_slice(&row.listed.key), row.version_id, row.listed.sequence));
            true
        };
        if planted::is(Bug::HistoryMergedNewestFirst) {
            self.shared.catalog.index.read()?.scan_versions(upper, VersionFrom::Key(b""), VERSIONS_MAX, visit)?;
        } else {
            self.shared.catalog.index.read()?.oldest_versions(upper, VERSIONS_MAX, visit)?;
        }
        let (mut versions, mut bytes) = (Vec::new(), 0);
        for (key, id, sequence) in rows {
            let found = self.shared.catalog.version_below(upper, &key, id, NewerChanges::default())?;
            // One that was ended or put again before the layer was frozen, or sealed, is not where the index has it.
            let found = found.map(|located| located.object).filter(|found| found.sequence == sequence);
            let Some(found) = found else { continue };
            bytes += record_len(&found.version);
            versions.push(MergedVersion { found, removed_from: Vec::new(), fate: MergeFate::Moves(lower) });
            if bytes >= RECORDS_LEN_MAX {
                break;
            }
        }
        Ok((versions, bytes))
    }

    /// Whatever the lower layer has of a key, the upper one takes its place. `below` are the layers below both.
    fn next_singles(&self, merge: LayerMerge, below: &[BucketId]) -> Result<(Vec<MergedVersion>, usize)> {
        let (mut versions, mut bytes) = (Vec::new(), 0);
        for (key, id) in self.first_of(merge.upper)? {
            let Some(found) = self.present(merge.upper, &key, id)? else { continue };
            bytes += record_len(&found.version);
            versions.push(self.single(found, merge.lower, below, Vec::new())?);
            if bytes >= RECORDS_LEN_MAX {
                break;
            }
        }
        Ok((versions, bytes))
    }

    /// The fate of a null version that takes the place of what `lower` has, which is not a history. A delete marker is
    /// needed only if the layers `below` show the key.
    fn single(
        &self,
        found: Arc<Object>,
        lower: BucketId,
        below: &[BucketId],
        mut removed_from: Vec<BucketId>,
    ) -> Result<MergedVersion> {
        let fate = if found.version.delete_marker && !self.is_shown(below, &found.version.key)? {
            removed_from.push(lower);
            MergeFate::Ends
        } else {
            MergeFate::Moves(lower)
        };
        Ok(MergedVersion { found, removed_from, fate })
    }

    fn is_shown(&self, layers: &[BucketId], key: &Bytes) -> Result<bool> {
        Ok(self.shared.catalog.lookup_in(layers, key)?.is_some() && !planted::is(Bug::MergeForgetsMarkers))
    }

    /// `below` are the layers below both.
    fn next_amendments(&self, merge: LayerMerge, below: &[BucketId], reached: Reached<'_>) -> Result<NextMerged> {
        let (mut versions, mut bytes, mut left) = (Vec::new(), 0, false);
        for (key, id) in self.first_of(merge.upper)? {
            let Some(found) = self.present(merge.upper, &key, id)? else { continue };
            let Some(merged) = self.amendment(found, merge, below, reached)? else {
                left = true;
                continue;
            };
            let replaces = matches!(merged.fate, MergeFate::Replaces { .. });
            if replaces && !versions.is_empty() {
                // Others of its key may be among them.
                break;
            }
            bytes += record_len(&merged.found.version);
            versions.push(merged);
            if replaces || bytes >= RECORDS_LEN_MAX {
                break;
            }
        }
        Ok((!versions.is_empty() || !left).then_some((versions, bytes)))
    }

    /// The fate of an amendment above a history. `None` if it has to stay.
    fn amendment(
        &self,
        found: Arc<Object>,
        merge: LayerMerge,
        below: &[BucketId],
        reached: Reached<'_>,
    ) -> Result<Option<MergedVersion>> {
        if planted::is(Bug::AmendmentDroppedByMerge) {
            return Ok(Some(MergedVersion { found, removed_from: Vec::new(), fate: MergeFate::Ends }));
        }
        let (key, id) = (&found.version.key, found.version.version_id);
        let there = self.present(merge.lower, key, id)?;
        let mut removed_from = Vec::new();
        if let Some(there) = there {
            if !found.version.delete_marker {
                let fate = self.amends(&found, &there, merge.lower)?;
                return Ok(fate.map(|fate| MergedVersion { found, removed_from, fate }));
            }
            removed_from.push(merge.lower);
        }
        // A version with a name is in one layer. Behind a null version, there may be others.
        let is_elsewhere = id == VersionId::Null || removed_from.is_empty();
        if !is_elsewhere || find_version(&*self.shared.catalog, below, key, id)?.is_none() {
            return Ok(Some(MergedVersion { found, removed_from, fate: MergeFate::Ends }));
        }
        match reached {
            Some((layer, LayerKind::Amendments, _)) => {
                Ok(Some(MergedVersion { found, removed_from, fate: MergeFate::Moves(layer) }))
            }
            Some((layer, LayerKind::Single, below)) => self.single(found, layer, below, removed_from).map(Some),
            Some((_, LayerKind::History, _)) | None => Ok(None),
        }
    }

    /// How an amendment is applied to the version that it concerns. `None` if too many newer ones would be put again.
    fn amends(&self, found: &Object, there: &Object, lower: BucketId) -> Result<Option<MergeFate>> {
        if found.version.attributes.encryption == there.version.attributes.encryption {
            return Ok(Some(MergeFate::Amends(there.sequence)));
        }
        // One of them was sealed: its content is stored elsewhere, too.
        let (mut newer, mut before, mut bytes) = (Vec::new(), Sequence::MAX, 0);
        while let Some(next) =
            self.shared.catalog.newest_below(lower, &there.version.key, before, NewerChanges::default())?
        {
            let next = next.object;
            if next.sequence <= there.sequence {
                break;
            }
            bytes += record_len(&next.version);
            if newer.len() == AGAIN_MAX || bytes > AGAIN_LEN_MAX {
                return Ok(None);
            }
            before = next.sequence;
            newer.push(next);
        }
        newer.reverse();
        Ok(Some(MergeFate::Replaces { former: there.sequence, newer }))
    }

    fn first_of(&self, layer: BucketId) -> Result<Vec<(Bytes, VersionId)>> {
        let mut versions = Vec::new();
        self.shared.catalog.index.read()?.scan_versions(layer, VersionFrom::Key(b""), VERSIONS_MAX, &mut |row| {
            versions.push((Bytes::copy_from_slice(&row.listed.key), row.version_id));
            true
        })?;
        Ok(versions)
    }

    /// A change from before the layer was frozen may not be in the index.
    fn present(&self, layer: BucketId, key: &[u8], id: VersionId) -> Result<Option<Arc<Object>>> {
        let found = self.shared.catalog.version_below(layer, key, id, NewerChanges::default())?;
        Ok(found.map(|located| located.object))
    }
}
