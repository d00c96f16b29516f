//! The statements of the protocol to a database, and the answers that it may give.

use crate::entry::{Cursor, Entry, EntryId, NodeId, Position, Term};
use crate::snapshot::Snapshot;

/// The row of the head.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowHead {
    pub term: Term,
    pub owner: NodeId,
    /// The position of the next entry.
    pub next: Position,
    /// The entry before it.
    pub last: Option<EntryId>,
    pub kept: Kept,
}

impl RowHead {
    /// Whether a copy has everything.
    pub fn ends(&self, cursor: Cursor) -> bool {
        cursor == Cursor { next: self.next, last: self.last }
    }

    /// The cursor of a copy behind these rows. `None` if they do not continue the copy, or do not lead to the last
    /// entry.
    pub(super) fn continues<B>(&self, mut cursor: Cursor, entries: &[Entry<B>]) -> Option<Cursor> {
        let continue_copy = !entries.is_empty() && entries.iter().all(|entry| cursor.advance(entry));
        (continue_copy && (cursor.next < self.next || self.ends(cursor))).then_some(cursor)
    }
}

/// What is left of the log: a part of the head that its owner changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kept {
    /// How often it was changed.
    pub changes: u64,
    /// Entries before it may be missing.
    pub floor: Position,
    /// The newest first.
    pub snapshots: Vec<Snapshot>,
}

/// A statement, each a transaction of its own at READ COMMITTED.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Statement<B> {
    ReadHead,
    /// `UPDATE head SET next = next RETURNING …`: the head, as of a commit that a database can no longer make once it
    /// was replaced.
    Look,
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
    /// RETURNING …`, which may be repeated.
    Take {
        seen: Term,
        owner: NodeId,
    },
    /// `SELECT … FROM log WHERE position >= $from AND position < $to ORDER BY position`. The answer may stop early, but
    /// it has one row at least, unless they were deleted.
    Read {
        from: Position,
        to: Position,
    },
    /// `UPDATE head SET changes = $changes, floor = $floor, snapshots = $snapshots WHERE term = $term AND changes IN
    /// ($changes - 1, $changes)`, which may be repeated, and changes nothing if it arrives after the next one.
    Change {
        term: Term,
        kept: Kept,
    },
    /// `DELETE FROM log WHERE position < $below`, once a head with that floor is known to be in the database.
    Remove {
        below: Position,
    },
}

/// The answer to a statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer<B> {
    Head(RowHead),
    /// Committed without a warning, one row of the head changed. The head after it, which only looks, takeovers and
    /// changes use.
    Changed(RowHead),
    /// Committed, no row changed.
    Unchanged,
    Entries(Vec<Entry<B>>),
    /// An error after the statement was sent, or a commit with a warning.
    Unknown,
}
