//! Builds a new index from the log while the damaged one serves, and replaces it.
//!
//! Invariants. Reclamation pauses meanwhile, so every file of the log stays and none is replaced. The applier pauses
//! while the files are switched, at a record that both indexes have reached: what follows is applied to the new one as
//! it would have been to the old one. While the index cannot be written, it is tried again; if the log or the index is
//! damaged for good, the store stops writing and reports it. Nothing is lost, because the log has everything.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::super::state::EngineState;
use super::mark::{REBUILT_NAME, mark, unmark};
use super::requests::Task;
use crate::health::faults::StorePart;
use crate::opening::recover::{apply_recovered, index_options};
use crate::upkeep::UpkeepTask;
use orcas_base::error::{Error, Result, StoreFault};
use orcas_index::{Index, Writer};
use orcas_log::{LogFiles, LogPosition, RecoveredBatch};
use orcas_record::Sequence;

/// Records that go into the index in one piece.
const RECORDS: usize = 16_384;
/// Records that may be left for the time in which the applier pauses.
const LEFT_MAX: Sequence = 10_000;
/// Times the log is followed before that, if writers are faster.
const FOLLOWS_MAX: usize = 8;
/// Indexes that are built within `WITHIN` before the disk counts as faulty.
const TIMES_MAX: usize = 3;
const WITHIN: Duration = Duration::from_secs(3600);

const UNDER_WAY: &str =
    "the index is damaged and is being rebuilt from the log; requests that need its damaged part are refused";
const NO_ROOM: &str = "the index is damaged and there is no room to rebuild it: free space on the disk";
const UNWRITABLE: &str = "the index cannot be written, which is tried again every ten seconds: check the disk and the lines of the log before";
const IN_VAIN: &str = "the index is damaged and could not be rebuilt: stop the server and run `orcas fsck`";
const TOO_OFTEN: &str = "the index was damaged repeatedly: stop the server, check the disk and run `orcas fsck`";

/// The thread, until `RebuildRequests::stop`.
pub(crate) fn run(shared: &Arc<EngineState>, logs: &LogFiles) {
    // When indexes were built because of damage, and because a write had failed, which says nothing of the pages.
    let (mut after_damage, mut after_failures) = (VecDeque::new(), VecDeque::new());
    while let Some(task) = shared.index_rebuild.wait() {
        let reason = match task {
            Task::Repair(reason) => reason,
            Task::Renew(waiting) => {
                let renewed = rebuild(shared, logs);
                for answer in waiting {
                    // The receiver may have been dropped.
                    let _ = answer.send(renewed.clone());
                }
                continue;
            }
        };
        let now = shared.clock.monotonic();
        let is_damaged = shared.catalog.index.damage().is_some();
        let built: &mut VecDeque<Duration> = if is_damaged { &mut after_damage } else { &mut after_failures };
        built.retain(|at| now.saturating_sub(*at) < WITHIN);
        if built.len() >= TIMES_MAX {
            if is_damaged {
                return give_up(shared, StoreFault::new(TOO_OFTEN, reason));
            }
            built.clear();
            if !try_later(shared, StoreFault::new(UNWRITABLE, Arc::clone(&reason))) {
                return;
            }
        }
        // First, because marking it waits for the disk.
        tell(shared, StoreFault::new(UNDER_WAY, Arc::clone(&reason)));
        // If it fails, the damage is reported again when it is met after a restart.
        let marked = mark(&*shared.fs, &shared.options.data);
        let _ = marked.inspect_err(|error| tracing::warn!(%error, "The damaged index could not be marked"));
        let rebuilt = match rebuild(shared, logs) {
            Err(Error::StorageFull) if shared.space.make_room() => rebuild(shared, logs),
            done => done,
        };
        match rebuilt {
            Ok(()) => {
                let seconds = shared.clock.monotonic().saturating_sub(now).as_secs_f64();
                tracing::warn!(%reason, seconds, "The index was damaged and has been rebuilt from the log");
                built.push_back(now);
            }
            Err(Error::Closed) => return,
            Err(Error::StorageFull) => {
                if !try_later(shared, NO_ROOM.into()) {
                    return;
                }
            }
            Err(error @ (Error::Index { .. } | Error::Io { .. })) => {
                tracing::warn!(%error, "The index cannot be rebuilt now");
                if !try_later(shared, StoreFault::new(UNWRITABLE, error.to_string())) {
                    return;
                }
            }
            Err(error) => return give_up(shared, StoreFault::new(IN_VAIN, error.to_string())),
        }
    }
}

/// Waits a while. False when the thread is to end.
fn try_later(shared: &EngineState, why: StoreFault) -> bool {
    tell(shared, why);
    shared.index_rebuild.sleep()
}

/// The thread has ended without being asked to.
pub(crate) fn died(shared: &EngineState) {
    give_up(shared, IN_VAIN.into());
}

fn give_up(shared: &EngineState, cause: StoreFault) {
    shared.faults.stop_writing(cause.clone());
    tell(shared, cause);
    shared.applies.give_up();
}

fn tell(shared: &EngineState, cause: StoreFault) {
    shared.faults.note_repaired(StorePart::Index);
    shared.faults.note_damage(StorePart::Index, cause);
}

fn rebuild(shared: &Arc<EngineState>, logs: &LogFiles) -> Result<()> {
    // Files that were replaced may be needed, and files that replace others must not become the only ones on the way.
    let _pause = shared.catalog.reclaim_pause.begin();
    let path = shared.options.data.join(REBUILT_NAME);
    let outcome = build(shared, logs, &path);
    if outcome.is_err() {
        // What is left of it is removed by the next attempt, or the next start.
        let _ = Index::destroy(&path);
    }
    outcome
}

fn build(shared: &EngineState, logs: &LogFiles, path: &Path) -> Result<()> {
    Index::destroy(path)?;
    let index = Index::open(index_options(&shared.options, Some(path.to_owned())), shared.keys.store_id)?;
    let mut follower = Follower::new(shared, logs, index.writer()?)?;
    for _ in 0..FOLLOWS_MAX {
        let end = shared.applies.applied_to();
        let before = follower.reached;
        follower.follow(&end)?;
        if end.sequence - before <= LEFT_MAX {
            break;
        }
    }
    // True when it was paused already, because it could not continue.
    let waits = shared.applies.halt()?;
    let outcome = take_over(shared, follower, index, path);
    if outcome.is_ok() || !waits {
        shared.applies.release();
    }
    outcome
}

/// While the applier pauses.
fn take_over(shared: &EngineState, mut follower: Follower<'_>, index: Index, path: &Path) -> Result<()> {
    follower.follow(&shared.applies.applied_to())?;
    follower.end()?;
    index.close()?;
    shared.catalog.index.replace(path)?;
    shared.index_rebuild.replaced(shared.catalog.index.damage());
    // If it stays, the next start builds the index once more.
    let unmarked = unmark(&*shared.fs, &shared.options.data);
    let _ = unmarked.inspect_err(|error| tracing::warn!(%error, "The next start will rebuild the index once more"));
    shared.faults.note_repaired(StorePart::Index);
    // From the old one the filter may not have been filled.
    shared.upkeep.request(UpkeepTask::PrefixHashes);
    Ok(())
}

/// Brings the log into the new index.
struct Follower<'a> {
    shared: &'a EngineState,
    logs: &'a LogFiles,
    writer: Writer,
    /// The last record that was read.
    reached: Sequence,
}

impl<'a> Follower<'a> {
    fn new(shared: &'a EngineState, logs: &'a LogFiles, mut writer: Writer) -> Result<Self> {
        writer.begin_bulk()?;
        Ok(Self { shared, logs, writer, reached: 0 })
    }

    /// Goes on to `end`.
    fn follow(&mut self, end: &LogPosition) -> Result<()> {
        let Self { shared, logs, writer, reached } = self;
        let dir = shared.options.data.join("log");
        let mut waiting: Vec<RecoveredBatch> = Vec::new();
        let mut records = 0;
        logs.replay(*reached, end, &mut |batch| {
            shared.index_rebuild.check_running()?;
            records += batch.records.len();
            waiting.push(batch);
            if records >= RECORDS {
                records = 0;
                apply_recovered(writer, &std::mem::take(&mut waiting), &dir)?;
            }
            Ok(())
        })?;
        apply_recovered(writer, &waiting, &dir)?;
        *reached = end.sequence.max(*reached);
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        self.writer.end_bulk()
    }
}
