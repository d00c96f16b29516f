//! The reclaimer: what is in progress, what waits to be removed, and what every kind of work needs.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::maintenance::{MaintenanceIntent, MaintenanceReply};
use super::super::state::EngineState;
use super::limits::Step;
use super::requests::Reclaimed;
use crate::reclaim::files::compaction::{Compaction, Estimates};
use crate::reclaim::files::left_to_renew::Renewal;
use crate::reclaim::files::pack_space::{Move, Sweep};
use orcas_base::error::Error;
use orcas_base::sync::Mutex;
use orcas_catalog::BucketTable;
use orcas_catalog::LayerMerge;
use orcas_log::{CompactedLog, LogFiles};
use orcas_record::{BlobLocation, LogFileId, PackId, Sequence};

/// What is removed once no reader needs it any more.
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

/// What is done once a submitted intent is applied.
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

/// What is in progress.
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
    /// Where the next look for dead blobs begins.
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
    /// What a request that leaves nothing dead in files has still to look at.
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
