//! Intents of a benchmark: PUTs with the digests of a server, and a pump that keeps a number of them in flight from one
//! thread, as an event loop does.

use std::num::NonZeroU8;
use std::sync::Arc;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use orcas_checksum::Md5Hasher;
use orcas_decide::{Failure, Intent, Outcome, Precondition, PutObject};
use orcas_engine::{CompletionSink, Handle, Waiter};
use orcas_record::{Attributes, Bucket, BucketSettings, Cause, ObjectHeaders, RequestCause};

use crate::support::scatter;

/// Of every intent, as long as that of a request.
const CAUSE: Cause =
    Cause::Request(RequestCause { operation: NonZeroU8::MIN, request: 0x0123_4567_89ab_cdef, principal: [7; 32] });

/// The bucket of this name, made when it is not there.
pub fn bucket(handle: &Handle, name: &str) -> Arc<Bucket> {
    if let Some(bucket) = handle.bucket(name.as_bytes()) {
        return bucket;
    }
    let create = Intent::CreateBucket {
        name: Bytes::copy_from_slice(name.as_bytes()),
        owner: Bytes::from_static(b"benchmark"),
        location: Bytes::new(),
        settings: BucketSettings::default(),
        object_lock: false,
        documents: Vec::new(),
    };
    match handle.execute(create) {
        Ok(Outcome::Bucket(bucket)) => bucket,
        other => panic!("the bucket cannot be made: {other:?}"),
    }
}

/// A PUT of a small object with the digests that a server computes for one.
pub fn put(handle: &Handle, bucket: &Bucket, key: Bytes, bytes: Bytes) -> Intent {
    Intent::PutObject(Box::new(PutObject {
        bucket: bucket.id,
        key,
        modified_ms: None,
        precondition: Precondition::default(),
        size: bytes.len() as u64,
        md5: Md5Hasher::digest(&bytes),
        sha256: None,
        checksum: None,
        headers: ObjectHeaders {
            content_type: Some(Bytes::from_static(b"binary/octet-stream")),
            ..ObjectHeaders::default()
        },
        attributes: Attributes::default(),
        body: handle.content().small_body(bucket, bytes),
    }))
}

/// `length` bytes that no other `number` has.
pub fn unique(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![0x5a; length];
    let stamp = scatter(number).to_le_bytes();
    for (to, from) in bytes.iter_mut().zip(stamp) {
        *to = from;
    }
    bytes.into()
}

/// Keeps up to `depth` intents in flight.
pub struct Pump {
    sink: Arc<dyn CompletionSink>,
    done: Receiver<()>,
    depth: usize,
    in_flight: usize,
}

struct PumpSink(Sender<()>);

impl CompletionSink for PumpSink {
    fn complete(&self, _token: u64, result: Result<Outcome, Failure>) {
        result.expect("the store takes what it is given");
        // Nobody listens any more only when the benchmark has panicked.
        let _ = self.0.send(());
    }
}

impl Pump {
    pub fn new(depth: usize) -> Self {
        let (sender, done) = unbounded();
        Self { sink: Arc::new(PumpSink(sender)), done, depth, in_flight: 0 }
    }

    /// Submits `intent`, after waiting for an answer when as many as may be are in flight.
    pub fn submit(&mut self, handle: &Handle, intent: Intent) {
        if self.in_flight == self.depth {
            self.done.recv().expect("the engine answers");
            self.in_flight -= 1 + self.done.try_iter().count();
        }
        self.in_flight += 1;
        handle.submit(intent, CAUSE, Waiter::new(Arc::clone(&self.sink), 0));
    }

    pub fn finish(&mut self) {
        for () in self.done.iter().take(self.in_flight) {}
        self.in_flight = 0;
    }
}
