//! Snapshots, forks and restores: in the model, a copy of everything that the bucket shows.

use std::collections::BTreeMap;

use bytes::Bytes;
use orcas_decide::{DeleteEntry, Precondition, Refusal};
use orcas_fs_testing::SimRng;
use orcas_record::{BucketId, Versioning};

use super::versions::named;
use super::{Bucket, INVALID_STATE, Model, Moment, Object, Op, OperationEffect, Snapshot, Versions, done};
use crate::store::Run;

const SNAPSHOTS: [&str; 2] = ["s", "t"];
const FORKS: [&str; 3] = ["fork", "one", "two"];

fn frozen(mut versions: Versions) -> Versions {
    versions.values_mut().flatten().for_each(|version| version.frozen = true);
    versions
}

impl Bucket {
    /// What it shows now stays as it is.
    pub fn freeze(&mut self) -> Versions {
        self.layered = true;
        self.versions = frozen(std::mem::take(&mut self.versions));
        self.versions.clone()
    }
}

impl Model {
    /// Whether this asks for an earlier completion that may be forgotten, or aborts what was completed.
    pub fn may_have_forgotten(&self, op: &Op) -> bool {
        let (Op::Complete { upload, .. } | Op::Abort { upload, .. }) = op else { return false };
        let Some(done) = self.completed.get(upload) else { return false };
        let bucket = self.buckets.values().find(|bucket| bucket.id == Some(done.bucket));
        let is_made = |object: &Object| !object.named || object.first == done.first;
        let versions = bucket.and_then(|bucket| bucket.versions.get(&done.key)).into_iter().flatten();
        let is_shown = versions.filter(|object| is_made(object)).any(|object| object.etag == done.etag);
        done.restored || done.frozen && !is_shown
    }

    pub fn note_freeze(&mut self, bucket: BucketId) {
        self.completed.values_mut().filter(|done| done.bucket == bucket).for_each(|done| done.frozen = true);
    }

    pub fn apply_to_layers(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        match op {
            Op::CreateSnapshot { bucket: id, name } => {
                let bucket = self.live(*id)?;
                if bucket.snapshots.contains_key(name) {
                    return Err(Refusal::SnapshotAlreadyExists);
                }
                let snapshot = Snapshot { created_ms: at.now_ms, versions: bucket.freeze() };
                bucket.snapshots.insert(name.clone(), snapshot);
                self.note_freeze(*id);
            }
            Op::DeleteSnapshot { bucket, name } => {
                self.live(*bucket)?.snapshots.remove(name).ok_or(Refusal::NoSuchSnapshot)?;
            }
            Op::Fork { bucket: id, snapshot, name } => {
                let is_taken = self.buckets.contains_key(name);
                let bucket = self.live(*id)?;
                if is_taken {
                    return Err(Refusal::BucketAlreadyOwnedByYou);
                }
                let versions = match snapshot {
                    Some(snapshot) => {
                        let snapshot = bucket.snapshots.get(snapshot).ok_or(Refusal::NoSuchSnapshot)?;
                        snapshot.versions.clone()
                    }
                    None => bucket.freeze(),
                };
                let fork = Bucket {
                    id: None,
                    created_ms: at.now_ms,
                    versions,
                    layered: true,
                    snapshots: BTreeMap::new(),
                    uploads: BTreeMap::new(),
                    ..bucket.clone()
                };
                self.buckets.insert(name.clone(), fork);
                self.note_freeze(*id);
            }
            Op::Restore { bucket, snapshot } => {
                let held = self.live(*bucket)?;
                if held.lock {
                    return Err(INVALID_STATE);
                }
                let snapshot = held.snapshots.get(snapshot).ok_or(Refusal::NoSuchSnapshot)?;
                held.versions = snapshot.versions.clone();
                let of_bucket = self.completed.values_mut().filter(|done| done.bucket == *bucket);
                of_bucket.for_each(|done| done.restored = true);
            }
            _ => unreachable!("not about layers: {op:?}"),
        }
        done(true, None)
    }
}

fn pick(rng: &mut SimRng, names: &[&'static str]) -> Bytes {
    Bytes::from_static(names[rng.below(names.len() as u64) as usize].as_bytes())
}

/// Operations on the layers of a bucket. One that was emptied for good is `left`.
pub fn layer_ops(run: &mut Run, left: &mut Option<BucketId>) -> Vec<Op> {
    // What the layers of a bucket hold together, the model does not know.
    let able = |bucket: &&Bucket| !bucket.has_quota();
    let all: Vec<Bucket> = run.model().buckets.values().filter(|held| held.id.is_some()).cloned().collect();
    let mut buckets: Vec<&Bucket> = all.iter().filter(able).collect();
    // Half of them with versioning, if there are any.
    if run.rng.below(2) == 0 && buckets.iter().any(|held| held.versioning != Versioning::Unversioned) {
        buckets.retain(|held| held.versioning != Versioning::Unversioned);
    }
    if buckets.is_empty() {
        return Vec::new();
    }
    // Mostly the first, so that layers pile up.
    let at = if run.rng.below(3) == 0 { run.rng.below(buckets.len() as u64) } else { 0 };
    let held = buckets[at as usize];
    let bucket = held.id.expect("it was answered");
    let rng = &mut run.rng;
    let snapshot = pick(rng, &SNAPSHOTS);
    // Mostly one that there is.
    let there = held.snapshots.keys().nth(rng.below(held.snapshots.len().max(1) as u64) as usize).cloned();
    let known = there.filter(|_| rng.below(8) > 0);
    let name = known.clone().unwrap_or_else(|| snapshot.clone());
    vec![match rng.below(16) {
        0..5 => Op::CreateSnapshot { bucket, name: snapshot },
        5 if known.is_some() && held.versioning == Versioning::Unversioned => {
            return delete_and_merge(run, held, bucket, &name);
        }
        6..9 => Op::DeleteSnapshot { bucket, name },
        9 | 10 if known.is_some() => Op::Restore { bucket, snapshot: name },
        11 if held.layered => {
            let (held, snapshots) = (held.clone(), held.snapshots.keys().cloned());
            *left = Some(bucket);
            let snapshots = snapshots.map(|name| Op::DeleteSnapshot { bucket, name }).collect();
            return empty(run, &held, bucket, snapshots);
        }
        12..14 => Op::Fork { bucket, snapshot: known, name: pick(rng, &FORKS) },
        14 | 15 => Op::Fork { bucket, snapshot: None, name: pick(rng, &FORKS) },
        _ => Op::CreateSnapshot { bucket, name: snapshot },
    }]
}

/// Deletes a key that the snapshot `kept` shows between two others, of which the first goes: layers above `kept` are
/// merged.
fn delete_and_merge(run: &mut Run, held: &Bucket, bucket: BucketId, kept: &Bytes) -> Vec<Op> {
    let name = Bytes::from_static(if kept == SNAPSHOTS[0] { SNAPSHOTS[1] } else { SNAPSHOTS[0] }.as_bytes());
    let shown: Vec<&Bytes> =
        held.snapshots[kept].versions.keys().filter(|key| held.versions.contains_key(*key)).collect();
    let Some(&key) = shown.get(run.rng.below(shown.len().max(1) as u64) as usize) else { return Vec::new() };
    vec![
        Op::CreateSnapshot { bucket, name: name.clone() },
        Op::Delete { bucket, key: key.clone(), precondition: Precondition::default() },
        Op::DeleteSnapshot { bucket, name: name.clone() },
        Op::CreateSnapshot { bucket, name },
    ]
}

/// Everything that a bucket has goes, unless it is locked. Its forks keep what they show.
fn empty(run: &Run, held: &Bucket, bucket: BucketId, mut ops: Vec<Op>) -> Vec<Op> {
    if held.versioning == Versioning::Unversioned {
        let precondition = Precondition::default();
        let entry = |key: &Bytes| DeleteEntry {
            key: key.clone(),
            version: None,
            precondition: precondition.clone(),
            bypass: false,
        };
        ops.push(Op::DeleteMany { bucket, entries: held.versions.keys().map(entry).collect() });
        return ops;
    }
    for (key, versions) in &held.versions {
        for (newer, version) in versions.iter().rev().enumerate() {
            let Some(version) = named(run, bucket, key, newer, version.first) else { continue };
            let (key, precondition) = (key.clone(), Precondition::default());
            ops.push(Op::DeleteVersion { bucket, key, version, precondition, bypass: true });
        }
    }
    ops
}
