//! Requests for passes of the scrub, and its progress.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::worker::WorkerQueue;
use orcas_base::error::Result;
use orcas_base::sync::Sender;
use orcas_record::Sequence;

/// Damaged places that are remembered.
const DAMAGED_MAX: usize = 1_000;
/// Damage that the scrub has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubDamage {
    /// File and byte.
    pub place: String,
    pub detail: String,
    /// The blob, when it is the bytes of one.
    pub blob: Option<Sequence>,
}

/// How the scrub is doing.
#[derive(Clone, Debug, Default)]
pub struct ScrubProgress {
    /// Bytes a second; 0 when there is no scrub.
    pub rate: u64,
    /// Passes that were completed since the store was opened.
    pub passes: u64,
    /// Bytes that the present pass has read.
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// The file in hand; empty between two passes.
    pub position: String,
    /// Damage that this pass and the one before found, at most a thousand places.
    pub damaged: Vec<ScrubDamage>,
    pub damaged_total: u64,
    /// Why the last pass ended early.
    pub failed: Option<String>,
}

#[derive(Default)]
struct Passes {
    passes: u64,
    done_bytes: u64,
    total_bytes: u64,
    position: String,
    /// Damage by place, with the pass that found it last.
    damaged: BTreeMap<String, (u64, ScrubDamage)>,
    unlisted: u64,
    failed: Option<String>,
}

/// The state that the thread of the scrub shares with the rest of the engine.
#[derive(Default)]
pub(crate) struct ScrubStatus {
    /// Each wants to know how a pass ends that begins after it was made.
    pub queue: WorkerQueue<Sender<Result<()>>>,
    state: Mutex<Passes>,
}

impl ScrubStatus {
    pub fn progress(&self, rate: u64) -> ScrubProgress {
        let state = self.state.lock();
        ScrubProgress {
            rate,
            passes: state.passes,
            done_bytes: state.done_bytes,
            total_bytes: state.total_bytes,
            position: state.position.clone(),
            damaged: state.damaged.values().map(|(_, damage)| damage.clone()).collect(),
            damaged_total: state.damaged.len() as u64 + state.unlisted,
            failed: state.failed.clone(),
        }
    }

    pub fn begin(&self, total_bytes: u64) {
        let mut state = self.state.lock();
        (state.done_bytes, state.total_bytes, state.unlisted) = (0, total_bytes, 0);
    }

    pub fn end(&self, ended: &Result<()>) {
        let mut state = self.state.lock();
        state.position.clear();
        match ended {
            Ok(()) => {
                let pass = state.passes;
                // What was not found again was reclaimed, or repaired.
                state.damaged.retain(|_, (found, _)| *found == pass);
                state.passes += 1;
                state.done_bytes = state.total_bytes;
                state.failed = None;
            }
            Err(error) => state.failed = Some(error.to_string()),
        }
    }

    pub fn note(&self, damage: ScrubDamage) {
        let state = &mut *self.state.lock();
        if state.damaged.len() < DAMAGED_MAX || state.damaged.contains_key(&damage.place) {
            state.damaged.insert(damage.place.clone(), (state.passes, damage));
        } else {
            state.unlisted += 1;
        }
    }

    pub fn at(&self, position: String) {
        self.state.lock().position = position;
    }

    pub fn add_done(&self, bytes: u64) {
        self.state.lock().done_bytes += bytes;
    }
}
