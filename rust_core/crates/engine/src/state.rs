//! The state of an open store that its threads and callers share. Other files add what is done with it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::clock::Clock;
use super::events::{EventQueue, EventSink};
use super::index_rebuild::RebuildRequests;
use super::lifecycle::LifecycleRequests;
use super::maintenance::{MaintenanceIntent, MaintenanceReply};
use super::metrics::EngineMetrics;
use super::options::EngineOptions;
use super::quotas::standing::Standings;
use super::reclaim::{Candidates, ReclaimRequests};
use super::scrub::ScrubStatus;
use super::sharing::{FingerprintPins, HeadFilter, HeldBytes};
use crate::commit::queue::{ApplyQueue, IntentQueue, Submitted};
use crate::content::seal_ids::SealIds;
use crate::health::ballast::Ballast;
use crate::health::faults::Faults;
use orcas_base::buffers::Buffers;
use orcas_base::error::Error;
use orcas_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use orcas_base::sync::{Mutex, RwLock};
use orcas_catalog::Catalog;
use orcas_chunks::Packs;
use orcas_decide::{Failure, Quota};
use orcas_fs::{FileSystem, Random};
use orcas_journal::JournalFiles;
use orcas_log::{LogReader, SpareMaker};
use orcas_store::{ContentKeys, StoreKeys};

/// What the upkeep thread is asked to do.
pub(super) enum UpkeepTask {
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
/// What a record counts for at least: that of a deletion is short, but changes as many pages of the index as any other.
const CHECKPOINT_RECORD_BYTES: u64 = 512;

/// What all threads of an open store share.
pub(super) struct EngineState {
    pub options: EngineOptions,
    pub fs: Arc<dyn FileSystem>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub seal_ids: SealIds,
    pub keys: StoreKeys,
    pub scopes: Mutex<HashMap<Bytes, [u8; 32]>>,
    /// Set once, before the first request. Without it nothing is sealed, and what is sealed cannot be read.
    pub content_keys: OnceLock<Arc<dyn ContentKeys>>,
    /// Buckets with default encryption, as published.
    pub default_encryptions: AtomicU64,
    /// Whether any bucket is logged, as published.
    pub logs_buckets: AtomicBool,
    pub intents: IntentQueue,
    pub applies: ApplyQueue,
    pub events: EventQueue,
    /// Those of owners. Replaced as a whole.
    pub owner_quotas: RwLock<Arc<HashMap<Bytes, Quota>>>,
    pub standings: Standings,
    /// `None` if no events are kept.
    pub journal: Option<JournalFiles>,
    /// Set once.
    pub event_sink: OnceLock<Arc<dyn EventSink>>,
    pub candidates: Candidates,
    pub pins: Arc<FingerprintPins>,
    pub reclaim: ReclaimRequests,
    pub scrub: ScrubStatus,
    pub lifecycle: LifecycleRequests,
    pub metrics: Arc<EngineMetrics>,
    pub index_rebuild: Arc<RebuildRequests>,
    pub heads: HeadFilter,
    pub held: Arc<HeldBytes>,
    pub buffers: Arc<Buffers>,
    pub catalog: Catalog,
    pub log_reader: LogReader,
    pub spares: SpareMaker,
    pub packs: Packs,
    pub ballast: Ballast,
    pub faults: Faults,
    pub tasks: crossbeam_channel::Sender<UpkeepTask>,
    pub since_checkpoint: AtomicU64,
    /// UpdateVersion records that were published since the store was opened.
    pub updates: AtomicU64,
    /// A prefix is being moved.
    pub moving: AtomicBool,
}

impl EngineState {
    pub fn note_applied(&self, bytes: u64, records: usize) {
        let work = bytes.max(CHECKPOINT_RECORD_BYTES * records as u64);
        if self.since_checkpoint.fetch_add(work, Ordering::Relaxed) + work >= CHECKPOINT_BYTES {
            self.since_checkpoint.store(0, Ordering::Relaxed);
            self.request(UpkeepTask::Checkpoint);
        }
    }

    pub fn request(&self, task: UpkeepTask) {
        // Nobody listens in a test that drives the steps itself, or after the end.
        let _ = self.tasks.try_send(task);
    }

    /// The key of an owner's scope.
    pub fn scope(&self, owner: &Bytes) -> [u8; 32] {
        *self.scopes.lock().entry(owner.clone()).or_insert_with(|| self.keys.scope(owner))
    }

    /// Gives back what lies unused: buffers that were not needed since the last call, connections that are too old.
    pub fn tidy(&self) {
        self.buffers.trim();
        self.catalog.index.close_expired_readers();
        self.request(UpkeepTask::Ballast);
    }

    /// The committer or the applier has panicked.
    pub fn writing_died(&self) {
        self.faults.stop_writing("a thread that writes has panicked; restart the server".into());
        self.applies.fail();
        for submitted in self.intents.abandon() {
            match submitted {
                Submitted::S3(_, _, waiter) => waiter.complete(Err(Failure::Engine(self.refusal()))),
                Submitted::Maintenance(_, waiter) => waiter.complete(Err(self.refusal())),
            }
        }
    }

    /// Queues a mutation of the engine itself; never blocks. `None` when the queue is closed.
    pub fn submit_maintenance(&self, intent: MaintenanceIntent) -> Option<Arc<MaintenanceReply>> {
        let (reply, waiter) = MaintenanceReply::pair();
        self.intents.push(Submitted::Maintenance(intent, waiter), &*self.clock).is_none().then_some(reply)
    }

    /// Why nothing is written.
    pub fn refusal(&self) -> Error {
        self.faults.check_writable().err().unwrap_or(Error::Closed)
    }
}
