//! Reclamation: condemns what nothing refers to, rewrites what is left of log files and packs that hold little, and
//! destroys files that nobody needs. One thread drives it, or a test, step by step; it never holds up the committer
//! for longer than one small decision.
//!
//! Invariants. Bytes move only into files that are durable before the record that says so. A file is destroyed only after
//! that record is durable and applied, nothing in memory leads to the file any more, and every reader of that time is
//! gone. What was submitted is never forgotten: its answer decides what may be destroyed.

mod blobs;
mod candidates;
mod compaction;
mod driver;
mod keep;
mod limits;
mod logs;
mod pack_space;
mod packs;
mod pause;
mod requests;
mod steps;
mod work;

pub(super) use candidates::Candidates;
#[cfg(test)]
pub(super) use driver::on_demand;
pub(super) use driver::run;
pub use limits::{ReclaimLimits, Step};
pub(super) use pause::{PauseGuard, ReclaimPause};
pub(super) use requests::ReclaimRequests;
pub use requests::{Effort, ReclaimProgress, Reclaimed};
pub(super) use work::Reclaimer;
