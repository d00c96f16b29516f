//! Moves of one object, once under a token, and of all objects with a prefix, in the model.

use bytes::Bytes;
use orcas_decide::{Precondition, Refusal};
use orcas_record::{BucketId, Versioning};

use super::{Bucket, INVALID, INVALID_STATE, Model, Moment, Object, Op, OperationEffect, done, evaluate};
use crate::store::Run;

/// What is moved where; some are refused within one bucket.
const PREFIXES: [(&str, &str); 6] = [("a/", "d/"), ("d/", "a/"), ("b", "c"), ("c", "b"), ("", ""), ("a/", "a")];

impl Model {
    /// Objects move only between buckets that never had versioning.
    fn never_versioned(&mut self, from: BucketId, to: BucketId) -> Result<(), Refusal> {
        for bucket in [from, to] {
            self.live(bucket)?;
        }
        for bucket in [from, to] {
            if self.live(bucket)?.versioning != Versioning::Unversioned {
                return Err(INVALID_STATE);
            }
        }
        Ok(())
    }

    pub fn move_one(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        let Op::Move { from_bucket, from_key, bucket, key, precondition, token } = op else { unreachable!("{op:?}") };
        let request = format!("{op:?}");
        if let Some(known) = token.and_then(|token| self.tokens.get(&token)) {
            return if *known == request { done(false, None) } else { Err(Refusal::TokenReused) };
        }
        self.never_versioned(*from_bucket, *bucket)?;
        let object = self.source(&(*from_bucket, from_key.clone()))?;
        if from_bucket == bucket && from_key == key {
            return Err(INVALID);
        }
        evaluate(self.live(*bucket)?.current(key), precondition)?;
        let etag = object.etag;
        self.live(*from_bucket)?.versions.remove(from_key);
        self.live(*bucket)?.put(key, Object { stamp: at.stamp, frozen: false, ..object });
        if let Some(token) = token {
            self.tokens.insert(*token, request);
        }
        done(true, Some(etag))
    }

    pub fn move_prefix(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        let Op::MovePrefix { from_bucket, from_prefix, bucket, prefix, overwrite, limit, updates } = op else {
            unreachable!("{op:?}")
        };
        self.never_versioned(*from_bucket, *bucket)?;
        if self.live(*from_bucket)?.layered || self.live(*bucket)?.layered {
            return Err(INVALID_STATE);
        }
        if from_bucket == bucket && (from_prefix.starts_with(prefix) || prefix.starts_with(from_prefix)) {
            return Err(INVALID);
        }
        if *updates != self.updates {
            return Err(Refusal::SourceChanged);
        }
        if !overwrite && self.live(*bucket)?.versions.keys().any(|key| key.starts_with(prefix)) {
            return Err(Refusal::DestinationNotEmpty);
        }
        let from = &mut self.live(*from_bucket)?.versions;
        let keys: Vec<Bytes> = from.keys().filter(|key| key.starts_with(from_prefix)).cloned().collect();
        if keys.len() > *limit {
            return Err(Refusal::TooManyObjects { limit: *limit });
        }
        if keys.is_empty() {
            return Err(Refusal::NoSuchKey);
        }
        let moved: Vec<Object> = keys.iter().filter_map(|key| from.remove(key)).flatten().collect();
        let bytes = moved.iter().map(|object| object.body.bytes.len() as u64).sum();
        let count = moved.len() as u64;
        let to = self.live(*bucket)?;
        for ((object, key), stamp) in moved.into_iter().zip(&keys).zip(at.stamp..) {
            to.put(&[prefix, &key[from_prefix.len()..]].concat().into(), Object { stamp, ..object });
        }
        Ok(OperationEffect { effective: true, moved: (count, bytes), ..OperationEffect::default() })
    }
}

/// A move to `key` that happens once, of an object that there is if it can be one.
pub fn under_token(run: &mut Run, from_bucket: BucketId, bucket: BucketId, key: Bytes) -> Op {
    let mut there = Vec::new();
    for held in run.model().buckets.values().filter(|held| held.versioning == Versioning::Unversioned) {
        there.extend(held.id.into_iter().flat_map(|id| held.versions.keys().map(move |key| (id, key.clone()))));
    }
    there.retain(|(id, from)| (*id, from) != (bucket, &key));
    let (from_bucket, from_key) = match there.len() as u64 {
        0 => (from_bucket, key.clone()),
        count => there[run.rng.below(count) as usize].clone(),
    };
    // Few, so that one is taken for another request now and then.
    let token = Some(run.rng.below(200));
    Op::Move { from_bucket, from_key, bucket, key, precondition: Precondition::default(), token }
}

/// Mostly between buckets that can take part.
pub fn prefix_op(run: &mut Run, from_bucket: BucketId, bucket: BucketId) -> Op {
    let able = |held: &&Bucket| held.versioning == Versioning::Unversioned && !held.layered;
    let ids: Vec<BucketId> = run.model().buckets.values().filter(able).filter_map(|held| held.id).collect();
    let mut one = |otherwise| match ids.len() as u64 {
        1.. if run.rng.below(8) > 0 => ids[run.rng.below(ids.len() as u64) as usize],
        _ => otherwise,
    };
    let (from_bucket, bucket) = (one(from_bucket), one(bucket));
    let (from, to) = PREFIXES[run.rng.below(PREFIXES.len() as u64) as usize];
    Op::MovePrefix {
        from_bucket,
        from_prefix: from.into(),
        bucket,
        prefix: to.into(),
        overwrite: run.rng.below(4) > 0,
        limit: if run.rng.below(8) == 0 { 1 } else { 1_000 },
        updates: run.model().updates,
    }
}
