//! How maintenance intents are decided: what nothing refers to any more is given up, and what was moved is found at its
//! new place. They are decided in the one order of all mutations, so a decision sees every reference that was made
//! before it, and a reference made after it finds the blob gone.

use bytes::Bytes;

use super::intent::{MaintenanceIntent, MaintenanceOutcome, MergeFate, MergedVersion, ReplaceLog};
use crate::commit::view::CommitterView;
use orcas_base::error::Result;
use orcas_catalog::LayerMerge;
use orcas_decide::View;
use orcas_record::{Bucket, BucketId, ChunkMove, ContentMove, MOVES_MAX, PackId, Record, Sequence, Version, VersionId};

impl MaintenanceIntent {
    /// The outcome, with the records that bring it about. `next` is the sequence that the first of them gets.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn decide(self, view: &CommitterView<'_>, next: Sequence) -> Result<(MaintenanceOutcome, Vec<Record>)> {
        let (blobs, records) = match self {
            // It says where everything that was decided before ends. The committer does the rest.
            Self::Barrier { .. } => (Vec::new(), Vec::new()),
            Self::CondemnBlobs { blobs } => condemn(view, blobs)?,
            Self::MoveChunks { from, moves, pins } => {
                let moved = move_chunks(view, from, moves)?;
                drop(pins);
                moved
            }
            Self::RetirePack { pack } if view.pack_is_free(pack)? => (Vec::new(), vec![Record::RetirePack { pack }]),
            Self::RetirePack { .. } => (Vec::new(), Vec::new()),
            Self::ReplaceLog(replacement) => (Vec::new(), replace_log(*replacement)),
            Self::RemoveLayer { layer, versions } => (Vec::new(), remove_layer(view, layer, versions)?),
            Self::MergeLayers { merge, versions } => (Vec::new(), merge_layers(view, merge, versions)?),
        };
        let last = next + records.len() as u64 - 1;
        Ok((MaintenanceOutcome { blobs, changed: !records.is_empty(), last }, records))
    }
}

/// Condemns those of `blobs` that may be: nothing refers to them, asks for them or has done so since they were chosen.
fn condemn(view: &CommitterView<'_>, mut blobs: Vec<Sequence>) -> Result<(Vec<Sequence>, Vec<Record>)> {
    blobs.sort_unstable();
    blobs.dedup();
    let mut condemned = Vec::with_capacity(blobs.len());
    for blob in blobs {
        if view.condemn(blob)? {
            condemned.push(blob);
        }
    }
    let records = condemned.chunks(MOVES_MAX).map(|blobs| Record::CondemnBlobs { blobs: blobs.to_vec() }).collect();
    Ok((condemned, records))
}

/// The chunks of `from` that are durable at their new places now. One that was condemned meanwhile stays condemned.
fn move_chunks(view: &CommitterView<'_>, from: PackId, moves: Vec<ChunkMove>) -> Result<(Vec<Sequence>, Vec<Record>)> {
    let mut moved = Vec::with_capacity(moves.len());
    for entry in moves {
        if view.chunk_is_in(entry.blob, from)? {
            moved.push(entry);
        }
    }
    let blobs = moved.iter().map(|entry| entry.blob).collect();
    let records = moved.chunks(MOVES_MAX).map(|moves| Record::MoveChunks { moves: moves.to_vec() }).collect();
    Ok((blobs, records))
}

/// The layer goes when the index has no version of it any more. Nothing names it, so nothing writes to it meanwhile.
fn remove_layer(view: &CommitterView<'_>, layer: BucketId, versions: Vec<(Bytes, VersionId)>) -> Result<Vec<Record>> {
    if !view.is_dropped(layer) {
        return Ok(Vec::new());
    }
    if versions.is_empty() {
        return Ok(if view.layer_is_empty(layer)? { vec![Record::DeleteBucket { bucket: layer }] } else { Vec::new() });
    }
    let removed = |(key, version_id)| Record::DeleteVersion { bucket: layer, key, version_id };
    Ok(versions.into_iter().map(removed).collect())
}

/// Merges a layer into the one below. What the layers show together stays, so it does not matter how many of these
/// decisions come before a crash.
fn merge_layers(view: &CommitterView<'_>, merge: LayerMerge, versions: Vec<MergedVersion>) -> Result<Vec<Record>> {
    let LayerMerge { upper, lower } = merge;
    if !view.buckets.can_merge(merge) {
        return Ok(Vec::new());
    }
    if versions.is_empty() {
        return if view.layer_is_empty(upper)? { Ok(remove_merged(view, upper)) } else { Ok(Vec::new()) };
    }
    let mut records = Vec::with_capacity(versions.len());
    for MergedVersion { found, removed_from, fate } in versions {
        let (key, version_id) = (found.version.key.clone(), found.version.version_id);
        let removed = |bucket| Record::DeleteVersion { bucket, key: key.clone(), version_id };
        let put_into = |bucket, version: &Version| Record::PutVersion(Version { bucket, ..version.clone() });
        // What the version hides goes before it.
        records.extend(removed_from.into_iter().map(removed));
        match fate {
            MergeFate::Moves(to) => {
                let version = Version { bucket: to, ..found.version.clone() };
                records.push(Record::MoveVersion { from_bucket: upper, from_key: key, version });
            }
            MergeFate::Ends => records.push(removed(upper)),
            MergeFate::Amends(there) => {
                // If the lower layer is under the id of a bucket, what it has may have been put again since.
                if view.layer_version(lower, &key, version_id)?.is_none_or(|found| found.sequence != there) {
                    continue;
                }
                let attributes = found.version.attributes.clone();
                let key = key.clone();
                records.push(Record::UpdateVersion { bucket: lower, key, version_id, version: there, attributes });
                records.push(removed(upper));
            }
            MergeFate::Replaces { former, newer } => {
                let newest = view.layer_newest(lower, &key, Sequence::MAX)?.map(|newest| newest.sequence);
                let there = view.layer_version(lower, &key, version_id)?.map(|there| there.sequence);
                if there != Some(former) || newest != Some(newer.last().map_or(former, |newest| newest.sequence)) {
                    continue;
                }
                records.push(put_into(lower, &found.version));
                records.extend(newer.iter().map(|newer| put_into(lower, &newer.version)));
                records.push(removed(upper));
            }
        }
    }
    Ok(records)
}

/// Takes an empty layer out of all stacks.
fn remove_merged(view: &CommitterView<'_>, layer: BucketId) -> Vec<Record> {
    let without = |bucket: &Bucket| {
        let layers = bucket.layers.iter().copied().filter(|other| *other != layer).collect();
        Record::UpdateBucket(Bucket { layers, ..bucket.clone() })
    };
    let updated = view.buckets.with_layer(layer).map(without);
    updated.chain([Record::DeleteBucket { bucket: layer }]).collect()
}

/// Replaces log files by a compacted one. The records among `first..=last` that the file leaves out were dead when it
/// was written, and what is dead stays so.
fn replace_log(replacement: ReplaceLog) -> Vec<Record> {
    let ReplaceLog { file, first, last, moves } = replacement;
    let of = |moves: &[ContentMove]| Record::MoveContents { file, moves: moves.to_vec() };
    let mut records: Vec<Record> = moves.chunks(MOVES_MAX).map(of).collect();
    records.push(Record::ReplaceLog { file, first, last });
    records
}
