//! The head of the log, the one object that is replaced: who owns the log, and where it begins.

use crate::entry::{Cursor, NodeId, Position, Term};
use crate::snapshot::Snapshot;

/// Replaced only by a conditional write that names the tag of what it replaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Head {
    pub term: Term,
    pub owner: NodeId,
    /// How often it was replaced, so that no two of them are equal.
    pub changes: u64,
    /// Entries before it may be missing, fences excepted.
    pub floor: Position,
    /// The newest first.
    pub snapshots: Vec<Snapshot>,
}

impl Head {
    /// Whether the floor is at this cursor of a copy. The entry before it may be gone, but a snapshot says which one it
    /// was.
    pub(crate) fn begins_at(&self, cursor: Cursor) -> bool {
        self.floor == cursor.next && self.snapshots.iter().any(|snapshot| snapshot.at == cursor)
    }
}

/// A version of the head in the store, such as its ETag.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub String);

/// The head as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tagged {
    pub head: Head,
    pub tag: Tag,
}
