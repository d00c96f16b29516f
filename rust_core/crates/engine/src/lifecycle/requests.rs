//! Requests to apply the rules now, and what was removed.

use std::sync::Arc;
use std::time::Duration;

use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::{AtomicU64, Ordering};
use orcas_base::sync::{Condvar, Mutex, Receiver, Sender, bounded};
use orcas_decide::Expired;
use orcas_lifecycle::DAY_MS;

/// What one run did, or all since the store was opened.
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
    /// What had changed between the look and the removal, and stayed.
    pub changed: u64,
    /// What stayed because of retention or a legal hold.
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

/// How the lifecycle of the store is.
#[derive(Clone, Debug, Default)]
pub struct LifecycleProgress {
    /// Since the store was opened.
    pub total: LifecycleReport,
    /// Runs that came to their end.
    pub runs: u64,
    pub running: bool,
    /// What the last run ran into; it is tried again.
    pub failed: Option<Arc<str>>,
}

type Answer = Sender<Result<LifecycleReport>>;

#[derive(Default)]
struct Queue {
    /// There is a thread that takes requests.
    started: bool,
    stopped: bool,
    requests: Vec<Answer>,
    progress: LifecycleProgress,
}

/// What the thread is asked to do, and what everybody knows of it.
pub(crate) struct LifecycleRequests {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Milliseconds of a day.
    day_ms: AtomicU64,
    /// Buckets that have rules, as published.
    buckets: AtomicU64,
}

impl Default for LifecycleRequests {
    fn default() -> Self {
        Self {
            queue: Mutex::default(),
            changed: Condvar::default(),
            day_ms: AtomicU64::new(DAY_MS),
            buckets: AtomicU64::new(0),
        }
    }
}

impl LifecycleRequests {
    pub fn start(&self, day_ms: u64) {
        self.day_ms.store(day_ms, Ordering::Relaxed);
        self.queue.lock().started = true;
    }

    pub fn day_ms(&self) -> u64 {
        self.day_ms.load(Ordering::Relaxed)
    }

    pub fn note_buckets(&self, with_rules: usize) {
        self.buckets.store(with_rules as u64, Ordering::Relaxed);
    }

    /// Whether any bucket has rules.
    pub fn has_rules(&self) -> bool {
        self.buckets.load(Ordering::Relaxed) > 0
    }

    /// Ends the thread. Whoever waits learns that the store is closed.
    pub fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.stopped = true;
        queue.requests.clear();
        drop(queue);
        self.changed.notify_all();
    }

    /// The thread has ended without being asked to.
    pub fn died(&self) {
        let mut queue = self.queue.lock();
        queue.progress.running = false;
        queue.progress.failed = Some("its thread panicked; it goes on after a restart".into());
        drop(queue);
        self.stop();
    }

    pub fn is_stopped(&self) -> bool {
        self.queue.lock().stopped
    }

    /// False when the thread is to end.
    pub fn sleep(&self, at_most: Duration) -> bool {
        let mut queue = self.queue.lock();
        if !queue.stopped && !at_most.is_zero() {
            self.changed.wait_for(&mut queue, at_most);
        }
        !queue.stopped
    }

    /// As `sleep`, until there is a request.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut queue = self.queue.lock();
        if !queue.stopped && queue.requests.is_empty() {
            self.changed.wait_for(&mut queue, at_most);
        }
        !queue.stopped
    }

    /// Those that wait for a run. It begins now.
    pub fn begin(&self) -> Vec<Answer> {
        let mut queue = self.queue.lock();
        queue.progress.running = true;
        std::mem::take(&mut queue.requests)
    }

    pub fn is_wanted(&self) -> bool {
        !self.queue.lock().requests.is_empty()
    }

    /// A run is over. Returns what was known of a failure before.
    pub fn end(&self, report: &LifecycleReport, failed: Option<Arc<str>>) -> Option<Arc<str>> {
        let progress = &mut self.queue.lock().progress;
        progress.running = false;
        progress.runs += u64::from(failed.is_none());
        progress.total.join(report);
        std::mem::replace(&mut progress.failed, failed)
    }

    /// Queues a request, whose answer the receiver gets.
    ///
    /// # Errors
    /// `Closed` when there is no thread.
    pub fn push(&self) -> Result<Receiver<Result<LifecycleReport>>> {
        let (answer, receiver) = bounded(1);
        let mut queue = self.queue.lock();
        if queue.stopped || !queue.started {
            return Err(Error::Closed);
        }
        queue.requests.push(answer);
        drop(queue);
        self.changed.notify_all();
        Ok(receiver)
    }

    pub fn progress(&self) -> LifecycleProgress {
        self.queue.lock().progress.clone()
    }
}
