//! A log in a database, one row an entry, and one row for its head. The database decides: a statement that appends also
//! changes the head, if that still names the node, so an owner that was replaced changes no row. It needs no fences.
//!
//! A statement may be committed after its client has given up, and a commit may be visible before the standby has it,
//! and lost with the database that is replaced by the standby. So a row that was found proves nothing. An entry is
//! durable when a commit has succeeded without a warning whose statement saw the row.

mod append;
mod change;
mod follow;
mod statement;
mod take;

pub use append::Append;
pub use change::{Change, Changed};
pub use follow::{Follow, Followed};
pub use statement::{Answer, Kept, RowHead, Statement};
pub use take::{Take, Taken};
