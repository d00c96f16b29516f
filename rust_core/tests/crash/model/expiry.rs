//! Lifecycle: what was found to expire does, unless a client was first. A walk looks at the store, and what it submits is
//! decided behind whatever else arrives.

use bytes::Bytes;
use orcas_decide::{Expired, ExpiredPlace, Precondition, Refusal};
use orcas_fs_testing::SimRng;
use orcas_record::{BucketId, DocumentKind, VersionId, Versioning};

use super::versions::named;
use super::{Bucket, Expiring, Model, Moment, Named, Object, Op, OperationEffect, Payload};
use crate::store::Run;

impl Model {
    pub fn expire(
        &mut self,
        bucket: BucketId,
        document: &Bytes,
        entries: &[Expiring],
        at: Moment,
    ) -> Result<OperationEffect, Refusal> {
        let bucket = self.live(bucket)?;
        let mut counts = Expired::default();
        if bucket.documents.get(&DocumentKind::Lifecycle) != Some(document) {
            (counts.changed, counts.void) = (entries.len() as u64, true);
            return Ok(OperationEffect { expired: counts, ..OperationEffect::default() });
        }
        for (entry, stamp) in entries.iter().zip(at.stamp..) {
            bucket.expire(entry, Moment { stamp, ..at }, &mut counts);
        }
        let effective = counts.versions + counts.markers + counts.uploads > 0;
        Ok(OperationEffect { effective, expired: counts, ..OperationEffect::default() })
    }
}

impl Expiring {
    fn is(&self, version: &Object) -> bool {
        version.stamp == self.stamp && self.tag.is_none_or(|tag| tag == version.tag)
    }
}

impl Bucket {
    fn expire(&mut self, entry: &Expiring, at: Moment, counts: &mut Expired) {
        if let ExpiredPlace::Upload(id) = entry.place {
            match self.uploads.remove(&id) {
                Some(_) => counts.uploads += 1,
                None => counts.changed += 1,
            }
            return;
        }
        let versions = self.versions.get(&entry.key).map_or(&[][..], Vec::as_slice);
        let found = versions.iter().position(|version| entry.is(version));
        let is_newest = found.is_some_and(|found| found + 1 == versions.len());
        let Some(found) = found.filter(|_| is_newest != matches!(entry.place, ExpiredPlace::Noncurrent(_))) else {
            counts.changed += 1;
            return;
        };
        if entry.place == ExpiredPlace::Current && self.versioning != Versioning::Unversioned {
            self.delete(&entry.key, at);
            counts.markers += 1;
        } else if versions[found].is_locked(false, at.now_ms) {
            counts.locked += 1;
        } else {
            self.remove_version(&entry.key, found);
            counts.versions += 1;
        }
    }
}

/// The lifecycle document of a bucket, if it has rules.
fn rules(bucket: &Bucket) -> Option<Bytes> {
    bucket.documents.get(&DocumentKind::Lifecycle).filter(|document| !document.is_empty()).cloned()
}

/// A batch of a walk, perhaps behind a change of what it found. A bucket without rules gets some.
pub fn expire_ops(run: &mut Run, id: BucketId) -> Vec<Op> {
    let with_rules = run.model().buckets.values().filter(|held| rules(held).is_some()).find_map(|held| held.id);
    let Some(bucket) = run.model().bucket(with_rules.unwrap_or(id)).cloned() else { return Vec::new() };
    let Some((id, document)) = bucket.id.zip(rules(&bucket)) else {
        let document = "<Lifecycle/>".into();
        return vec![Op::PutDocument { bucket: id, kind: DocumentKind::Lifecycle, document }];
    };
    let mut entries = Vec::new();
    for (key, versions) in &bucket.versions {
        if run.rng.below(3) == 0 {
            look(run, id, key, versions, &mut entries);
        }
    }
    for (upload, held) in &bucket.uploads {
        if run.rng.below(4) == 0 {
            let (key, place) = (held.key.clone(), ExpiredPlace::Upload(*upload));
            entries.push(Expiring { key, place, sequence: 0, stamp: 0, first: 0, tag: None });
        }
    }
    if entries.is_empty() {
        return Vec::new();
    }
    let first = (run.rng.below(2) == 0).then(|| change(&mut run.rng, id, &entries[0]));
    first.into_iter().chain([Op::Expire { bucket: id, document, entries }]).collect()
}

/// What a walk would submit of one key.
fn look(run: &mut Run, id: BucketId, key: &Bytes, versions: &[Object], entries: &mut Vec<Expiring>) {
    for (newer, version) in versions.iter().rev().enumerate() {
        let Some(Named { id: version_id, .. }) = named(run, id, key, newer, version.first) else { continue };
        let place = match (newer, version.marker) {
            (0, false) => ExpiredPlace::Current,
            (0, true) if versions.len() == 1 => ExpiredPlace::LoneMarker,
            (0, true) => continue,
            _ => ExpiredPlace::Noncurrent(version_id),
        };
        if run.rng.below(4) == 0 {
            continue;
        }
        let held = run.bucket(id).expect("the model has it");
        let found = run.handle().version_in(&held, key, version_id).unwrap().expect("the model has it");
        let tag = (run.rng.below(2) == 0).then_some(version.tag);
        let (sequence, stamp, first) = (found.object.sequence, version.stamp, version.first);
        entries.push(Expiring { key: key.clone(), place, sequence, stamp, first, tag });
    }
}

/// What a client does to something that is about to expire.
fn change(rng: &mut SimRng, bucket: BucketId, entry: &Expiring) -> Op {
    let (key, precondition) = (entry.key.clone(), Precondition::default());
    let version = |id| Named { id, first: entry.first };
    match (rng.below(5), entry.place) {
        (0, _) => Op::PutDocument { bucket, kind: DocumentKind::Lifecycle, document: "<Other/>".into() },
        (1, ExpiredPlace::Noncurrent(id)) => Op::Tag { bucket, key, version: version(id), tag: rng.below(100) },
        (1, ExpiredPlace::Current) => Op::Tag { bucket, key, version: version(VersionId::Null), tag: rng.below(100) },
        (2, ExpiredPlace::Current | ExpiredPlace::LoneMarker) => Op::Delete { bucket, key, precondition },
        _ => {
            let body = Payload::new(rng.next().to_le_bytes().to_vec().into());
            Op::Put { bucket, key, body, chunked: false, headers: Default::default(), precondition }
        }
    }
}
