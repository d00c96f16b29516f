//! The answer to a maintenance intent, which its submitter polls or waits for.

use std::sync::Arc;

use super::intent::MaintenanceOutcome;
use orcas_base::error::{Error, Result};
use orcas_base::sync::{Condvar, Mutex};

/// The place where the answer appears.
#[derive(Default)]
pub(crate) struct MaintenanceReply {
    answer: Mutex<Option<Result<MaintenanceOutcome>>>,
    answered: Condvar,
}

impl MaintenanceReply {
    /// A reply, and who is to give it.
    pub fn pair() -> (Arc<Self>, MaintenanceWaiter) {
        let reply = Arc::<Self>::default();
        (Arc::clone(&reply), MaintenanceWaiter { reply: Some(reply) })
    }

    /// The answer; `None` while there is none.
    pub fn get(&self) -> Option<Result<MaintenanceOutcome>> {
        self.answer.lock().clone()
    }

    /// Blocks until there is an answer.
    ///
    /// # Errors
    /// As the decision and the commit. [`Error::Closed`] when the intent was dropped.
    pub fn wait(&self) -> Result<MaintenanceOutcome> {
        let mut answer = self.answer.lock();
        loop {
            if let Some(answer) = &*answer {
                return answer.clone();
            }
            self.answered.wait(&mut answer);
        }
    }

    fn give(&self, result: Result<MaintenanceOutcome>) {
        *self.answer.lock() = Some(result);
        self.answered.notify_all();
    }
}

/// Gives the answer, exactly once: if it is dropped before, the store is closed.
pub(crate) struct MaintenanceWaiter {
    /// The place for the answer; `None` once completed.
    reply: Option<Arc<MaintenanceReply>>,
}

impl MaintenanceWaiter {
    pub fn complete(mut self, result: Result<MaintenanceOutcome>) {
        if let Some(reply) = self.reply.take() {
            reply.give(result);
        }
    }
}

impl Drop for MaintenanceWaiter {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply.give(Err(Error::Closed));
        }
    }
}
