//! Versions in the model, and operations on one of them.

use bytes::Bytes;
use orcas_checksum::Etag;
use orcas_decide::{EtagMatch, Precondition, Refusal};
use orcas_engine::Clock;
use orcas_fs_testing::SimRng;
use orcas_record::{BucketId, Retention, RetentionMode, Versioning};

use super::{Bucket, Model, Moment, Named, Object, Op, OperationEffect, Payload, done, evaluate};
use crate::store::Run;
use crate::workload::text;

const DAY_MS: u64 = 86_400_000;

impl Object {
    /// The version that an upload of `body` makes.
    pub fn new(body: Payload, at: Moment) -> Self {
        Self {
            stamp: at.stamp,
            first: at.stamp,
            named: false,
            marker: false,
            frozen: false,
            tag: None,
            annotations: Default::default(),
            hold: None,
            retention: None,
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

    /// A version without a retention gets the default one, but for delete markers and objects that are moved.
    pub fn put(&mut self, key: &Bytes, mut object: Object) {
        if let Some(mode) = self.default.filter(|_| !object.marker && object.retention.is_none()) {
            object.retention = Some(Retention { mode, until_ms: object.modified_ms + DAY_MS });
        }
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

    pub fn remove_version(&mut self, key: &Bytes, at: usize) {
        let versions = self.versions.get_mut(key).expect("it has a position there");
        versions.remove(at);
        if versions.is_empty() {
            self.versions.remove(key);
        }
    }

    fn position(&self, key: &Bytes, named: Named) -> Option<usize> {
        let wanted = |version: &Object| match named.id {
            orcas_record::VersionId::Null => !version.named,
            orcas_record::VersionId::Named(_) => version.named && version.first == named.first,
        };
        self.versions.get(key)?.iter().position(wanted)
    }
}

impl Object {
    /// Whether nobody may remove it, or nobody who does not bypass governance.
    pub fn is_locked(&self, bypass: bool, now_ms: u64) -> bool {
        let in_force = self.retention.filter(|retention| retention.until_ms > now_ms);
        let retained = in_force.is_some_and(|retention| retention.mode == RetentionMode::Compliance || !bypass);
        self.hold == Some(true) || retained
    }
}

impl Model {
    pub fn set_default_retention(
        &mut self,
        id: BucketId,
        mode: Option<RetentionMode>,
    ) -> Result<OperationEffect, Refusal> {
        let bucket = self.live(id)?;
        if bucket.versioning != Versioning::Enabled {
            return Err(Refusal::InvalidBucketState { reason: "" });
        }
        (bucket.lock, bucket.default) = (true, mode);
        done(true, None)
    }

    pub fn delete_version(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        let Op::DeleteVersion { bucket, key, version, precondition, bypass } = op else { unreachable!("{op:?}") };
        let bucket = self.live(*bucket)?;
        let found = bucket.position(key, *version);
        let named = found.map(|found| &bucket.versions[key][found]);
        evaluate(named.filter(|version| !version.marker), precondition)?;
        let Some(found) = found else { return done(false, None) };
        if bucket.versions[key][found].is_locked(*bypass, at.now_ms) {
            return Err(Refusal::ObjectLocked);
        }
        bucket.remove_version(key, found);
        done(true, None)
    }

    pub fn update_version(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        let (Op::Tag { bucket, key, version, .. }
        | Op::Annotate { bucket, key, version, .. }
        | Op::Hold { bucket, key, version, .. }
        | Op::Retain { bucket, key, version, .. }) = op
        else {
            unreachable!("{op:?}")
        };
        let bucket = self.live(*bucket)?;
        if !bucket.lock && !matches!(op, Op::Tag { .. } | Op::Annotate { .. }) {
            return Err(Refusal::InvalidRequest { reason: "" });
        }
        let object = bucket.named(key, *version)?;
        let before = (object.tag, object.hold, object.retention);
        let mut annotated = false;
        match op {
            Op::Tag { tag, .. } => object.tag = Some(*tag),
            Op::Annotate { name, text, bypass, .. } => {
                annotated = object.annotate(*name, text.as_ref(), *bypass, at)?;
            }
            Op::Hold { on, .. } => object.hold = Some(*on),
            Op::Retain { retention, bypass, .. } => object.retain(*retention, *bypass, at.now_ms)?,
            _ => unreachable!("{op:?}"),
        }
        let changed = annotated || before != (object.tag, object.hold, object.retention);
        let replaced = changed && object.frozen;
        if replaced {
            (object.stamp, object.frozen) = (at.stamp, false);
        }
        self.updates += u64::from(changed && !replaced);
        done(changed, None)
    }
}

impl Object {
    /// Whether that is a change: a text that is written again is one, for its time.
    fn annotate(&mut self, name: u64, text: Option<&Payload>, bypass: bool, at: Moment) -> Result<bool, Refusal> {
        if let Some(text) = text {
            self.annotations.insert(name, (text.clone(), at.now_ms));
            return Ok(true);
        }
        if self.annotations.contains_key(&name) && self.is_locked(bypass, at.now_ms) {
            return Err(Refusal::ObjectLocked);
        }
        Ok(self.annotations.remove(&name).is_some())
    }

    fn retain(&mut self, new: Option<Retention>, bypass: bool, now_ms: u64) -> Result<(), Refusal> {
        if new.is_some_and(|new| new.until_ms <= now_ms) {
            return Err(Refusal::RetentionInPast);
        }
        let keeps = |old: &Retention| new.is_some_and(|new| new.mode == old.mode && new.until_ms >= old.until_ms);
        if let Some(old) = self.retention.filter(|old| old.until_ms > now_ms && !keeps(old))
            && (old.mode == RetentionMode::Compliance || !bypass)
        {
            return Err(Refusal::ObjectLocked);
        }
        self.retention = new;
        Ok(())
    }
}

impl Bucket {
    fn named(&mut self, key: &Bytes, version: Named) -> Result<&mut Object, Refusal> {
        let at = self.position(key, version).ok_or(Refusal::NoSuchVersion)?;
        let object = &mut self.versions.get_mut(key).expect("it has a position there")[at];
        if object.marker { Err(Refusal::DeleteMarker) } else { Ok(object) }
    }
}

/// Operations on a version of a bucket, if it has one: now and then two, which are decided together.
pub fn version_ops(run: &mut Run, id: BucketId) -> Vec<Op> {
    let Some(bucket) = run.model().buckets.values().find(|held| held.id == Some(id)) else { return Vec::new() };
    let places = |(key, of): (&Bytes, &Vec<Object>)| {
        of.iter().rev().cloned().map(|version| (key.clone(), version)).enumerate().collect::<Vec<_>>()
    };
    let mut all: Vec<_> = bucket.versions.iter().flat_map(places).collect();
    let locked = |(_, (_, version)): &(usize, (Bytes, Object))| version.hold.is_some() || version.retention.is_some();
    if run.rng.below(2) == 0 && all.iter().any(locked) {
        all.retain(locked);
    }
    if all.is_empty() {
        return Vec::new();
    }
    let (newer, (key, object)) = all[run.rng.below(all.len() as u64) as usize].clone();
    let Some(version) = named(run, id, &key, newer, object.first) else { return Vec::new() };
    let count = 1 + u64::from(run.rng.below(3) == 0);
    (0..count).map(|_| version_op(run, id, key.clone(), version, object.etag)).collect()
}

fn version_op(run: &mut Run, bucket: BucketId, key: Bytes, version: Named, etag: Etag) -> Op {
    let bypass = run.rng.below(2) == 0;
    match run.rng.below(15) {
        12.. => {
            let name = run.rng.below(3);
            let text = (run.rng.below(3) > 0).then(|| text(&mut run.rng));
            Op::Annotate { bucket, key, version, name, text, bypass }
        }
        0..5 => {
            let if_match = match run.rng.below(8) {
                0 => Some(EtagMatch::Any),
                1 => Some(EtagMatch::List(vec![etag])),
                _ => None,
            };
            let precondition = Precondition { if_match, if_none_match_any: false, state: None };
            Op::DeleteVersion { bucket, key, version, precondition, bypass }
        }
        5 | 6 => Op::Tag { bucket, key, version, tag: run.rng.below(100) },
        7 | 8 => Op::Hold { bucket, key, version, on: run.rng.below(2) == 0 },
        _ => {
            let mode = if run.rng.below(2) == 0 { RetentionMode::Governance } else { RetentionMode::Compliance };
            // Some end while the test runs, and some before they begin.
            let length = if run.rng.below(4) == 0 { DAY_MS } else { run.rng.below(500) };
            let until_ms = run.world.clock.now_ms() + length;
            let retention = (run.rng.below(6) > 0).then_some(Retention { mode, until_ms });
            Op::Retain { bucket, key, version, retention, bypass }
        }
    }
}

pub fn versioning_op(rng: &mut SimRng, bucket: BucketId) -> Op {
    match rng.below(12) {
        0 => Op::DefaultRetention { bucket, mode: Some(RetentionMode::Governance) },
        1 => Op::DefaultRetention { bucket, mode: None },
        2..=4 => Op::Versioning { bucket, versioning: Versioning::Suspended },
        _ => Op::Versioning { bucket, versioning: Versioning::Enabled },
    }
}

/// What a client calls the version of `key` that has `newer` newer ones.
pub fn named(run: &Run, bucket: BucketId, key: &Bytes, newer: usize, first: u64) -> Option<Named> {
    let bucket = run.bucket(bucket)?;
    let ids = crate::store::version_ids(run.handle(), &bucket, key).ok()?;
    Some(Named { id: *ids.get(newer)?, first })
}
