//! What the engine counts of its own work: rounds of the committer, syncs, sealing. Any thread adds, and nobody waits.
//! Numbers that the state of the store has anyway are not here; whoever shows them asks for that state.

use std::time::Instant;

use orcas_metrics::{Counter, Histogram, Scale};

/// Since the store was opened.
pub struct EngineMetrics {
    /// Rounds of the committer that decided something, from taking intents to the last answer.
    pub rounds: Histogram,
    /// For each round, how long the first of its intents had waited.
    pub waits: Histogram,
    pub syncs: Histogram,
    /// Of each append to the log.
    pub batch_records: Histogram,
    pub batch_bytes: Histogram,
    /// Rounds that failed as a whole.
    pub failures: Counter,
    /// Up to 256 KiB of content at a time.
    pub sealed: Histogram,
    pub opened: Histogram,
}

impl Default for EngineMetrics {
    fn default() -> Self {
        Self {
            rounds: Histogram::new(&Scale::TIME),
            waits: Histogram::new(&Scale::TIME),
            syncs: Histogram::new(&Scale::TIME),
            batch_records: Histogram::new(&Scale::COUNT),
            batch_bytes: Histogram::new(&Scale::BYTES),
            failures: Counter::default(),
            sealed: Histogram::new(&Scale::SHORT_TIME),
            opened: Histogram::new(&Scale::SHORT_TIME),
        }
    }
}

/// Does `work` and records how long it took.
pub(super) fn timed<T>(histogram: &Histogram, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    histogram.record_time(began.elapsed());
    done
}

/// Lookups in the object cache, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    pub hits: u64,
    pub misses: u64,
    pub entries: u64,
    pub bytes: u64,
}
