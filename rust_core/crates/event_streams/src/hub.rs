//! The newest events in memory, shared by all listeners, and who waits for the next ones.
//!
//! An event is formatted once, by whoever needs it first. Listeners that are further behind read the journal.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use orcas_engine::{Change, Place};
use orcas_events::Event;

use super::names::event_of;
use super::pieces::{FORMATS, Pieces};
use orcas_base::completions::Resume;

/// Events in memory at most, and bytes of keys in them.
const EVENTS_MAX: usize = 4_096;
const KEYS_MAX: usize = 1 << 20;

/// A listener that waits for events.
pub(super) trait Waits: Send + Sync {
    fn wants(&self, event: &Event) -> bool;

    /// Nothing between these places is wanted.
    fn pass(&self, from: Place, to: Place);

    /// The place behind which it goes on, if it is known.
    fn place(&self) -> Option<Place>;
}

/// An event and its formatted forms.
pub(super) struct Shown {
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
    waiting: Vec<(Resume, Arc<dyn Waits>)>,
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
            self.from = oldest.event.place;
        }
    }
}

fn key_len(event: &Event) -> usize {
    event.object.as_ref().map_or(0, |object| object.key.len())
}

/// The result of a listener's look.
pub(super) enum Found {
    /// Events behind its place, and the place up to which it has seen everything with them.
    Events(Vec<Arc<Shown>>, Place),
    /// Some of what is behind its place is in the journal only.
    Older,
    Closed,
}

/// The last events of a look, as many as there is room for.
struct Newest {
    shown: Vec<Shown>,
    /// The last change before them, if there is any.
    older: Option<Place>,
}

fn newest(changes: &[Change]) -> Newest {
    let (mut shown, mut left) = (Vec::new(), changes);
    while shown.len() < EVENTS_MAX
        && let Some((change, before)) = left.split_last()
    {
        left = before;
        shown.extend(event_of(change).map(|event| Shown { event, forms: Default::default() }));
    }
    shown.reverse();
    Newest { shown, older: left.last().map(|change| change.place) }
}

/// Tells threads that follow the journal when it has more. They hold nothing else while they wait.
#[derive(Default)]
pub(super) struct Arrivals {
    /// How often it had, or streams have ended.
    count: Mutex<u64>,
    changed: Condvar,
}

impl Arrivals {
    /// The number of events. To be asked before the journal is.
    pub fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Waits for another one, at most until then.
    pub fn wait(&self, count: u64, until: Instant) {
        self.changed.wait_while_until(&mut self.count.lock(), |now| *now == count, until);
    }

    fn add(&self) {
        *self.count.lock() += 1;
        self.changed.notify_all();
    }
}

/// One per process.
#[derive(Default)]
pub struct Hub {
    recent: Mutex<Recent>,
    pub(super) pieces: Pieces,
    arrivals: Arc<Arrivals>,
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

    /// The journal has taken these changes, which are all up to `place`; `None` if they are not to be had here. Returns
    /// what resumes listeners that wait for them.
    pub fn taken(&self, changes: Option<&[Change]>, place: Place) -> Vec<Resume> {
        self.arrivals.add();
        // Event loops wait for the lock, so nothing is made under it, and nothing that would be dropped at once.
        let changes = changes.map(newest);
        let mut recent = self.recent.lock();
        let before = recent.to;
        if place <= before {
            // Brought again after a failed sync.
            return Vec::new();
        }
        recent.to = place;
        match changes {
            Some(newest) if recent.listeners > 0 => {
                if let Some(older) = newest.older.filter(|older| *older > before) {
                    recent.forget_all();
                    recent.from = older;
                }
                newest
                    .shown
                    .into_iter()
                    .filter(|shown| shown.event.place > before)
                    .for_each(|shown| recent.push(shown));
            }
            _ => recent.forget_all(),
        }
        let recent = &mut *recent;
        if recent.from > before {
            // What some of them want may be in the journal only.
            return recent.waiting.drain(..).map(|(resume, _)| resume).collect();
        }
        let first = recent.events.partition_point(|shown| shown.event.place <= before);
        let woken = recent.waiting.extract_if(.., |(_, listener)| {
            let wanted = recent.events.range(first..).any(|shown| listener.wants(&shown.event));
            if !wanted {
                listener.pass(before, place);
            }
            wanted
        });
        woken.map(|(resume, _)| resume).collect()
    }

    /// Takes one listener out of the queue, if it is there.
    pub(super) fn wake(&self, listener: &Arc<dyn Waits>) -> Option<Resume> {
        let mut recent = self.recent.lock();
        let is_it = |waiting: &Arc<dyn Waits>| std::ptr::addr_eq(Arc::as_ptr(waiting), Arc::as_ptr(listener));
        let at = recent.waiting.iter().position(|(_, waiting)| is_it(waiting))?;
        Some(recent.waiting.swap_remove(at).0)
    }

    /// Streams end. Returns what resumes those that wait.
    pub fn close(&self) -> Vec<Resume> {
        let waiting = {
            let mut recent = self.recent.lock();
            recent.closed = true;
            std::mem::take(&mut recent.waiting)
        };
        self.arrivals.add();
        waiting.into_iter().map(|(resume, _)| resume).collect()
    }

    pub(super) fn arrivals(&self) -> Arc<Arrivals> {
        Arc::clone(&self.arrivals)
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
        let first = recent.events.partition_point(|shown| shown.event.place <= after);
        let found: Vec<_> = recent.events.range(first..).take(count).cloned().collect();
        let to = match found.last() {
            Some(last) if found.len() == count => last.event.place,
            _ => recent.to.max(after),
        };
        Found::Events(found, to)
    }

    /// Puts a listener into the queue unless there is something behind its place.
    pub(super) fn wait(&self, resume: Resume, listener: Arc<dyn Waits>) -> bool {
        let mut recent = self.recent.lock();
        let waits = !recent.closed && listener.place().is_some_and(|place| recent.to <= place);
        if waits {
            recent.waiting.push((resume, listener));
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use orcas_engine::ChangeKind;
    use orcas_record::{BucketId, Cause};

    use super::*;

    /// Wants one key.
    struct Waiter(&'static [u8], AtomicU64);

    impl Waits for Waiter {
        fn wants(&self, event: &Event) -> bool {
            event.object.as_ref().is_some_and(|object| object.key == self.0)
        }

        fn pass(&self, _from: Place, to: Place) {
            self.1.store(to.sequence, Ordering::Relaxed);
        }

        fn place(&self) -> Option<Place> {
            Some(Place::after(self.1.load(Ordering::Relaxed)))
        }
    }

    fn change(sequence: u64, key: &'static [u8]) -> Change {
        Change {
            place: Place { sequence, ordinal: 0 },
            time_ms: 1,
            kind: ChangeKind::Removed,
            cause: Cause::Engine,
            bucket: BucketId(1),
            bucket_name: Bytes::from_static(b"bucket"),
            owner: Bytes::new(),
            key: Bytes::from_static(key),
            version: None,
            content: None,
        }
    }

    /// A hub at record 1 and one that waits there.
    fn waiting() -> (Hub, Arc<Waiter>) {
        let (hub, waiter) = (Hub::default(), Arc::new(Waiter(b"wanted", AtomicU64::new(1))));
        assert!(hub.enter(1));
        hub.begin(Place::after(1));
        assert!(hub.wait(Box::new(|| ()), Arc::clone(&waiter) as Arc<dyn Waits>));
        (hub, waiter)
    }

    #[test]
    fn what_is_not_wanted_is_passed_and_what_is_wanted_wakes() {
        let (hub, waiter) = waiting();
        assert!(hub.taken(Some(&[change(2, b"other")]), Place::after(2)).is_empty());
        assert_eq!(waiter.place(), Some(Place::after(2)));
        assert_eq!(hub.taken(Some(&[change(3, b"wanted")]), Place::after(3)).len(), 1);
        assert!(matches!(hub.find(Place::after(2), 9), Found::Events(found, _) if found.len() == 1));
    }

    #[test]
    fn nobody_is_passed_over_events_that_one_look_pushes_out() {
        let (hub, waiter) = waiting();
        let end = EVENTS_MAX as u64 + 9;
        let changes: Vec<_> =
            (2..=end).map(|at| change(at, if at == 2 { b"wanted".as_slice() } else { b"other" })).collect();
        assert_eq!(hub.taken(Some(&changes), Place::after(end)).len(), 1);
        assert_eq!(waiter.place(), Some(Place::after(1)));
        assert!(matches!(hub.find(Place::after(1), 9), Found::Older));
    }

    #[test]
    fn who_follows_the_journal_is_told_of_what_came_since_it_looked() {
        let (hub, later) = (Hub::default(), Instant::now() + Duration::from_secs(60));
        let arrivals = hub.arrivals();
        let seen = arrivals.count();
        // Before it waits, while it waits, and at the end.
        hub.taken(None, Place::after(1));
        arrivals.wait(seen, later);
        std::thread::scope(|scope| {
            for tell in [|hub: &Hub| drop(hub.taken(None, Place::after(2))), |hub: &Hub| drop(hub.close())] {
                let seen = arrivals.count();
                let waits = scope.spawn({
                    let arrivals = &arrivals;
                    move || arrivals.wait(seen, later)
                });
                tell(&hub);
                waits.join().unwrap();
            }
        });
        assert!(Instant::now() < later);
    }

    #[test]
    fn who_waits_is_sent_to_the_journal_when_the_changes_are_not_here() {
        let (hub, waiter) = waiting();
        assert_eq!(hub.taken(None, Place::after(5)).len(), 1);
        assert_eq!(waiter.place(), Some(Place::after(1)));
        assert!(matches!(hub.find(Place::after(1), 9), Found::Older));
        assert!(matches!(hub.find(Place::after(5), 9), Found::Events(found, _) if found.is_empty()));
    }
}
