//! The thread that reclaims: by itself, a little at a time and within its share of the disk's time, or at once when a
//! request waits for it. It also frees unused memory, because it wakes up regularly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::handle::Handle;
use super::super::state::EngineState;
use super::limits::{ReclaimLimits, Step};
use super::requests::{Effort, ReclaimProgress, Reclaimed};
use super::work::Reclaimer;
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::Ordering;
use orcas_log::{LogFiles, size_at};

/// Between two looks when nothing was worth doing.
const IDLE_PAUSE: Duration = Duration::from_secs(2);
/// Between two looks for memory that lies unused.
const TIDY_AFTER: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 4 });
/// Between two lines of the log about what it does by itself.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);
/// Between two looks at a commit, the index or a reader that is waited for.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// The longest one step may be paid for, so that a request is noticed.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// By itself: half of a file must be dead, and a step that writes must gain something.
const LIVE_MAX: f64 = 0.5;
const FREED_MIN: u64 = 4 << 20;
/// On demand nearly everything that is dead goes.
const COMPACT_LIVE_MAX: f64 = 0.97;
const COMPACT_FREED_MIN: u64 = 64 << 10;
/// The event journal is waited for at most this long, and so are standbys.
const EVENTS_MAX: Duration = Duration::from_secs(5);
/// A reader that holds up the last step of a request is waited for at most this long.
const READERS_MAX: Duration = Duration::from_secs(60);

impl Handle {
    /// Reclaims now and waits for the end. Blocking.
    ///
    /// # Errors
    /// `ReadOnly`, `Closed`, or what reading and writing files ran into.
    pub fn reclaim(&self, effort: Effort) -> Result<Reclaimed> {
        self.shared.reclaim.push(effort)?.recv().unwrap_or(Err(Error::Closed))
    }

    pub fn reclaim_progress(&self) -> ReclaimProgress {
        self.shared.reclaim.progress()
    }
}

/// The thread, until its queue is stopped.
pub(crate) fn run(shared: &Arc<EngineState>, logs: LogFiles) {
    let mut reclaimer = Reclaimer::new(Arc::clone(shared), logs, Arc::clone(&shared.reclaim.done));
    let mut tidied = shared.clock.monotonic();
    let mut logged = (Reclaimed::default(), tidied);
    loop {
        let now = shared.clock.monotonic();
        if now.saturating_sub(tidied) >= TIDY_AFTER {
            shared.tidy();
            tidied = now;
        }
        if let Some(request) = shared.reclaim.queue.take() {
            let answer = on_demand(shared, &mut reclaimer, request.effort);
            reclaimer.unlimited();
            reclaimer.end_renewal();
            shared.reclaim.queue.done();
            log_summary(shared, &mut logged.0);
            // The receiver may have been dropped.
            let _ = request.answer.send(answer);
        }
        let limits = limits(shared, Effort::Compact, false);
        let pause = match reclaimer.step(&limits) {
            Ok(Step::Idle) => {
                shared.reclaim.queue.note_failure(None);
                if now.saturating_sub(logged.1) >= PROGRESS_INTERVAL {
                    logged.1 = now;
                    log_summary(shared, &mut logged.0);
                }
                IDLE_PAUSE
            }
            Ok(Step::Waiting) => RETRY_INTERVAL * 5,
            Ok(Step::Worked { bytes }) => price(shared, bytes),
            // What found no room is tried again with more.
            Err(Error::StorageFull) if shared.space.make_room() => RETRY_INTERVAL,
            Err(error) => {
                if shared.reclaim.queue.note_failure(Some(error.to_string().into())).is_none() {
                    tracing::warn!(%error, "Reclamation failed and is tried again: run `orcas fsck` if this persists");
                }
                IDLE_PAUSE * 5
            }
        };
        if !shared.reclaim.queue.wait(pause) {
            return log_summary(shared, &mut logged.0);
        }
    }
}

/// Says in the log what was freed since `logged`.
fn log_summary(shared: &EngineState, logged: &mut Reclaimed) {
    let total = *shared.reclaim.done.lock();
    let Reclaimed { blobs, condemned_bytes, punched_bytes, moved_bytes, log_files, packs } = total.since(*logged);
    if total.since(*logged).freed() {
        *logged = total;
        tracing::info!(blobs, condemned_bytes, punched_bytes, moved_bytes, log_files, packs, "Space was reclaimed");
    }
}

/// How long to pause after a step, so that over time no more than the allowed bytes a second are moved.
fn price(shared: &EngineState, bytes: u64) -> Duration {
    match shared.options.reclaim_bytes_per_sec {
        0 => Duration::ZERO,
        rate => Duration::from_secs_f64(bytes as f64 / rate as f64).min(PAUSE_MAX),
    }
}

/// The limits of what is worth doing now. With little space left a file is rewritten only if that needs much less than
/// there is.
fn limits(shared: &EngineState, effort: Effort, demanded: bool) -> ReclaimLimits {
    let free = shared.fs.free_bytes(&shared.options.data).unwrap_or(u64::MAX);
    // The ballast is for this as well.
    let room = free.saturating_add(shared.space.ballast.held());
    ReclaimLimits {
        live_max: if demanded { COMPACT_LIVE_MAX } else { LIVE_MAX },
        freed_min: if demanded { COMPACT_FREED_MIN } else { FREED_MIN },
        output_max: room.saturating_sub(size_at(room, shared.options.log_file_size)) / 2,
        compact: effort != Effort::Collect,
        hurry: demanded,
    }
}

pub(crate) fn on_demand(shared: &Arc<EngineState>, reclaimer: &mut Reclaimer, effort: Effort) -> Result<Reclaimed> {
    let before = *shared.reclaim.done.lock();
    reclaimer.refresh();
    reclaimer.renew(effort == Effort::Renew)?;
    reclaimer.settle(effort != Effort::Collect, true);
    shared.events.settle(EVENTS_MAX);
    settle_standbys(shared);
    let mut waiting_since: Option<Instant> = None;
    let mut failures = Vec::new();
    loop {
        if shared.reclaim.queue.is_stopped() {
            return Err(Error::Closed);
        }
        let step = match reclaimer.step(&limits(shared, effort, true)) {
            // What is damaged is passed over; the rest is reclaimed before anybody is told.
            Err(error @ (Error::Corrupt { .. } | Error::Missing { .. } | Error::Record { .. }))
                if failures.len() < DAMAGED_MAX =>
            {
                failures.push(error);
                continue;
            }
            Err(Error::StorageFull) if shared.space.make_room() => continue,
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
                shared.reclaim.queue.sleep(RETRY_INTERVAL);
            }
        }
    }
    if let Some(left) = reclaimer.end_renewal() {
        shared.reclaim.left_files.store(left, Ordering::Relaxed);
    }
    if effort != Effort::Collect {
        for _ in 0..VACUUM_STEPS_MAX {
            if !shared.catalog.index.vacuum(VACUUM_PAGES)? {
                break;
            }
        }
        shared.catalog.index.truncate_wal()?;
        shared.space.spares.remove();
    }
    let done = *shared.reclaim.done.lock();
    failures.into_iter().next().map_or(Ok(done.since(before)), Err)
}

/// Waits until all standbys have what there is, but not for long.
fn settle_standbys(shared: &EngineState) {
    let (last, started) = (shared.applies.applied_to().sequence, Instant::now());
    while shared.reclaim.standbys_have(shared.clock.monotonic()) < last && started.elapsed() < EVENTS_MAX {
        shared.reclaim.queue.sleep(RETRY_INTERVAL * 5);
    }
}

/// Damaged files that a request passes over before it gives up.
const DAMAGED_MAX: usize = 64;
/// Pages that the index gives back in one transaction, so that the applier waits for milliseconds only.
const VACUUM_PAGES: u32 = 2_048;
/// 80 GiB of pages, so that a busy writer cannot keep a request for ever.
const VACUUM_STEPS_MAX: u32 = 10_000;
