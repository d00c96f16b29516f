//! The protocol by which several nodes share one log that an object store or a database keeps. Pure: each operation is
//! a state machine that says which call to make next and is told the reply, so that the models in `tests` explore the
//! very decisions that a node makes. docs/adr/0028-one-log-for-several-nodes.md has the argument.
#![forbid(unsafe_code)]

mod content;
mod entry;
pub mod objects;
pub mod rows;
mod snapshot;

pub use content::{ContentName, orphans};
pub use entry::{Appended, Cursor, Entry, EntryId, NodeId, Position, Term};
pub use snapshot::{Snapshot, floor, retain};
