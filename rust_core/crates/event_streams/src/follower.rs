//! Changes of the journal behind a place, one after the other, for whoever keeps that place. For one thread.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use orcas_base::error::Result;
use orcas_engine::{Change, EventReader, JournalCursor, Place};

use super::streams::EventStreams;

/// Bytes of the journal that one look reads.
const JOURNAL_AT_ONCE: usize = 64 << 10;

pub(super) struct Follower {
    streams: Weak<EventStreams>,
    reader: EventReader,
    /// Read, and not taken yet.
    changes: VecDeque<Change>,
    /// Everything up to here was taken.
    place: Place,
    lost: bool,
}

impl Follower {
    /// Begins behind the place with the id `after`, without one behind `first`. `None` if the server keeps no events.
    pub fn open(streams: &Arc<EventStreams>, after: Option<&str>, first: Place) -> Option<Self> {
        let (cursor, lost) = match after {
            None => (JournalCursor::After(first), false),
            Some(id) => streams.named(id, "after").unwrap_or((JournalCursor::Oldest, true)),
        };
        let place = match cursor {
            JournalCursor::After(place) => place,
            JournalCursor::Oldest | JournalCursor::Since(_) => Place::default(),
        };
        let reader = streams.engine.read_events(cursor)?;
        Some(Self { streams: Arc::downgrade(streams), reader, changes: VecDeque::new(), place, lost })
    }

    /// `None` if the store is closed.
    pub fn streams(&self) -> Option<Arc<EventStreams>> {
        self.streams.upgrade()
    }

    /// Behind everything that was taken.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The id of that place. `None` if the store is closed.
    pub fn after(&self) -> Option<String> {
        Some(self.streams.upgrade()?.id(self.place))
    }

    /// Whether changes before those that come next are gone. Said once.
    pub fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    pub fn take(&mut self) -> Option<Change> {
        let change = self.changes.pop_front()?;
        self.place = change.place;
        Some(change)
    }

    /// Waits until there is a change to take, or the time is over. `None` if the store is closed.
    ///
    /// # Errors
    /// What reading the journal ran into.
    pub fn wait(&mut self, at_most: Duration) -> Result<Option<Arc<EventStreams>>> {
        let until = Instant::now() + at_most;
        while self.changes.is_empty() {
            let Some(streams) = self.streams.upgrade() else { return Ok(None) };
            let arrivals = streams.hub.arrivals();
            let seen = arrivals.count();
            let reached = streams.engine.events_reached();
            if reached > self.place {
                let read = self.reader.read(JOURNAL_AT_ONCE)?;
                self.lost |= read.lost;
                self.changes.extend(read.events);
                if self.changes.is_empty() {
                    self.place = self.reader.place().unwrap_or(self.place).max(self.place);
                    if !read.lost {
                        // At its end: what comes before that is no event.
                        self.place = self.place.max(reached.min(streams.engine.events_reached()));
                    }
                }
            }
            if !self.changes.is_empty() || Instant::now() >= until {
                break;
            }
            drop(streams);
            arrivals.wait(seen, until);
        }
        Ok(self.streams.upgrade())
    }
}
