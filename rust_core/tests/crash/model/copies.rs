//! Copies of one object, and of several together, in the model.

use orcas_checksum::Etag;
use orcas_decide::{CopyEntry, EtagMatch, Precondition, Refusal};
use orcas_record::{BucketId, ObjectHeaders};

use super::{Model, Moment, Object, Op, OperationEffect, done, evaluate};
use crate::store::Run;

/// The most objects that are copied together.
const TOGETHER: u64 = 4;

impl Model {
    pub fn copy(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        let Op::Copy { source, bucket, key, headers, annotations, precondition } = op else { unreachable!("{op:?}") };
        self.live(*bucket)?;
        let object = copied(self.source(source)?, headers.as_ref(), *annotations, at);
        let bucket = self.live(*bucket)?;
        evaluate(bucket.current(key), precondition)?;
        let etag = object.etag;
        bucket.put(key, object);
        done(true, Some(etag))
    }

    /// Each is copied from what there was before all of them.
    pub fn copy_many(
        &mut self,
        source: BucketId,
        bucket: BucketId,
        entries: &[CopyEntry],
        at: Moment,
    ) -> Result<OperationEffect, Refusal> {
        self.live(source)?;
        self.live(bucket)?;
        let mut made = Vec::new();
        for (CopyEntry { from, etag, key, replaces }, stamp) in entries.iter().zip(at.stamp..) {
            let object = self.source(&(source, from.clone()))?;
            if object.etag != *etag {
                return Err(Refusal::PreconditionFailed { condition: "x-amz-copy-source-If-Match" });
            }
            let precondition = Precondition {
                if_match: replaces.map(|etag| EtagMatch::List(vec![etag])),
                if_none_match_any: replaces.is_none(),
                state: None,
            };
            evaluate(self.live(bucket)?.current(key), &precondition)?;
            made.push((key, copied(object, None, true, Moment { stamp, ..at })));
        }
        let bucket = self.live(bucket)?;
        let effective = !made.is_empty();
        made.into_iter().for_each(|(key, object)| bucket.put(key, object));
        done(effective, None)
    }
}

fn copied(mut object: Object, headers: Option<&ObjectHeaders>, annotations: bool, at: Moment) -> Object {
    (object.stamp, object.first, object.frozen) = (at.stamp, at.stamp, false);
    (object.hold, object.retention) = (None, None);
    object.annotations.retain(|_, _| annotations);
    object.annotations.values_mut().for_each(|(_, written_ms)| *written_ms = at.now_ms);
    object.modified_ms = at.now_ms;
    object.headers = headers.cloned().unwrap_or(object.headers);
    if object.parts.is_empty() {
        // One that was appended to counts as one part.
        object.etag.parts = object.etag.parts.min(1);
    }
    object
}

/// Some objects of a bucket, each under the key of the next one; now and then on a condition that does not hold.
pub fn many_op(run: &mut Run, source: BucketId, bucket: BucketId) -> Option<Op> {
    let of = |id| run.model().buckets.values().find(|held| held.id == Some(id)).cloned();
    let (from, to) = (of(source)?, of(bucket)?);
    let count = 1 + run.rng.below(TOGETHER) as usize;
    let objects: Vec<_> = from.objects().take(count).collect();
    let keys = objects.iter().map(|(key, _)| *key).cycle().skip(1);
    let mut entries: Vec<_> = objects
        .iter()
        .zip(keys)
        .map(|((from, object), key)| CopyEntry {
            from: (*from).clone(),
            etag: object.etag,
            key: key.clone(),
            replaces: to.current(key).map(|object| object.etag),
        })
        .collect();
    if let Some(last) = entries.last_mut() {
        match run.rng.below(8) {
            0 => last.etag = Etag::simple([7; 16]),
            1 => last.replaces = Some(Etag::simple([7; 16])),
            2 => last.replaces = None,
            _ => {}
        }
    }
    Some(Op::CopyMany { source, bucket, entries })
}
