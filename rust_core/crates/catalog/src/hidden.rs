//! Which removed versions of a key were passed over. A key whose newest versions were deleted by their ids while a
//! layer below others has them is found behind them, however many they are.
//!
//! Invariants. They are in layers that take no writes, and a removed version does not come back. So what was passed
//! over once need not be looked at again, unless a merge was published since. What is remembered may be forgotten at
//! any time.

use std::collections::HashMap;

use bytes::Bytes;

use orcas_base::error::Result;
use orcas_base::sync::Mutex;
#[cfg(debug_assertions)]
use orcas_base::sync::atomic::{AtomicU64, Ordering};
use orcas_record::{BucketId, Sequence};

/// Versions that are passed over in one read transaction of the index, and by one decision, for which other writes
/// wait: about 0.1 s. Fewer with assertions, so that tests reach it.
pub const PASSED_MAX: usize = if cfg!(debug_assertions) { 1_000 } else { 32_768 };
/// Keys that are remembered at most.
const RUNS_MAX: usize = 1_024;

/// Versions of a key in a layer, as amendments leave them.
#[derive(PartialEq, Eq, Hash)]
pub struct RunKey {
    pub amendments: Vec<BucketId>,
    pub layer: BucketId,
    pub key: Bytes,
}

/// A run of versions that are all removed, from the one with the sequence `newest` to the one with the sequence
/// `oldest`.
#[derive(Clone, Copy)]
pub struct HiddenRun {
    newest: Sequence,
    pub oldest: Sequence,
    pub merges: u64,
}

#[derive(Default)]
pub struct HiddenRuns {
    runs: Mutex<HashMap<RunKey, HiddenRun>>,
    #[cfg(debug_assertions)]
    looked_at: AtomicU64,
}

impl HiddenRuns {
    /// The run of removed versions that begins with this one, as far as it is remembered.
    pub fn behind(&self, place: &RunKey, hidden: Sequence, merges: u64) -> HiddenRun {
        let found = self.runs.lock().get(place).copied();
        let found = found.filter(|run| run.merges == merges && (run.oldest..=run.newest).contains(&hidden));
        found.unwrap_or(HiddenRun { newest: hidden, oldest: hidden, merges })
    }

    pub fn remember(&self, place: RunKey, run: HiddenRun) {
        let mut runs = self.runs.lock();
        if runs.len() >= RUNS_MAX && !runs.contains_key(&place) {
            runs.clear();
        }
        runs.insert(place, run);
    }

    /// Versions that were looked at so far.
    #[cfg(debug_assertions)]
    pub fn looked_at(&self) -> u64 {
        self.looked_at.load(Ordering::Relaxed)
    }

    #[cfg(debug_assertions)]
    pub fn look_at(&self, versions: usize) {
        self.looked_at.fetch_add(versions as u64, Ordering::Relaxed);
    }
}

/// The end of a run of removed versions, as far as it was followed.
pub struct Passed {
    /// The last one's.
    pub oldest: Sequence,
    /// Whether there may be more.
    pub cut: bool,
}

/// Follows a run to its end. `pass` follows it for a while, and goes on from where it was if that is remembered.
pub fn pass_all(pass: impl Fn() -> Result<Passed>) -> Result<Sequence> {
    let mut passed = pass()?;
    while passed.cut {
        let next = pass()?;
        if next.oldest >= passed.oldest {
            break;
        }
        passed = next;
    }
    Ok(passed.oldest)
}
