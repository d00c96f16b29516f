//! Brings durable batches into the journal, in order and without a gap: those that wait in the queue, and from the log
//! those that the queue had no room for or that an earlier process left. One thread owns it, or a test.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::commit::queue::Sequenced;
use super::super::state::EngineState;
use super::change::Change;
use super::sink::EventSink;
use super::source::{Brought, Source};
use orcas_base::error::{Error, Result};
use orcas_journal::{Journal, JournalFiles, Place, Resumed, Start};
use orcas_log::{LogFiles, LogPosition};
use orcas_record::{self as record, Cause, Record, Sequence, keeps_cause};

/// Between two syncs of the journal.
const SYNC_AFTER: Duration = Duration::from_secs(5);
/// Changes that are read from the log before they are written.
const CHANGES_MAX: usize = 4_096;

/// The journal and where it is.
struct Following {
    journal: Journal,
    source: Source,
    /// Everything up to here was looked at.
    reached: LogPosition,
    /// The end of the log when the journal was opened, if it is not known to be reached.
    behind: Option<LogPosition>,
    /// The last event, and its time.
    last: Place,
    time_ms: u64,
    /// Pushed and not written.
    changes: Vec<Change>,
    synced: Duration,
}

pub(crate) struct Follower {
    shared: Arc<EngineState>,
    logs: LogFiles,
    files: JournalFiles,
    /// The open journal; `None` before it was opened, and after an error.
    following: Option<Following>,
    /// A segment, and the bytes of it that count, after a failed sync.
    distrusted: Option<(u64, u64)>,
}

impl Follower {
    /// A follower; `None` if there are to be no events.
    pub fn new(shared: &Arc<EngineState>, logs: &LogFiles) -> Option<Self> {
        let files = shared.events.journal.clone()?;
        Some(Self { shared: Arc::clone(shared), logs: logs.clone(), files, following: None, distrusted: None })
    }

    /// Opens the journal before anything is written: a crash must not put the beginning of a new one off, and who reads
    /// early finds an old one.
    pub fn prepared(mut self) -> Self {
        // The thread tries again and tells.
        let _ = self.open();
        self
    }

    /// Takes what there is. After an error the journal is opened again by the next step.
    ///
    /// # Errors
    /// What opening and writing the journal, or reading the log, ran into.
    pub fn step(&mut self) -> Result<()> {
        let hurry = self.shared.events.take_hurry();
        let expiries = self.shared.events.take_expiries();
        let stepped = self.follow().and_then(|()| self.tidy(hurry, !expiries.is_empty()));
        for answer in expiries {
            // The receiver may have been dropped.
            let _ = answer.send(stepped.clone());
        }
        if stepped.is_err()
            && let Some(Following { journal, .. }) = self.following.take()
        {
            self.distrusted = journal.distrusted();
        }
        stepped
    }

    /// Whether something is yet to be made durable.
    pub fn is_dirty(&self) -> bool {
        self.following.as_ref().is_some_and(|following| following.journal.is_dirty())
    }

    fn follow(&mut self) -> Result<()> {
        if self.following.is_none() {
            // The log must not change between the look at it and the end of what is read.
            let pause = self.shared.catalog.reclaim_pause.begin();
            self.open()?;
            self.catch_up_behind()?;
            drop(pause);
        }
        self.catch_up_behind()?;
        let waiting = self.shared.events.take();
        if let Some(end) = waiting.dropped {
            self.catch_up(&end)?;
        }
        let now_ms = self.shared.clock.now_ms();
        let Some(following) = &mut self.following else { return Ok(()) };
        let mut last = None;
        for batch in waiting.batches {
            if batch.position.sequence <= following.reached.sequence {
                continue;
            }
            for made in batch.records {
                let Sequenced { sequence, kind, record, cause, payload, .. } = &*made;
                following.take(*sequence, *kind, payload, record, *cause, now_ms);
            }
            last = Some(batch.position);
        }
        if let Some(position) = last {
            following.write(&self.shared, position)?;
        }
        Ok(())
    }

    /// Brings a journal that was opened up to what was the end of the log then.
    fn catch_up_behind(&mut self) -> Result<()> {
        match self.following.as_mut().and_then(|following| following.behind.take()) {
            Some(end) => self.catch_up(&end),
            None => Ok(()),
        }
    }

    /// Opens the journal where it was left.
    fn open(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.monotonic();
        let end = shared.events.end();
        let (journal, resumed) = Journal::open(&self.files, self.distrusted)?;
        self.distrusted = None;
        let mut following = Following {
            journal,
            source: Source::of(&shared.catalog.buckets.load()),
            reached: end.clone(),
            behind: Some(end.clone()),
            last: Place::after(end.sequence),
            time_ms: shared.clock.now_ms(),
            changes: Vec::new(),
            synced: now,
        };
        match resumed.map(|resumed| self.fit(resumed, &end)) {
            None => {
                following.begin()?;
                tracing::info!(sequence = end.sequence, "The event journal begins");
            }
            Some(Fit::Foreign { sequence }) => {
                tracing::warn!(
                    journal = sequence,
                    log = end.sequence,
                    "The event journal is not of this state of the store and begins anew: old places in it are void"
                );
                following.begin()?;
            }
            Some(Fit::Gap { sequence }) => {
                tracing::warn!(after = sequence, up_to = end.sequence, "Events are missing in the event journal");
                following.roll(following.last)?;
            }
            Some(Fit::Resumed(resumed, position)) => {
                following.source = Source::restored(&resumed.states)?;
                (following.reached, following.last, following.time_ms) = (position, resumed.last, resumed.time_ms);
            }
        }
        shared.events.note_durable(following.journal.durable());
        // Whoever is behind learns from the journal what is missing.
        following.show(&shared, false);
        self.following = Some(following);
        Ok(())
    }

    /// How the journal fits the log.
    fn fit(&self, resumed: Resumed, end: &LogPosition) -> Fit {
        let sequence = resumed.sequence;
        let Some(position) = LogPosition::decode(&resumed.mark).filter(|at| at.sequence <= end.sequence) else {
            return Fit::Foreign { sequence };
        };
        // A compacted file lacks records of what was replaced or removed since.
        let compacted = self.logs.closed().iter().any(|log| log.compacted && log.last > sequence);
        if compacted {
            return Fit::Gap { sequence };
        }
        Fit::Resumed(resumed, position)
    }

    /// Reads the log up to `end`.
    fn catch_up(&mut self, end: &LogPosition) -> Result<()> {
        let Some(following) = &mut self.following else { return Ok(()) };
        if following.reached.sequence >= end.sequence {
            return Ok(());
        }
        let shared = &self.shared;
        // The log keeps what the journal does not have. What is read must not be replaced under the reader either.
        let _pause = shared.catalog.reclaim_pause.begin();
        self.logs.replay(following.reached.sequence, end, &mut |batch| {
            if shared.events.is_closed() {
                return Err(Error::Closed);
            }
            let position = batch.position;
            for record in batch.records.iter().filter(|record| keeps_cause(record.kind)) {
                // It is a part of a large block.
                let payload = Bytes::copy_from_slice(&record.payload);
                // Nothing tells when it was, but what is known of what was before it.
                let time_ms = following.time_ms;
                let (decoded, cause) = record::decode_caused(record.kind, &payload)?;
                following.take(record.sequence, record.kind, &payload, &decoded, cause, time_ms);
            }
            following.reached = position;
            if following.changes.len() >= CHANGES_MAX {
                following.write(shared, following.reached.clone())?;
                // Told by the time of what is read, or a long backlog would begin a segment with every look.
                if following.journal.is_full(following.time_ms) {
                    following.roll(following.last)?;
                    shared.events.note_durable(following.journal.durable());
                    following.journal.expire(shared.clock.now_ms())?;
                }
            }
            Ok(())
        })?;
        following.write(shared, end.clone())
    }

    /// Ends segments and syncs, as far as that is due. Removes old segments when one has ended, or if `expire`.
    fn tidy(&mut self, hurry: bool, expire: bool) -> Result<()> {
        let shared = &self.shared;
        let Some(following) = &mut self.following else { return Ok(()) };
        let (now, now_ms) = (shared.clock.monotonic(), shared.clock.now_ms());
        let ended = following.journal.is_full(now_ms);
        if ended {
            following.time_ms = now_ms;
            following.roll(following.last)?;
            shared.events.note_durable(following.journal.durable());
        }
        if ended || expire {
            following.journal.expire(now_ms)?;
        }
        // Old events give way to what makes room: deletions and compaction need some first.
        while following.journal.is_dirty() && shared.space.is_under_reserve() && following.journal.remove_oldest()? {}
        let due = now.saturating_sub(following.synced) >= SYNC_AFTER;
        if following.journal.is_dirty() && (hurry || due || shared.events.is_closed()) {
            following.journal.sync()?;
            following.synced = now;
        }
        shared.events.note_durable(following.journal.durable());
        Ok(())
    }
}

enum Fit {
    Resumed(Resumed, LogPosition),
    /// The journal belongs to another log.
    Foreign {
        sequence: Sequence,
    },
    /// The log does not have what comes next.
    Gap {
        sequence: Sequence,
    },
}

impl Following {
    fn start(&self, after: Place) -> Start {
        Start { after, mark: self.reached.encode(), sequence: self.reached.sequence, now_ms: self.time_ms }
    }

    fn begin(&mut self) -> Result<()> {
        let states = self.source.states();
        self.journal.begin(&self.start(self.last), states.iter().map(Vec::as_slice))
    }

    /// Begins the next segment behind the event `after`.
    fn roll(&mut self, after: Place) -> Result<()> {
        let states = self.source.states();
        self.journal.roll(&self.start(after), states.iter().map(Vec::as_slice))
    }

    /// The next record. `kind` and `payload` are its encoding.
    fn take(&mut self, sequence: Sequence, kind: u8, payload: &[u8], record: &Record, cause: Cause, now_ms: u64) {
        let Brought { changes, state } = self.source.take(sequence, record, cause, now_ms);
        for change in changes {
            // Every payload fits: keys and names are bounded.
            self.journal.push_event(change.place, change.time_ms, |out| change.encode(out));
            (self.last, self.time_ms) = (change.place, change.time_ms);
            self.changes.push(change);
        }
        if state {
            let state = [&[kind][..], payload].concat();
            self.journal.push_state(Place { sequence, ordinal: 0 }, now_ms, &state);
        }
    }

    /// Writes what was pushed, which is everything up to `position`, and shows it to those who listen.
    fn write(&mut self, shared: &EngineState, position: LogPosition) -> Result<()> {
        self.journal.write(&position.encode(), position.sequence, self.time_ms)?;
        self.reached = position;
        self.show(shared, shared.events.listeners() > 0);
        self.changes.clear();
        Ok(())
    }

    /// Says up to where the journal has everything, with the changes if they are `heard`.
    fn show(&self, shared: &EngineState, heard: bool) {
        shared.events.note_reached(self.reached.sequence);
        if let Some(sink) = shared.events.sink.get() {
            EventSink::taken(&**sink, heard.then_some(&*self.changes), Place::after(self.reached.sequence));
        }
    }
}
