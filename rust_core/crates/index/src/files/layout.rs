//! The layout of a page of the index's files: SQLite's content, then its checksum.

/// Bytes of a page, SQLite's default.
pub(crate) const PAGE: usize = PAGE_BYTES as usize;
/// The size of a page, as an integer of 64 bits.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes at the end of each page that SQLite does not use. They hold the checksum, big-endian.
pub(crate) const RESERVED: usize = 8;
/// Bytes of a page before the checksum.
pub(crate) const CONTENT: usize = PAGE - RESERVED;
