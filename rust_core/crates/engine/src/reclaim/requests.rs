//! Requests to reclaim at once, and what was reclaimed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::worker::{WorkerQueue, WorkerState};
use super::candidates::Candidates;
use orcas_base::error::Result;
use orcas_base::sync::atomic::{AtomicBool, Ordering};
use orcas_base::sync::{Mutex, Receiver, Sender, bounded};
use orcas_record::Sequence;

/// How long a standby that does not ask any more is waited for. One that comes back later builds its index anew.
const STANDBY_TIMEOUT: Duration = Duration::from_secs(600);
/// More than these do not hold the log.
const STANDBYS_MAX: usize = 8;

/// How much a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Dead blobs are condemned, gaps are punched out and empty packs go; nothing is rewritten.
    Collect,
    /// And what is left of files that hold dead records is rewritten.
    Compact,
    /// And every file of the log is rewritten, and every gap in a pack is punched out, however little that frees: nothing
    /// dead is left in files.
    Renew,
}

/// The totals of reclamation, since the store was opened or by one request.
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

/// The progress of reclamation.
#[derive(Clone, Debug, Default)]
pub struct ReclaimProgress {
    pub total: Reclaimed,
    /// A caller asked for it and waits.
    pub requested: bool,
    /// The error of the last attempt; it is tried again.
    pub failed: Option<Arc<str>>,
}

pub(crate) struct Request {
    pub effort: Effort,
    pub answer: Sender<Result<Reclaimed>>,
}

/// Requests to the reclaiming thread, and its results.
#[derive(Default)]
pub(crate) struct ReclaimRequests {
    pub queue: WorkerQueue<Request>,
    pub candidates: Candidates,
    pub done: Arc<Mutex<Reclaimed>>,
    /// The last `Renew` has left files as they were.
    pub left_files: AtomicBool,
    /// The standbys of this store, by their names: the last record that each has, and until when on the monotonic clock
    /// it is waited for.
    standbys: Mutex<BTreeMap<String, (Sequence, Duration)>>,
}

impl ReclaimRequests {
    /// The log is not rewritten beyond what this standby has, for a while.
    pub fn hold_for(&self, standby: String, has: Sequence, now: Duration) {
        let mut standbys = self.standbys.lock();
        standbys.retain(|_, (_, until)| *until > now);
        if standbys.len() < STANDBYS_MAX || standbys.contains_key(&standby) {
            standbys.insert(standby, (has, now + STANDBY_TIMEOUT));
        }
    }

    /// The last record that all standbys have.
    pub fn standbys_have(&self, now: Duration) -> Sequence {
        let standbys = self.standbys.lock();
        standbys.values().filter(|(_, until)| *until > now).map(|(has, _)| *has).min().unwrap_or(Sequence::MAX)
    }

    /// Whether the last `Renew` could not rewrite, or not remove, all that it was to.
    pub fn has_left_files(&self) -> bool {
        self.left_files.load(Ordering::Relaxed)
    }

    /// Queues a request, whose answer the receiver gets.
    ///
    /// # Errors
    /// `Closed` when the thread has ended.
    pub fn push(&self, effort: Effort) -> Result<Receiver<Result<Reclaimed>>> {
        let (answer, receiver) = bounded(1);
        self.queue.push(Request { effort, answer })?;
        Ok(receiver)
    }

    pub fn progress(&self) -> ReclaimProgress {
        let WorkerState { busy, waiting, failed } = self.queue.state();
        ReclaimProgress { total: *self.done.lock(), requested: busy || waiting > 0, failed }
    }
}
