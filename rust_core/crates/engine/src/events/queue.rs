//! Durable batches on their way to the journal, and requests to the thread that brings them there. Bounded: a batch
//! that finds no room is dropped and read from the log instead, so the committer never waits.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::sink::EventSink;
use crate::commit::queue::{AppendedBatch, Sequenced};
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::{AtomicU64, Ordering};
use orcas_base::sync::{Condvar, Mutex, Receiver, Sender, bounded};
use orcas_journal::JournalFiles;
use orcas_log::LogPosition;
use orcas_record::{Sequence, keeps_cause};

/// Most bytes and records that wait.
const BYTES_MAX: usize = 8 << 20;
const RECORDS_MAX: usize = 32_768;
/// The number of records that is worth a look before `LINGER` has passed although nobody listens.
const RECORDS_WORTH: usize = 4_096;
/// How long a batch waits if nobody listens: a look at many costs little more than one at few.
const LINGER: Duration = Duration::from_millis(200);

/// The records of a durable batch that may have changed something that clients hear of.
pub(super) struct Durable {
    pub records: Vec<Arc<Sequenced>>,
    /// The end of the batch.
    pub position: LogPosition,
}

/// The batches that wait.
pub(super) struct Waiting {
    pub batches: VecDeque<Durable>,
    /// Batches before those were dropped; this is their end.
    pub dropped: Option<LogPosition>,
}

struct State {
    batches: VecDeque<Durable>,
    dropped: Option<LogPosition>,
    records: usize,
    bytes: usize,
    /// The end of the last durable batch.
    end: LogPosition,
    /// Somebody waits for a look now.
    hurry: bool,
    /// Each wants what is too old to be removed.
    expiries: Vec<Sender<Result<()>>>,
    closed: bool,
    /// Why the journal cannot be written at present.
    failed: Option<Arc<str>>,
}

impl State {
    /// Whether somebody waits for a look.
    fn is_asked(&self) -> bool {
        self.hurry || !self.expiries.is_empty()
    }
}

pub(crate) struct EventQueue {
    /// The files of the journal; `None` if no events are kept.
    pub journal: Option<JournalFiles>,
    /// Set once.
    pub sink: OnceLock<Arc<dyn EventSink>>,
    state: Mutex<State>,
    changed: Condvar,
    /// Everything up to this record is durably in the journal, or not wanted there.
    durable: AtomicU64,
    /// Everything up to this record is in the journal.
    reached: AtomicU64,
    listeners: AtomicU64,
}

impl EventQueue {
    /// `end` is that of the log.
    pub fn new(journal: Option<JournalFiles>, end: LogPosition) -> Self {
        let state = State {
            batches: VecDeque::new(),
            dropped: None,
            records: 0,
            bytes: 0,
            end,
            hurry: false,
            expiries: Vec::new(),
            closed: false,
            failed: None,
        };
        Self {
            durable: AtomicU64::new(if journal.is_some() { 0 } else { u64::MAX }),
            journal,
            sink: OnceLock::new(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            reached: AtomicU64::new(0),
            listeners: AtomicU64::new(0),
        }
    }

    /// A batch is durable.
    pub fn push(&self, batch: &AppendedBatch) {
        if self.journal.is_none() {
            return;
        }
        let kept: Vec<_> = batch.records.iter().filter(|record| keeps_cause(record.kind)).cloned().collect();
        let records = kept.len() + 1;
        let bytes: usize = kept.iter().map(|record| record.payload.len()).sum();
        let mut state = self.state.lock();
        state.end = batch.position.clone();
        let was_idle = state.batches.is_empty() && state.dropped.is_none();
        if state.records + records > RECORDS_MAX || state.bytes + bytes > BYTES_MAX {
            state.batches.clear();
            (state.records, state.bytes) = (0, 0);
            state.dropped = Some(batch.position.clone());
        } else {
            state.records += records;
            state.bytes += bytes;
            state.batches.push_back(Durable { records: kept, position: batch.position.clone() });
        }
        let wake = was_idle || state.records >= RECORDS_WORTH && state.records - records < RECORDS_WORTH;
        drop(state);
        if wake {
            self.changed.notify_all();
        }
    }

    /// Waits until there is something worth a look, at most for `at_most`. False when closed: then there is one more
    /// look to take.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        let idle =
            |state: &State| !state.closed && !state.is_asked() && state.batches.is_empty() && state.dropped.is_none();
        if idle(&state) {
            self.changed.wait_while_for(&mut state, |state| idle(state), at_most);
        }
        let may_linger = |state: &State| {
            !state.closed
                && !state.is_asked()
                && state.dropped.is_none()
                && state.records < RECORDS_WORTH
                && self.listeners.load(Ordering::Relaxed) == 0
        };
        if !idle(&state) && may_linger(&state) {
            self.changed.wait_while_for(&mut state, |state| may_linger(state), LINGER.min(at_most));
        }
        !state.closed
    }

    /// Waits before another attempt. False when closed.
    pub(super) fn sleep(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !state.closed, at_most);
        !state.closed
    }

    pub(super) fn take(&self) -> Waiting {
        let mut state = self.state.lock();
        (state.records, state.bytes) = (0, 0);
        Waiting { batches: std::mem::take(&mut state.batches), dropped: state.dropped.take() }
    }

    /// The end of the last durable batch.
    pub fn end(&self) -> LogPosition {
        self.state.lock().end.clone()
    }

    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.expiries.clear();
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// The log may give up everything up to here.
    pub fn durable(&self) -> Sequence {
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn note_durable(&self, sequence: Sequence) {
        // Whoever waits for it has either seen it or sleeps.
        let _state = self.state.lock();
        self.durable.store(sequence, Ordering::Release);
        self.changed.notify_all();
    }

    pub(super) fn reached(&self) -> Sequence {
        self.reached.load(Ordering::Acquire)
    }

    pub(super) fn note_reached(&self, sequence: Sequence) {
        self.reached.store(sequence, Ordering::Release);
    }

    /// Notes the result of the last attempt: why it failed, if it did. True if that is news.
    pub fn note_failure(&self, failed: Option<Arc<str>>) -> bool {
        let mut state = self.state.lock();
        let news = state.failed.is_some() != failed.is_some();
        state.failed = failed;
        news
    }

    pub(super) fn failed(&self) -> Option<Arc<str>> {
        self.state.lock().failed.clone()
    }

    /// If the journal cannot be written, the log keeps nothing for it any more. True if it did until now.
    pub fn give_up(&self) -> bool {
        let failed = self.state.lock().failed.is_some();
        failed && self.durable.swap(u64::MAX, Ordering::AcqRel) != u64::MAX
    }

    /// Everything is to be made durable by the next look.
    pub fn hurry(&self) {
        self.state.lock().hurry = true;
        self.changed.notify_all();
    }

    /// Notes that nothing follows the log any more, so that it keeps nothing for the journal.
    pub fn died(&self) {
        self.note_failure(Some("its thread panicked; events continue after a restart".into()));
        self.give_up();
        self.close();
    }

    /// Waits until everything that is durable now is durably in the journal, at most for `at_most`.
    pub fn settle(&self, at_most: Duration) {
        if self.journal.is_none() {
            return;
        }
        let mut state = self.state.lock();
        state.hurry = true;
        let end = state.end.sequence;
        self.changed.notify_all();
        let waits = |state: &mut State| !state.closed && state.failed.is_none() && self.durable() < end;
        self.changed.wait_while_for(&mut state, waits, at_most);
    }

    /// Asks for a look for what is too old, whose end the receiver gets.
    ///
    /// # Errors
    /// `Closed` when nothing follows the log.
    pub fn push_expiry(&self) -> Result<Receiver<Result<()>>> {
        let (answer, receiver) = bounded(1);
        let mut state = self.state.lock();
        if state.closed || self.journal.is_none() {
            return Err(Error::Closed);
        }
        state.expiries.push(answer);
        drop(state);
        self.changed.notify_all();
        Ok(receiver)
    }

    pub(super) fn take_expiries(&self) -> Vec<Sender<Result<()>>> {
        std::mem::take(&mut self.state.lock().expiries)
    }

    /// Whether everything is to be durable now.
    pub(super) fn take_hurry(&self) -> bool {
        std::mem::take(&mut self.state.lock().hurry)
    }

    pub(super) fn add_listener(&self) {
        let _state = self.state.lock();
        self.listeners.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(super) fn remove_listener(&self) {
        self.listeners.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn listeners(&self) -> u64 {
        self.listeners.load(Ordering::Relaxed)
    }
}
