//! A store without threads: what a test does not ask for does not happen.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::super::state::EngineState;
use super::super::{Clock, EngineOptions, IndexPlace, Stepper, SystemClock, Waiter};
use super::support::{environment, options};
use crate::commit::waiter::ChannelSink;
use orcas_catalog::PinnedObject;
use orcas_checksum::Md5Hasher;
use orcas_decide::{Body, Failure, Intent, Outcome, Precondition, PutObject};
use orcas_fs_testing::SimDisk;
use orcas_record::{Bucket, BucketSettings, Cause, Extent, Fingerprint, Object, ObjectHeaders, RefLevel, Sequence};

/// Longer than what a prefix hash covers.
pub const CHUNK: usize = 256 << 10;

pub struct Steps {
    _dir: tempfile::TempDir,
    options: EngineOptions,
    pub(super) stepper: Option<Stepper>,
    /// Instead of the directory.
    disk: Option<SimDisk>,
    clock: Arc<TestClock>,
}

/// The system's, but a test may put it forward, and stop its time of day.
struct TestClock {
    system: SystemClock,
    ahead_ms: AtomicU64,
    stopped_ms: AtomicU64,
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        let stopped_ms = self.stopped_ms.load(Ordering::Relaxed);
        let now_ms = if stopped_ms == 0 { self.system.now_ms() } else { stopped_ms };
        now_ms + self.ahead_ms.load(Ordering::Relaxed)
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic() + Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed))
    }
}

/// An intent that was submitted and not yet decided.
pub struct Submitted(crossbeam_channel::Receiver<Result<Outcome, Failure>>);

impl Submitted {
    pub fn answer(self) -> Result<Outcome, Failure> {
        self.0.try_recv().unwrap()
    }

    pub fn is_answered(&self) -> bool {
        !self.0.is_empty()
    }
}

impl Steps {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut EngineOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path());
        Self::open(dir, None, options, change)
    }

    /// On a simulated disk, which can fail; the index is in memory.
    pub fn on(disk: &SimDisk, change: impl FnOnce(&mut EngineOptions)) -> Self {
        let options = options(Path::new("/data"));
        Self::open(tempfile::tempdir().unwrap(), Some(disk.clone()), options, change)
    }

    fn open(
        dir: tempfile::TempDir,
        disk: Option<SimDisk>,
        mut options: EngineOptions,
        change: impl FnOnce(&mut EngineOptions),
    ) -> Self {
        options.chunk_size = CHUNK as u32;
        change(&mut options);
        let clock = Arc::new(TestClock {
            system: SystemClock::new(),
            ahead_ms: AtomicU64::new(0),
            stopped_ms: AtomicU64::new(0),
        });
        let mut steps = Self { _dir: dir, options, stepper: None, disk, clock };
        steps.reopen();
        steps
    }

    pub fn advance(&self, by: Duration) {
        self.clock.ahead_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }

    /// From now on, only `advance` changes the time of day.
    pub fn stop_clock(&self, at_ms: u64) {
        self.clock.stopped_ms.store(at_ms, Ordering::Relaxed);
    }

    pub fn with_level(level: RefLevel) -> Self {
        Self::with(|options| options.ref_level = level)
    }

    pub fn reopen(&mut self) {
        self.stepper = None;
        let mut environment = environment();
        environment.clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        if let Some(disk) = &self.disk {
            environment.fs = Arc::new(disk.clone());
            environment.index = IndexPlace::Memory(None);
        }
        self.stepper = Some(Stepper::open(self.options.clone(), environment).unwrap());
    }

    /// Opens the store without its index, which is built again from the log.
    pub fn rebuild(&mut self) {
        self.stepper = None;
        for name in ["index.db", "index.db-wal", "index.db-shm"] {
            let _ = std::fs::remove_file(self.options.data.join(name));
        }
        self.reopen();
    }

    pub fn path(&self) -> &Path {
        &self.options.data
    }

    pub fn stepper(&mut self) -> &mut Stepper {
        self.stepper.as_mut().unwrap()
    }

    pub fn handle(&self) -> &super::super::Handle {
        self.stepper.as_ref().unwrap().handle()
    }

    pub fn shared(&self) -> &Arc<EngineState> {
        &self.handle().shared
    }

    pub fn submit(&self, intent: Intent) -> Submitted {
        let (sink, answer) = ChannelSink::pair();
        self.handle().submit(intent, Cause::Engine, Waiter::new(sink, 0));
        Submitted(answer)
    }

    pub fn run(&mut self, intent: Intent) -> Result<Outcome, Failure> {
        let submitted = self.submit(intent);
        self.stepper().commit();
        submitted.answer()
    }

    pub fn apply(&mut self) {
        self.stepper().apply().unwrap();
    }

    pub fn bucket(&mut self, name: &'static str) -> Arc<Bucket> {
        self.bucket_of(name, "root", BucketSettings::default())
    }

    pub fn bucket_of(&mut self, name: &'static str, owner: &'static str, settings: BucketSettings) -> Arc<Bucket> {
        let (name, owner, location) = (name.into(), owner.into(), Bytes::new());
        match self.run(Intent::CreateBucket { name, owner, location, settings, object_lock: false, documents: vec![] })
        {
            Ok(Outcome::Bucket(bucket)) => bucket,
            other => panic!("{other:?}"),
        }
    }

    pub fn body(&self, bucket: &Bucket, bytes: &[u8]) -> Body {
        if bytes.len() <= 65_536 {
            return self.handle().content().small_body(bucket, Bytes::copy_from_slice(bytes));
        }
        self.large_body(bucket, bytes)
    }

    pub fn large_body(&self, bucket: &Bucket, bytes: &[u8]) -> Body {
        let mut writer = self.handle().content().body_writer(bucket, &Default::default(), bytes.len() as u64).unwrap();
        for piece in bytes.chunks(70_001) {
            writer.write(piece, &mut ()).unwrap();
        }
        writer.finish().unwrap()
    }

    pub fn put_of(bucket: &Bucket, key: &str, bytes: &[u8], body: Body) -> PutObject {
        PutObject {
            bucket: bucket.id,
            key: Bytes::copy_from_slice(key.as_bytes()),
            modified_ms: None,
            precondition: Precondition::default(),
            size: bytes.len() as u64,
            md5: Md5Hasher::digest(bytes),
            sha256: None,
            checksum: None,
            headers: ObjectHeaders::default(),
            attributes: Default::default(),
            body,
        }
    }

    pub fn intent(&self, bucket: &Bucket, key: &str, bytes: &[u8]) -> Intent {
        Intent::PutObject(Box::new(Self::put_of(bucket, key, bytes, self.body(bucket, bytes))))
    }

    /// Puts and returns the blobs that the object names, in order.
    pub fn put(&mut self, bucket: &Bucket, key: &str, bytes: &[u8]) -> Vec<Sequence> {
        let intent = self.intent(bucket, key, bytes);
        self.run(intent).unwrap();
        self.blobs(bucket, key)
    }

    pub fn delete(&mut self, bucket: &Bucket, key: &str) {
        let key = Bytes::copy_from_slice(key.as_bytes());
        self.run(Intent::DeleteObject {
            bucket: bucket.id,
            key,
            precondition: Precondition::default(),
            version: None,
            bypass: false,
        })
        .unwrap();
    }

    pub fn object(&self, bucket: &Bucket, key: &str) -> Arc<Object> {
        self.handle().object(bucket.id, &Bytes::copy_from_slice(key.as_bytes())).unwrap().unwrap().object
    }

    pub fn blobs(&self, bucket: &Bucket, key: &str) -> Vec<Sequence> {
        let object = self.object(bucket, key);
        let mut blobs = Vec::new();
        for extent in &object.version.manifest {
            match extent {
                Extent::Blob { blob, .. } => blobs.push(*blob),
                Extent::Segment { segment, .. } => {
                    let extents = self.shared().catalog.segment(*segment).unwrap();
                    blobs.extend(extents.iter().map(|extent| match extent {
                        Extent::Blob { blob, .. } => *blob,
                        other => panic!("{other:?}"),
                    }));
                }
                Extent::Inline(_) => panic!("inline"),
            }
        }
        blobs
    }

    pub fn get(&self, bucket: &Bucket, key: &str) -> Vec<u8> {
        let object = self.object(bucket, key);
        let last = object.version.size.saturating_sub(1);
        let found = PinnedObject::new(object, self.handle().pin_epoch());
        let mut reader = self.handle().content().reader(&found, 0, last);
        let (mut out, mut buf) = (Vec::new(), vec![0; 50_000]);
        loop {
            match reader.read(&mut buf).unwrap() {
                0 => return out,
                read => out.extend_from_slice(&buf[..read]),
            }
        }
    }

    pub fn fingerprint(&self, bucket: &Bucket, bytes: &[u8]) -> Fingerprint {
        orcas_store::fingerprint(&self.shared().content.scope(&bucket.owner), bytes)
    }

    /// References that the index counts; `None` when it does not have the blob.
    pub fn refs(&self, blob: Sequence) -> Option<u64> {
        self.shared().catalog.index.read().unwrap().blob_refs(blob).unwrap()
    }

    /// Bytes that all packs together take.
    pub fn packed(&self) -> u64 {
        self.shared().packs.files().unwrap().iter().map(|file| file.length).sum()
    }
}
