//! The segments that there are, shared by the writer and all readers. The lock is never held during disk I/O.

use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::{AtomicU64, Ordering};

use super::format::Header;
use orcas_events::Place;

/// One segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub number: u64,
    pub after: Place,
    pub began_ms: u64,
    pub salt: u32,
    /// Bytes that are written, up to a mark.
    pub end: u64,
}

impl Segment {
    pub fn new(header: &Header, end: u64) -> Self {
        Self { number: header.number, after: header.after, began_ms: header.began_ms, salt: header.salt, end }
    }
}

#[derive(Default)]
pub(crate) struct Segments {
    list: Mutex<Vec<Segment>>,
    journal: AtomicU64,
}

impl Segments {
    /// All segments, oldest first, of the journal with this id.
    pub fn replace(&self, journal: u64, list: Vec<Segment>) {
        self.journal.store(journal, Ordering::Release);
        *self.list.lock() = list;
    }

    pub fn journal(&self) -> u64 {
        self.journal.load(Ordering::Acquire)
    }

    pub fn push(&self, segment: Segment) {
        self.list.lock().push(segment);
    }

    /// The last one has grown.
    pub fn grown(&self, end: u64) {
        if let Some(last) = self.list.lock().last_mut() {
            last.end = end;
        }
    }

    pub fn oldest(&self) -> Option<Segment> {
        self.list.lock().first().cloned()
    }

    /// All but the last, oldest first, with the time at which the next one began.
    pub fn closed(&self) -> Vec<(Segment, u64)> {
        let list = self.list.lock();
        list.iter().zip(list.iter().skip(1)).map(|(segment, next)| (segment.clone(), next.began_ms)).collect()
    }

    pub fn bytes(&self) -> u64 {
        self.list.lock().iter().map(|segment| segment.end).sum()
    }

    pub fn remove(&self, number: u64) {
        self.list.lock().retain(|segment| segment.number != number);
    }

    /// The last one for which `holds`, or else the first.
    pub fn last_where(&self, holds: impl Fn(&Segment) -> bool) -> Option<Segment> {
        let list = self.list.lock();
        list.iter().rev().find(|segment| holds(segment)).or(list.first()).cloned()
    }

    /// The segment with this number as it is now.
    pub fn find(&self, number: u64) -> Option<Segment> {
        self.list.lock().iter().find(|segment| segment.number == number).cloned()
    }

    /// The one behind it.
    pub fn next(&self, number: u64) -> Option<Segment> {
        self.list.lock().iter().find(|segment| segment.number > number).cloned()
    }
}
