//! What the benchmarks of the engine share: a store on the real disk with the server's settings, and a pump that
//! keeps a number of intents in flight from one thread, as an event loop does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use orcas_core::checksum::Md5Hasher;
use orcas_core::decide::{Failure, Intent, Outcome, Precondition, PutObject};
use orcas_core::engine::{CompletionSink, Engine, EngineOptions, Environment, Handle, IndexPlace, SystemClock, Waiter};
use orcas_core::fs::real::{RealFileSystem, SystemRandom};
use orcas_core::record::{Bucket, BucketSettings, Durability, ObjectHeaders, RefLevel};

/// Opens a store with the settings of a server that was told nothing else.
pub fn open(data: &Path, durability: Durability, batch_write_enabled: bool) -> Engine {
    let options = EngineOptions {
        data: data.to_owned(),
        batch_write_enabled,
        write_buffer_window: Duration::from_secs(10),
        max_write_buffer_size: 8 << 20,
        max_write_buffer_count: 2048,
        chunk_size: 4 << 20,
        durability,
        ref_level: RefLevel::Full,
        sync_interval: Duration::from_millis(50),
        db_max_open: 25,
        db_max_idle: 10,
        db_lifetime: Duration::from_secs(3600),
        log_file_size: 16 << 20,
        pack_size: 1 << 30,
        reclaim_rate: 0,
        scrub_rate: 0,
        reserve: 256 << 20,
    };
    let environment = Environment {
        fs: Arc::new(RealFileSystem),
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(SystemRandom),
        index: IndexPlace::File,
    };
    Engine::open(options, environment).expect("the store opens")
}

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
        precondition: Precondition::default(),
        size: bytes.len() as u64,
        md5: Md5Hasher::digest(&bytes),
        sha256: None,
        checksum: None,
        headers: ObjectHeaders {
            content_type: Some(Bytes::from_static(b"binary/octet-stream")),
            ..ObjectHeaders::default()
        },
        body: handle.small_body(bucket, bytes),
    }))
}

/// `number` scattered over all 64 bits, so that neighbours in time are not neighbours in key order.
pub fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
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
        handle.submit(intent, Waiter { sink: Arc::clone(&self.sink), token: 0 });
    }

    pub fn finish(&mut self) {
        for () in self.done.iter().take(self.in_flight) {}
        self.in_flight = 0;
    }
}
