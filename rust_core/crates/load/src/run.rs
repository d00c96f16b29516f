//! A load from its first object to its last report: phases, the threads that work on them, and what they counted.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::job::{Job, Written};
use super::plan::{Target, Workload};
use super::space::OBJECTS_MAX;
use super::tally::Tally;
use super::tasks::{LoadContext, TaskSource};
use super::worker::{Ran, Worker};

/// Bytes that are read again after a measurement, at most.
const READ_BACK_MAX: u64 = 256 << 20;

/// Why a load cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("there is no operation in the mix")]
    NoOperation,
    #[error("there are more objects than a load can know")]
    TooManyObjects,
    #[error("there are no connections")]
    NoConnections,
    #[error("this machine's clock, or its limit of open files, lets no load run")]
    NoWorker,
    #[error("a phase is under way already")]
    Busy,
    #[error("no phase is under way")]
    Idle,
    #[error("a thread of the load ended unexpectedly")]
    Panicked,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Write the objects that are there before the clock starts.
    Prepare,
    /// The mix of operations: until so many were begun, or for so long.
    Count(u64),
    Time(Duration),
    /// As `Time`, but nothing of it counts.
    Warm(Duration),
    /// Read a sample of what was written.
    ReadBack,
}

/// What a phase, or several, came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// From the first operation's begin to the last one's end.
    pub elapsed: Duration,
    /// Processor time of the threads of the load.
    pub cpu: Duration,
    pub tally: Tally,
}

struct RunningPhase {
    threads: Vec<JoinHandle<(Worker, Ran)>>,
    /// Ends when all threads have let go of the other side.
    over: mpsc::Receiver<()>,
    phase: Phase,
}

enum Workers {
    Idle(Vec<Worker>),
    Running(RunningPhase),
}

/// A load on one server. Its connections stay open from one phase to the next.
pub struct Load {
    context: Arc<LoadContext>,
    workers: Mutex<Workers>,
    total: Mutex<Report>,
}

impl Load {
    pub fn new(target: Target, workload: Workload) -> Result<Self, LoadError> {
        if workload.mix.iter().all(|(_, weight)| *weight == 0) {
            return Err(LoadError::NoOperation);
        }
        if workload.keys >= OBJECTS_MAX {
            return Err(LoadError::TooManyObjects);
        }
        let (connections, threads) = (workload.connections, workload.threads.min(workload.connections));
        if threads == 0 {
            return Err(LoadError::NoConnections);
        }
        let context = Arc::new(LoadContext::new(workload, target.bucket.clone()));
        let share = |thread: usize| connections / threads + usize::from(thread < connections % threads);
        let workers: Option<Vec<Worker>> = (0..threads)
            .map(|thread| Worker::new(target.clone(), Arc::clone(&context), share(thread), thread))
            .collect();
        let workers = workers.ok_or(LoadError::NoWorker)?;
        Ok(Self { context, workers: Mutex::new(Workers::Idle(workers)), total: Mutex::default() })
    }

    /// Begins a phase and returns.
    pub fn start(&self, phase: Phase) -> Result<(), LoadError> {
        let mut state = self.workers.lock();
        let Workers::Idle(workers) = &mut *state else { return Err(LoadError::Busy) };
        let mut workers = std::mem::take(workers);
        let source = Arc::new(match phase {
            Phase::Prepare => TaskSource::Fill { left: AtomicU64::new(u64::from(self.context.know.workload.keys)) },
            Phase::Count(count) => TaskSource::Counted { left: AtomicU64::new(count) },
            Phase::Time(length) | Phase::Warm(length) => TaskSource::Timed { deadline: OnceLock::new(), length },
            Phase::ReadBack => TaskSource::ReadBack { queue: Mutex::new(self.sampled(&mut workers)) },
        });
        self.context.restart_counts();
        let together = Arc::new(Barrier::new(workers.len()));
        let (alive, over) = mpsc::channel();
        let threads = workers.into_iter().map(|mut worker| {
            let (source, together, alive) = (Arc::clone(&source), Arc::clone(&together), alive.clone());
            thread::spawn(move || {
                let ran = worker.run(&source, &together);
                drop(alive);
                (worker, ran)
            })
        });
        let threads = threads.collect();
        *state = Workers::Running(RunningPhase { threads, over, phase });
        Ok(())
    }

    /// What to read again: of each thread its share, as long as the bytes are not too many.
    fn sampled(&self, workers: &mut [Worker]) -> Vec<Written> {
        let mut room = READ_BACK_MAX;
        let mut wanted = Vec::new();
        for written in workers.iter_mut().flat_map(Worker::take_sample) {
            let length = Job::read_back(written, &self.context.know).map_or(0, |job| job.length(&self.context.know));
            if wanted.is_empty() || length <= room {
                room = room.saturating_sub(length);
                wanted.push(written);
            }
        }
        wanted
    }

    /// Waits at most so long; whether the phase is over.
    pub fn wait(&self, timeout: Duration) -> bool {
        let state = self.workers.lock();
        let Workers::Running(running) = &*state else { return true };
        running.over.recv_timeout(timeout) != Err(mpsc::RecvTimeoutError::Timeout)
    }

    /// Operations that have ended in this phase, and bytes that they moved.
    pub fn progress(&self) -> (u64, u64) {
        self.context.counts()
    }

    /// Ends this phase and forbids others. What is under way is dropped.
    pub fn stop(&self) {
        self.context.stop();
    }

    /// Waits for the end of the phase, and reports what it came to.
    pub fn finish(&self) -> Result<Report, LoadError> {
        let mut state = self.workers.lock();
        let Workers::Running(running) = std::mem::replace(&mut *state, Workers::Idle(Vec::new())) else {
            return Err(LoadError::Idle);
        };
        let mut workers = Vec::new();
        let mut report = Report::default();
        let mut span: Option<(Instant, Instant)> = None;
        for thread in running.threads {
            let (worker, ran) = thread.join().map_err(|_| LoadError::Panicked)?;
            workers.push(worker);
            let (from, until) = span.unwrap_or((ran.started, ran.ended));
            span = Some((from.min(ran.started), until.max(ran.ended)));
            report.cpu += ran.cpu;
            report.tally.merge(ran.tally);
        }
        report.elapsed = span.map_or(Duration::ZERO, |(from, until)| until.duration_since(from));
        if matches!(running.phase, Phase::Prepare | Phase::Warm(_)) {
            // Only what was measured is read again.
            workers.iter_mut().for_each(|worker| drop(worker.take_sample()));
        }
        *state = Workers::Idle(workers);
        if matches!(running.phase, Phase::Count(_) | Phase::Time(_)) {
            let mut total = self.total.lock();
            total.elapsed += report.elapsed;
            total.cpu += report.cpu;
            total.tally.merge(report.tally.clone());
        }
        Ok(report)
    }

    /// All measured phases together.
    pub fn total(&self) -> Report {
        self.total.lock().clone()
    }
}
