//! Events: what durable batches changed, brought into the journal in the order of the log, and from there to readers.
//!
//! Invariants. An event is made only from a record that is durable, or published with no sync to come, and every such
//! record is looked at exactly once between two marks of the journal. The log keeps every record that the journal does
//! not durably have. The committer never waits for any of this: what the queue has no room for is read from the log.
//! Must not know names of events, clients or HTTP.

mod change;
mod driver;
mod follower;
mod listen;
mod queue;
mod sink;
mod source;

pub use change::{Change, ChangeKind};
pub(super) use driver::run;
pub(super) use follower::Follower;
pub use listen::{EventReader, EventsState};
pub(super) use queue::EventQueue;
pub use sink::EventSink;

/// How events are kept.
#[derive(Clone, Copy, Debug)]
pub struct EventOptions {
    /// How long events are kept, in milliseconds.
    pub retention_ms: u64,
    /// Bytes of the journal.
    pub max_bytes: u64,
}
