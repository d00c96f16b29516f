//! The storage engine: the only place that joins log, chunks, index and decisions, and the owner of the commit order.
//!
//! A mutation is submitted and completes later: decide, append, sync, publish, acknowledge (`commit`), apply
//! (`apply`). Reads see index and overlay together (`reads`, `list`, `uploads`). Threads only drive steps; clock,
//! randomness, file system and index come from outside. The engine knows neither Python nor HTTP.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files by hand"))]

mod apply;
mod ballast;
mod body;
mod buckets;
mod cache;
mod check;
mod commit;
mod copy;
mod epochs;
mod health;
mod hold;
mod instant;
mod keys;
mod leaving;
mod list;
mod mend;
mod mentions;
mod open;
mod overlay;
mod queue;
mod reads;
mod reclaim;
mod recover;
mod salvage;
#[cfg(feature = "shuttle")]
pub mod scheduled;
mod sharing;
mod stepper;
mod uploads;
mod usage;
mod view;
mod waiter;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use orcas_base::buffers::{BufferCounts, Buffers};
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::{AtomicU64, Ordering};
use orcas_base::sync::{Mutex, RwLock};
use orcas_chunks::Packs;
use orcas_decide::{Body, Failure, Intent, Outcome};
use orcas_fs::{FileSystem, Random};
use orcas_index::{Connections, Index};
use orcas_log::{LogReader, SpareMaker};
use orcas_record::{Bucket, BucketId, Durability, RefLevel};

use ballast::Ballast;
use buckets::BucketTable;
use cache::ObjectCache;
use epochs::Epochs;
use health::Troubles;
use hold::Holds;
use keys::StoreKeys;
use leaving::Leaving;
use mend::Mending;
use overlay::Overlay;
use queue::{AppendedBatch, ApplyQueue, IntentQueue, Sequenced};
use reclaim::{Candidates, Requests};
use sharing::{Heads, HeldBytes, Pins};
use waiter::ChannelSink;

pub use body::{BodyWriter, Witness};
pub use check::{
    CheckOptions, CheckProgress, CheckReport, FINDINGS_MAX, Finding, FindingKind, GivenUp, Group, IndexState,
    LOSSES_MAX, Loss, Repaired, ScrubDamage, ScrubProgress, check_store, repair_store,
};
pub use copy::{CopyPartRequest, CopyRequest};
pub use epochs::EpochPin;
pub use health::{Condition, Health, Part, Space};
pub use hold::{HeldFile, Hold};
pub use list::{ListEntry, ListObjects, ListPage, Listed, PageSink};
pub use open::Engine;
pub use queue::{LAG_BYTES_MAX, LAG_RECORDS_MAX};
pub use reads::{Found, ObjectReader};
pub use reclaim::{Effort, Policy, ReclaimProgress, Reclaimed, Step};
pub use recover::{IndexPlace, Replayed};
pub use salvage::{SalvageReport, SalvageSource, salvage_store};
pub use stepper::Stepper;
pub use uploads::{ListParts, ListUploads, PartEntry, PartPage, UploadEntry, UploadPage};
pub use usage::{BucketUsage, FilesUsage, Usage};
pub use waiter::{CompletionSink, Waiter};

/// Everything the engine can be told; the defaults stand in the control plane.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The directory of the store; made when it is not there.
    pub data: PathBuf,
    /// Off: every mutation is a commit of its own.
    pub batch_write_enabled: bool,
    /// How long `buffered` writes may wait for their flush.
    pub write_buffer_window: Duration,
    /// Bytes of bodies that a batch holds at most.
    pub max_write_buffer_size: u64,
    /// Mutations that a batch holds at most.
    pub max_write_buffer_count: u32,
    /// Bytes; for buckets that have no chunk size of their own.
    pub chunk_size: u32,
    pub durability: Durability,
    /// For buckets that have no reference level of their own.
    pub ref_level: RefLevel,
    /// How long `interval` writes may wait for their sync.
    pub sync_interval: Duration,
    /// Read connections of the index.
    pub db_max_open: u32,
    pub db_max_idle: u32,
    pub db_lifetime: Duration,
    /// Bytes a log file is made with.
    pub log_file_size: u64,
    /// Bytes after which a new pack is begun.
    pub pack_size: u64,
    /// Bytes a second that background reclamation reads and writes at most; 0 for no bound.
    pub reclaim_rate: u64,
    /// Bytes a second that the scrub reads; 0 for no scrub.
    pub scrub_rate: u64,
    /// Free bytes below which writes that add content are refused, so that deletions and the index go on.
    pub reserve: u64,
    /// Bytes that the store takes at most to have room when the disk has none; 0 for none.
    pub ballast: u64,
    /// Off: memory is allocated whenever it is needed and freed at once, and read connections of the index are opened and
    /// closed for each use, instead of being used again.
    pub pooling_enabled: bool,
}

/// What the engine takes from the world.
#[derive(Clone)]
pub struct Environment {
    pub fs: Arc<dyn FileSystem>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub index: IndexPlace,
}

pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
    /// Never goes back.
    fn monotonic(&self) -> Duration;
}

/// The clock of the machine.
pub struct SystemClock {
    started: std::time::Instant,
}

impl SystemClock {
    #[expect(clippy::new_without_default, reason = "a clock is asked for, never defaulted")]
    pub fn new() -> Self {
        Self { started: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the clock that is handed to the engine")]
    fn now_ms(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// What is kept to be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    pub enabled: bool,
    pub buffers: BufferCounts,
    pub connections: Connections,
}

/// Work beside the pipeline.
enum Task {
    Spare,
    /// There may be room for the ballast.
    Ballast,
    Checkpoint,
    /// The filter of shared blobs is wanted, or wanted larger.
    Heads,
    Stop,
}

/// Log bytes after which the index's write-ahead log is checkpointed.
const CHECKPOINT_BYTES: u64 = 32 << 20;

struct Shared {
    options: EngineOptions,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    keys: StoreKeys,
    scopes: Mutex<HashMap<Bytes, [u8; 32]>>,
    intents: IntentQueue,
    applies: ApplyQueue,
    candidates: Candidates,
    pins: Arc<Pins>,
    reclaim: Requests,
    scrub: check::Scrub,
    overlay: RwLock<Overlay>,
    buckets: RwLock<Arc<BucketTable>>,
    cache: ObjectCache,
    epochs: Arc<Epochs>,
    leaving: Arc<Leaving>,
    holds: Arc<Holds>,
    mending: Arc<Mending>,
    heads: Heads,
    held: Arc<HeldBytes>,
    buffers: Arc<Buffers>,
    index: Index,
    log_reader: LogReader,
    spares: SpareMaker,
    packs: Packs,
    ballast: Ballast,
    troubles: Troubles,
    tasks: crossbeam_channel::Sender<Task>,
    since_checkpoint: AtomicU64,
}

impl Shared {
    /// Makes records visible: the overlay first, then what the cache has of their keys goes.
    fn publish(&self, records: &[Arc<Sequenced>], buckets: &Arc<BucketTable>) {
        self.note_heads(records);
        {
            let mut overlay = self.overlay.write();
            for record in records {
                overlay.insert(record.sequence, &record.record);
            }
        }
        if records.iter().any(|record| BucketTable::concerns(&record.record)) {
            *self.buckets.write() = Arc::clone(buckets);
        }
        for record in records {
            for (bucket, key) in overlay::keys_of(&record.record) {
                self.cache.remove(bucket, key);
            }
        }
    }

    /// Takes what the index has out of the overlay, a few records at a time.
    fn trim(&self, batches: &[AppendedBatch], at_a_time: usize) {
        for batch in batches {
            for records in batch.records.chunks(at_a_time) {
                let mut overlay = self.overlay.write();
                for record in records {
                    overlay.trim(record.sequence, &record.record);
                }
            }
        }
    }

    fn note_applied(&self, bytes: u64) {
        if self.since_checkpoint.fetch_add(bytes, Ordering::Relaxed) + bytes >= CHECKPOINT_BYTES {
            self.since_checkpoint.store(0, Ordering::Relaxed);
            self.request(Task::Checkpoint);
        }
    }

    fn request(&self, task: Task) {
        // Nobody listens in a test that drives the steps itself, or after the end.
        let _ = self.tasks.try_send(task);
    }

    /// The key of an owner's scope.
    fn scope(&self, owner: &Bytes) -> [u8; 32] {
        *self.scopes.lock().entry(owner.clone()).or_insert_with(|| self.keys.scope(owner))
    }

    /// Gives back what lies unused: buffers that were not needed since the last call, connections that are too old.
    fn tidy(&self) {
        self.buffers.trim();
        self.index.close_expired_readers();
        self.request(Task::Ballast);
    }

    /// The committer or the applier has panicked.
    fn writing_died(&self) {
        self.stop_writing("a thread that writes has panicked; restart the server".into());
        self.applies.fail();
        for waiter in self.intents.abandon() {
            waiter.tell(Err(Failure::Engine(self.refusal())));
        }
    }

    /// Why nothing is written.
    fn refusal(&self) -> Error {
        self.check_writable().err().unwrap_or(Error::Closed)
    }

    fn bucket_by_name(&self, name: &[u8]) -> Option<Arc<Bucket>> {
        self.buckets.read().by_name(name).cloned()
    }
}

/// What callers share: everything but opening and closing.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    /// Queues a mutation; never blocks. The waiter is told when it is decided.
    pub fn submit(&self, intent: Intent, waiter: Waiter) {
        if let Err(waiter) = self.shared.intents.push(intent, waiter) {
            waiter.tell(Err(Failure::Engine(self.shared.refusal())));
        }
    }

    /// Submits and waits. For threads that may block.
    ///
    /// # Errors
    /// As [`orcas_decide::decide`], and what the commit ran into.
    pub fn execute(&self, intent: Intent) -> Result<Outcome, Failure> {
        let (sink, answer) = ChannelSink::pair();
        self.submit(intent, Waiter::new(sink, 0));
        answer.recv().unwrap_or(Err(Failure::Engine(Error::Closed)))
    }

    /// From memory; never blocks.
    pub fn bucket(&self, name: &[u8]) -> Option<Arc<Bucket>> {
        self.shared.bucket_by_name(name)
    }

    /// All buckets in byte order of their names, from memory.
    pub fn buckets(&self) -> Vec<Arc<Bucket>> {
        self.shared.buckets.read().all().cloned().collect()
    }

    /// An object as memory knows it; `None` when only [`Handle::object`] can tell.
    pub fn try_object(&self, bucket: BucketId, key: &Bytes) -> Option<Option<Found>> {
        self.shared.try_object(bucket, key)
    }

    /// Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn object(&self, bucket: BucketId, key: &Bytes) -> Result<Option<Found>> {
        self.shared.object(bucket, key)
    }

    /// Fills `buf` with the object's bytes from `first` on, verified. `Ok(false)`, with `buf` undefined, when that
    /// would wait for the disk or the content is in several pieces: use a reader.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes are not the ones that were stored.
    pub fn try_read(&self, found: &Found, first: u64, buf: &mut [u8]) -> Result<bool> {
        self.shared.try_read_small(found, first, buf)
    }

    /// Keeps everything that can be found from now on readable while the pin lives.
    pub fn pin_epoch(&self) -> EpochPin {
        self.shared.epochs.pin()
    }

    /// Bytes `first..=last` of an object, which must lie inside it.
    pub fn reader(&self, found: &Found, first: u64, last: u64) -> ObjectReader {
        ObjectReader::new(Arc::clone(&self.shared), found, first, last)
    }

    /// A current object of `owner` with these bytes, to make another of. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn instant_source(&self, owner: &Bytes, sha256: &[u8; 32], size: u64) -> Result<Option<Found>> {
        self.shared.instant_source(owner, sha256, size)
    }

    /// A page of objects. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn list_objects(&self, list: &ListObjects) -> Result<ListPage> {
        self.shared.list_objects(list)
    }

    /// A page of objects, handed over while it is read. Returns its last key or common prefix when there is more.
    /// Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn list_objects_to(&self, list: &ListObjects, sink: &mut dyn PageSink) -> Result<Option<Bytes>> {
        self.shared.list_objects_to(list, sink)
    }

    /// A body that is all in memory, at most `record::CONTENT_MAX` bytes. Hashes it.
    pub fn small_body(&self, bucket: &Bucket, bytes: Bytes) -> Body {
        self.shared.small_body(bucket, bytes)
    }

    /// Where a body of `length` bytes is written while it arrives.
    pub fn body_writer(&self, bucket: &Bucket, length: u64) -> BodyWriter {
        BodyWriter::new(Arc::clone(&self.shared), bucket, length)
    }

    fn pools(&self) -> Pools {
        let shared = &self.shared;
        Pools {
            enabled: shared.options.pooling_enabled,
            buffers: shared.buffers.counts(),
            connections: shared.index.connections(),
        }
    }

    /// Memory for bodies on their way in and out.
    pub fn buffers(&self) -> &Arc<Buffers> {
        &self.shared.buffers
    }
}
