//! A node of a cluster: the files of its store, kept the same on every node by a shared log.
//!
//! What the owner does to its files it appends to the log, and a sync returns when the log has it: [`SharedFiles`]. Every
//! other node does the same to its own files: [`Copy`]. [`Node`] follows the log, takes it, and says who owns it.
//!
//! Invariants. A change is in the shared log before the local file of the log has it, so no node has a batch that the
//! shared log lacks. Changes are applied in order, and applying some of them again leads to the same files. Must not know
//! what the files hold.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files directly"))]

mod change;
mod copy;
#[cfg(test)]
mod crash_tests;
mod files;
mod mark;
mod node;
mod queue;

pub use change::Change;
pub use copy::{Applied, Copy};
pub use files::SharedFiles;
pub use mark::Mark;
pub use node::{Followed, Node, NodeError, NodeOptions};
pub use queue::{Appender, Queue};
