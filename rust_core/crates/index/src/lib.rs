//! The index: SQLite tables derived from the log, so that reads and lists need not replay it. Sole importer of rusqlite.
//!
//! Holds durable records only, in log order, together with the position they reach to; may be deleted at any time
//! and rebuilt. One writer; readers come from a bounded pool; no read transaction outlives a page. In memory one
//! connection serves everybody. Knows neither the log, nor packs, nor the engine: positions and records are bytes to
//! it. Tables and columns: `docs/format.md`, section Index.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these files are SQLite's, and so is the way there"
)]

mod apply;
mod blobs;
mod bucket_counts;
mod buckets;
mod checkpoint;
mod columns;
mod counters;
mod damage;
mod database;
mod deltas;
mod digests;
mod dump;
mod error;
mod frames;
mod heads;
mod id_map;
mod index;
mod layout;
mod maintenance;
mod options;
mod packs;
mod pages;
mod pool;
mod reader;
mod rebuild;
mod reclaim;
mod records;
mod references;
mod replace;
mod scan;
mod schema;
#[cfg(test)]
mod tests;
mod uploads;
mod versions;

pub use apply::Writer;
pub use bucket_counts::Counts;
pub use checkpoint::WalState;
pub use counters::Totals;
#[cfg(any(test, feature = "testing"))]
pub use frames::full_disk;
pub use heads::HeadRow;
pub use index::Index;
pub use layout::PAGE_BYTES;
pub use options::IndexOptions;
pub use packs::{PackUsage, PackedBlob};
#[cfg(any(test, feature = "testing"))]
pub use pages::open_raw;
pub use pool::Connections;
pub use reader::{Reader, Snapshot};
pub use reclaim::{LogFileRow, LogUsage};
pub use records::{Applied, BlobLocation, Stored};
pub use scan::{BlobEntry, RowCounts, UploadPart};
pub use uploads::{Completed, PartRow, UploadFrom, UploadRow};
