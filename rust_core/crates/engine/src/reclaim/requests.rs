//! Requests to reclaim at once, and what was reclaimed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use orcas_base::error::{Error, Result};
use orcas_base::sync::{Condvar, Mutex, Receiver, Sender, bounded};

/// How much a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// What is dead is condemned, gaps are punched out and empty packs go; nothing is rewritten.
    Collect,
    /// And what is left of files that hold dead records is rewritten.
    Compact,
}

/// What was reclaimed, since the store was opened or by one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Blobs that were condemned, and their bytes.
    pub blobs: u64,
    pub condemned_bytes: u64,
    /// Bytes given back from the middle of packs.
    pub punched_bytes: u64,
    /// Bytes that were written again.
    pub moved_bytes: u64,
    pub log_files: u64,
    pub packs: u64,
}

impl Reclaimed {
    pub fn since(self, before: Self) -> Self {
        Self {
            blobs: self.blobs - before.blobs,
            condemned_bytes: self.condemned_bytes - before.condemned_bytes,
            punched_bytes: self.punched_bytes - before.punched_bytes,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            log_files: self.log_files - before.log_files,
            packs: self.packs - before.packs,
        }
    }

    pub fn freed(self) -> bool {
        self.punched_bytes > 0 || self.log_files > 0 || self.packs > 0
    }
}

/// How reclamation is.
#[derive(Clone, Debug, Default)]
pub struct ReclaimProgress {
    pub total: Reclaimed,
    /// Somebody asked for it and waits.
    pub requested: bool,
    /// What the last attempt ran into; it is tried again.
    pub failed: Option<Arc<str>>,
}

pub(super) struct Request {
    pub effort: Effort,
    pub answer: Sender<Result<Reclaimed>>,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    stopped: bool,
    failed: Option<Arc<str>>,
    busy: bool,
}

/// What the thread is asked to do.
#[derive(Default)]
pub(crate) struct ReclaimRequests {
    queue: Mutex<Queue>,
    changed: Condvar,
    pub done: Arc<Mutex<Reclaimed>>,
}

impl ReclaimRequests {
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
        queue.busy = false;
        queue.failed = Some("its thread panicked; it goes on after a restart".into());
        drop(queue);
        self.stop();
    }

    /// Waits; true when the thread shall end.
    pub fn sleep(&self, at_most: Duration, for_requests: bool) -> bool {
        let mut queue = self.queue.lock();
        if !queue.stopped && (queue.requests.is_empty() || !for_requests) {
            self.changed.wait_for(&mut queue, at_most);
        }
        queue.stopped
    }

    pub(super) fn take(&self) -> Option<Request> {
        let mut queue = self.queue.lock();
        let request = queue.requests.pop_front();
        queue.busy = request.is_some();
        request
    }

    /// The request that was taken is answered.
    pub fn done_with(&self) {
        self.queue.lock().busy = false;
    }

    /// What the last attempt ran into; `None` when it succeeded. Returns what was known before.
    pub fn note_failure(&self, failed: Option<Arc<str>>) -> Option<Arc<str>> {
        std::mem::replace(&mut self.queue.lock().failed, failed)
    }

    pub fn is_stopped(&self) -> bool {
        self.queue.lock().stopped
    }

    /// Queues a request, whose answer the receiver gets.
    ///
    /// # Errors
    /// `Closed` when the thread has ended.
    pub fn push(&self, effort: Effort) -> Result<Receiver<Result<Reclaimed>>> {
        let (answer, receiver) = bounded(1);
        let mut queue = self.queue.lock();
        if queue.stopped {
            return Err(Error::Closed);
        }
        queue.requests.push_back(Request { effort, answer });
        self.changed.notify_all();
        Ok(receiver)
    }

    pub fn progress(&self) -> ReclaimProgress {
        let queue = self.queue.lock();
        ReclaimProgress {
            total: *self.done.lock(),
            requested: queue.busy || !queue.requests.is_empty(),
            failed: queue.failed.clone(),
        }
    }
}
