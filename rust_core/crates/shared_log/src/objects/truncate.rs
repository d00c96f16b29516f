//! Truncation: the snapshots that a head keeps, and the entries that may be deleted.

use super::head::Snapshot;
use crate::entry::Position;

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

/// Entries that may be deleted once the head with the new floor is known to be in the store. `fences`: the positions of
/// all fences below the new floor, of owners and of nodes that gave up, so a snapshot has to list them. They stay for
/// ever: a node that was stopped for any length of time would create its next entry there, and the first of them shows
/// that there is a log when the head is missing.
pub fn removable(old: Position, new: Position, fences: &[Position]) -> impl Iterator<Item = Position> {
    (old..new).filter(|position| !fences.contains(position))
}
