//! Requests to the upkeep thread, for slow work that nothing waits for.

use crossbeam_channel::{Receiver, Sender};

/// A task for the upkeep thread.
pub(crate) enum UpkeepTask {
    Spare,
    /// There may be room for the ballast.
    Ballast,
    Checkpoint,
    /// The filter of shared blobs is wanted, or wanted larger.
    PrefixHashes,
    Stop,
}

/// Requests that wait at most. What is asked for beyond is asked for again.
const WAITING_MAX: usize = 64;

#[derive(Clone)]
pub(crate) struct Upkeep(Sender<UpkeepTask>);

impl Upkeep {
    pub fn pair() -> (Self, Receiver<UpkeepTask>) {
        let (sender, tasks) = crossbeam_channel::bounded(WAITING_MAX);
        (Self(sender), tasks)
    }

    pub fn request(&self, task: UpkeepTask) {
        // Nobody listens in a test that drives the steps itself, or after the end.
        let _ = self.0.try_send(task);
    }

    /// Ends the thread once it has done what it was asked for.
    pub fn stop(&self) {
        let _ = self.0.send(UpkeepTask::Stop);
    }
}
