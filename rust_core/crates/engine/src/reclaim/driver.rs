//! The thread that reclaims: by itself, a little at a time and within its share of the disk's time, or at once when
//! somebody asks and waits. It also gives memory back that lies unused, since it wakes up anyway.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{Handle, Shared};
use super::{Policy, Reclaimer, Step};
use orcas_base::error::{Error, Result};
use orcas_base::sync::{Condvar, Mutex, Sender, bounded};
use orcas_log::{LogFiles, size_at};

/// Between two looks when nothing was worth doing.
const REST: Duration = Duration::from_secs(2);
/// Between two looks for memory that lies unused.
const TIDY_AFTER: Duration = Duration::from_secs(if cfg!(any(test, feature = "testing")) { 0 } else { 4 });
/// Between two lines of the log about what it does by itself.
const TOLD_AFTER: Duration = Duration::from_secs(60);
/// Between two looks at a commit, the index or a reader that is waited for.
const PATIENCE: Duration = Duration::from_millis(2);
/// The longest one step may be paid for, so that a request is noticed.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// By itself: half of a file must be dead, and a step that writes must gain something.
const LIVE_MAX: f64 = 0.5;
const FREED_MIN: u64 = 4 << 20;
/// On demand nearly everything that is dead goes.
const COMPACT_LIVE_MAX: f64 = 0.97;
const COMPACT_FREED_MIN: u64 = 64 << 10;
/// A reader that holds up the last step of a request is waited for at most this long.
const READERS_MAX: Duration = Duration::from_secs(60);

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
    fn since(self, before: Self) -> Self {
        Self {
            blobs: self.blobs - before.blobs,
            condemned_bytes: self.condemned_bytes - before.condemned_bytes,
            punched_bytes: self.punched_bytes - before.punched_bytes,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            log_files: self.log_files - before.log_files,
            packs: self.packs - before.packs,
        }
    }

    fn freed(self) -> bool {
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

struct Request {
    effort: Effort,
    answer: Sender<Result<Reclaimed>>,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    stopped: bool,
    failed: Option<Arc<str>>,
    busy: bool,
}

/// What the thread is asked.
#[derive(Default)]
pub(crate) struct Requests {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    pub done: Arc<Mutex<Reclaimed>>,
}

impl Requests {
    /// Ends the thread. Who waits learns that the store is closed.
    pub fn stop(&self) {
        let mut waiting = self.waiting.lock();
        waiting.stopped = true;
        waiting.requests.clear();
        drop(waiting);
        self.changed.notify_all();
    }

    /// The thread has ended without being asked to.
    pub fn died(&self) {
        let mut waiting = self.waiting.lock();
        waiting.busy = false;
        waiting.failed = Some("its thread panicked; it goes on after a restart".into());
        drop(waiting);
        self.stop();
    }

    /// Waits; true when the thread shall end.
    fn rest(&self, at_most: Duration, for_requests: bool) -> bool {
        let mut waiting = self.waiting.lock();
        if !waiting.stopped && (waiting.requests.is_empty() || !for_requests) {
            self.changed.wait_for(&mut waiting, at_most);
        }
        waiting.stopped
    }

    fn take(&self) -> Option<Request> {
        let mut waiting = self.waiting.lock();
        let request = waiting.requests.pop_front();
        waiting.busy = request.is_some();
        request
    }
}

impl Handle {
    /// Reclaims now and waits for the end. Blocking.
    ///
    /// # Errors
    /// `ReadOnly`, `Closed`, or what reading and writing files ran into.
    pub fn reclaim(&self, effort: Effort) -> Result<Reclaimed> {
        let (answer, receiver) = bounded(1);
        {
            let requests = &self.shared.reclaim;
            let mut waiting = requests.waiting.lock();
            if waiting.stopped {
                return Err(Error::Closed);
            }
            waiting.requests.push_back(Request { effort, answer });
            requests.changed.notify_all();
        }
        receiver.recv().unwrap_or(Err(Error::Closed))
    }

    pub fn reclaim_progress(&self) -> ReclaimProgress {
        let requests = &self.shared.reclaim;
        let waiting = requests.waiting.lock();
        ReclaimProgress {
            total: *requests.done.lock(),
            requested: waiting.busy || !waiting.requests.is_empty(),
            failed: waiting.failed.clone(),
        }
    }
}

/// The thread, until `Requests::stop`.
pub(crate) fn run(shared: &Arc<Shared>, logs: LogFiles) {
    let mut reclaimer = Reclaimer::new(Arc::clone(shared), logs, Arc::clone(&shared.reclaim.done));
    let mut tidied = shared.clock.monotonic();
    let mut told = (Reclaimed::default(), tidied);
    loop {
        let now = shared.clock.monotonic();
        if now.saturating_sub(tidied) >= TIDY_AFTER {
            shared.tidy();
            tidied = now;
        }
        if let Some(request) = shared.reclaim.take() {
            let answer = on_demand(shared, &mut reclaimer, request.effort);
            reclaimer.unlimited();
            shared.reclaim.waiting.lock().busy = false;
            tell(shared, &mut told.0);
            // Who asked may have gone.
            let _ = request.answer.send(answer);
        }
        let policy = policy(shared, Effort::Compact, false);
        let pause = match reclaimer.step(&policy) {
            Ok(Step::Idle) => {
                shared.reclaim.waiting.lock().failed = None;
                if now.saturating_sub(told.1) >= TOLD_AFTER {
                    told.1 = now;
                    tell(shared, &mut told.0);
                }
                REST
            }
            Ok(Step::Waiting) => PATIENCE * 5,
            Ok(Step::Worked { bytes }) => price(shared, bytes),
            // What found no room is tried again with more.
            Err(Error::StorageFull) if shared.make_room() => PATIENCE,
            Err(error) => {
                let before = shared.reclaim.waiting.lock().failed.replace(error.to_string().into());
                if before.is_none() {
                    tracing::warn!(%error, "Reclamation failed and is tried again: run `orcas fsck` if it goes on");
                }
                REST * 5
            }
        };
        if !pause.is_zero() && shared.reclaim.rest(pause, true) || shared.reclaim.waiting.lock().stopped {
            return tell(shared, &mut told.0);
        }
    }
}

/// Says in the log what was freed since `told`.
fn tell(shared: &Shared, told: &mut Reclaimed) {
    let total = *shared.reclaim.done.lock();
    let Reclaimed { blobs, condemned_bytes, punched_bytes, moved_bytes, log_files, packs } = total.since(*told);
    if total.since(*told).freed() {
        *told = total;
        tracing::info!(blobs, condemned_bytes, punched_bytes, moved_bytes, log_files, packs, "Space was reclaimed");
    }
}

/// How long to pause after a step, so that over time no more than the allowed bytes a second are moved.
fn price(shared: &Shared, bytes: u64) -> Duration {
    match shared.options.reclaim_rate {
        0 => Duration::ZERO,
        rate => Duration::from_secs_f64(bytes as f64 / rate as f64).min(PAUSE_MAX),
    }
}

/// What is worth doing now. With little space left a file is rewritten only if that needs much less than there is.
fn policy(shared: &Shared, effort: Effort, demanded: bool) -> Policy {
    let free = shared.fs.free_bytes(&shared.options.data).unwrap_or(u64::MAX);
    // The ballast is for this as well.
    let room = free.saturating_add(shared.ballast.held());
    Policy {
        live_max: if demanded { COMPACT_LIVE_MAX } else { LIVE_MAX },
        freed_min: if demanded { COMPACT_FREED_MIN } else { FREED_MIN },
        output_max: room.saturating_sub(size_at(room, shared.options.log_file_size)) / 2,
        compact: effort == Effort::Compact,
        hurry: demanded,
    }
}

pub(crate) fn on_demand(shared: &Arc<Shared>, reclaimer: &mut Reclaimer, effort: Effort) -> Result<Reclaimed> {
    let before = *shared.reclaim.done.lock();
    reclaimer.refresh();
    reclaimer.settle(effort == Effort::Compact, true);
    let mut waiting_since: Option<Instant> = None;
    let mut failures = Vec::new();
    loop {
        if shared.reclaim.waiting.lock().stopped {
            return Err(Error::Closed);
        }
        let step = match reclaimer.step(&policy(shared, effort, true)) {
            // What is damaged is passed over; the rest is reclaimed before anybody is told.
            Err(error @ (Error::Corrupt { .. } | Error::Missing { .. } | Error::Record { .. }))
                if failures.len() < DAMAGED_MAX =>
            {
                failures.push(error);
                continue;
            }
            Err(Error::StorageFull) if shared.make_room() => continue,
            step => step?,
        };
        match step {
            Step::Idle => break,
            Step::Worked { .. } => waiting_since = None,
            // What is waited for is not going to be in the index before there is room, or another index.
            Step::Waiting => {
                if let Some(stall) = shared.applies.stalled() {
                    return Err(stall);
                }
                if waiting_since.get_or_insert_with(Instant::now).elapsed() > READERS_MAX {
                    break;
                }
                shared.reclaim.rest(PATIENCE, false);
            }
        }
    }
    if effort == Effort::Compact {
        for _ in 0..VACUUM_ROUNDS_MAX {
            if !shared.index.vacuum(VACUUM_PAGES)? {
                break;
            }
        }
        shared.index.truncate_wal()?;
        shared.spares.remove();
    }
    let done = *shared.reclaim.done.lock();
    failures.into_iter().next().map_or(Ok(done.since(before)), Err)
}

/// Damaged files that a request passes over before it gives up.
const DAMAGED_MAX: usize = 64;
/// Pages that the index gives back in one transaction, so that the applier waits for milliseconds only.
const VACUUM_PAGES: u32 = 2_048;
/// 80 GiB of pages, so that a busy writer cannot keep a request for ever.
const VACUUM_ROUNDS_MAX: u32 = 10_000;
