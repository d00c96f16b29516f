//! Pauses of reclamation: while one lasts, nothing is moved or destroyed.

use std::sync::Arc;

use orcas_base::sync::{Mutex, MutexGuard};

/// Counts the pauses that are in effect.
#[derive(Default)]
pub struct ReclaimPause {
    count: Mutex<usize>,
}

impl ReclaimPause {
    /// The right to take one step of reclamation, for as long as the guard lives; `None` during a pause.
    pub fn step(&self) -> Option<MutexGuard<'_, usize>> {
        let count = self.count.lock();
        (*count == 0).then_some(count)
    }

    /// Waits for the step in progress.
    pub fn begin(self: &Arc<Self>) -> PauseGuard {
        *self.count.lock() += 1;
        PauseGuard { pause: Arc::clone(self) }
    }
}

/// Reclamation pauses while this lives.
pub struct PauseGuard {
    pause: Arc<ReclaimPause>,
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        *self.pause.count.lock() -= 1;
    }
}
