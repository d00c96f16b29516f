//! Versions in the model, and operations on one of them.

use bytes::Bytes;
use orcas_checksum::Etag;
use orcas_decide::Refusal;
use orcas_fs::sim::SimRng;
use orcas_record::{BucketId, Versioning};

use crate::model::{Bucket, Model, Moment, Named, Object, Op, Payload, Verdict, done};
use crate::run::Run;

impl Object {
    /// The version that an upload of `body` makes.
    pub fn new(body: Payload, at: Moment) -> Self {
        Self {
            stamp: at.stamp,
            named: false,
            marker: false,
            tag: None,
            hold: None,
            etag: Etag::simple(body.md5),
            body,
            modified_ms: at.now_ms,
            headers: Default::default(),
            parts: Vec::new(),
        }
    }
}

impl Bucket {
    pub fn current(&self, key: &Bytes) -> Option<&Object> {
        self.versions.get(key)?.last().filter(|newest| !newest.marker)
    }

    /// The objects that lists show.
    pub fn objects(&self) -> impl Iterator<Item = (&Bytes, &Object)> {
        self.versions.keys().filter_map(|key| Some((key, self.current(key)?)))
    }

    pub fn put(&mut self, key: &Bytes, object: Object) {
        let named = self.versioning == Versioning::Enabled;
        let versions = self.versions.entry(key.clone()).or_default();
        versions.retain(|version| named || version.named);
        versions.push(Object { named, ..object });
    }

    /// A deletion that names no version. False if it changes nothing.
    pub fn delete(&mut self, key: &Bytes, at: Moment) -> bool {
        if self.versioning == Versioning::Unversioned {
            return self.versions.remove(key).is_some();
        }
        let marker = Object::new(Payload::new(Bytes::new()), at);
        self.put(key, Object { marker: true, etag: Etag::simple([0; 16]), ..marker });
        true
    }

    fn position(&self, key: &Bytes, named: Named) -> Option<usize> {
        let wanted = |version: &Object| match named.id {
            orcas_record::VersionId::Null => !version.named,
            orcas_record::VersionId::Named(_) => version.named && version.stamp == named.stamp,
        };
        self.versions.get(key)?.iter().position(wanted)
    }
}

impl Model {
    pub fn apply_to_version(&mut self, op: &Op) -> Result<Verdict, Refusal> {
        match op {
            Op::DeleteVersion { bucket, key, version } => {
                let bucket = self.live(*bucket)?;
                let Some(at) = bucket.position(key, *version) else { return done(false, None) };
                let versions = bucket.versions.get_mut(key).expect("it has a position there");
                if versions[at].hold == Some(true) {
                    return Err(Refusal::ObjectLocked);
                }
                versions.remove(at);
                bucket.versions.retain(|_, versions| !versions.is_empty());
                done(true, None)
            }
            Op::Tag { bucket, key, version, tag } => {
                let object = self.live(*bucket)?.named(key, *version)?;
                let before = object.tag.replace(*tag);
                done(before != Some(*tag), None)
            }
            Op::Hold { bucket, key, version, on } => {
                let bucket = self.live(*bucket)?;
                if !bucket.lock {
                    return Err(Refusal::InvalidRequest { reason: "" });
                }
                let object = bucket.named(key, *version)?;
                let before = object.hold.replace(*on);
                done(before != Some(*on), None)
            }
            _ => unreachable!("not about a version: {op:?}"),
        }
    }
}

impl Bucket {
    fn named(&mut self, key: &Bytes, version: Named) -> Result<&mut Object, Refusal> {
        let at = self.position(key, version).ok_or(Refusal::NoSuchVersion)?;
        let object = &mut self.versions.get_mut(key).expect("it has a position there")[at];
        if object.marker { Err(Refusal::DeleteMarker) } else { Ok(object) }
    }
}

/// An operation on a version of a bucket, if it has one.
pub fn version_op(run: &mut Run, id: BucketId) -> Option<Op> {
    let bucket = run.model().buckets.values().find(|held| held.id == Some(id))?;
    let places = |(key, of): (&Bytes, &Vec<Object>)| {
        of.iter().rev().map(|version| (key.clone(), version.stamp)).enumerate().collect::<Vec<_>>()
    };
    let all: Vec<_> = bucket.versions.iter().flat_map(places).collect();
    if all.is_empty() {
        return None;
    }
    let (newer, (key, stamp)) = all[run.rng.below(all.len() as u64) as usize].clone();
    let version = named(run, id, &key, newer, stamp)?;
    Some(match run.rng.below(8) {
        0..5 => Op::DeleteVersion { bucket: id, key, version },
        5 | 6 => Op::Tag { bucket: id, key, version, tag: run.rng.below(100) },
        _ => Op::Hold { bucket: id, key, version, on: run.rng.below(2) == 0 },
    })
}

pub fn versioning_op(rng: &mut SimRng, bucket: BucketId) -> Op {
    let versioning = if rng.below(3) == 0 { Versioning::Suspended } else { Versioning::Enabled };
    Op::Versioning { bucket, versioning }
}

/// What a client calls the version of `key` that has `newer` newer ones.
fn named(run: &Run, bucket: BucketId, key: &Bytes, newer: usize, stamp: u64) -> Option<Named> {
    let ids = crate::observe::version_ids(run.handle(), bucket, key).ok()?;
    Some(Named { id: *ids.get(newer)?, stamp })
}
