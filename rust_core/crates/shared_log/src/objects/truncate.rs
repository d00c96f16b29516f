//! Truncation: the snapshots that a head keeps, and the entries that may be deleted.

use crate::entry::Position;

/// Of entries that a list has shown, those that may be deleted once a head with this floor is known to be in the store:
/// also what an earlier owner did not come to delete, and what was created once more by a call that arrived late.
/// `fences`: the positions of all fences below the floor, of owners and of nodes that gave up, so a snapshot has to list
/// them. They stay for ever: a node that was stopped for any length of time would create its next entry there, and the
/// first of them shows that there is a log when the head is missing.
pub fn removable(
    listed: impl IntoIterator<Item = Position>,
    floor: Position,
    fences: &[Position],
) -> impl Iterator<Item = Position> {
    listed.into_iter().filter(move |position| *position < floor && !fences.contains(position))
}
