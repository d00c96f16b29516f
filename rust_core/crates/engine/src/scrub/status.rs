//! The progress of the scrub, and requests to run a round or to end.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use orcas_base::error::{Error, Result};
use orcas_base::sync::{Receiver, Sender, bounded};
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
    /// Rounds that were completed since the store was opened.
    pub rounds: u64,
    /// Of the present round.
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// The file in hand; empty between two rounds.
    pub position: String,
    /// What this round and the one before found, at most a thousand places.
    pub damaged: Vec<ScrubDamage>,
    pub damaged_total: u64,
    /// Why the last round ended early.
    pub failed: Option<String>,
}

#[derive(Default)]
struct Rounds {
    stopped: bool,
    /// Each wants to know how a round ends that begins after it was made.
    requests: Vec<Sender<Result<()>>>,
    rounds: u64,
    done_bytes: u64,
    total_bytes: u64,
    position: String,
    /// By place, with the round that found it last.
    damaged: BTreeMap<String, (u64, ScrubDamage)>,
    unlisted: u64,
    failed: Option<String>,
}

/// What the thread of the scrub shares with the rest of the engine.
#[derive(Default)]
pub(crate) struct ScrubStatus {
    state: Mutex<Rounds>,
    changed: Condvar,
}

impl ScrubStatus {
    pub fn progress(&self, rate: u64) -> ScrubProgress {
        let state = self.state.lock();
        ScrubProgress {
            rate,
            rounds: state.rounds,
            done_bytes: state.done_bytes,
            total_bytes: state.total_bytes,
            position: state.position.clone(),
            damaged: state.damaged.values().map(|(_, damage)| damage.clone()).collect(),
            damaged_total: state.damaged.len() as u64 + state.unlisted,
            failed: state.failed.clone(),
        }
    }

    /// Ends the thread soon.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        // Whoever waits for an answer learns that the store is closed.
        state.requests.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Asks for a round, whose end the receiver gets.
    ///
    /// # Errors
    /// `Closed` when the thread has ended.
    pub fn push(&self) -> Result<Receiver<Result<()>>> {
        let (answer, receiver) = bounded(1);
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::Closed);
        }
        state.requests.push(answer);
        drop(state);
        self.changed.notify_all();
        Ok(receiver)
    }

    /// Waits for requests. `None` when the scrub is to end.
    pub fn requests(&self) -> Option<Vec<Sender<Result<()>>>> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.stopped && state.requests.is_empty());
        if state.stopped { None } else { Some(std::mem::take(&mut state.requests)) }
    }

    pub fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// False when the scrub is to end.
    pub fn sleep(&self, length: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped && !length.is_zero() {
            self.changed.wait_while_for(&mut state, |state| !state.stopped, length);
        }
        !state.stopped
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
                let round = state.rounds;
                // What was not found again was reclaimed, or repaired.
                state.damaged.retain(|_, (found, _)| *found == round);
                state.rounds += 1;
                state.done_bytes = state.total_bytes;
                state.failed = None;
            }
            Err(error) => state.failed = Some(error.to_string()),
        }
    }

    pub fn note(&self, damage: ScrubDamage) {
        let state = &mut *self.state.lock();
        if state.damaged.len() < DAMAGED_MAX || state.damaged.contains_key(&damage.place) {
            state.damaged.insert(damage.place.clone(), (state.rounds, damage));
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
