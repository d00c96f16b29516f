//! Requests to a background thread, and its state: `WorkerQueue`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use orcas_base::error::{Error, Result};
use orcas_base::sync::{Condvar, Mutex, Receiver, Sender, bounded};

/// Requests to a thread. They wake it, and it ends when it is stopped.
pub(crate) struct WorkerQueue<R> {
    state: Mutex<Queued<R>>,
    changed: Condvar,
}

struct Queued<R> {
    requests: VecDeque<R>,
    busy: bool,
    stopped: bool,
    failed: Option<Arc<str>>,
}

/// The state of a background thread.
pub(crate) struct WorkerState {
    pub busy: bool,
    /// Requests that it has not taken yet.
    pub waiting: usize,
    /// The error of the last attempt; it is tried again.
    pub failed: Option<Arc<str>>,
}

impl<R> Default for WorkerQueue<R> {
    fn default() -> Self {
        let state = Queued { requests: VecDeque::new(), busy: false, stopped: false, failed: None };
        Self { state: Mutex::new(state), changed: Condvar::default() }
    }
}

impl<T> WorkerQueue<Sender<T>> {
    /// Queues a request, whose answer the receiver gets.
    ///
    /// # Errors
    /// `Closed` when the thread has ended.
    pub fn ask(&self) -> Result<Receiver<T>> {
        let (answer, receiver) = bounded(1);
        self.push(answer)?;
        Ok(receiver)
    }
}

impl<R> WorkerQueue<R> {
    /// Ends the thread. Its requests are dropped, so whoever waits for an answer learns that the store is closed.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.requests.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// The thread has ended without being asked to.
    pub fn died(&self) {
        let mut state = self.state.lock();
        state.busy = false;
        state.failed = Some("its thread panicked; the work continues after a restart".into());
        drop(state);
        self.stop();
    }

    pub fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// False when the thread is to end. A request ends the sleep early.
    pub fn sleep(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped && !at_most.is_zero() {
            self.changed.wait_for(&mut state, at_most);
        }
        !state.stopped
    }

    /// As `sleep`, but returns at once if there is a request.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped && state.requests.is_empty() && !at_most.is_zero() {
            self.changed.wait_for(&mut state, at_most);
        }
        !state.stopped
    }

    /// # Errors
    /// `Closed` when the thread has ended.
    pub fn push(&self, request: R) -> Result<()> {
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::Closed);
        }
        state.requests.push_back(request);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for requests and takes them all; the thread is busy with them until `done`. `None` when it is to end.
    pub fn next_all(&self) -> Option<VecDeque<R>> {
        let mut state = self.state.lock();
        while !state.stopped && state.requests.is_empty() {
            self.changed.wait(&mut state);
        }
        state.busy = !state.stopped;
        if state.stopped { None } else { Some(std::mem::take(&mut state.requests)) }
    }

    /// The next request. The thread is busy with it until `done`.
    pub fn take(&self) -> Option<R> {
        let mut state = self.state.lock();
        let request = state.requests.pop_front();
        state.busy = request.is_some();
        request
    }

    pub fn done(&self) {
        self.state.lock().busy = false;
    }

    /// Notes the error of the last attempt; `None` when it succeeded. Returns what was known before.
    pub fn note_failure(&self, failed: Option<Arc<str>>) -> Option<Arc<str>> {
        std::mem::replace(&mut self.state.lock().failed, failed)
    }

    pub fn state(&self) -> WorkerState {
        let state = self.state.lock();
        WorkerState { busy: state.busy, waiting: state.requests.len(), failed: state.failed.clone() }
    }
}
