//! What the threads of a load share: where their tasks come from, whether to stop, and how much was done.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::job::{Knowledge, Written};
use super::plan::{Deck, Operation, Workload};

/// What the threads of a load share.
pub struct LoadContext {
    pub know: Knowledge,
    deck: Deck,
    /// Operations dealt in all phases.
    dealt: AtomicU64,
    stopped: AtomicBool,
    done: AtomicU64,
    bytes: AtomicU64,
}

impl LoadContext {
    pub fn new(workload: Workload, bucket: String) -> Self {
        Self {
            deck: Deck::new(&workload),
            know: Knowledge::new(workload, bucket),
            dealt: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub fn restart_counts(&self) {
        self.done.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Operations that have ended since the counts were restarted, and bytes that they moved.
    pub fn counts(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// One more operation has ended, and moved so many bytes.
    pub fn count(&self, bytes: u64) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What a connection does next.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// The next operation of the deck.
    Ask(Operation),
    /// Write one more of the objects that are there before the clock starts.
    Fill,
    /// Read again.
    Read(Written),
}

/// Where the tasks of a phase come from.
pub enum TaskSource {
    Fill {
        left: AtomicU64,
    },
    Counted {
        left: AtomicU64,
    },
    /// Whoever asks first starts the clock.
    Timed {
        deadline: OnceLock<Instant>,
        length: Duration,
    },
    ReadBack {
        queue: Mutex<Vec<Written>>,
    },
}

/// Takes one, unless none is left.
fn take_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl TaskSource {
    /// `None`: the phase is over.
    pub fn next(&self, context: &LoadContext) -> Option<Task> {
        let deal = || Task::Ask(context.deck.card(context.dealt.fetch_add(1, Ordering::Relaxed)));
        match self {
            Self::Fill { left } => take_one(left).then_some(Task::Fill),
            Self::Counted { left } => take_one(left).then(deal),
            Self::Timed { deadline, length } => {
                let now = Instant::now();
                (now < *deadline.get_or_init(|| now + *length)).then(deal)
            }
            Self::ReadBack { queue } => queue.lock().pop().map(Task::Read),
        }
    }
}
