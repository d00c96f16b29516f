//! Requests to the thread that rebuilds a damaged index.

use std::sync::Arc;
use std::time::Duration;

use orcas_base::error::{Error, Result};
use orcas_base::sync::{Condvar, Mutex, Receiver, Sender, bounded};

/// Between two attempts while there is no room.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Wanted {
    /// Why the index is to be rebuilt.
    wanted: Option<Arc<str>>,
    /// Callers that wait for a new index in place of one that is not damaged.
    renewals: Vec<Sender<Result<()>>>,
    stopped: bool,
}

/// The next task of the thread.
pub(super) enum Task {
    /// The index is damaged: why.
    Repair(Arc<str>),
    /// The index is not damaged. These wait for the new one.
    Renew(Vec<Sender<Result<()>>>),
}

/// The requests to the thread that rebuilds the index.
#[derive(Default)]
pub(crate) struct RebuildRequests {
    state: Mutex<Wanted>,
    changed: Condvar,
}

impl RebuildRequests {
    /// The index is damaged. Returns at once.
    pub fn request(&self, reason: &Arc<str>) {
        self.state.lock().wanted.get_or_insert_with(|| Arc::clone(reason));
        self.changed.notify_all();
    }

    /// Requests an index that has nothing of what was deleted from this one. The receiver learns whether it is in use,
    /// or why it could not be built.
    ///
    /// # Errors
    /// `Closed` when the store closes.
    pub fn renew(&self) -> Result<Receiver<Result<()>>> {
        let (answer, receiver) = bounded(1);
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::Closed);
        }
        state.renewals.push(answer);
        drop(state);
        self.changed.notify_all();
        Ok(receiver)
    }

    /// Whether an index is to be built, for which disk space is needed.
    pub fn is_wanted(&self) -> bool {
        self.state.lock().wanted.is_some()
    }

    /// Ends the thread soon.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.renewals.clear();
        drop(state);
        self.changed.notify_all();
    }

    pub fn check_running(&self) -> Result<()> {
        if self.state.lock().stopped { Err(Error::Closed) } else { Ok(()) }
    }

    /// Waits for a request; `None` when the thread is to end.
    pub(super) fn wait(&self) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            match (&state.wanted, state.stopped) {
                (_, true) => return None,
                (Some(reason), false) => return Some(Task::Repair(Arc::clone(reason))),
                (None, false) if !state.renewals.is_empty() => {
                    return Some(Task::Renew(std::mem::take(&mut state.renewals)));
                }
                (None, false) => self.changed.wait(&mut state),
            }
        }
    }

    /// False when the thread is to end.
    pub fn sleep(&self) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !state.stopped, AGAIN_AFTER);
        !state.stopped
    }

    /// The index was replaced. What was asked for meanwhile was about the old one, so only `damage` in the new one
    /// counts.
    pub fn replaced(&self, damage: Option<Arc<str>>) {
        self.state.lock().wanted = damage;
    }
}
