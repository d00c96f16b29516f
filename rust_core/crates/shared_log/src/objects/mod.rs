//! A log of objects, one object an entry, and one object for its head. Entries are created, never replaced, at dense
//! positions, and by an owner only behind a fence of its own term, an entry without a batch. No older owner can create
//! anything behind a fence, so fences are never deleted. Only the owner of the current term raises the floor: below it,
//! entries may be missing, and a node that did not know of the floor may have placed a fence; what is missing at or
//! above it was never created. A reply that leaves open what has happened decides nothing.

mod append;
mod change;
mod follow;
mod head;
mod store;
mod take;
mod truncate;

pub use append::Append;
pub use change::{Change, Changed};
pub use follow::{Follow, Followed};
pub use head::{Head, Tag, Tagged};
pub use store::{Call, Reply};
pub use take::{Take, Taken};
pub use truncate::removable;
