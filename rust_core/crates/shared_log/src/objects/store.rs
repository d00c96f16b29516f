//! The calls of the protocol to a store, and the replies that it may give.

use super::head::{Head, Tag, Tagged};
use crate::entry::{Entry, Position};

/// A call to the store. It may take effect at any time after it was made, also when its reply is lost, and at most once
/// for each time that it was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call<B> {
    ReadHead,
    /// Replaces the head that has the tag `seen`, or creates it if that is `None`.
    SwapHead {
        seen: Option<Tag>,
        head: Head,
    },
    ReadEntry(Position),
    /// Creates an entry where none is.
    CreateEntry {
        position: Position,
        entry: Entry<B>,
    },
}

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reply<B> {
    Head(Option<Tagged>),
    Entry(Option<Entry<B>>),
    /// A head was written; its tag.
    Swapped(Tag),
    /// An entry was created.
    Created,
    /// The condition did not hold, or the store says so: some stores answer the second try of a call that has succeeded
    /// like this, or a conflict with a call that fails in the end. So it proves nothing.
    Refused,
    /// A timeout, a connection that broke, an error of the server.
    Unknown,
}
