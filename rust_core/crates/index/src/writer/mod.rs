//! The writer: applies records in transactions, and adds up in memory what follows from many of them, the counts of
//! buckets and packs and the references to blobs, until rows have to be current.

mod apply;
mod bucket_counts;
mod changes;
pub(crate) mod counters;
mod deltas;
mod id_map;
pub(crate) mod rebuild;
pub(crate) mod reclaim;
mod references;
mod removals;

pub use apply::Writer;
pub use bucket_counts::Counts;
pub(crate) use bucket_counts::{all_counts, stored_counts};
pub(crate) use changes::Changes;
pub(crate) use deltas::PackDelta;
pub(crate) use id_map::IdMap;
