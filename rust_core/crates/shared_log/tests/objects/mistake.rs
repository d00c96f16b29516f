//! Mistakes that others have made, or that are easily made, each of which the model must notice.

/// A rule that is broken, in the calls of a node to the state machines or in the place of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// A truncation takes the fences as well.
    FencesDeleted,
    /// A node that has placed its fence is the owner, whatever the head says.
    HeadNotReadAgain,
    /// A node that has read to the end is the owner, without a fence.
    NoFence,
    /// The owner goes on to the next place while it is not known what is in this one.
    PlaceSkipped,
    /// A cancelled append leaves its place to other bytes.
    PlaceUsedAgain,
    /// A batch is appended again at the next place.
    Renumbered,
    /// A refused create means that another node owns the log.
    OwnEntryTakenForAnother,
    /// The id of an entry is made from its place, so that two nodes give the same one.
    IdsMadeFromPlaces,
    /// Content is removed because nobody knows whether its batch is in the log.
    CleanupAfterAnUnknownCommit,
    /// A batch names content that is yet to be stored.
    ContentAfterItsEntry,
    /// Content goes before the batch that retires it.
    ContentDeletedBeforeItsEntry,
    /// Content that the owner itself is about to name counts as an orphan.
    ContentOfTheCurrentTermRemoved,
    /// An owner that finds another one in the head writes its own again, under the condition that it has just read.
    HeadTakenBack,
    /// Entries go although another node has taken the log before the head had the new floor.
    CollectedAfterALostRace,
    /// The floor is above what the older of two snapshots needs.
    FloorAboveTheOlderSnapshot,
    /// A reader believes a fence without a look at the head.
    FencesBelieved,
    /// What was not there when it was read ahead is not there when its turn comes.
    HolesReadAhead,
    /// A reader that finds nothing has reached the end, whatever the head says.
    HoleTakenForTheEnd,
}
