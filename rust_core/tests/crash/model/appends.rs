//! Appends in the model: an object is whatever was appended to it, one after the other.

use bytes::Bytes;
use orcas_checksum::Etag;
use orcas_decide::{Precondition, Refusal};
use orcas_record::{BucketId, ObjectHeaders};

use super::{Bucket, INVALID, Model, Moment, Object, Op, OperationEffect, Payload, done, evaluate};

impl Model {
    pub fn append(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        let Op::Append { bucket, key, offset, body, headers, precondition, .. } = op else { unreachable!("{op:?}") };
        let bucket = self.live(*bucket)?;
        let current = bucket.current(key).cloned();
        evaluate(current.as_ref(), precondition)?;
        let size = current.as_ref().map_or(0, |object| object.body.bytes.len() as u64);
        if *offset != size {
            return Err(Refusal::InvalidWriteOffset { size });
        }
        let Some(before) = current else {
            bucket.put(key, Object { headers: headers.clone(), ..Object::new(body.clone(), at) });
            return done(true, Some(Etag::simple(body.md5)));
        };
        if !headers.user.is_empty() {
            return Err(INVALID);
        }
        let whole = Payload::new([&before.body.bytes[..], &body.bytes].concat().into());
        let etag = before.etag.appended(&body.md5);
        let Object { headers, tag, annotations, .. } = before;
        bucket.put(key, Object { etag, headers, tag, annotations, ..Object::new(whole, at) });
        done(true, Some(etag))
    }
}

/// Two clients that add to an object at the end that both saw, or one that does so.
pub fn append_ops(
    bucket: (BucketId, &Bucket),
    key: &Bytes,
    bodies: Vec<(Payload, bool)>,
    headers: &ObjectHeaders,
    off: u64,
) -> Vec<Op> {
    let (id, held) = bucket;
    let current = held.current(key);
    let size = current.map_or(0, |object| object.body.bytes.len() as u64);
    let headers = if current.is_none() { headers.clone() } else { ObjectHeaders::default() };
    let append = |(body, chunked)| Op::Append {
        bucket: id,
        key: key.clone(),
        offset: size + off,
        body,
        chunked,
        headers: headers.clone(),
        precondition: Precondition::default(),
    };
    bodies.into_iter().map(append).collect()
}
