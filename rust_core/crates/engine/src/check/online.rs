//! A check while the store is open: everything up to one position of the log.

use std::sync::Arc;

use super::super::handle::Handle;
use super::collect::Collector;
use super::journal::check_journal;
use super::owners::Owners;
use super::present::{COPY_NAME, PresentIndex, open_copy, unreadable};
use super::store::places;
use super::subject::Subject;
use super::tags::TagCheck;
use super::{CheckOptions, CheckProgress, CheckReport, Phase, ScrubProgress};
use orcas_base::error::{Error, Result};
use orcas_fs::scratch::ScratchDir;
use orcas_log::LogPosition;

impl Handle {
    /// Checks what the store holds at this moment, while it goes on. Blocking: it reads everything. What is replaced
    /// or deleted meanwhile takes its space until the check is over.
    ///
    /// # Errors
    /// What kept the check from going on. Damage is no error: it is in the report.
    pub fn check(&self, options: &CheckOptions, progress: &CheckProgress) -> Result<CheckReport> {
        progress.enter(Phase::Start);
        let shared = &self.shared;
        let data = &shared.options.data;
        let collector = &Collector::new(options, progress, data.clone());
        let scratch = &ScratchDir::new()?;
        check_journal(collector, &*shared.fs, data);
        // Before the copy: whatever the copy leads to stays in its place.
        let _pin = shared.epochs.pin();
        let copy = scratch.path().join(COPY_NAME);
        let applied = shared.applies.applied_to();
        let present = match shared.index.copy_to(&copy) {
            Ok(()) => open_copy(collector, copy, shared.keys.store_id)?,
            Err(Error::IndexDamaged { reason }) => unreadable(collector, &reason),
            Err(error) => return Err(error),
        };
        // The index holds durable batches only, so the log up to its position does not change any more.
        let end = match &present {
            PresentIndex::Copied(copied) => copied.position.clone().unwrap_or(LogPosition::ORIGIN),
            PresentIndex::Absent | PresentIndex::Unreadable(_) => applied,
        };
        let end = Some(end);
        let (log, packs) = places(data, &shared.keys);
        let (fs, owners) = (Arc::clone(&shared.fs), Owners::new(shared.keys.clone()));
        let live = Some(&shared.index);
        let tags = TagCheck::new(shared.content_keys.get().map(|keys| &**keys as _));
        let checked = Subject { fs, log, packs, owners, present, end, live, scratch, tags, options, collector }.check();
        // Whoever uploads it again gets it stored again.
        collector.damage().blobs().for_each(|blob| shared.pins.note_damage(blob));
        checked
    }

    /// Reads everything once, at the rate of the scrub, and waits for the end. Damage is no error: it is in the progress.
    /// Blocking.
    ///
    /// # Errors
    /// `Closed` when there is no scrub or the store closes, and what kept the round from going on.
    pub fn scrub(&self) -> Result<()> {
        if self.shared.options.scrub_rate == 0 {
            return Err(Error::Closed);
        }
        self.shared.scrub.push()?.recv().unwrap_or(Err(Error::Closed))
    }

    /// How the scrub is doing.
    pub fn scrub_progress(&self) -> ScrubProgress {
        self.shared.scrub.progress(self.shared.options.scrub_rate)
    }
}
