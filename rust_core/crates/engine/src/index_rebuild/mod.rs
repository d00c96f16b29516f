//! Rebuilds a damaged index while the store is open.

pub(super) mod mark;
mod rebuild;
mod requests;

pub(super) use rebuild::{died, run};
pub(super) use requests::RebuildRequests;
