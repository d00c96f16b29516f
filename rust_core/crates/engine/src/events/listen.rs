//! The engine as readers of events see it: the journal after a cursor, and what is taken into it as it happens.

use std::sync::Arc;

use super::super::handle::Handle;
use super::change::Change;
use super::sink::EventSink;
use orcas_base::error::{Error, Result};
use orcas_journal::{JournalCursor, JournalFiles, JournalReader, Place, ReadEvents};

/// How the journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsState {
    pub bytes: u64,
    /// Behind this place all events are there.
    pub oldest: Option<Place>,
    /// Everything up to this record is in it for good.
    pub durable: u64,
    /// The last durable record of the log.
    pub log: u64,
    /// Why it cannot be written at present.
    pub failed: Option<Arc<str>>,
}

/// Reads the journal from a cursor on.
pub struct EventReader {
    reader: JournalReader,
}

impl EventReader {
    /// The next events, of about `bytes` in the journal. Blocking.
    ///
    /// # Errors
    /// What reading the files ran into.
    pub fn read(&mut self, bytes: usize) -> Result<ReadEvents<Change>> {
        self.reader.read(bytes, |place, time_ms, payload| {
            let change = Change::decode(place, time_ms, payload);
            change.ok_or(Error::Record { reason: "an event in the journal cannot be decoded" })
        })
    }

    /// The place behind which the next look begins, if it is known.
    pub fn place(&self) -> Option<Place> {
        self.reader.place()
    }
}

impl Handle {
    fn journal(&self) -> Option<&JournalFiles> {
        self.shared.events.journal.as_ref()
    }

    /// Whether there are events.
    pub fn has_events(&self) -> bool {
        self.journal().is_some()
    }

    /// Random, made with the journal; 0 if there is none.
    pub fn journal_id(&self) -> u64 {
        self.journal().map_or(0, JournalFiles::id)
    }

    /// A reader from `cursor` on; `None` if there are no events.
    pub fn read_events(&self, cursor: JournalCursor) -> Option<EventReader> {
        self.journal().map(|files| EventReader { reader: JournalReader::new(files.clone(), cursor) })
    }

    /// Behind everything that is durable now.
    pub fn events_now(&self) -> Place {
        Place::after(self.shared.events.end().sequence)
    }

    /// The journal has everything up to here.
    pub fn events_reached(&self) -> Place {
        Place::after(self.shared.events.reached())
    }

    /// Hands events to the sink from now on. To be called once.
    pub fn on_events(&self, sink: Arc<dyn EventSink>) {
        let _ = self.shared.events.sink.set(sink);
    }

    /// Counts a listener: events are taken at once while there is one.
    pub fn add_listener(&self) {
        self.shared.events.add_listener();
    }

    pub fn remove_listener(&self) {
        self.shared.events.remove_listener();
    }

    /// Removes what the journal has kept for long enough. Blocking.
    ///
    /// # Errors
    /// `Closed` if there are no events or the store closes, and what writing the journal ran into.
    pub fn expire_events(&self) -> Result<()> {
        self.shared.events.push_expiry()?.recv().unwrap_or(Err(Error::Closed))
    }

    /// The state of the journal; `None` if there are no events.
    pub fn events_state(&self) -> Option<EventsState> {
        let files = self.journal()?;
        let events = &self.shared.events;
        Some(EventsState {
            bytes: files.bytes(),
            oldest: files.oldest(),
            durable: events.durable(),
            log: events.end().sequence,
            failed: events.failed(),
        })
    }
}
