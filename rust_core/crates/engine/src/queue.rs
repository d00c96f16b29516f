//! The two queues of the pipeline: intents on their way to the committer, durable batches on their way to the index.
//! The first is bounded by whoever owns the requests (a budget of bytes is taken before a body is received); the
//! second by the lag the index may have, for which the committer waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::waiter::Waiter;
use orcas_base::error::{Error, Result as EngineResult};
use orcas_base::sync::{Condvar, Mutex};
use orcas_decide::{Body, Intent};
use orcas_index::BlobLocation;
use orcas_log::LogPosition;
use orcas_record::{Record, Sequence};

/// A record of a batch with everything that the index keeps of it.
pub(super) struct Sequenced {
    pub sequence: Sequence,
    pub kind: u8,
    pub record: Record,
    /// Empty for contents, whose bytes stay in the log.
    pub payload: Bytes,
    /// Offset of the frame from the start of the batch.
    pub frame: u32,
}

/// A batch in the log.
pub(super) struct AppendedBatch {
    pub records: Vec<Arc<Sequenced>>,
    pub file: u64,
    /// Offset of the first frame.
    pub start: u64,
    pub position: LogPosition,
    /// Bytes of log.
    pub bytes: u64,
}

impl AppendedBatch {
    /// Where the bytes of a content stand; `None` for any other record.
    pub fn location(&self, record: &Sequenced) -> Option<BlobLocation> {
        match &record.record {
            Record::Content { bytes, .. } => Some(BlobLocation::Log {
                file: self.file,
                offset: self.start + u64::from(record.frame),
                length: bytes.len() as u32,
            }),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Intents {
    waiting: VecDeque<(Intent, Waiter)>,
    closed: bool,
    /// The committer has nothing to do and sleeps.
    idle: bool,
}

#[derive(Default)]
pub(super) struct IntentQueue {
    intents: Mutex<Intents>,
    arrived: Condvar,
}

/// Bytes of body that an intent brings into the log.
fn body_bytes(intent: &Intent) -> u64 {
    let of = |body: &Body| match body {
        Body::Inline(bytes) | Body::Content { bytes, .. } => bytes.len() as u64,
        Body::Chunks(_) => 0,
    };
    match intent {
        Intent::PutObject(put) => of(&put.body),
        Intent::PutPart(put) => of(&put.body),
        _ => 0,
    }
}

impl IntentQueue {
    /// Gives the intent back when the queue is closed.
    pub fn push(&self, intent: Intent, waiter: Waiter) -> Result<(), Waiter> {
        let mut intents = self.intents.lock();
        if intents.closed {
            return Err(waiter);
        }
        intents.waiting.push_back((intent, waiter));
        let wake = intents.idle;
        drop(intents);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// The next intents in order, at least one if there is any, until `count` or `bytes` of bodies are reached.
    pub fn take(&self, count: usize, bytes: u64, out: &mut Vec<(Intent, Waiter)>) {
        let mut intents = self.intents.lock();
        let mut taken = 0;
        while out.len() < count && (out.is_empty() || taken < bytes) {
            let Some((intent, waiter)) = intents.waiting.pop_front() else { return };
            taken += body_bytes(&intent);
            out.push((intent, waiter));
        }
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

    /// As `close`, when nobody is there to decide what waits, which is given back.
    pub fn abandon(&self) -> impl Iterator<Item = Waiter> {
        let mut intents = self.intents.lock();
        intents.closed = true;
        let waiting = std::mem::take(&mut intents.waiting);
        drop(intents);
        self.arrived.notify_one();
        waiting.into_iter().map(|(_, waiter)| waiter)
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
/// Records in one transaction of the applier.
const APPLY_RECORDS: usize = 16_384;

/// Why what is next cannot be applied yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stall {
    /// The disk has no room for it.
    Space,
    /// The index is damaged and is being built anew.
    Damage,
}

impl Stall {
    fn error(self) -> Error {
        match self {
            Self::Space => Error::StorageFull,
            Self::Damage => Error::IndexDamaged { reason: "it is being built anew".into() },
        }
    }
}

/// Whether the applier stands still, between two transactions and without a writer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    No,
    /// Somebody waits for that.
    Wanted,
    Halted,
}

/// What the applier does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Apply,
    /// Give the writer up and stand still.
    Halt,
    End,
}

struct Batches {
    waiting: VecDeque<AppendedBatch>,
    /// Records in one transaction: few when there was no room for many.
    at_a_time: usize,
    /// Of everything not yet applied, the transaction under way included.
    bytes: u64,
    records: usize,
    /// The end of the last batch in the index.
    applied: LogPosition,
    /// Somebody waits for what is in here.
    hurry: bool,
    closed: bool,
    failed: bool,
    stalled: Option<Stall>,
    pause: Pause,
}

impl Batches {
    fn full(&self) -> bool {
        self.bytes >= LAG_BYTES_MAX || self.records >= LAG_RECORDS_MAX
    }

    fn worth_applying(&self) -> bool {
        self.bytes >= LAG_BYTES_MAX / LAG_SHARE || self.records as u64 >= LAG_RECORDS_MAX as u64 / LAG_SHARE
    }
}

/// What the index does not have yet.
pub(super) struct Lag {
    /// Of log.
    pub bytes: u64,
    pub records: usize,
    /// The disk has no room for more of it.
    pub stalled: bool,
}

pub(super) struct ApplyQueue {
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
        let wake = batches.waiting.is_empty() || batches.worth_applying();
        batches.waiting.push_back(batch);
        drop(batches);
        if wake {
            self.changed.notify_all();
        }
    }

    /// Waits while the index is too far behind; not for ever once it failed, nor for room on the disk or another index.
    pub fn wait_for_room(&self) {
        let mut batches = self.batches.lock();
        while batches.full() && !batches.failed && batches.stalled.is_none() {
            self.changed.wait(&mut batches);
        }
    }

    /// Whether the committer would have to wait.
    pub fn full(&self) -> bool {
        self.batches.lock().full()
    }

    /// What keeps the index from following.
    pub fn stalled(&self) -> Option<Error> {
        self.batches.lock().stalled.map(Stall::error)
    }

    /// What keeps anything more from being taken on.
    pub fn stuck(&self) -> Option<Error> {
        let batches = self.batches.lock();
        batches.stalled.filter(|_| batches.full()).map(Stall::error)
    }

    /// What was taken comes next again, in smaller pieces, should there have been no room for it.
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

    /// Waits until the applier stands still. True when it did so already.
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

    /// The applier goes on, with a new writer.
    pub fn release(&self) {
        let mut batches = self.batches.lock();
        batches.pause = Pause::No;
        if batches.stalled == Some(Stall::Damage) {
            batches.stalled = None;
        }
        drop(batches);
        self.changed.notify_all();
    }

    /// No other index is coming: an applier that waits for one ends.
    pub fn give_up(&self) {
        let mut batches = self.batches.lock();
        batches.failed |= batches.pause == Pause::Halted;
        drop(batches);
        self.changed.notify_all();
    }

    /// The applier stands still from now on. False when it must not go on.
    pub fn halted(&self) -> bool {
        let mut batches = self.batches.lock();
        batches.pause = Pause::Halted;
        self.changed.notify_all();
        while batches.pause == Pause::Halted && !batches.closed && !batches.failed {
            self.changed.wait(&mut batches);
        }
        batches.pause != Pause::Halted
    }

    /// Waits a while before the next attempt. False when closed: nobody waits for the index any more.
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

    /// Batches up to `last` are in the index and have left the overlay.
    pub fn applied(&self, bytes: u64, records: usize, last: LogPosition) {
        let mut batches = self.batches.lock();
        batches.applied = last;
        batches.stalled = None;
        batches.at_a_time = (batches.at_a_time * 2).min(APPLY_RECORDS);
        batches.bytes -= bytes;
        batches.records -= records;
        drop(batches);
        self.changed.notify_all();
    }

    /// Whether the index has everything up to `last` that there is. The sequences of a batch that failed are given to no
    /// other, so the last one may never get there.
    pub fn has(&self, last: Sequence) -> bool {
        let batches = self.batches.lock();
        batches.applied.sequence >= last || batches.records == 0
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
