//! Requests to apply the rules now, and what was removed.

use std::sync::Arc;

use super::super::worker::{WorkerQueue, WorkerState};
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use orcas_base::sync::{Mutex, Receiver, Sender};
use orcas_decide::Expired;
use orcas_lifecycle::DAY_MS;

/// The result of one run, or of all since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifecycleReport {
    /// Buckets with rules.
    pub buckets: u64,
    /// Versions and uploads that were looked at.
    pub seen: u64,
    /// Versions that were removed for good, delete markers among them.
    pub versions: u64,
    /// Delete markers that were added.
    pub markers: u64,
    /// Uploads that were aborted.
    pub uploads: u64,
    /// Versions that had changed between the look and the removal, and stayed.
    pub changed: u64,
    /// Versions that stayed because of retention or a legal hold.
    pub locked: u64,
}

impl LifecycleReport {
    pub(super) fn add(&mut self, expired: &Expired) {
        self.versions += expired.versions;
        self.markers += expired.markers;
        self.uploads += expired.uploads;
        self.changed += expired.changed;
        self.locked += expired.locked;
    }

    fn join(&mut self, other: &Self) {
        self.buckets += other.buckets;
        self.seen += other.seen;
        self.versions += other.versions;
        self.markers += other.markers;
        self.uploads += other.uploads;
        self.changed += other.changed;
        self.locked += other.locked;
    }

    pub fn removed(&self) -> bool {
        self.versions > 0 || self.markers > 0 || self.uploads > 0
    }
}

/// The results of lifecycle rules so far, and whether they are being applied.
#[derive(Clone, Debug, Default)]
pub struct LifecycleProgress {
    /// Since the store was opened.
    pub total: LifecycleReport,
    /// Runs that succeeded.
    pub runs: u64,
    pub running: bool,
    /// The error of the last run; it is tried again.
    pub failed: Option<Arc<str>>,
}

/// Requests to the thread that applies the rules, and its results.
pub(crate) struct LifecycleRequests {
    /// Each wants the report of a run that begins after it was made.
    pub queue: WorkerQueue<Sender<Result<LifecycleReport>>>,
    /// There is a thread that takes requests.
    started: AtomicBool,
    /// The sum of all reports, and the number of runs that succeeded.
    total: Mutex<(LifecycleReport, u64)>,
    /// Milliseconds of a day.
    day_ms: AtomicU64,
}

impl Default for LifecycleRequests {
    fn default() -> Self {
        Self {
            queue: WorkerQueue::default(),
            started: AtomicBool::new(false),
            total: Mutex::default(),
            day_ms: AtomicU64::new(DAY_MS),
        }
    }
}

impl LifecycleRequests {
    pub fn start(&self, day_ms: u64) {
        self.day_ms.store(day_ms, Ordering::Relaxed);
        self.started.store(true, Ordering::Release);
    }

    pub fn day_ms(&self) -> u64 {
        self.day_ms.load(Ordering::Relaxed)
    }

    /// A run is over.
    pub fn end(&self, report: &LifecycleReport, failed: Option<Arc<str>>) {
        let mut total = self.total.lock();
        total.0.join(report);
        total.1 += u64::from(failed.is_none());
        drop(total);
        self.queue.done();
        self.queue.note_failure(failed);
    }

    /// Queues a request, whose answer the receiver gets.
    ///
    /// # Errors
    /// `Closed` when there is no thread.
    pub fn push(&self) -> Result<Receiver<Result<LifecycleReport>>> {
        if !self.started.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.queue.ask()
    }

    pub fn progress(&self) -> LifecycleProgress {
        let WorkerState { busy, failed, .. } = self.queue.state();
        let (total, runs) = *self.total.lock();
        LifecycleProgress { total, runs, running: busy, failed }
    }
}
