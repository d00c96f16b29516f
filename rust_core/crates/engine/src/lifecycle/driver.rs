//! The thread: runs at its interval, and whenever somebody asks for it.

use std::sync::Arc;
use std::time::Duration;

use super::super::handle::Handle;
use super::super::state::EngineState;
use super::options::LifecycleOptions;
use super::requests::{LifecycleProgress, LifecycleReport};
use super::walk::Walk;
use orcas_base::error::{Error, Result};

/// The first run begins this long after the start, or after the interval if that is shorter: a server that is restarted
/// often gets its runs.
const FIRST_AFTER: Duration = Duration::from_secs(60);
/// The longest sleep without a look at the clock.
const SLEEP_MAX: Duration = Duration::from_secs(60);

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
        self.shared.lifecycle.has_rules()
    }

    /// Milliseconds of a day, as rules count them.
    pub fn lifecycle_day_ms(&self) -> u64 {
        self.shared.lifecycle.day_ms()
    }
}

/// The thread, until its queue is stopped.
pub(crate) fn run(shared: &Arc<EngineState>, options: &LifecycleOptions) {
    let mut next = shared.clock.monotonic() + options.interval.min(FIRST_AFTER);
    loop {
        let left = next.saturating_sub(shared.clock.monotonic());
        let due = !options.interval.is_zero() && left.is_zero();
        if !due && shared.lifecycle.queue.is_empty() {
            let sleep = if options.interval.is_zero() { SLEEP_MAX } else { left.min(SLEEP_MAX) };
            if !shared.lifecycle.queue.wait(sleep) {
                return;
            }
            continue;
        }
        let begun = shared.clock.monotonic();
        next = begun + options.interval;
        let waiting = shared.lifecycle.queue.take_all();
        let (report, ended) = Walk::new(shared, options, shared.clock.now_ms()).run();
        if shared.lifecycle.queue.is_stopped() {
            return;
        }
        tell(shared, &report, &ended, shared.clock.monotonic().saturating_sub(begun));
        for answer in waiting {
            // Whoever asked may have gone.
            let _ = answer.send(ended.clone().map(|()| report));
        }
    }
}

fn tell(shared: &EngineState, report: &LifecycleReport, ended: &Result<()>, took: Duration) {
    let failure = ended.as_ref().err().map(|error| Arc::from(error.to_string()));
    let known = shared.lifecycle.end(report, failure);
    if report.removed() {
        let LifecycleReport { versions, markers, uploads, changed, locked, .. } = *report;
        let ms = took.as_millis() as u64;
        tracing::info!(versions, markers, uploads, changed, locked, ms, "Lifecycle rules removed what had expired");
    }
    if let Err(error) = ended
        && known.is_none()
    {
        tracing::warn!(%error, "Lifecycle rules could not be applied to all buckets; the next run tries again");
    }
}
