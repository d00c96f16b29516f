//! Reclamation: condemns blobs without references, rewrites log files and packs with little live data, and deletes
//! files that are not needed. One thread drives it, or a test, step by step; it never delays the committer for longer
//! than one small decision.
//!
//! Invariants. Bytes move only into files that are durable before the record that says so. A file is deleted only after
//! that record is durable and applied, nothing in memory leads to the file, and every reader from before is gone. No
//! submitted intent is forgotten: its answer decides what may be deleted.

mod blobs;
mod candidates;
mod driver;
mod files;
mod layers;
mod limits;
mod requests;
mod work;

#[cfg(test)]
pub(super) use driver::on_demand;
pub(super) use driver::run;
pub use limits::{ReclaimLimits, Step};
pub(super) use requests::ReclaimRequests;
pub use requests::{Effort, ReclaimProgress, Reclaimed};
pub(super) use work::Reclaimer;
