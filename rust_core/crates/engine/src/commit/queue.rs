//! The two queues of the pipeline: intents on their way to the committer, durable batches on their way to the index.
//! The first is bounded by its callers (they take a budget of bytes before they receive a body); the second by how far
//! the index may lag behind, for which the committer waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::waiter::Waiter;
use crate::clock::Clock;
use crate::maintenance::{MaintenanceIntent, MaintenanceWaiter};
use orcas_base::error::{Error, Result as EngineResult};
use orcas_base::sync::{Condvar, Mutex};
use orcas_decide::Intent;
use orcas_decide::requirements::body_bytes;
use orcas_log::{BatchFrame, BatchLocation, LogPosition};
use orcas_record::{BlobLocation, Cause, Record, Sequence};

/// A record of a batch with everything that the index keeps of it.
pub(crate) struct Sequenced {
    pub sequence: Sequence,
    pub kind: u8,
    pub record: Record,
    pub cause: Cause,
    /// Empty for contents, whose bytes stay in the log.
    pub payload: Bytes,
    pub frame: BatchFrame,
}

/// A batch in the log.
pub(crate) struct AppendedBatch {
    pub records: Vec<Arc<Sequenced>>,
    pub at: BatchLocation,
    pub position: LogPosition,
    /// Bytes of log.
    pub bytes: u64,
    /// The batch moves a prefix, which may take the index longer than all that writers are otherwise ahead of it. They
    /// do not wait for it, and there is at most one.
    pub bulk: bool,
}

impl AppendedBatch {
    /// The location of the bytes of a content; `None` for any other record.
    pub fn location(&self, record: &Sequenced) -> Option<BlobLocation> {
        match &record.record {
            Record::Content { bytes, .. } => {
                Some(BlobLocation::Log { at: self.at.record(record.frame), length: bytes.len() as u32 })
            }
            _ => None,
        }
    }
}

/// A mutation on its way to the committer, who caused it, and who is told when it is decided.
pub(crate) enum Submitted {
    S3(Intent, Cause, Waiter),
    Maintenance(MaintenanceIntent, MaintenanceWaiter),
}

// Every request is moved through the queue: maintenance must not make its entries larger.
const _: () = assert!(size_of::<Submitted>() <= size_of::<(Intent, Cause, Waiter)>());

impl Submitted {
    /// Bytes of body that it brings into the log.
    fn body_bytes(&self) -> u64 {
        match self {
            Self::S3(intent, ..) => body_bytes(intent),
            Self::Maintenance(..) => 0,
        }
    }
}

#[derive(Default)]
struct Intents {
    /// Submissions that wait, with the time of the push, on the monotonic clock.
    waiting: VecDeque<(Duration, Submitted)>,
    /// Mutations that were ever pushed, without those of maintenance.
    submitted: u64,
    closed: bool,
    /// The committer has nothing to do and sleeps.
    idle: bool,
}

#[derive(Default)]
pub(crate) struct IntentQueue {
    intents: Mutex<Intents>,
    arrived: Condvar,
}

impl IntentQueue {
    /// Gives it back when the queue is closed.
    pub fn push(&self, submitted: Submitted, clock: &dyn Clock) -> Option<Submitted> {
        let now = clock.monotonic();
        let mut intents = self.intents.lock();
        if intents.closed {
            return Some(submitted);
        }
        intents.submitted += u64::from(matches!(submitted, Submitted::S3(..)));
        intents.waiting.push_back((now, submitted));
        let wake = intents.idle;
        drop(intents);
        if wake {
            self.arrived.notify_one();
        }
        None
    }

    /// How many mutations were pushed so far, without those of maintenance.
    pub fn submitted(&self) -> u64 {
        self.intents.lock().submitted
    }

    /// The next intents in order, at least one if there is any, until `count` or `bytes` of bodies are reached. Returns
    /// when the first of them was pushed.
    pub fn take(&self, count: usize, bytes: u64, out: &mut Vec<Submitted>) -> Option<Duration> {
        let mut intents = self.intents.lock();
        let since = intents.waiting.front().map(|(since, _)| *since);
        let mut taken = 0;
        while out.len() < count && (out.is_empty() || taken < bytes) {
            let Some((_, submitted)) = intents.waiting.pop_front() else { break };
            taken += submitted.body_bytes();
            out.push(submitted);
        }
        since
    }

    /// Puts back, in order, what was taken last and not decided, and was pushed at `since` or later.
    pub fn give_back(&self, rest: impl DoubleEndedIterator<Item = Submitted>, since: Duration) {
        let mut intents = self.intents.lock();
        rest.rev().for_each(|submitted| intents.waiting.push_front((since, submitted)));
    }

    /// Waits until an intent is there, the queue is closed, or `at_most` has passed. True when closed and empty.
    pub fn wait(&self, at_most: Option<Duration>) -> bool {
        let mut intents = self.intents.lock();
        if intents.waiting.is_empty() && !intents.closed {
            intents.idle = true;
            match at_most {
                Some(at_most) => {
                    self.arrived.wait_for(&mut intents, at_most);
                }
                None => self.arrived.wait(&mut intents),
            }
            intents.idle = false;
        }
        intents.closed && intents.waiting.is_empty()
    }

    /// Refuses what comes from now on.
    pub fn close(&self) {
        self.intents.lock().closed = true;
        self.arrived.notify_one();
    }

    /// As `close`, when the committer is gone: returns what waits.
    pub fn abandon(&self) -> VecDeque<Submitted> {
        let mut intents = self.intents.lock();
        intents.closed = true;
        let waiting = std::mem::take(&mut intents.waiting);
        drop(intents);
        self.arrived.notify_one();
        waiting.into_iter().map(|(_, submitted)| submitted).collect()
    }
}

/// How far the index may stay behind the durable log before writers wait.
pub const LAG_BYTES_MAX: u64 = 16 << 20;
pub const LAG_RECORDS_MAX: usize = 100_000;
/// The applier begins when this share of the allowed lag is reached, or `APPLY_AFTER` after the first batch.
const LAG_SHARE: u64 = 4;
const APPLY_AFTER: Duration = Duration::from_millis(250);
/// Between two attempts while the disk has no room for the index.
const SPACE_AFTER: Duration = Duration::from_millis(500);
/// Records in one transaction of the applier: enough that a page of a large index is often written once for several.
const APPLY_RECORDS: usize = 32_768;
/// Writers may wait for a whole transaction, so one that took longer makes the next ones smaller, down to the records
/// of one large batch.
const APPLY_AT_MOST: Duration = Duration::from_millis(500);
const APPLY_RECORDS_MIN: usize = 1_024;

/// Records in the next transaction, after one with `records` that took `took`.
fn next_at_a_time(at_a_time: usize, records: usize, took: Duration) -> usize {
    if took > APPLY_AT_MOST {
        at_a_time.min(APPLY_RECORDS_MIN.max(records / 2))
    } else if took < APPLY_AT_MOST / 2 {
        (at_a_time * 2).min(APPLY_RECORDS)
    } else {
        at_a_time
    }
}

/// Why the next batch cannot be applied yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// The disk has no room for it.
    Space,
    /// The index is damaged and is being rebuilt.
    Damage,
}

impl Stall {
    fn error(self) -> Error {
        match self {
            Self::Space => Error::StorageFull,
            Self::Damage => Error::IndexDamaged { reason: "it is being rebuilt".into() },
        }
    }
}

/// Whether the applier pauses, between two transactions and without a writer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    No,
    /// Somebody waits for the applier to pause.
    Wanted,
    Halted,
}

/// The next step of the applier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Apply,
    /// Give the writer up and pause.
    Halt,
    End,
}

struct Batches {
    waiting: VecDeque<AppendedBatch>,
    /// Records in one transaction: few when there was no room for many, or when many took too long.
    at_a_time: usize,
    /// The bytes of everything not yet applied, the transaction under way included.
    bytes: u64,
    records: usize,
    /// The bytes among them of a batch that writers do not wait for; 0 if there is none.
    bulk_bytes: u64,
    bulk_records: usize,
    /// The end of the last batch in the index.
    applied: LogPosition,
    /// A caller waits for these batches.
    hurry: bool,
    closed: bool,
    failed: bool,
    stalled: Option<Stall>,
    pause: Pause,
}

impl Batches {
    fn full(&self) -> bool {
        self.bytes - self.bulk_bytes >= LAG_BYTES_MAX || self.records - self.bulk_records >= LAG_RECORDS_MAX
    }

    fn worth_applying(&self) -> bool {
        self.bytes >= LAG_BYTES_MAX / LAG_SHARE || self.records as u64 >= LAG_RECORDS_MAX as u64 / LAG_SHARE
    }
}

/// The part of the log that the index does not have yet.
pub(crate) struct Lag {
    /// Bytes of the log.
    pub bytes: u64,
    pub records: usize,
    /// The disk has no room for more of it.
    pub stalled: bool,
}

pub(crate) struct ApplyQueue {
    batches: Mutex<Batches>,
    changed: Condvar,
}

impl ApplyQueue {
    /// The index holds everything up to `applied`.
    pub fn new(applied: LogPosition) -> Self {
        let batches = Batches {
            waiting: VecDeque::new(),
            at_a_time: APPLY_RECORDS,
            bytes: 0,
            records: 0,
            bulk_bytes: 0,
            bulk_records: 0,
            applied,
            hurry: false,
            closed: false,
            failed: false,
            stalled: None,
            pause: Pause::No,
        };
        Self { batches: Mutex::new(batches), changed: Condvar::new() }
    }

    pub fn push(&self, batch: AppendedBatch) {
        let mut batches = self.batches.lock();
        batches.bytes += batch.bytes;
        batches.records += batch.records.len();
        if batch.bulk {
            batches.bulk_bytes += batch.bytes;
            batches.bulk_records += batch.records.len();
        }
        let wake = batches.waiting.is_empty() || batches.worth_applying();
        batches.waiting.push_back(batch);
        drop(batches);
        if wake {
            self.changed.notify_all();
        }
    }

    /// Waits while the index is too far behind; not for ever once it failed, nor for room on the disk or another index.
    pub fn wait_for_room(&self, clock: &dyn Clock) -> Option<Duration> {
        let mut batches = self.batches.lock();
        let mut since = None;
        while batches.full() && !batches.failed && batches.stalled.is_none() {
            since.get_or_insert_with(|| clock.monotonic());
            self.changed.wait(&mut batches);
        }
        since
    }

    /// Whether the committer would have to wait.
    pub fn full(&self) -> bool {
        self.batches.lock().full()
    }

    /// The error that keeps the index from following.
    pub fn stalled(&self) -> Option<Error> {
        self.batches.lock().stalled.map(Stall::error)
    }

    /// The error that keeps the store from taking more intents on.
    pub fn stuck(&self) -> Option<Error> {
        let batches = self.batches.lock();
        batches.stalled.filter(|_| batches.full()).map(Stall::error)
    }

    /// Puts back the batches that were taken last. They come next again, in smaller pieces if there was no room for
    /// them.
    pub fn put_back(&self, taken: Vec<AppendedBatch>) {
        let mut batches = self.batches.lock();
        for batch in taken.into_iter().rev() {
            batches.waiting.push_front(batch);
        }
        batches.at_a_time = 1;
    }

    /// Not even the smallest piece can be applied.
    pub fn stall(&self, why: Stall) {
        self.batches.lock().stalled = Some(why);
        self.changed.notify_all();
    }

    /// Waits until the applier pauses. True when it did so already.
    ///
    /// # Errors
    /// `Closed` when there is no applier any more.
    pub fn halt(&self) -> EngineResult<bool> {
        let mut batches = self.batches.lock();
        let already = batches.pause == Pause::Halted;
        if !already {
            batches.pause = Pause::Wanted;
            self.changed.notify_all();
        }
        while batches.pause != Pause::Halted {
            if batches.failed {
                return Err(Error::Closed);
            }
            self.changed.wait(&mut batches);
        }
        Ok(already)
    }

    /// The applier continues, with a new writer.
    pub fn release(&self) {
        let mut batches = self.batches.lock();
        batches.pause = Pause::No;
        batches.stalled = batches.stalled.filter(|stall| *stall != Stall::Damage);
        drop(batches);
        self.changed.notify_all();
    }

    /// While the applier pauses, before it continues with an index that has everything up to `applied`: what waits is
    /// older.
    pub fn restart(&self, applied: LogPosition) {
        let mut batches = self.batches.lock();
        batches.waiting.clear();
        (batches.bytes, batches.records, batches.bulk_bytes, batches.bulk_records) = (0, 0, 0, 0);
        batches.applied = applied;
    }

    /// No other index is coming: an applier that waits for one ends.
    pub fn give_up(&self) {
        let mut batches = self.batches.lock();
        batches.failed |= batches.pause == Pause::Halted;
        drop(batches);
        self.changed.notify_all();
    }

    /// The applier pauses, until it is released. False when it must not continue.
    pub fn halted(&self) -> bool {
        let mut batches = self.batches.lock();
        batches.pause = Pause::Halted;
        self.changed.notify_all();
        while batches.pause == Pause::Halted && !batches.closed && !batches.failed {
            self.changed.wait(&mut batches);
        }
        batches.pause != Pause::Halted
    }

    /// Waits a while before the next attempt. False when closed: nothing waits for the index any more.
    pub fn wait_for_space(&self) -> bool {
        let mut batches = self.batches.lock();
        self.changed.wait_while_for(&mut batches, |batches| !batches.closed, SPACE_AFTER);
        !batches.closed
    }

    /// The next batches for one transaction; empty when there are none.
    pub fn take(&self) -> Vec<AppendedBatch> {
        let mut batches = self.batches.lock();
        batches.hurry = false;
        let mut taken = Vec::new();
        let mut records = 0;
        while records < batches.at_a_time {
            let Some(batch) = batches.waiting.pop_front() else { break };
            records += batch.records.len();
            taken.push(batch);
        }
        taken
    }

    /// Waits until there is something worth a transaction, or to be done otherwise. It is to end when closed and empty.
    pub fn wait_for_work(&self) -> Next {
        let mut batches = self.batches.lock();
        while batches.waiting.is_empty() && batches.pause == Pause::No {
            if batches.closed {
                return Next::End;
            }
            self.changed.wait(&mut batches);
        }
        let may_wait = |batches: &Batches| {
            !(batches.closed || batches.hurry || batches.worth_applying() || batches.pause != Pause::No)
        };
        if may_wait(&batches) {
            self.changed.wait_while_for(&mut batches, |batches| may_wait(batches), APPLY_AFTER);
        }
        if batches.pause == Pause::No { Next::Apply } else { Next::Halt }
    }

    /// Whether a batch that writers do not wait for is still to be applied.
    pub fn has_bulk(&self) -> bool {
        self.batches.lock().bulk_records > 0
    }

    /// Notes that these batches, up to `last`, are in the index, which took `took`, and have left the overlay.
    pub fn applied(&self, applied: &[AppendedBatch], last: LogPosition, took: Duration) {
        let bytes: u64 = applied.iter().map(|batch| batch.bytes).sum();
        let records: usize = applied.iter().map(|batch| batch.records.len()).sum();
        let mut batches = self.batches.lock();
        for batch in applied.iter().filter(|batch| batch.bulk) {
            batches.bulk_bytes -= batch.bytes;
            batches.bulk_records -= batch.records.len();
        }
        batches.applied = last;
        batches.stalled = None;
        batches.at_a_time = next_at_a_time(batches.at_a_time, records, took);
        batches.bytes -= bytes;
        batches.records -= records;
        drop(batches);
        self.changed.notify_all();
    }

    /// Whether the index has everything up to `last` that there is. The sequences of a batch that failed are given to
    /// no other, so the last one may never get there.
    pub fn has(&self, last: Sequence) -> bool {
        let batches = self.batches.lock();
        batches.applied.sequence >= last || batches.records == 0
    }

    /// Waits until the index has everything up to `last`.
    ///
    /// # Errors
    /// `Closed` when it never will; why it cannot now.
    pub fn wait_for(&self, last: Sequence) -> EngineResult<()> {
        let mut batches = self.batches.lock();
        while batches.applied.sequence < last && batches.records > 0 {
            if batches.failed {
                return Err(Error::Closed);
            }
            if let Some(stall) = batches.stalled {
                return Err(stall.error());
            }
            batches.hurry |= !batches.waiting.is_empty();
            self.changed.notify_all();
            self.changed.wait(&mut batches);
        }
        Ok(())
    }

    /// Lets the applier begin with what there is. Somebody waits for it.
    pub fn hurry(&self) {
        let mut batches = self.batches.lock();
        if !batches.waiting.is_empty() && !batches.hurry {
            batches.hurry = true;
            self.changed.notify_all();
        }
    }

    pub fn applied_to(&self) -> LogPosition {
        self.batches.lock().applied.clone()
    }

    pub fn fail(&self) {
        self.batches.lock().failed = true;
        self.changed.notify_all();
    }

    pub fn close(&self) {
        self.batches.lock().closed = true;
        self.changed.notify_all();
    }

    pub fn lag(&self) -> Lag {
        let batches = self.batches.lock();
        Lag { bytes: batches.bytes, records: batches.records, stalled: batches.stalled == Some(Stall::Space) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_transactions_become_smaller_and_quick_ones_larger() {
        let (slow, quick) = (Duration::from_secs(3), Duration::from_millis(20));
        assert_eq!(next_at_a_time(APPLY_RECORDS, 20_000, slow), 10_000);
        assert_eq!(next_at_a_time(10_000, 10_000, APPLY_AT_MOST), 10_000);
        assert_eq!(next_at_a_time(10_000, 10_000, quick), 20_000);
        assert_eq!(next_at_a_time(20_000, 20_000, quick), APPLY_RECORDS);
        // One large batch cannot be divided.
        assert_eq!(next_at_a_time(APPLY_RECORDS_MIN, 1_000, slow), APPLY_RECORDS_MIN);
        // Without room for more than one batch, slowness does not make it more.
        assert_eq!(next_at_a_time(1, 1_000, slow), 1);
    }
}
