//! State of the log as of a position, and which of it is kept.

use crate::entry::{Cursor, Position, Term};

/// State of all that the log held before a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Snapshot {
    pub at: Cursor,
    /// Of the owner that wrote it: two owners never share a name.
    pub term: Term,
}

/// A node for which the newest snapshot is unfit begins with the one before.
const KEPT: usize = 2;

/// The snapshots of a head that gets a newer one: those that it keeps, the newest first, and those that may be deleted
/// once the head without them is known to be in the store. A second snapshot at the same position has the same name.
pub fn retain(newest: Snapshot, found: &[Snapshot]) -> (Vec<Snapshot>, Vec<Snapshot>) {
    let mut kept = vec![newest];
    kept.extend(found.iter().filter(|&&snapshot| snapshot != newest));
    let old = kept.split_off(kept.len().min(KEPT));
    (kept, old)
}

/// The floor that a head with these snapshots may have: the oldest of them must be enough to start from.
pub fn floor(snapshots: &[Snapshot]) -> Position {
    snapshots.iter().map(|snapshot| snapshot.at.next).min().unwrap_or(0)
}
