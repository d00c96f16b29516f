//! How fast a run goes: in large batches while nobody else writes, in small ones with pauses as soon as somebody does.

use std::time::Duration;

use super::super::state::EngineState;
use crate::commit::queue::LAG_RECORDS_MAX;
use orcas_base::error::{Error, Result};

/// Entries of a batch while nobody else writes: their decision holds the committer for some milliseconds.
const BATCH_MAX: usize = 1_000;
/// While others write.
const BATCH_BUSY: usize = 32;
/// How long others count as writing after their last write.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// While others write, a batch is followed by a pause of so many times the time it took, within these bounds.
const PAUSE_FACTOR: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The committer waits for the index at `LAG_RECORDS_MAX`. Up to here a run adds to it: about two transactions of the
/// applier, so that one is ready when the other ends.
const LAG_MAX: usize = LAG_RECORDS_MAX / 3 * 2;
/// Between two looks at the index.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// The writes of clients, and the pace that follows from them.
#[derive(Default)]
pub(crate) struct Pace {
    /// Mutations that clients had submitted when it was looked at last.
    seen: Option<u64>,
    /// The mutations of this run among them.
    own: u64,
    /// The end of the busy time, on the monotonic clock.
    busy_until: Duration,
}

impl Pace {
    /// Entries of the next batch.
    pub fn batch(&self, shared: &EngineState) -> usize {
        if self.is_busy(shared) { BATCH_BUSY } else { BATCH_MAX }
    }

    fn is_busy(&self, shared: &EngineState) -> bool {
        shared.clock.monotonic() < self.busy_until
    }

    /// Waits until a batch disturbs nobody. The one before took `took`.
    ///
    /// # Errors
    /// `Closed` when the run is to end, and why the index cannot follow.
    pub fn before(&mut self, shared: &EngineState, took: Duration) -> Result<()> {
        let submitted = shared.intents.submitted() - self.own;
        if self.seen.replace(submitted).is_some_and(|seen| submitted > seen) {
            self.busy_until = shared.clock.monotonic() + BUSY_FOR;
        }
        let pause =
            if self.is_busy(shared) { (took * PAUSE_FACTOR).clamp(PAUSE_MIN, PAUSE_MAX) } else { Duration::ZERO };
        if !shared.lifecycle.queue.sleep(pause) {
            return Err(Error::Closed);
        }
        while shared.applies.lag().records > LAG_MAX {
            if let Some(stalled) = shared.applies.stalled() {
                return Err(stalled);
            }
            shared.applies.hurry();
            if !shared.lifecycle.queue.sleep(RETRY_INTERVAL) {
                return Err(Error::Closed);
            }
        }
        self.own += 1;
        Ok(())
    }
}
