//! What the threads of a load share: the source of their tasks, the request to stop, and counts of what was done.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::job::{Model, Written};
use super::plan::{Operation, Schedule, Workload};

/// What the threads of a load share.
pub struct LoadContext {
    pub model: Model,
    schedule: Schedule,
    /// Operations started in all phases.
    begun: AtomicU64,
    stopped: AtomicBool,
    done: AtomicU64,
    bytes: AtomicU64,
}

impl LoadContext {
    pub fn new(workload: Workload, bucket: String) -> Self {
        Self {
            schedule: Schedule::new(&workload),
            model: Model::new(workload, bucket),
            begun: AtomicU64::new(0),
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

    /// Operations that have ended since `restart_counts`, and the bytes that they transferred.
    pub fn counts(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Counts an operation that has ended and the bytes that it transferred.
    pub fn count(&self, bytes: u64) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What a client does next.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// The next operation of the mix.
    Operation(Operation),
    /// Write one of the objects that exist before the measurement.
    Fill,
    /// Read back something that was written.
    Read(Written),
}

/// The tasks of a phase, taken by all threads.
pub enum TaskSource {
    Fill {
        left: AtomicU64,
    },
    Counted {
        left: AtomicU64,
    },
    /// The first call of `next` starts the clock.
    Timed {
        deadline: OnceLock<Instant>,
        length: Duration,
    },
    ReadBack {
        queue: Mutex<Vec<Written>>,
    },
}

/// Decrements the counter unless it is 0. Returns whether it did.
fn take_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl TaskSource {
    /// `None` when the phase is over.
    pub fn next(&self, context: &LoadContext) -> Option<Task> {
        let next_operation =
            || Task::Operation(context.schedule.operation(context.begun.fetch_add(1, Ordering::Relaxed)));
        match self {
            Self::Fill { left } => take_one(left).then_some(Task::Fill),
            Self::Counted { left } => take_one(left).then(next_operation),
            Self::Timed { deadline, length } => {
                let now = Instant::now();
                (now < *deadline.get_or_init(|| now + *length)).then(next_operation)
            }
            Self::ReadBack { queue } => queue.lock().pop().map(Task::Read),
        }
    }
}
