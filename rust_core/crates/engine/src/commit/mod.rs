//! The committer: decide, append, sync, publish, acknowledge. One thread owns it; a test drives it step by step.
//!
//! Invariants: records enter the log in the order of their sequences. A manifest is decided only when its chunks are
//! durable. Nothing is acknowledged before it is published, and in `sync` mode nothing is published before its sync has
//! returned. The index gets durable batches only. After a failed write or sync nothing is retried on that file.

pub(crate) mod apply;
mod deciding;
mod limits;
pub(crate) mod queue;
pub(crate) mod round;
pub(crate) mod tokens;
pub(crate) mod upload_ids;
pub(crate) mod view;
pub(crate) mod waiter;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::maintenance::{MaintenanceIntent, MaintenanceOutcome, MaintenanceWaiter};
use super::quotas::QuotaLedger;
use super::state::EngineState;
use super::upkeep::UpkeepTask;
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_base::sync::atomic::Ordering;
use orcas_catalog::{BucketTable, Moved, Overlay};
use orcas_decide::{Failure, Outcome};
use orcas_log::{Batch, Log, LogPosition};
use orcas_record::{self as record, Cause, Durability, PackId, Record, Sequence};
use queue::{AppendedBatch, Sequenced, Submitted};
use round::RoundTimes;
use tokens::RequestTokens;
use upload_ids::UploadIds;
use view::CommitterView;
use waiter::{CompletionSink, Waiter};

/// Bytes that `unsafe-none` and `interval` may append before they sync all the same, so that the index can follow.
const UNSYNCED_BYTES_MAX: u64 = 8 << 20;
/// Bytes that are kept for the encoding of records. One of many parts is longer.
const PAYLOAD_KEPT: usize = 64 << 10;
/// Failed batches in a row after which the store stops writing.
const FAILURES_MAX: u32 = 2;

pub(super) struct Committer {
    shared: Arc<EngineState>,
    log: Log,
    /// End of the last batch that a sync covered.
    durable: LogPosition,
    pub(super) next_sequence: Sequence,
    /// Decided, not appended. Several rounds long in `buffered` mode.
    batch: Batch,
    /// The encoding of the record that is being pushed.
    payload: Vec<u8>,
    records: Vec<Arc<Sequenced>>,
    objects: usize,
    /// The records of a moved prefix are among `records`.
    bulk: bool,
    /// The kinds of moves among the records that are not published yet.
    moved: Moved,
    /// Appended, not synced.
    unsynced: Vec<AppendedBatch>,
    /// How many of those count as settled for events, because no sync is to come.
    settled: usize,
    unsynced_bytes: u64,
    unsynced_objects: usize,
    /// Decided, not published.
    fresh: Vec<Arc<Sequenced>>,
    /// Something was acknowledged that no sync has covered (`interval`, `buffered`, `unsafe-none`).
    promised: bool,
    /// Decided, not published.
    pub(super) pending: Overlay,
    pub(super) buckets: Arc<BucketTable>,
    tokens: RequestTokens,
    /// UpdateVersion records that were decided.
    updates: u64,
    /// Packs whose birth is decided but not durable.
    births: Vec<PackId>,
    upload_ids: UploadIds,
    version_key: [u8; 32],
    pub(super) quotas: QuotaLedger,
    /// The last round has given back a write that needs what the index counts.
    counting: bool,
    /// When buffered or unsynced records must be durable, on the monotonic clock.
    deadline: Option<Duration>,
    failures: u32,
    /// The result of the look at the free space in this round, if there was one.
    space: Option<Result<()>>,
    /// Why nothing is taken on: the index cannot follow and is far behind, or the disk has no room and the log no file.
    stuck: Option<Error>,
    /// The times of the round under way.
    times: RoundTimes,
    taken: Vec<Submitted>,
    answers: Vec<(Waiter, Result<Outcome, Failure>)>,
    maintained: Vec<(MaintenanceWaiter, Result<MaintenanceOutcome>)>,
    /// Sinks that have answers and were not woken yet.
    unwoken: Vec<Arc<dyn CompletionSink>>,
}

impl Committer {
    pub fn new(shared: Arc<EngineState>, log: Log) -> Self {
        let durable = log.position();
        let buckets = Arc::clone(&shared.catalog.buckets.load());
        Self {
            next_sequence: durable.sequence + 1,
            version_key: shared.keys.version_key(),
            shared,
            log,
            durable,
            batch: Batch::new(),
            payload: Vec::new(),
            records: Vec::new(),
            objects: 0,
            bulk: false,
            moved: Moved::default(),
            unsynced: Vec::new(),
            settled: 0,
            unsynced_bytes: 0,
            unsynced_objects: 0,
            fresh: Vec::new(),
            promised: false,
            pending: Overlay::default(),
            buckets,
            tokens: RequestTokens::default(),
            updates: 0,
            births: Vec::new(),
            upload_ids: UploadIds::default(),
            quotas: QuotaLedger::default(),
            counting: false,
            deadline: None,
            failures: 0,
            space: None,
            stuck: None,
            times: RoundTimes::default(),
            taken: Vec::new(),
            answers: Vec::new(),
            maintained: Vec::new(),
            unwoken: Vec::new(),
        }
    }

    /// The thread: until the queue is closed and everything in it is durable.
    pub fn run(mut self) {
        loop {
            let now = self.shared.clock.monotonic();
            let closed = self.shared.intents.wait(self.deadline.map(|deadline| deadline.saturating_sub(now)));
            if closed {
                return self.close();
            }
            self.times.awaited_index = self.shared.applies.wait_for_room(&*self.shared.clock);
            if self.awaits_index() {
                self.times.awaited_index.get_or_insert_with(|| self.shared.clock.monotonic());
                // Why it cannot follow is found again by what needs it.
                let _ = self.shared.applies.wait_for(self.durable.sequence);
            }
            self.step();
        }
    }

    /// The last round: makes everything durable.
    pub fn close(&mut self) {
        self.flush_or_stop();
        self.log.close(&self.durable);
    }

    /// Runs one round: takes the intents that wait, or makes a flush that is due.
    pub fn step(&mut self) {
        let (count, bytes) = self.round_limits();
        let mut taken = std::mem::take(&mut self.taken);
        let waiting_since = self.shared.intents.take(count, bytes, &mut taken);
        let began = self.shared.clock.monotonic();
        self.times = RoundTimes { awaited_index: self.times.awaited_index.take(), began, ..RoundTimes::default() };
        let intents = taken.len();
        (self.space, self.counting) = (None, false);
        self.quotas.set_owners(&self.shared.quotas.owners.read());
        self.stuck = self.what_keeps_back();
        let (mut barrier, mut roll) = (false, false);
        let mut durability = Durability::UnsafeNone;
        let mut delay = None;
        let start = self.batch.len();
        let mut rest = taken.drain(..);
        while let Some(submitted) = rest.next() {
            if let Submitted::S3(intent, ..) = &submitted
                && self.must_wait_to_count(intent)
            {
                (self.counting, barrier) = (true, true);
                let rest = std::iter::once(submitted).chain(rest.by_ref());
                self.shared.intents.give_back(rest, waiting_since.unwrap_or(began));
                break;
            }
            let before = self.next_sequence;
            let asked = match submitted {
                Submitted::S3(intent, cause, waiter) => {
                    let asked = self.durability(&intent);
                    let answer = self.decide(intent, &cause);
                    self.answers.push((waiter, answer));
                    asked
                }
                Submitted::Maintenance(intent, waiter) => {
                    if let MaintenanceIntent::Barrier { roll: asked } = intent {
                        (barrier, roll) = (true, roll || asked);
                    }
                    let answer = self.maintain(intent);
                    self.maintained.push((waiter, answer));
                    Durability::Sync
                }
            };
            if self.next_sequence > before {
                durability = durability.max(asked);
                delay = [delay, self.sync_delay(asked)].into_iter().flatten().min();
                self.objects += 1;
            }
            // Whether layers show anything cannot be told while records that move what is in them are not published.
            if self.round_is_full(start) || self.moved.layer {
                self.shared.intents.give_back(rest.by_ref(), waiting_since.unwrap_or(began));
            }
        }
        drop(rest);
        self.taken = taken;
        self.close_round(durability, delay, barrier);
        if roll {
            self.roll();
        }
        self.quotas.show(&self.shared.quotas.published);
        self.answer();
        if intents > 0 {
            let metrics = &self.shared.metrics;
            waiting_since.into_iter().for_each(|since| metrics.waits.record_time(began.saturating_sub(since)));
            metrics.rounds.record_time(self.shared.clock.monotonic().saturating_sub(began));
        }
    }

    /// How long a write of this mode may be acknowledged without a sync.
    fn sync_delay(&self, durability: Durability) -> Option<Duration> {
        match durability {
            Durability::Sync | Durability::UnsafeNone => None,
            Durability::Interval => Some(self.shared.options.sync_interval),
            Durability::Buffered => Some(self.shared.options.write_buffer_window),
        }
    }

    pub(super) fn view(&self) -> CommitterView<'_> {
        let Self { shared, pending, buckets, tokens, updates, .. } = self;
        CommitterView { shared, pending, buckets, tokens, updates: *updates }
    }

    /// The packs among `named` that no record has named yet.
    fn unrecorded_packs(&self, named: &[PackId]) -> Vec<PackId> {
        if named.is_empty() {
            return Vec::new();
        }
        let mut unrecorded = self.shared.packs.unrecorded();
        unrecorded.retain(|pack| named.contains(pack) && !self.births.contains(pack));
        unrecorded
    }

    pub(super) fn push_all(&mut self, births: Vec<PackId>, records: Vec<Record>, cause: &Cause) {
        for pack in births {
            self.births.push(pack);
            self.push(Record::CreatePack { pack }, &Cause::Engine);
        }
        for record in records {
            self.push(record, cause);
        }
    }

    fn push(&mut self, record: Record, cause: &Cause) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let (kind, payload, frame) = match &record {
            Record::Content { fingerprint, shared, bytes, seal } => {
                let kind = record::content_kind(*shared, seal.as_ref());
                (kind, Bytes::new(), self.batch.push(sequence, kind, &[&fingerprint.0, bytes]))
            }
            _ => {
                self.payload.clear();
                self.payload.shrink_to(PAYLOAD_KEPT);
                let kind = record::encode_caused(&record, cause, &mut self.payload);
                let frame = self.batch.push(sequence, kind, &[&self.payload]);
                // Other threads free it, which costs more the larger it is.
                (kind, Bytes::copy_from_slice(&self.payload), frame)
            }
        };
        self.shared.reclaim.candidates.mentioned(&record);
        if BucketTable::concerns(&record) {
            Arc::make_mut(&mut self.buckets).apply(&record);
        }
        self.updates += u64::from(matches!(record, Record::UpdateVersion { .. }));
        self.pending.insert(sequence, &record, &self.buckets);
        let sequenced = Arc::new(Sequenced { sequence, kind, record, cause: *cause, payload, frame });
        self.records.push(Arc::clone(&sequenced));
        self.fresh.push(sequenced);
    }

    /// Makes the round as durable as it has to be and publishes it. `delay` is the shortest of its writes,
    /// which need not be the one with the strongest mode.
    fn close_round(&mut self, durability: Durability, delay: Option<Duration>, barrier: bool) {
        let now = self.shared.clock.monotonic();
        let decided = !self.fresh.is_empty();
        let due = self.deadline.is_some_and(|deadline| deadline <= now);
        // What failed may come back with a restart until a later sync: no barrier leaves it in doubt.
        let open = !self.batch.is_empty() || !self.unsynced.is_empty() || self.failures > 0;
        if !(decided || due || barrier && open) {
            return;
        }
        self.times.decided = Some(now);
        let options = &self.shared.options;
        let buffers = durability == Durability::Buffered && options.batch_write_enabled;
        let unsynced = self.unsynced_bytes + self.batch.len() as u64;
        let full = self.batch.len() as u64 >= options.max_write_buffer_size
            || self.objects >= options.max_write_buffer_count as usize
            || unsynced >= UNSYNCED_BYTES_MAX.max(options.max_write_buffer_size)
            // What was appended early is still part of the buffer.
            || buffers && unsynced >= options.max_write_buffer_size
            || buffers && self.unsynced_objects + self.objects >= options.max_write_buffer_count as usize;
        // On a full disk nothing is promised that has yet to find room.
        let short = self.shared.space.ballast.is_short();
        let outcome = if durability == Durability::Sync && decided || due || full || barrier || short {
            self.flush()
        } else if buffers && (self.batch.len() as u64) < self.append_size() {
            self.promise(delay.map(|delay| now + delay));
            Ok(())
        } else {
            self.append().map(|()| self.promise(delay.map(|delay| now + delay)))
        };
        if let Err(error) = outcome {
            self.fail_round(&error);
        }
    }

    /// Continues in a new log file; everything so far is durable. If that fails, it continues in the present one or,
    /// when that one was given up, in a third.
    fn roll(&mut self) {
        if self.log.needs_fail_over() || self.log.position() != self.durable {
            return;
        }
        match self.log.roll().and_then(|()| self.log.sync()) {
            Ok(()) => self.durable = self.log.position(),
            Err(_) if self.log.needs_fail_over() && self.log.fail_over(&self.durable).is_err() => {
                self.stop("writing the log failed and no new file could be made");
            }
            Err(error) => tracing::warn!(%error, "The log file could not be closed"),
        }
    }

    /// Publishes what no sync has covered and must be durable by `deadline`.
    fn promise(&mut self, deadline: Option<Duration>) {
        self.publish();
        self.promised = true;
        self.deadline = [self.deadline, deadline].into_iter().flatten().min();
        if self.deadline.is_none() || planted::is(Bug::EventsBeforeSync) {
            self.unsynced[self.settled..].iter().for_each(|batch| self.shared.events.push(batch));
            self.settled = self.unsynced.len();
        }
    }

    /// Gives a round's answers, and wakes their receivers after the last: an event loop then finds them all at once.
    fn answer(&mut self) {
        self.maintained.drain(..).for_each(|(waiter, answer)| waiter.complete(answer));
        for (waiter, answer) in self.answers.drain(..) {
            self.unwoken.extend(waiter.complete_quietly(answer, &self.times));
        }
        self.unwoken.drain(..).for_each(|sink| sink.wake());
    }

    /// Appends, syncs, publishes, and hands the batches to the index.
    fn flush(&mut self) -> Result<()> {
        self.append()?;
        if !planted::is(Bug::AcknowledgeBeforeSync) {
            let began = self.shared.clock.monotonic();
            let synced = self.log.sync();
            let ended = self.shared.clock.monotonic();
            self.shared.metrics.syncs.record_time(ended.saturating_sub(began));
            self.times.sync = Some((began, ended));
            synced?;
        }
        self.durable = self.log.position();
        self.failures = 0;
        self.deadline = None;
        self.promised = false;
        self.unsynced_bytes = 0;
        self.unsynced_objects = 0;
        for pack in self.births.drain(..) {
            self.shared.packs.born(pack);
        }
        self.publish();
        let settled = std::mem::take(&mut self.settled);
        for (at, batch) in self.unsynced.drain(..).enumerate() {
            if at >= settled {
                self.shared.events.push(&batch);
            }
            self.shared.applies.push(batch);
        }
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.times.appended = true;
        let appended = self.log.append(&mut self.batch, self.durable.sequence)?;
        let bytes = self.batch.len() as u64;
        let records = std::mem::take(&mut self.records);
        self.shared.metrics.batch_records.record(records.len() as u64);
        self.shared.metrics.batch_bytes.record(bytes);
        self.batch.clear();
        self.unsynced_objects += std::mem::take(&mut self.objects);
        self.unsynced_bytes += bytes;
        let bulk = std::mem::take(&mut self.bulk);
        self.unsynced.push(AppendedBatch { records, at: appended.at, position: appended.position, bytes, bulk });
        if self.log.wants_spare() {
            self.shared.upkeep.request(UpkeepTask::Spare);
        }
        Ok(())
    }

    /// Shows everybody what was decided and not shown yet.
    fn publish(&mut self) {
        self.shared.quotas.published.begin();
        let records = self.fresh.iter().map(|record| (record.sequence, &record.record));
        if self.shared.catalog.publish(records, &self.pending, &self.buckets, std::mem::take(&mut self.moved)) {
            self.shared.upkeep.request(UpkeepTask::PrefixHashes);
        }
        self.fresh.clear();
        self.pending.clear();
        self.tokens.published();
    }

    /// A batch that could not be written or synced fails as a whole. If others were promised what it held, or it is
    /// the second in a row, or there is no file to continue in, the store stops writing.
    fn fail_round(&mut self, error: &Error) {
        for (_, answer) in &mut self.answers {
            // A refusal may depend on a record of this batch; which ones do is not known.
            *answer = Err(Failure::Engine(error.clone()));
        }
        self.maintained.iter_mut().for_each(|(_, answer)| *answer = Err(error.clone()));
        self.failures += 1;
        self.shared.metrics.failures.add(1);
        tracing::warn!(%error, failures = self.failures, "A batch failed: none of its writes took effect");
        let promised = std::mem::take(&mut self.promised);
        self.batch.clear();
        self.records.clear();
        self.unsynced.clear();
        self.settled = 0;
        self.births.clear();
        (self.unsynced_bytes, self.unsynced_objects) = (0, 0);
        self.fresh.clear();
        (self.objects, self.bulk, self.moved) = (0, false, Moved::default());
        self.deadline = None;
        self.pending.clear();
        self.tokens.failed();
        self.quotas.forget();
        self.updates = self.shared.catalog.updates.load(Ordering::Acquire);
        self.buckets = Arc::clone(&self.shared.catalog.buckets.load());
        if promised {
            return self.stop("a write that was acknowledged in a weaker mode than sync could not be made durable");
        }
        if matches!(error, Error::StorageFull) {
            // The upkeep thread makes room and the next log file, for the next attempt.
            self.shared.upkeep.request(UpkeepTask::Spare);
        }
        // In a new file without a batch there is nothing to give up.
        if self.log.needs_fail_over() || !self.log.position().same_chain(&self.durable) {
            if self.failures >= FAILURES_MAX {
                return self.stop("writing the log failed twice in a row");
            }
            if self.log.fail_over(&self.durable).is_err() {
                self.stop("writing the log failed and no new file could be made");
            }
        }
    }

    fn stop(&self, reason: &'static str) {
        self.shared.faults.stop_writing(reason.into());
    }

    /// At shutdown.
    fn flush_or_stop(&mut self) {
        if (!self.batch.is_empty() || !self.unsynced.is_empty())
            && let Err(error) = self.flush()
        {
            self.fail_round(&error);
        }
        self.answer();
    }
}
