//! Counts of the engine's own work: rounds of the committer, syncs, sealing. Any thread adds, and nobody waits. Numbers
//! that the state of the store has anyway are not here; whoever shows them asks for that state.

use orcas_metrics::{Counter, Histogram, Scale};
use orcas_seal::Algorithm;

/// Since the store was opened.
pub struct EngineMetrics {
    /// Rounds of the committer that took intents, from taking intents to the last answer.
    pub rounds: Histogram,
    /// How long the first intent of each round had waited.
    pub waits: Histogram,
    pub syncs: Histogram,
    /// The number of records of each append to the log.
    pub batch_records: Histogram,
    pub batch_bytes: Histogram,
    /// Batches that failed as a whole.
    pub failures: Counter,
    pub sealed: CipherWork,
    pub opened: CipherWork,
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
            sealed: CipherWork::default(),
            opened: CipherWork::default(),
        }
    }
}

/// Sealing or opening content: up to 256 KiB of a large body at a time, other content at once.
pub struct CipherWork {
    pub times: Histogram,
    /// Bytes of content, by algorithm as in [`Algorithm::ALL`].
    bytes: [Counter; Algorithm::ALL.len()],
}

impl Default for CipherWork {
    fn default() -> Self {
        Self { times: Histogram::new(&Scale::SHORT_TIME), bytes: Default::default() }
    }
}

impl CipherWork {
    /// Does `work` on so many bytes, and counts it.
    pub(super) fn timed<T>(&self, algorithm: Algorithm, bytes: usize, work: impl FnOnce() -> T) -> T {
        self.bytes[algorithm as usize].add(bytes as u64);
        self.times.timed(work)
    }

    /// The name of each algorithm, and bytes of content that went through it.
    pub fn bytes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Algorithm::ALL.iter().zip(&self.bytes).map(|(algorithm, bytes)| (algorithm.name(), bytes.get()))
    }
}
