//! Content beside the log, as objects that entries name.

use crate::entry::Term;

/// The name of a content object: two owners never share one, because it has the term of the owner that wrote it and a
/// number that this owner counts up. Content is created before the entry that names it, and deleted after the entry
/// that retires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentName {
    pub term: Term,
    pub number: u64,
}

/// Content that the log does not need and that no entry can name any more: what was never named, and what was retired
/// by an owner that did not come to delete it. `owned`: the term of the node that asks, which has read the log up to
/// its own fence. What has the same term may be named next.
pub fn orphans(
    owned: Term,
    stored: impl IntoIterator<Item = ContentName>,
    is_needed: impl Fn(ContentName) -> bool,
) -> impl Iterator<Item = ContentName> {
    stored.into_iter().filter(move |&name| name.term < owned && !is_needed(name))
}
