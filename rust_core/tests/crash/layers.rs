//! Snapshots, forks and restores: in the model, a copy of everything that the bucket shows.

use std::collections::BTreeMap;

use bytes::Bytes;
use orcas_decide::{DeleteEntry, Precondition, Refusal};
use orcas_fs::sim::SimRng;
use orcas_record::{BucketId, Versioning};

use crate::model::{Bucket, INVALID_STATE, Model, Moment, Op, Snapshot, Verdict, Versions, done};
use crate::run::Run;

const SNAPSHOTS: [&str; 2] = ["s", "t"];
const FORKS: [&str; 3] = ["fork", "one", "two"];

fn frozen(mut versions: Versions) -> Versions {
    versions.values_mut().flatten().for_each(|version| version.frozen = true);
    versions
}

impl Bucket {
    /// What it shows now stays as it is.
    fn freeze(&mut self) -> Versions {
        self.layered = true;
        self.versions = frozen(std::mem::take(&mut self.versions));
        self.versions.clone()
    }
}

impl Model {
    /// A bucket that may have snapshots.
    fn unversioned(&mut self, id: BucketId) -> Result<&mut Bucket, Refusal> {
        let bucket = self.live(id)?;
        if bucket.versioning == Versioning::Unversioned { Ok(bucket) } else { Err(INVALID_STATE) }
    }

    /// Whether this asks for an earlier completion that may be forgotten.
    pub fn may_have_forgotten(&self, op: &Op) -> bool {
        let Op::Complete { upload, .. } = op else { return false };
        let Some(done) = self.completed.get(upload) else { return false };
        let bucket = self.buckets.values().find(|bucket| bucket.id == Some(done.bucket));
        let shown = bucket.and_then(|bucket| bucket.current(&done.key)).map(|object| object.etag);
        done.restored || done.frozen && shown != Some(done.etag)
    }

    fn note_freeze(&mut self, bucket: BucketId) {
        self.completed.values_mut().filter(|done| done.bucket == bucket).for_each(|done| done.frozen = true);
    }

    pub fn apply_to_layers(&mut self, op: &Op, at: Moment) -> Result<Verdict, Refusal> {
        match op {
            Op::CreateSnapshot { bucket: id, name } => {
                let bucket = self.unversioned(*id)?;
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
                let bucket = self.unversioned(*id)?;
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
                let held = self.unversioned(*bucket)?;
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
    let able = |bucket: &&Bucket| bucket.versioning == Versioning::Unversioned;
    let all: Vec<Bucket> = run.model().buckets.values().filter(|held| held.id.is_some()).cloned().collect();
    let mut buckets: Vec<&Bucket> = all.iter().collect();
    if run.rng.below(8) > 0 {
        buckets.retain(able);
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
        0..6 => Op::CreateSnapshot { bucket, name: snapshot },
        6..9 => Op::DeleteSnapshot { bucket, name },
        9 | 10 if known.is_some() => Op::Restore { bucket, snapshot: name },
        11 if held.layered => {
            *left = Some(bucket);
            return empty(held, bucket);
        }
        12..14 => Op::Fork { bucket, snapshot: known, name: pick(rng, &FORKS) },
        14 | 15 => Op::Fork { bucket, snapshot: None, name: pick(rng, &FORKS) },
        _ => Op::CreateSnapshot { bucket, name: snapshot },
    }]
}

/// Everything that a bucket has goes. Its forks keep what they show.
fn empty(held: &Bucket, bucket: BucketId) -> Vec<Op> {
    let entry = |key: &Bytes| DeleteEntry {
        key: key.clone(),
        version: None,
        precondition: Precondition::default(),
        bypass: false,
    };
    let entries = held.versions.keys().map(entry).collect();
    let snapshots = held.snapshots.keys().map(|name| Op::DeleteSnapshot { bucket, name: name.clone() });
    snapshots.chain([Op::DeleteMany { bucket, entries }]).collect()
}
