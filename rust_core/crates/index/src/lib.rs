//! The index: SQLite tables derived from the log, so that reads and lists need not replay it. Only this crate uses
//! rusqlite.
//!
//! It holds durable records only, applied in log order, and the log position that they reach. It may be deleted at any
//! time and rebuilt. There is one writer; readers come from a bounded pool, and no read transaction outlives a page of
//! results. The crate does not know the log, packs or the engine: positions and records are bytes to it. Tables and
//! columns: `docs/format.md`, section Index.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "SQLite accesses its files itself")]

mod apply;
mod blobs;
mod bucket_counts;
mod buckets;
mod changes;
mod checkpoint;
mod columns;
mod counters;
mod damage;
mod database;
mod deltas;
mod digests;
mod documents;
mod dump;
mod error;
mod frames;
mod heads;
mod history;
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
mod removals;
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
pub use heads::HeadRow;
pub use history::{VersionFrom, VersionRow};
pub use index::Index;
pub use layout::PAGE_BYTES;
pub use options::IndexOptions;
pub use packs::{PackUsage, PackedBlob};
pub use pool::Connections;
pub use reader::{Reader, Snapshot};
pub use reclaim::{LogFileRow, LogUsage};
pub use records::{Applied, Stored};
pub use scan::{BlobEntry, RowCounts, UploadPart};
pub use uploads::{Completed, PartRow, UploadFrom, UploadRow};
