//! Truncation: the snapshots that a head keeps, and the entries that may be deleted.

use crate::entry::Position;

/// Entries that may be deleted once the head with the new floor is known to be in the store. `fences`: the positions of
/// all fences below the new floor, of owners and of nodes that gave up, so a snapshot has to list them. They stay for
/// ever: a node that was stopped for any length of time would create its next entry there, and the first of them shows
/// that there is a log when the head is missing.
pub fn removable(old: Position, new: Position, fences: &[Position]) -> impl Iterator<Item = Position> {
    (old..new).filter(|position| !fences.contains(position))
}
