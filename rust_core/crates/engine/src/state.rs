//! The state of an open store that its threads and callers share: what they work on, and the requests that reach them.

use std::sync::Arc;

use super::clock::Clock;
use super::commit::queue::{ApplyQueue, IntentQueue, Submitted};
use super::content::Content;
use super::events::EventQueue;
use super::health::faults::Faults;
use super::health::space::DiskSpace;
use super::index_rebuild::RebuildRequests;
use super::lifecycle::LifecycleRequests;
use super::maintenance::{MaintenanceIntent, MaintenanceReply};
use super::metrics::EngineMetrics;
use super::options::EngineOptions;
use super::quotas::Quotas;
use super::reclaim::ReclaimRequests;
use super::scrub::ScrubStatus;
use super::upkeep::{Upkeep, UpkeepTask};
use orcas_base::error::Error;
use orcas_base::sync::atomic::AtomicBool;
use orcas_catalog::Catalog;
use orcas_chunks::Packs;
use orcas_decide::Failure;
use orcas_fs::{FileSystem, Random};
use orcas_log::LogFiles;
use orcas_store::StoreKeys;
use orcas_store::ballast::SMALLEST;

/// The parts of an open store that its threads share. No part knows the whole.
pub(super) struct EngineState {
    pub options: EngineOptions,
    pub fs: Arc<dyn FileSystem>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub keys: StoreKeys,
    pub catalog: Arc<Catalog>,
    pub content: Arc<Content>,
    pub packs: Arc<Packs>,
    pub intents: IntentQueue,
    pub applies: ApplyQueue,
    pub events: EventQueue,
    pub quotas: Quotas,
    pub reclaim: ReclaimRequests,
    pub scrub: ScrubStatus,
    pub lifecycle: LifecycleRequests,
    pub index_rebuild: Arc<RebuildRequests>,
    /// None in a store that only reads.
    pub logs: Option<LogFiles>,
    pub upkeep: Upkeep,
    pub space: Arc<DiskSpace>,
    pub faults: Arc<Faults>,
    pub metrics: Arc<EngineMetrics>,
    /// A prefix is being moved.
    pub moving: AtomicBool,
}

impl EngineState {
    /// Gives back what lies unused: buffers that were not needed since the last call, connections that are too old.
    pub fn tidy(&self) {
        self.content.buffers.trim();
        self.catalog.index.close_expired_readers();
        self.upkeep.request(UpkeepTask::Ballast);
    }

    /// Takes the ballast from room that the store can spare at work. An index that is being rebuilt goes first.
    pub fn fill_ballast(&self) {
        if !self.index_rebuild.is_wanted() {
            self.space.ballast.fill(SMALLEST);
        }
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
