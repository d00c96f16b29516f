//! Reading the log up to its end, by any node.

use super::head::Head;
use super::store::{Call, Reply};
use crate::entry::{Cursor, Entry};

/// Reads what a copy lacks. A fence is believed only after the head was read: a node that tried to take the log may have
/// placed it where a truncation had deleted an entry. A copy that has reached the end holds every entry that was
/// acknowledged before the call was made that found nothing, so reads that arrived before that call may be answered, and
/// no others: the head that is read after it says nothing of newer entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Follow<B> {
    cursor: Cursor,
    step: Step<B>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step<B> {
    /// Whether the log in the store is that of the copy: the entry before the cursor is there.
    Check,
    /// The entry is not there: read the head, because a truncation may explain it.
    LookAfterCheck,
    Read,
    /// The entry at the cursor, if only the head can explain it: none, or a fence.
    Explain(Option<Entry<B>>),
}

/// The next step of a copy.
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
    /// The store does not continue the copy: stop, and say so.
    Broken,
}

impl<B: Clone> Follow<B> {
    pub fn new(cursor: Cursor) -> Self {
        Self { cursor, step: if cursor.next == 0 { Step::Read } else { Step::Check } }
    }

    pub fn call(&self) -> Call<B> {
        match &self.step {
            Step::Check => Call::ReadEntry(self.cursor.next - 1),
            Step::Read => Call::ReadEntry(self.cursor.next),
            Step::LookAfterCheck | Step::Explain(_) => Call::ReadHead,
        }
    }

    pub fn reply(&mut self, reply: &Reply<B>) -> Followed<B> {
        match (self.step.clone(), reply) {
            (Step::Check, Reply::Entry(found)) => {
                let is_there = found.as_ref().map(|entry| entry.id) == self.cursor.last;
                self.step = if is_there { Step::Read } else { Step::LookAfterCheck };
            }
            (Step::Read, Reply::Entry(Some(entry))) if entry.batch.is_some() => return self.apply(entry),
            (Step::Read, Reply::Entry(found)) => self.step = Step::Explain(found.clone()),
            (step, Reply::Head(Some(found))) => return self.explain(step, &found.head),
            // Nobody has begun the log yet.
            (Step::Explain(None), Reply::Head(None)) if self.cursor.next == 0 => {
                self.step = Step::Read;
                return Followed::End;
            }
            (_, Reply::Head(None)) => return Followed::Broken,
            _ => {}
        }
        Followed::Continues
    }

    /// The head was read after the entry. So if a truncation has made the hole, its floor is in it.
    fn explain(&mut self, step: Step<B>, head: &Head) -> Followed<B> {
        if head.floor > self.cursor.next {
            return Followed::Truncated(head.clone());
        }
        self.step = Step::Read;
        match step {
            Step::Explain(Some(fence)) => self.apply(&fence),
            Step::Explain(None) => Followed::End,
            _ if head.begins_at(self.cursor) => Followed::Continues,
            _ => Followed::Broken,
        }
    }

    fn apply(&mut self, entry: &Entry<B>) -> Followed<B> {
        if self.cursor.advance(entry) { Followed::Entry(entry.clone()) } else { Followed::Broken }
    }
}
