//! The index: SQLite tables derived from the log, so that reads and lists need not replay it. Only this crate uses
//! rusqlite.
//!
//! It holds durable records only, applied in log order, and the log position that they reach. It may be deleted at any
//! time and rebuilt. There is one writer; readers come from a bounded pool, and no read transaction outlives a page of
//! results. The crate does not know the log, packs or the engine: positions and records are bytes to it. Tables and
//! columns: `docs/format.md`, section Index.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "SQLite accesses its files itself")]

mod damage;
mod dump;
mod error;
mod files;
mod index;
mod maintenance;
mod options;
mod reader;
mod records;
mod replace;
mod scan;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

pub use files::checkpoint::WalState;
pub use files::{Connections, PAGE_BYTES};
pub use index::Index;
pub use options::{IndexOptions, IndexPlace};
pub use reader::{ReadTransaction, Reader};
pub use records::{Applied, Stored};
pub use scan::{BlobEntry, RowCounts, UploadPart};
pub use tables::heads::ListedRow;
pub use tables::history::{VersionFrom, VersionRow};
pub use tables::packs::{PackUsage, PackedBlob};
pub use tables::uploads::{Completed, PartRow, UploadFrom, UploadRow};
pub use writer::counters::Totals;
pub use writer::reclaim::{LogFileRow, LogUsage};
pub use writer::{Counts, Writer};
