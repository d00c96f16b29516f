//! The reclaimer: what is in progress, what comes next, what follows the answer to a submitted intent, and what waits to
//! be removed.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::maintenance::{MaintenanceIntent, MaintenanceOutcome, MaintenanceReply};
use super::super::state::EngineState;
use super::limits::{ReclaimLimits, Step};
use super::requests::Reclaimed;
use crate::reclaim::files::compaction::{Compaction, Estimates};
use crate::reclaim::files::left_to_renew::Renewal;
use crate::reclaim::files::pack_space::{Move, Sweep};
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_base::sync::Mutex;
use orcas_catalog::{BucketTable, LayerMerge};
use orcas_log::{CompactedLog, LogFiles};
use orcas_record::{BlobLocation, LogFileId, PackId, Sequence};

/// A file, pack or list of blobs to be removed once no reader needs it any more.
pub(super) enum DeferredRemoval {
    Log(LogFileId),
    Pack(PackId),
    /// Condemned blobs that a lookup from before may still know.
    Blobs(Vec<Sequence>),
    /// Chunks were moved out of this pack. Their old places count as gaps once their readers are gone.
    Moved(PackId),
}

impl DeferredRemoval {
    pub fn vacated(&self) -> Option<PackId> {
        match self {
            Self::Moved(pack) | Self::Pack(pack) => Some(*pack),
            Self::Log(_) | Self::Blobs(_) => None,
        }
    }
}

/// The work that follows once a submitted intent is applied.
pub(super) enum FollowUp {
    Condemned(Vec<(Sequence, BlobLocation)>),
    /// Everything that had been decided before is in the index.
    Settled(Vec<(Sequence, BlobLocation)>),
    Moved(PackId),
    Retired(PackId),
    /// A pack that no record names.
    Discarded(PackId),
    Replaced(Box<CompactedLog>),
    /// A part of a layer was removed.
    Emptied,
    /// A part of a layer was moved to the one below.
    Merged,
    /// The request covers everything up to the last record that was decided before it.
    Limited,
    Nothing,
}

/// The work in progress.
pub(super) enum Activity {
    Idle,
    /// Every reader of `epoch` may know these blobs through an object.
    Chosen {
        epoch: u64,
        blobs: Vec<(Sequence, BlobLocation)>,
    },
    Submitted {
        answer: Arc<MaintenanceReply>,
        after: FollowUp,
        then: Box<Activity>,
    },
    Rewriting(Box<Compaction>),
    Emptying(Move),
    Sweeping(Sweep),
}

/// Reclamation between two steps.
pub struct Reclaimer {
    pub(super) shared: Arc<EngineState>,
    pub(super) logs: LogFiles,
    pub(super) activity: Activity,
    pub(super) removals: Vec<(u64, DeferredRemoval)>,
    pub(super) estimates: Estimates,
    /// The sequence from which the next look for dead blobs begins.
    pub(super) cursor: Sequence,
    /// Later records are ignored, so that a request ends.
    pub(super) limit: Sequence,
    pub(super) turn: u8,
    /// Packs whose gaps were punched out lately, and those in which nothing could be done lately.
    pub(super) swept: HashSet<PackId>,
    pub(super) passed: HashSet<PackId>,
    /// Since when, on the monotonic clock.
    pub(super) passed_since: Duration,
    /// Log files that could not be rewritten lately.
    pub(super) passed_logs: HashSet<LogFileId>,
    /// The rest of a request that leaves nothing dead in files.
    pub(super) renewal: Option<Renewal>,
    /// Layers that could be merged, but for the size of a decision.
    pub(super) kept_apart: BTreeSet<LayerMerge>,
    /// The buckets when no layers could be merged.
    pub(super) merged: Option<Arc<BucketTable>>,
    pub(super) done: Arc<Mutex<Reclaimed>>,
}

impl Reclaimer {
    pub fn new(shared: Arc<EngineState>, logs: LogFiles, done: Arc<Mutex<Reclaimed>>) -> Self {
        Self {
            shared,
            logs,
            activity: Activity::Idle,
            removals: Vec::new(),
            estimates: Estimates::default(),
            cursor: 0,
            limit: Sequence::MAX,
            turn: 3,
            swept: HashSet::new(),
            passed: HashSet::new(),
            passed_since: Duration::ZERO,
            passed_logs: HashSet::new(),
            renewal: None,
            kept_apart: BTreeSet::new(),
            merged: None,
            done,
        }
    }

    /// The name of the work in progress, for reports; `None` between two pieces of work.
    pub fn doing(&self) -> Option<&'static str> {
        Some(match &self.activity {
            Activity::Idle if self.removals.is_empty() => return None,
            Activity::Idle => "removal",
            Activity::Chosen { .. } => "waiting for readers",
            Activity::Submitted { after, .. } => match after {
                FollowUp::Condemned(_) => "CondemnBlobs",
                FollowUp::Moved(_) => "MoveChunks",
                FollowUp::Retired(_) => "RetirePack",
                FollowUp::Discarded(_) => "discarding a pack",
                FollowUp::Replaced(_) => "ReplaceLog",
                FollowUp::Emptied => "removal of a layer",
                FollowUp::Merged => "merge of layers",
                FollowUp::Settled(_) | FollowUp::Limited | FollowUp::Nothing => "barrier",
            },
            Activity::Rewriting(_) => "compaction of the log",
            Activity::Emptying(_) => "emptying a pack",
            Activity::Sweeping(_) => "sweeping a pack",
        })
    }

    /// Describes the work in progress and the work done.
    #[cfg(feature = "shuttle")]
    pub fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (doing, removals) = (self.doing(), self.removals.len());
        write!(f, "{doing:?}, {removals} removals, {:?}, logs {:?}", *self.done.lock(), self.logs.closed())
    }

    /// Looks at everything again, also at what was not worth it.
    pub fn refresh(&mut self) {
        self.cursor = 0;
        self.swept.clear();
        self.passed.clear();
        self.passed_logs.clear();
        self.kept_apart.clear();
        self.merged = None;
        self.estimates.forget();
    }

    /// Does the next piece of work. Blocks only for files, never for a commit or a reader.
    ///
    /// # Errors
    /// What reading or writing a file ran into, and `ReadOnly`; the work under way is given up, nothing is lost.
    pub fn step(&mut self, limits: &ReclaimLimits) -> Result<Step> {
        self.shared.faults.check_writable()?;
        let pause = Arc::clone(&self.shared.catalog.reclaim_pause);
        // No pause begins before the end of the step, and during a pause nothing is moved or removed.
        let Some(_step) = pause.step() else { return Ok(Step::Waiting) };
        if self.remove_next()? {
            return Ok(Step::Worked { bytes: 0 });
        }
        match std::mem::replace(&mut self.activity, Activity::Idle) {
            Activity::Idle => self.choose(limits),
            Activity::Chosen { epoch, blobs } => Ok(self.condemn(epoch, blobs)),
            Activity::Submitted { answer, after, then } => self.submitted(limits, answer, after, then),
            Activity::Rewriting(compaction) => self.rewrite(compaction),
            Activity::Emptying(moving) => self.empty(moving),
            Activity::Sweeping(sweep) => self.sweep(sweep),
        }
    }

    /// Removes one thing that has no readers left.
    fn remove_next(&mut self) -> Result<bool> {
        let blind = planted::is(Bug::UnlinkWithoutReaders);
        let Some(at) = self.removals.iter().position(|(epoch, _)| blind || self.shared.catalog.epochs.is_over(*epoch))
        else {
            return Ok(false);
        };
        if matches!(self.removals.get(at), Some((_, DeferredRemoval::Log(_)))) {
            // Without a checkpoint, an index that falls back into this file after a power cut must be rebuilt. When
            // there is no room for a checkpoint, that is accepted, because removing the file makes room.
            match self.shared.catalog.index.checkpoint() {
                Ok(_) | Err(Error::StorageFull) => {}
                Err(error) => return Err(error),
            }
        }
        // What cannot be removed is not tried again: it may be gone already, and the next start removes it.
        match self.removals.swap_remove(at).1 {
            DeferredRemoval::Log(file) => {
                self.logs.remove(file)?;
                tracing::debug!(%file, "A log file was reclaimed");
            }
            DeferredRemoval::Pack(pack) => {
                self.shared.packs.retire(pack)?;
                tracing::debug!(%pack, "A pack was reclaimed");
            }
            DeferredRemoval::Blobs(blobs) => self.shared.catalog.pins.forget(&blobs),
            DeferredRemoval::Moved(_) => {}
        }
        Ok(true)
    }

    /// Layers, blobs, packs and log files take turns, so that none of them starves while clients keep deleting.
    fn choose(&mut self, limits: &ReclaimLimits) -> Result<Step> {
        for _ in 0..4 {
            self.turn = (self.turn + 1) % 4;
            let step = match self.turn {
                0 => match self.choose_layer()? {
                    None => self.choose_merge()?,
                    step => step,
                },
                1 => self.choose_blobs()?,
                2 => self.choose_pack(limits)?,
                _ if limits.compact && self.renewal.is_none() => self.choose_logs(limits)?,
                _ => None,
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
        // When nothing is left to condemn.
        if let Some(step) = self.choose_renewal(limits)? {
            return Ok(step);
        }
        Ok(if self.removals.is_empty() { Step::Idle } else { Step::Waiting })
    }

    fn submitted(
        &mut self,
        limits: &ReclaimLimits,
        answer: Arc<MaintenanceReply>,
        after: FollowUp,
        then: Box<Activity>,
    ) -> Result<Step> {
        let Some(outcome) = answer.get() else {
            self.activity = Activity::Submitted { answer, after, then };
            return Ok(Step::Waiting);
        };
        let MaintenanceOutcome { blobs, changed, last } = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.give_up(&after);
                // Work that a request has interrupted continues, except a sweep or a move, which may depend on this
                // answer.
                if matches!(*then, Activity::Submitted { .. } | Activity::Chosen { .. } | Activity::Rewriting(_)) {
                    self.activity = *then;
                }
                return Err(error);
            }
        };
        let early = matches!(after, FollowUp::Replaced(_)) && planted::is(Bug::ReplaceLogBeforeApplied);
        if !self.shared.applies.has(last) && !early {
            // A merge has many parts, and each waits for the one before.
            if limits.hurry || matches!(after, FollowUp::Merged) {
                self.shared.applies.hurry();
            }
            self.activity = Activity::Submitted { answer, after, then };
            return Ok(Step::Waiting);
        }
        self.activity = *then;
        if matches!(after, FollowUp::Limited) {
            self.limit = last;
        }
        self.applied(after, &blobs, changed)?;
        Ok(Step::Worked { bytes: 0 })
    }

    /// The records are in the index: nothing that is looked up from now on leads to the old places.
    fn applied(&mut self, after: FollowUp, done: &[Sequence], changed: bool) -> Result<()> {
        match after {
            FollowUp::Condemned(blobs) => self.condemned(&blobs, done),
            FollowUp::Settled(blobs) => self.settled(blobs)?,
            FollowUp::Moved(pack) => self.defer([DeferredRemoval::Moved(pack)]),
            FollowUp::Retired(pack) if !changed => drop(self.passed.insert(pack)),
            FollowUp::Retired(pack) => {
                self.done.lock().packs += 1;
                self.defer([DeferredRemoval::Pack(pack)]);
            }
            FollowUp::Discarded(pack) => self.discard(pack)?,
            FollowUp::Replaced(compacted) => self.replaced(*compacted),
            FollowUp::Emptied | FollowUp::Merged | FollowUp::Limited | FollowUp::Nothing => {}
        }
        Ok(())
    }

    /// Waits for the index to have everything that was decided; with `roll` the log file in use ends there, so that it
    /// can be compacted; when `limited`, what comes later is left alone until `unlimited`.
    pub fn settle(&mut self, roll: bool, limited: bool) -> Step {
        self.unlimited();
        let after = if limited { FollowUp::Limited } else { FollowUp::Nothing };
        let then = std::mem::replace(&mut self.activity, Activity::Idle);
        self.submit(MaintenanceIntent::Barrier { roll }, after, then)
    }

    /// Lifts the limit of a request, also of one that ended before its barrier was answered.
    pub fn unlimited(&mut self) {
        self.limit = Sequence::MAX;
        let mut activity = &mut self.activity;
        while let Activity::Submitted { after, then, .. } = activity {
            if matches!(after, FollowUp::Limited) {
                *after = FollowUp::Nothing;
            }
            activity = then;
        }
    }

    pub(super) fn submit(&mut self, intent: MaintenanceIntent, after: FollowUp, then: Activity) -> Step {
        match self.shared.submit_maintenance(intent) {
            Some(answer) => {
                self.activity = Activity::Submitted { answer, after, then: Box::new(then) };
                Step::Worked { bytes: 0 }
            }
            None => Step::Idle,
        }
    }

    /// The commit failed.
    pub(super) fn give_up(&mut self, after: &FollowUp) {
        match after {
            // Nothing was condemned: the blobs may be hit again, and chosen again.
            FollowUp::Condemned(blobs) => {
                let blobs: Vec<Sequence> = blobs.iter().map(|(blob, _)| *blob).collect();
                self.shared.catalog.pins.forget(&blobs);
                self.shared.reclaim.candidates.drop(blobs.into_iter());
            }
            FollowUp::Settled(blobs) => self.shared.reclaim.candidates.drop(blobs.iter().map(|(blob, _)| *blob)),
            // Whether the record is on the disk is decided at the next start, which needs the new file then: the old
            // ones stay claimed.
            FollowUp::Replaced(_) => {}
            FollowUp::Moved(_)
            | FollowUp::Retired(_)
            | FollowUp::Discarded(_)
            | FollowUp::Emptied
            | FollowUp::Merged
            | FollowUp::Limited
            | FollowUp::Nothing => {}
        }
    }

    /// Removes these things later: nothing leads to them from now on, but earlier readers may still use them.
    pub(super) fn defer(&mut self, removals: impl IntoIterator<Item = DeferredRemoval>) {
        self.shared.catalog.cache.clear();
        let epoch = self.shared.catalog.epochs.end();
        self.removals.extend(removals.into_iter().map(|removal| (epoch, removal)));
    }
}

/// Whether what met the error is skipped for a while. What lacked room is tried again.
pub(super) fn passes_over(error: &Error) -> bool {
    !matches!(error, Error::StorageFull)
}
