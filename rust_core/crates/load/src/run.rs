//! A load as a sequence of phases, the threads that execute them, and their results.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::job::{Job, Written};
use super::objects::OBJECTS_MAX;
use super::plan::{Target, Workload};
use super::tally::Tally;
use super::tasks::{LoadContext, TaskSource};
use super::worker::{PhaseResult, Worker};

/// Most bytes that are read back after a measurement.
const READ_BACK_MAX: u64 = 256 << 20;

/// Why a load or a phase cannot start or finish.
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

/// What the threads of a load do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Write the objects that exist before the measurement.
    Prepare,
    /// The mix of operations, until this many were started.
    Count(u64),
    /// The mix of operations, for this long.
    Time(Duration),
    /// Like `Time`, but excluded from the totals.
    Warm(Duration),
    /// Read back a sample of what was written.
    ReadBack,
}

/// The result of one phase, or of several together.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The time from the start of the first operation to the end of the last.
    pub elapsed: Duration,
    /// Processor time of the threads of the load.
    pub cpu: Duration,
    pub tally: Tally,
}

struct RunningPhase {
    threads: Vec<JoinHandle<(Worker, PhaseResult)>>,
    /// Disconnected when all threads have dropped their senders.
    over: mpsc::Receiver<()>,
    phase: Phase,
}

enum Workers {
    Idle(Vec<Worker>),
    Running(RunningPhase),
}

/// A load on one server. Connections stay open between phases.
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

    /// Starts a phase and returns without waiting for it.
    pub fn start(&self, phase: Phase) -> Result<(), LoadError> {
        let mut state = self.workers.lock();
        let Workers::Idle(workers) = &mut *state else { return Err(LoadError::Busy) };
        let mut workers = std::mem::take(workers);
        let source = Arc::new(match phase {
            Phase::Prepare => TaskSource::Fill { left: AtomicU64::new(u64::from(self.context.model.workload.keys)) },
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
                let result = worker.run(&source, &together);
                drop(alive);
                (worker, result)
            })
        });
        let threads = threads.collect();
        *state = Workers::Running(RunningPhase { threads, over, phase });
        Ok(())
    }

    /// What to read back: the samples of all threads, up to `READ_BACK_MAX` bytes.
    fn sampled(&self, workers: &mut [Worker]) -> Vec<Written> {
        let mut room = READ_BACK_MAX;
        let mut wanted = Vec::new();
        for written in workers.iter_mut().flat_map(Worker::take_sample) {
            let length = Job::read_back(written, &self.context.model).map_or(0, |job| job.length(&self.context.model));
            if wanted.is_empty() || length <= room {
                room = room.saturating_sub(length);
                wanted.push(written);
            }
        }
        wanted
    }

    /// Waits at most `timeout` for the end of the phase. Returns whether it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        let state = self.workers.lock();
        let Workers::Running(running) = &*state else { return true };
        running.over.recv_timeout(timeout) != Err(mpsc::RecvTimeoutError::Timeout)
    }

    /// Operations that have ended in this phase, and the bytes that they transferred.
    pub fn progress(&self) -> (u64, u64) {
        self.context.counts()
    }

    /// Ends this phase and prevents others. Operations in progress are abandoned.
    pub fn stop(&self) {
        self.context.stop();
    }

    /// Waits for the end of the phase and returns its result.
    pub fn finish(&self) -> Result<Report, LoadError> {
        let mut state = self.workers.lock();
        let Workers::Running(running) = std::mem::replace(&mut *state, Workers::Idle(Vec::new())) else {
            return Err(LoadError::Idle);
        };
        let mut workers = Vec::new();
        let mut report = Report::default();
        let mut span: Option<(Instant, Instant)> = None;
        for thread in running.threads {
            let (worker, result) = thread.join().map_err(|_| LoadError::Panicked)?;
            workers.push(worker);
            let (from, until) = span.unwrap_or((result.started, result.ended));
            span = Some((from.min(result.started), until.max(result.ended)));
            report.cpu += result.cpu;
            report.tally.merge(result.tally);
        }
        report.elapsed = span.map_or(Duration::ZERO, |(from, until)| until.duration_since(from));
        if matches!(running.phase, Phase::Prepare | Phase::Warm(_)) {
            // Only what was written during a measurement is read back.
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

    /// The result of all measured phases together.
    pub fn total(&self) -> Report {
        self.total.lock().clone()
    }
}
