//! Log files: those worth it are compacted one run at a time.

use super::compaction::{Compaction, small};
use crate::maintenance::MaintenanceIntent;
use crate::reclaim::limits::{ReclaimLimits, Step};
use crate::reclaim::work::{Activity, DeferredRemoval, FollowUp, Reclaimer, passes_over};
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_log::{CompactedLog, SealedLog};
use orcas_record::Sequence;

/// Full log files that wait for a journal of events that cannot be written.
const HELD_FILES_MAX: u64 = 4;

impl Reclaimer {
    pub(crate) fn choose_logs(&mut self, limits: &ReclaimLimits) -> Result<Option<Step>> {
        let sealed = self.settled_logs();
        let now = self.shared.clock.monotonic();
        if self.estimates.refresh(&self.shared, &sealed, now)? {
            return Ok(Some(Step::Worked { bytes: 0 }));
        }
        let small = small(self.shared.options.log_file_size);
        let passed = |file| self.passed_logs.contains(&file) || self.logs.awaits_replacement(file);
        let Some(files) = self.estimates.choose(&sealed, limits, small, &passed) else { return Ok(None) };
        let begun = Compaction::begin(&self.shared, &self.logs, files.clone());
        let compaction =
            begun.inspect_err(|error| self.passed_logs.extend(files.iter().filter(|_| passes_over(error))))?;
        self.activity = Activity::Rewriting(Box::new(compaction));
        Ok(Some(Step::Worked { bytes: 0 }))
    }

    /// The sealed files whose records are in the index and were looked at for events.
    pub(crate) fn settled_logs(&self) -> Vec<SealedLog> {
        let mut sealed = self.logs.sealed();
        let applied = self.shared.applies.applied_to().sequence;
        let followed = self.followed(&sealed);
        sealed.retain(|log| log.last <= applied.min(followed) && log.first <= self.limit);
        sealed
    }

    /// The record up to which events were taken from the log for good. If the journal cannot be written, the log keeps
    /// so much for it and no more.
    fn followed(&self, sealed: &[SealedLog]) -> Sequence {
        let events = &self.shared.events;
        if planted::is(Bug::LogCompactedBeforeEvents) {
            return Sequence::MAX;
        }
        let followed = events.durable();
        let kept: u64 = sealed.iter().filter(|log| log.last > followed).map(|log| log.bytes).sum();
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
}
