//! How a node becomes the owner.

use super::head::{Head, Tag, Tagged};
use super::store::{Call, Reply};
use crate::entry::{Cursor, Entry, EntryId, NodeId, Term};

/// Takes the log from whoever has it: names itself in the head, reads to the end, places a fence there, and reads the
/// head again. Whether it is time to do so is not decided here, and safety does not depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Take<B> {
    node: NodeId,
    /// The id of the fence.
    id: EntryId,
    cursor: Cursor,
    step: Step<B>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step<B> {
    ReadHead,
    /// Whether the log in the store is that of the copy: the entry before the cursor is there. Without a head there is
    /// no log yet, so there must be no entry.
    Check {
        found: Option<Tagged>,
    },
    /// The entry is not there: read the head again, because a change of it may explain that.
    LookAfterCheck {
        found: Option<Tagged>,
    },
    Swap {
        seen: Option<Tag>,
        wanted: Head,
    },
    /// A reply left open whether this node is in the head.
    LookAfterSwap {
        seen: Option<Tag>,
        wanted: Head,
    },
    Read {
        term: Term,
    },
    Fence {
        term: Term,
    },
    /// A reply left open what is where the fence should be.
    LookAfterFence {
        term: Term,
    },
    Confirm {
        term: Term,
    },
    /// A fence is believed only if this node is still in the head: else it may stand where a truncation had deleted
    /// an entry.
    Believe {
        term: Term,
        fence: Entry<B>,
    },
}

/// The next step of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken<B> {
    /// Make the next call.
    Continues,
    /// Apply this entry, then make the next call.
    Entry(Entry<B>),
    /// The node owns the log. Its fence is the entry at the cursor of the copy.
    Owner { fence: Entry<B>, head: Tagged },
    /// Another node has taken the log meanwhile: follow it.
    Withdrawn,
    /// The log begins behind the copy by now: load a snapshot, and begin again.
    Truncated(Head),
    /// The store does not continue the copy: stop, and say so.
    Broken,
}

impl<B: Clone> Take<B> {
    /// `id` and `node` are random, and used for nothing else.
    pub fn new(node: NodeId, id: EntryId, cursor: Cursor) -> Self {
        Self { node, id, cursor, step: Step::ReadHead }
    }

    pub fn call(&self) -> Call<B> {
        match &self.step {
            Step::ReadHead
            | Step::LookAfterCheck { .. }
            | Step::LookAfterSwap { .. }
            | Step::Confirm { .. }
            | Step::Believe { .. } => Call::ReadHead,
            Step::Check { .. } => Call::ReadEntry(self.cursor.next.saturating_sub(1)),
            Step::Swap { seen, wanted } => Call::SwapHead { seen: seen.clone(), head: wanted.clone() },
            Step::Read { .. } | Step::LookAfterFence { .. } => Call::ReadEntry(self.cursor.next),
            Step::Fence { term } => Call::CreateEntry { position: self.cursor.next, entry: self.fence(*term) },
        }
    }

    pub fn reply(&mut self, reply: &Reply<B>) -> Taken<B> {
        match (self.step.clone(), reply) {
            (Step::ReadHead, Reply::Head(found)) => return self.begin(found.as_ref()),
            (Step::Check { found }, Reply::Entry(entry))
                if entry.as_ref().map(|entry| entry.id) == self.cursor.last =>
            {
                self.step = self.swap(found.as_ref());
            }
            (Step::Check { found }, Reply::Entry(_)) => self.step = Step::LookAfterCheck { found },
            (Step::LookAfterCheck { found: seen }, Reply::Head(found)) => {
                return if *found == seen { Taken::Broken } else { self.begin(found.as_ref()) };
            }
            (Step::Swap { wanted, .. }, Reply::Swapped(_)) => self.step = Step::Read { term: wanted.term },
            (Step::Swap { seen, wanted }, _) => self.step = Step::LookAfterSwap { seen, wanted },
            (Step::LookAfterSwap { seen, wanted }, Reply::Head(found)) => {
                return self.after_swap(seen, wanted, found.as_ref());
            }
            (Step::Read { term }, Reply::Entry(None)) => self.step = Step::Fence { term },
            (Step::Fence { term }, Reply::Created) => self.step = Step::Confirm { term },
            (Step::Fence { term }, _) => self.step = Step::LookAfterFence { term },
            (Step::LookAfterFence { term }, Reply::Entry(None)) => self.step = Step::Fence { term },
            (Step::LookAfterFence { term }, Reply::Entry(Some(found))) if found.id == self.id => {
                self.step = Step::Confirm { term };
            }
            (Step::Read { term } | Step::LookAfterFence { term }, Reply::Entry(Some(found))) => {
                return self.meet(term, found);
            }
            (Step::Confirm { term }, Reply::Head(Some(found))) if self.is_in(found, term) => {
                return Taken::Owner { fence: self.fence(term), head: found.clone() };
            }
            (Step::Believe { term, fence }, Reply::Head(Some(found))) if self.is_in(found, term) => {
                return self.pass(term, &fence);
            }
            // Only the owner raises the floor. Another node may have been that since, so what this node found may be
            // due to a truncation.
            (Step::Confirm { .. } | Step::Believe { .. }, Reply::Head(found)) => {
                return if found.is_some() { Taken::Withdrawn } else { Taken::Broken };
            }
            _ => {}
        }
        Taken::Continues
    }

    fn fence(&self, term: Term) -> Entry<B> {
        Entry { id: self.id, term, previous: self.cursor.last, batch: None }
    }

    fn begin(&mut self, found: Option<&Tagged>) -> Taken<B> {
        let next = self.cursor.next;
        self.step = match found.map(|found| &found.head) {
            Some(head) if head.floor > next => return Taken::Truncated(head.clone()),
            Some(_) if next == 0 => self.swap(found),
            Some(head) if head.begins_at(self.cursor) => self.swap(found),
            Some(head) if head.floor < next => Step::Check { found: found.cloned() },
            None if next == 0 => Step::Check { found: None },
            _ => return Taken::Broken,
        };
        Taken::Continues
    }

    fn swap(&self, found: Option<&Tagged>) -> Step<B> {
        let (term, changes, floor, snapshots) = match found.map(|found| &found.head) {
            Some(found) => (found.term + 1, found.changes + 1, found.floor, found.snapshots.clone()),
            None => (1, 0, 0, Vec::new()),
        };
        let wanted = Head { term, owner: self.node, changes, floor, snapshots };
        Step::Swap { seen: found.map(|found| found.tag.clone()), wanted }
    }

    fn after_swap(&mut self, seen: Option<Tag>, wanted: Head, found: Option<&Tagged>) -> Taken<B> {
        match found {
            Some(found) if found.head == wanted => self.step = Step::Read { term: wanted.term },
            found if found.map(|found| &found.tag) == seen.as_ref() => self.step = Step::Swap { seen, wanted },
            Some(found) if found.head.term >= wanted.term => return Taken::Withdrawn,
            // Its owner has renewed it.
            found => return self.begin(found),
        }
        Taken::Continues
    }

    /// Comes to an entry of an earlier owner, or to the fence of a node that gave up before it had the log.
    fn meet(&mut self, term: Term, found: &Entry<B>) -> Taken<B> {
        if found.term > term {
            return Taken::Withdrawn;
        }
        if found.batch.is_some() {
            return self.pass(term, found);
        }
        self.step = Step::Believe { term, fence: found.clone() };
        Taken::Continues
    }

    fn pass(&mut self, term: Term, found: &Entry<B>) -> Taken<B> {
        if !self.cursor.advance(found) {
            return Taken::Broken;
        }
        self.step = Step::Read { term };
        Taken::Entry(found.clone())
    }

    /// Whether this node is named as the owner.
    fn is_in(&self, found: &Tagged, term: Term) -> bool {
        found.head.term == term && found.head.owner == self.node
    }
}
