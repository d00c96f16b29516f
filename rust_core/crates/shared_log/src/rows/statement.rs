//! The statements of the protocol to a database, and the answers that it may give.

use crate::entry::{Entry, EntryId, NodeId, Position, Term};

/// The row of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowHead {
    pub term: Term,
    pub owner: NodeId,
    /// The position of the next entry.
    pub next: Position,
    /// The entry before it.
    pub last: Option<EntryId>,
}

/// A statement, each a transaction of its own at READ COMMITTED.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Statement<B> {
    ReadHead,
    /// `WITH h AS (UPDATE head SET next = $position + 1, last = $id WHERE term = $term AND next = $position RETURNING
    /// 1) INSERT INTO log SELECT … FROM h`
    Append {
        position: Position,
        entry: Entry<B>,
    },
    /// `UPDATE head SET next = next WHERE EXISTS (SELECT FROM log WHERE position = $position AND id = $id)`
    Confirm {
        position: Position,
        id: EntryId,
    },
    /// `UPDATE head SET term = $seen + 1, owner = $owner WHERE term = $seen OR (term = $seen + 1 AND owner = $owner)
    /// RETURNING next, last`, which may be repeated.
    Take {
        seen: Term,
        owner: NodeId,
    },
    /// `SELECT … FROM log WHERE position >= $from AND position < $to ORDER BY position`. The answer may stop early, but
    /// it has one row at least.
    Read {
        from: Position,
        to: Position,
    },
}

/// The answer to a statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer<B> {
    Head(RowHead),
    /// Committed without a warning, one row changed. The head after it, which only a node that takes the log looks at.
    Changed(RowHead),
    /// Committed, no row changed.
    Unchanged,
    Entries(Vec<Entry<B>>),
    /// An error after the statement was sent, or a commit with a warning.
    Unknown,
}
