//! Types and functions that the other crates share: errors, blocks and their checksums, pooled memory, the queue that
//! wakes an event loop (`completions`), values that threads need not share (`per_thread`), and for test suites locks
//! that a scheduler can control (`sync`) and deliberate defects (`planted`), how long reads verify (`verifying`), and
//! where nothing may block (`blocking`). Must not know the other crates.

pub mod block;
pub mod blocking;
pub mod buffers;
pub mod completions;
pub mod error;
pub mod per_thread;
pub mod planted;
pub mod sync;
pub mod verifying;
