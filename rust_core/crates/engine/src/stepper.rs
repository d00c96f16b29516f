//! The pipeline of the engine without threads: its owner decides what happens next. For simulations and tests.

use std::sync::Arc;

use super::commit::Committer;
use super::events::Follower;
use super::handle::Handle;
use super::options::{EngineOptions, Environment};
use super::reclaim::{ReclaimLimits, Reclaimer, Step};
use super::upkeep::UpkeepTask;
use crate::commit::apply::Applier;
use crate::opening::open::{Opened, open};
use orcas_base::error::Result;
use orcas_catalog::fill_prefix_hash_filter;
use orcas_decide::{Intent, MovePrefix};

pub struct Stepper {
    handle: Handle,
    pub(super) committer: Committer,
    applier: Applier,
    follower: Option<Follower>,
    pub(super) reclaimer: Reclaimer,
    _lock: Box<dyn Send + Sync>,
    _tasks: crossbeam_channel::Receiver<UpkeepTask>,
}

impl Stepper {
    /// # Errors
    /// As [`super::Engine::open`].
    pub fn open(options: EngineOptions, environment: Environment) -> Result<Self> {
        let Opened { shared, committer, applier, follower, logs, tasks, lock, .. } = open(options, environment)?;
        let reclaimer = Reclaimer::new(Arc::clone(&shared), logs, Arc::clone(&shared.reclaim.done));
        Ok(Self { handle: Handle { shared }, reclaimer, committer, applier, follower, _lock: lock, _tasks: tasks })
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs one round of the committer: decides the intents that wait, and makes them as durable as they have to be.
    /// Does nothing while the index is too far behind, or awaited.
    pub fn commit(&mut self) {
        if !self.handle.shared.applies.full() && !self.awaits_index() {
            self.committer.step();
        }
    }

    /// Whether a write waits until the index has everything, as what it holds is to be counted for a quota.
    pub fn awaits_index(&self) -> bool {
        self.committer.awaits_index()
    }

    /// Ends the log as a clean end does. Nothing may be done with the store any more.
    pub fn close(&mut self) {
        self.committer.close();
    }

    /// Runs one transaction of the applier.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn apply(&mut self) -> Result<()> {
        self.applier.step()
    }

    /// Runs one look at the events that the journal lacks. `hurry`: they are made durable as well.
    ///
    /// # Errors
    /// When the journal cannot be written or the log not be read.
    pub fn follow_events(&mut self, hurry: bool) -> Result<()> {
        if hurry {
            self.handle.shared.events.hurry();
        }
        self.follower.as_mut().map_or(Ok(()), Follower::step)
    }

    /// The intent that [`Handle::move_prefix`] would submit.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn move_intent(&self, request: &MovePrefix) -> Result<Intent> {
        self.handle.move_intent(request)
    }

    /// The next piece of reclamation.
    ///
    /// # Errors
    /// As [`Reclaimer::step`].
    pub fn reclaim(&mut self, limits: &ReclaimLimits) -> Result<Step> {
        self.reclaimer.step(limits)
    }

    /// The piece of reclamation that is under way.
    pub fn reclaiming(&self) -> Option<&'static str> {
        self.reclaimer.doing()
    }

    /// Looks at everything again; with `roll` the log file in use can be compacted too.
    pub fn refresh_reclamation(&mut self, roll: bool) {
        self.reclaimer.refresh();
        self.reclaimer.settle(roll, false);
    }

    /// Makes the next log file ready.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn make_spare(&self) -> Result<()> {
        self.handle.shared.space.make_spare()
    }

    /// Fills the filter of shared blobs.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn fill_prefix_hashes(&self) -> Result<()> {
        fill_prefix_hash_filter(&self.handle.shared.catalog)
    }

    /// The state of an index in memory, as a later [`super::IndexPlace::Memory`] takes it.
    ///
    /// # Errors
    /// When the index is a file.
    pub fn serialized_index(&self) -> Result<Vec<u8>> {
        self.handle.shared.catalog.index.serialize()
    }

    /// The canonical dump of the index.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn index_dump(&self) -> Result<String> {
        self.handle.shared.catalog.index.dump()
    }
}
