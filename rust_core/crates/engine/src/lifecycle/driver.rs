//! The thread: runs whenever somebody asks for it.

use std::sync::Arc;
use std::time::Duration;

use super::super::handle::Handle;
use super::super::state::EngineState;
use super::options::LifecycleOptions;
use super::requests::{LifecycleProgress, LifecycleReport};
use super::walk::Walk;
use orcas_base::error::{Error, Result};
use orcas_record::DocumentKind;

impl Handle {
    /// Applies the rules of all buckets now, and waits for the end. Blocking.
    ///
    /// # Errors
    /// `Closed` if lifecycle was never started or the store closes, `ReadOnly`, or what reading the index ran into.
    pub fn run_lifecycle(&self) -> Result<LifecycleReport> {
        self.shared.lifecycle.push()?.recv().unwrap_or(Err(Error::Closed))
    }

    pub fn lifecycle_progress(&self) -> LifecycleProgress {
        self.shared.lifecycle.progress()
    }

    /// Whether any bucket has a lifecycle document. From memory.
    #[inline]
    pub fn has_lifecycle_rules(&self) -> bool {
        self.shared.catalog.kinds_in_use.has(DocumentKind::Lifecycle)
    }

    /// Milliseconds of a day, as rules count them.
    pub fn lifecycle_day_ms(&self) -> u64 {
        self.shared.lifecycle.day_ms()
    }
}

/// The thread, until its queue is stopped.
pub(crate) fn run(shared: &Arc<EngineState>, options: &LifecycleOptions) {
    while let Some(waiting) = shared.lifecycle.queue.next_all() {
        let begun = shared.clock.monotonic();
        let (report, ended) = Walk::new(shared, options, shared.clock.now_ms()).run();
        if shared.lifecycle.queue.is_stopped() {
            return;
        }
        log_summary(shared, &report, &ended, shared.clock.monotonic().saturating_sub(begun));
        for answer in waiting {
            // The receiver may have been dropped.
            let _ = answer.send(ended.clone().map(|()| report));
        }
    }
}

fn log_summary(shared: &EngineState, report: &LifecycleReport, ended: &Result<()>, took: Duration) {
    let failure = ended.as_ref().err().map(|error| Arc::from(error.to_string()));
    shared.lifecycle.end(report, failure);
    if report.removed() {
        let LifecycleReport { versions, markers, uploads, changed, locked, .. } = *report;
        let ms = took.as_millis() as u64;
        tracing::info!(versions, markers, uploads, changed, locked, ms, "Lifecycle rules removed what had expired");
    }
}
