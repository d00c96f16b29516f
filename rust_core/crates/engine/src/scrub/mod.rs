//! Checks of the open store: a whole one when it is asked for, and the scrub, which reads everything again and again on a
//! thread of its own (`passes`) and says how it is doing (`status`).

mod passes;
mod status;

use super::handle::Handle;
use orcas_base::error::{Error, Result};
use orcas_fsck::{CheckOptions, CheckProgress, CheckReport, OpenStore, check_open};

pub(super) use passes::run;
pub(super) use status::ScrubStatus;
pub use status::{ScrubDamage, ScrubProgress};

impl Handle {
    /// Checks what the store holds at this moment, while it goes on. Blocking: it reads everything. What is replaced
    /// or deleted meanwhile takes its space until the check is over.
    ///
    /// # Errors
    /// What kept the check from going on. Damage is no error: it is in the report.
    pub fn check(&self, options: &CheckOptions, progress: &CheckProgress) -> Result<CheckReport> {
        let shared = &self.shared;
        // Whatever the index leads to from now on stays in its place.
        let _pin = shared.catalog.epochs.pin();
        let store = OpenStore {
            fs: &shared.fs,
            data: &shared.options.data,
            keys: &shared.keys,
            content_keys: shared.content.keys.get(),
            index: &shared.catalog.index,
            applied: shared.applies.applied_to(),
        };
        // Whoever uploads it again gets it stored again.
        check_open(store, options, progress, &mut |blob| shared.catalog.pins.note_damage(blob))
    }

    /// Reads everything once, at the rate of the scrub, and waits for the end. Damage is no error: it is in the progress.
    /// Blocking.
    ///
    /// # Errors
    /// `Closed` when there is no scrub or the store closes, and what kept the pass from going on.
    pub fn scrub(&self) -> Result<()> {
        if self.shared.options.scrub_bytes_per_sec == 0 {
            return Err(Error::Closed);
        }
        self.shared.scrub.queue.ask()?.recv().unwrap_or(Err(Error::Closed))
    }

    /// How the scrub is doing.
    pub fn scrub_progress(&self) -> ScrubProgress {
        self.shared.scrub.progress(self.shared.options.scrub_bytes_per_sec)
    }
}
