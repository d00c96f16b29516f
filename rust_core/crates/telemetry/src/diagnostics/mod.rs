//! Diagnostics of the other crates (`tracing::warn!` and others) on their way to the log: formatted, limited and queued.
//!
//! A thread that reports something never waits for the log and never touches Python: it formats the diagnostic into a bounded
//! record and puts it into a bounded queue. Another thread takes the records and writes them. Must not know what they say.

mod format;
mod queue;
mod subscriber;

pub use format::{Diagnostic, Value, bounded};
pub use subscriber::{collect, end, take, wait};
pub use tracing::Level;
