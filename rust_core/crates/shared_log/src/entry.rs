//! Entries of the log and places in it.

/// How often a node has put itself into the head to take the log. 0 before the first.
pub type Term = u64;

/// The number of an entry, from 0.
pub type Position = u64;

/// A random number of one append or one attempt to take the log, never used for another: by it a node knows its own
/// entry from that of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub u128);

/// A random number of one run of a node. A node that starts again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u128);

/// An entry of the log: the contents of one position.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry<B> {
    pub id: EntryId,
    /// The term of the node that created the entry.
    pub term: Term,
    /// The entry one position before, `None` at position 0.
    pub previous: Option<EntryId>,
    /// The batch; `None` for a fence.
    pub batch: Option<B>,
}

/// How far a copy of the log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cursor {
    /// The first position that the copy lacks.
    pub next: Position,
    /// The entry before it.
    pub last: Option<EntryId>,
}

impl Cursor {
    /// Goes past an entry found at `next`. False if it does not continue what the copy has: then the store holds
    /// another history, and nothing may be concluded from it.
    pub(crate) fn advance<B>(&mut self, entry: &Entry<B>) -> bool {
        let continues = entry.previous == self.last;
        if continues {
            *self = self.after(entry.id);
        }
        continues
    }

    /// The cursor after an entry at `next`.
    pub fn after(self, id: EntryId) -> Self {
        Self { next: self.next + 1, last: Some(id) }
    }
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The entry is in the log.
    Durable,
    /// Another node owns the log since this term. Whether the entry is in the log, only that node can say.
    Fenced(Term),
}
