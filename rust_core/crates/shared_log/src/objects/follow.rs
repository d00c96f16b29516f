//! Reading the log up to its end, by any node.

use super::head::Head;
use super::store::{Call, Reply};
use crate::entry::{Cursor, Entry};

/// Reads what a copy lacks. A fence is believed only after the head was read: a node that tried to take the log may
/// have placed it where a truncation had deleted an entry. A copy that has reached the end holds every entry that was acknowledged before the first call
/// was made, so reads that arrived before it may be answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Follow<B> {
    cursor: Cursor,
    /// What was found at the cursor, if only the head can explain it: nothing, or a fence.
    doubt: Option<Option<Entry<B>>>,
}

/// What a copy does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed<B> {
    /// Make the next call.
    Continues,
    /// Apply this entry, then make the next call.
    Entry(Entry<B>),
    /// The copy has everything.
    End,
    /// The log begins behind the copy by now: load a snapshot.
    Truncated(Head),
    /// What the store holds does not continue the copy: stop, and say so.
    Broken,
}

impl<B: Clone> Follow<B> {
    pub fn new(cursor: Cursor) -> Self {
        Self { cursor, doubt: None }
    }

    pub fn call(&self) -> Call<B> {
        if self.doubt.is_some() { Call::ReadHead } else { Call::ReadEntry(self.cursor.next) }
    }

    pub fn reply(&mut self, reply: &Reply<B>) -> Followed<B> {
        match reply {
            Reply::Entry(Some(entry)) if entry.batch.is_some() => return self.apply(entry),
            Reply::Entry(found) => self.doubt = Some(found.clone()),
            Reply::Head(Some(found)) => return self.explain(&found.head),
            Reply::Head(None) => return Followed::Broken,
            _ => {}
        }
        Followed::Continues
    }

    /// The head was read after the entry. So if a truncation has made the hole, its floor is in it.
    fn explain(&mut self, head: &Head) -> Followed<B> {
        if head.floor > self.cursor.next {
            return Followed::Truncated(head.clone());
        }
        match self.doubt.take().flatten() {
            Some(fence) => self.apply(&fence),
            None => Followed::End,
        }
    }

    fn apply(&mut self, entry: &Entry<B>) -> Followed<B> {
        if self.cursor.advance(entry) { Followed::Entry(entry.clone()) } else { Followed::Broken }
    }
}
