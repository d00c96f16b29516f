//! Lifecycle: removes what the rules of buckets say has expired, and uploads that were abandoned. One thread walks the
//! buckets that have rules, page by page, and submits what it finds to the committer, which removes only what is still as
//! it was found.
//!
//! Invariants. Nothing is remembered between runs: after a crash or an error, the next run finds what is left. A run
//! has one batch in flight, so nobody waits for more than one of them, and it waits while the index is behind. Knows
//! nothing of documents: whoever starts it says how rules are read. Knows no interval: whoever asks for a run does.

mod abandoned;
mod driver;
mod options;
mod pace;
mod requests;
mod walk;

pub use abandoned::AbandonedReport;
pub(super) use driver::run;
pub use options::LifecycleOptions;
pub(super) use pace::Pace;
pub(super) use requests::LifecycleRequests;
pub use requests::{LifecycleProgress, LifecycleReport};
#[cfg(test)]
pub(super) use walk::Walk;
