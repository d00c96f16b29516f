//! The newest events in memory, shared by all listeners, and who waits for the next ones.
//!
//! An event is formatted once, by whoever needs it first. Listeners that are further behind read the journal.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use orcas_engine::{Change, Place};
use orcas_events::Event;

use super::names::event_of;

/// Events in memory at most, and bytes of keys in them.
const EVENTS_MAX: usize = 4_096;
const KEYS_MAX: usize = 1 << 20;

/// Formats of events.
pub(super) const FORMATS: usize = 2;

/// Who waits for events.
pub(super) trait Waits: Send + Sync {
    fn wants(&self, event: &Event) -> bool;

    /// Nothing between these places is wanted.
    fn pass(&self, from: Place, to: Place);

    /// The place behind which it goes on, if it is known.
    fn place(&self) -> Option<Place>;
}

/// An event and its formatted forms.
pub(super) struct Shown {
    pub place: Place,
    pub event: Event,
    pub forms: [OnceLock<Bytes>; FORMATS],
}

#[derive(Default)]
struct Recent {
    events: VecDeque<Arc<Shown>>,
    key_bytes: usize,
    /// The events between these two places are all here.
    from: Place,
    to: Place,
    waiting: Vec<(u32, Arc<dyn Waits>)>,
    listeners: usize,
    closed: bool,
}

impl Recent {
    fn forget_all(&mut self) {
        self.events.clear();
        (self.key_bytes, self.from) = (0, self.to);
    }

    fn push(&mut self, shown: Shown) {
        self.key_bytes += key_len(&shown.event);
        self.events.push_back(Arc::new(shown));
        while self.events.len() > EVENTS_MAX || self.key_bytes > KEYS_MAX {
            let Some(oldest) = self.events.pop_front() else { return };
            self.key_bytes -= key_len(&oldest.event);
            self.from = oldest.place;
        }
    }
}

fn key_len(event: &Event) -> usize {
    event.object.as_ref().map_or(0, |object| object.key.len())
}

/// What a listener finds here.
pub(super) enum Found {
    /// Events behind its place, and the place up to which it has seen everything with them.
    Events(Vec<Arc<Shown>>, Place),
    /// Some of what is behind its place is in the journal only.
    Older,
    Closed,
}

/// One per process.
#[derive(Default)]
pub struct Hub {
    recent: Mutex<Recent>,
}

impl Hub {
    /// The journal has everything up to `place`.
    pub fn begin(&self, place: Place) {
        let mut recent = self.recent.lock();
        if recent.to < place {
            recent.to = place;
            recent.forget_all();
        }
    }

    /// The journal has taken these changes, which are all up to `place`. Returns the slots of listeners to be woken.
    pub fn taken(&self, changes: &[Change], place: Place) -> Vec<u32> {
        let mut woken = Vec::new();
        let mut recent = self.recent.lock();
        let before = recent.to;
        if place <= before {
            // Brought again after a failed sync.
            return woken;
        }
        recent.to = place;
        if recent.listeners == 0 {
            recent.forget_all();
            return woken;
        }
        if changes.is_empty() && recent.waiting.is_empty() {
            return woken;
        }
        for change in changes.iter().filter(|change| change.place > before) {
            if let Some(event) = event_of(change) {
                recent.push(Shown { place: change.place, event, forms: Default::default() });
            }
        }
        let recent = &mut *recent;
        let first = recent.events.partition_point(|shown| shown.place <= before);
        recent.waiting.retain(|(slot, listener)| {
            let wanted = recent.events.range(first..).any(|shown| listener.wants(&shown.event));
            if wanted {
                woken.push(*slot);
            } else {
                listener.pass(before, place);
            }
            !wanted
        });
        woken
    }

    /// Takes everybody who waits out of the queue: for heartbeats.
    pub fn wake_all(&self) -> Vec<u32> {
        self.recent.lock().waiting.drain(..).map(|(slot, _)| slot).collect()
    }

    /// Takes one listener out of the queue, if it is there.
    pub(super) fn wake(&self, listener: &Arc<dyn Waits>) -> Option<u32> {
        let mut recent = self.recent.lock();
        let is_it = |waiting: &Arc<dyn Waits>| std::ptr::addr_eq(Arc::as_ptr(waiting), Arc::as_ptr(listener));
        let at = recent.waiting.iter().position(|(_, waiting)| is_it(waiting))?;
        Some(recent.waiting.swap_remove(at).0)
    }

    /// Streams end.
    pub fn close(&self) -> Vec<u32> {
        self.recent.lock().closed = true;
        self.wake_all()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.recent.lock().closed
    }

    /// One listener more. False if there are `limit`, or if streams end.
    pub(super) fn enter(&self, limit: usize) -> bool {
        let mut recent = self.recent.lock();
        let enters = recent.listeners < limit && !recent.closed;
        recent.listeners += usize::from(enters);
        enters
    }

    pub(super) fn leave(&self) {
        self.recent.lock().listeners -= 1;
    }

    pub fn listeners(&self) -> usize {
        self.recent.lock().listeners
    }

    pub(super) fn find(&self, after: Place, count: usize) -> Found {
        let recent = self.recent.lock();
        if recent.closed {
            return Found::Closed;
        }
        if after < recent.from {
            return Found::Older;
        }
        let first = recent.events.partition_point(|shown| shown.place <= after);
        let found: Vec<_> = recent.events.range(first..).take(count).cloned().collect();
        let to = match found.last() {
            Some(last) if found.len() == count => last.place,
            _ => recent.to.max(after),
        };
        Found::Events(found, to)
    }

    /// Puts a listener into the queue unless there is something behind its place.
    pub(super) fn wait(&self, slot: u32, listener: Arc<dyn Waits>) -> bool {
        let mut recent = self.recent.lock();
        let waits = !recent.closed && listener.place().is_some_and(|place| recent.to <= place);
        if waits {
            recent.waiting.push((slot, listener));
        }
        waits
    }
}
