//! Reclaiming the space of files. Log files that are worth it are compacted one run at a time (`compaction`, `keep`). In
//! packs, gaps that belong to no chunk are punched out, packs with little in them are emptied into others, and empty ones
//! are retired (`pack_space`).
//!
//! A request may leave nothing dead in files, however little space that frees: when all dead blobs are condemned, every gap
//! is punched out of the packs, and every log file is rewritten once (`left_to_renew`).

pub(crate) mod compaction;
mod keep;
pub(crate) mod left_to_renew;
pub(crate) mod pack_space;

use std::collections::HashSet;
use std::time::Duration;

use crate::maintenance::MaintenanceIntent;
use crate::reclaim::limits::{ReclaimLimits, Step};
use crate::reclaim::work::{Activity, DeferredRemoval, FollowUp, Reclaimer, passes_over};
use compaction::{Compaction, OUTPUT_MAX, small};
use left_to_renew::Renewal;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_log::{ClosedLog, CompactedLog};
use orcas_record::{LogFileId, PackId, Sequence};
use pack_space::{Move, PackTask, Sweep, choose};

/// Closed log files that wait for a journal of events that cannot be written.
const HELD_FILES_MAX: u64 = 4;
/// After this time packs and log files are looked at again in which there was nothing to do, or something in the way.
const PASSED_FOR: Duration = Duration::from_secs(600);

impl Reclaimer {
    pub(crate) fn choose_logs(&mut self, limits: &ReclaimLimits) -> Result<Option<Step>> {
        let closed = self.settled_logs();
        let now = self.shared.clock.monotonic();
        if self.estimates.refresh(&self.shared, &closed, now)? {
            return Ok(Some(Step::Worked { bytes: 0 }));
        }
        let small = small(self.shared.options.log_file_size);
        let passed = |file| self.passed_logs.contains(&file) || self.logs.awaits_replacement(file);
        let Some(files) = self.estimates.choose(&closed, limits, small, &passed) else { return Ok(None) };
        self.begin_rewriting(files, false).map(Some)
    }

    /// The closed files whose records are in the index, were looked at for events, and are on all standbys.
    pub(crate) fn settled_logs(&self) -> Vec<ClosedLog> {
        let mut closed = self.logs.closed();
        let applied = self.shared.applies.applied_to().sequence;
        let followed = self.followed(&closed);
        let copied = self.shared.reclaim.standbys_have(self.shared.clock.monotonic());
        closed.retain(|log| log.last <= applied.min(followed).min(copied) && log.first <= self.limit);
        closed
    }

    /// The record up to which events were taken from the log for good. If the journal cannot be written, the log keeps
    /// so much for it and no more.
    fn followed(&self, closed: &[ClosedLog]) -> Sequence {
        let events = &self.shared.events;
        if planted::is(Bug::LogCompactedBeforeEvents) {
            return Sequence::MAX;
        }
        let followed = events.durable();
        let kept: u64 = closed.iter().filter(|log| log.last > followed).map(|log| log.bytes).sum();
        if kept > HELD_FILES_MAX * self.shared.options.log_file_size && events.give_up() {
            tracing::warn!(
                after = followed,
                "The log does not wait for the event journal any more: events will be missing"
            );
        }
        events.durable()
    }

    pub(crate) fn rewrite(&mut self, mut compaction: Box<Compaction>) -> Result<Step> {
        let stepped = compaction.step(&self.shared);
        if stepped.as_ref().is_err_and(passes_over) {
            self.passed_logs.extend(compaction.file());
        }
        if let Some(bytes) = stepped? {
            self.activity = Activity::Rewriting(compaction);
            return Ok(Step::Worked { bytes });
        }
        let (prefix, renews) = (compaction.prefix, compaction.renews);
        let (compacted, replacement) = compaction.finish()?;
        self.estimates.made(compacted.file, prefix);
        if renews && let Some(renewal) = &mut self.renewal {
            renewal.renewed(compacted.file);
        }
        self.done.lock().moved_bytes += compacted.bytes;
        if planted::is(Bug::ReplaceLogBeforeDurable) {
            self.replaced(compacted);
            self.submit(MaintenanceIntent::ReplaceLog(Box::new(replacement)), FollowUp::Nothing, Activity::Idle);
            return Ok(Step::Worked { bytes: 0 });
        }
        self.submit(
            MaintenanceIntent::ReplaceLog(Box::new(replacement)),
            FollowUp::Replaced(Box::new(compacted)),
            Activity::Idle,
        );
        Ok(Step::Worked { bytes: 0 })
    }

    /// The record that replaces files by a compacted one is in the index.
    pub(crate) fn replaced(&mut self, compacted: CompactedLog) {
        self.logs.replace(&compacted);
        self.done.lock().log_files += compacted.replaced.len() as u64;
        self.defer(compacted.replaced.into_iter().map(DeferredRemoval::Log));
    }

    fn begin_rewriting(&mut self, files: Vec<LogFileId>, renews: bool) -> Result<Step> {
        let begun = Compaction::begin(&self.shared, &self.logs, files.clone());
        let mut compaction =
            begun.inspect_err(|error| self.passed_logs.extend(files.iter().filter(|_| passes_over(error))))?;
        compaction.renews = renews;
        self.activity = Activity::Rewriting(Box::new(compaction));
        Ok(Step::Worked { bytes: 0 })
    }

    pub(crate) fn choose_pack(&mut self, limits: &ReclaimLimits) -> Result<Option<Step>> {
        let left: HashSet<PackId> = self.removals.iter().filter_map(|(_, removal)| removal.vacated()).collect();
        let now = self.shared.clock.monotonic();
        if now.saturating_sub(self.passed_since) > PASSED_FOR {
            self.passed_since = now;
            self.swept.clear();
            self.passed.clear();
            self.passed_logs.clear();
        }
        let passed = |pack| self.passed.contains(&pack) || left.contains(&pack);
        let task = choose(&self.shared, limits, &self.swept, &passed)?;
        Ok(Some(match task {
            None => return Ok(None),
            Some(PackTask::Retire(pack)) => {
                self.submit(MaintenanceIntent::RetirePack { pack }, FollowUp::Retired(pack), Activity::Idle)
            }
            Some(PackTask::Close(pack)) => {
                self.shared.packs.close(pack);
                // Somebody still writes into it: later.
                if !self.shared.packs.is_idle(pack) {
                    self.passed.insert(pack);
                }
                Step::Worked { bytes: 0 }
            }
            // The pack is idle, so nothing new comes into it; what was decided before is waited for, since neither a
            // pin nor the index shows it.
            Some(PackTask::Sweep(pack)) => {
                let sweep = Sweep::new(&self.shared, pack)?;
                if planted::is(Bug::SweepWithoutBarrier) {
                    self.activity = Activity::Sweeping(sweep);
                    return Ok(Some(Step::Worked { bytes: 0 }));
                }
                self.submit(MaintenanceIntent::Barrier { roll: false }, FollowUp::Nothing, Activity::Sweeping(sweep))
            }
            Some(PackTask::Discard(pack)) => {
                self.submit(MaintenanceIntent::Barrier { roll: false }, FollowUp::Discarded(pack), Activity::Idle)
            }
            Some(PackTask::Empty(pack)) if limits.compact => self.submit(
                MaintenanceIntent::Barrier { roll: false },
                FollowUp::Nothing,
                Activity::Emptying(Move::new(pack)),
            ),
            Some(PackTask::Empty(pack)) => {
                self.passed.insert(pack);
                Step::Worked { bytes: 0 }
            }
        }))
    }

    /// Removes a pack that was idle, and not born, before a barrier.
    pub(crate) fn discard(&mut self, pack: PackId) -> Result<()> {
        if !self.shared.packs.unrecorded().contains(&pack) {
            // From now on it is a pack like any other.
            return Ok(());
        }
        // Should it stay, it is not looked at again at once.
        self.passed.insert(pack);
        self.shared.packs.retire(pack)?;
        self.done.lock().packs += 1;
        Ok(())
    }

    pub(crate) fn sweep(&mut self, mut sweep: Sweep) -> Result<Step> {
        let swept = sweep.step(&self.shared);
        if swept.as_ref().is_err_and(passes_over) {
            self.passed.insert(sweep.pack);
        }
        match swept? {
            Some(freed) => {
                self.swept.insert(sweep.pack);
                self.done.lock().punched_bytes += freed;
            }
            None => self.activity = Activity::Sweeping(sweep),
        }
        Ok(Step::Worked { bytes: 0 })
    }

    pub(crate) fn empty(&mut self, mut moving: Move) -> Result<Step> {
        let pack = moving.pack;
        let stepped = moving.step(&self.shared);
        if stepped.as_ref().is_err_and(passes_over) {
            self.passed.insert(pack);
        }
        match stepped? {
            Some((intent, bytes)) => {
                self.done.lock().moved_bytes += bytes;
                self.submit(intent, FollowUp::Moved(pack), Activity::Emptying(moving));
                Ok(Step::Worked { bytes: 2 * bytes })
            }
            None => Ok(self.submit(MaintenanceIntent::RetirePack { pack }, FollowUp::Retired(pack), Activity::Idle)),
        }
    }

    /// Begins a request that leaves nothing dead in files, or none.
    pub(crate) fn renew(&mut self, renews: bool) -> Result<()> {
        self.renewal = None;
        if renews {
            let packs = self.shared.packs.files()?.into_iter().map(|file| file.pack).collect();
            self.renewal = Some(Renewal { packs, ..Renewal::default() });
        }
        Ok(())
    }

    /// Ends it. Whether something may be left in files; `None` if there is no such request.
    pub(crate) fn end_renewal(&mut self) -> Option<bool> {
        let renewal = self.renewal.take()?;
        let is_left = |log: &ClosedLog| log.first <= self.limit && !renewal.logs.contains(&log.file);
        let logs = self.logs.closed().iter().any(is_left);
        let busy = !matches!(self.activity, Activity::Idle) || !self.removals.is_empty();
        let packs = !renewal.packs.is_empty() || !self.shared.packs.has_holes();
        Some(logs || busy || packs)
    }

    pub(crate) fn choose_renewal(&mut self, limits: &ReclaimLimits) -> Result<Option<Step>> {
        if self.renewal.is_none() {
            return Ok(None);
        }
        if let Some(pack) = self.next_swept()? {
            let sweep = Sweep::new(&self.shared, pack)?;
            // What was decided before is waited for, since neither a pin nor the index shows it.
            let barrier = MaintenanceIntent::Barrier { roll: false };
            return Ok(Some(self.submit(barrier, FollowUp::Nothing, Activity::Sweeping(sweep))));
        }
        let closed = self.settled_logs();
        let passed = |file| self.passed_logs.contains(&file) || self.logs.awaits_replacement(file);
        let most = limits.output_max.min(OUTPUT_MAX);
        let files = self.renewal.as_ref().map(|renewal| renewal.run(&closed, most, &passed)).unwrap_or_default();
        if files.is_empty() {
            let waits = self.renewal.as_ref().is_some_and(|renewal| !renewal.packs.is_empty());
            return Ok(waits.then_some(Step::Waiting));
        }
        self.begin_rewriting(files, true).map(Some)
    }

    /// The next pack to sweep: one that nobody writes to. It takes no more chunks from now on.
    fn next_swept(&mut self) -> Result<Option<PackId>> {
        let Some(renewal) = &mut self.renewal else { return Ok(None) };
        if renewal.packs.is_empty() {
            return Ok(None);
        }
        let files = self.shared.packs.files()?;
        renewal.packs.retain(|pack| files.iter().any(|file| file.pack == *pack));
        let reader = self.shared.catalog.index.read()?;
        let mut next = None;
        for pack in &renewal.packs {
            self.shared.packs.close(*pack);
            // One that no record names is discarded as a whole.
            if self.shared.packs.is_idle(*pack) && reader.has_pack(*pack)? {
                next = Some(*pack);
                break;
            }
        }
        // It is not tried again if it cannot be swept: that is an error.
        if let Some(pack) = next {
            renewal.packs.remove(&pack);
        }
        Ok(next)
    }
}
