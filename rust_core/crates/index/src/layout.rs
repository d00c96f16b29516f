//! What a page of the index's files consists of: SQLite's content, then its checksum.

/// Bytes of a page, SQLite's default.
pub(super) const PAGE: usize = PAGE_BYTES as usize;
/// The same, to count with.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes at the end of each page that SQLite leaves alone: the checksum, big-endian.
pub(super) const RESERVED: usize = 8;
/// Bytes of a page before them.
pub(super) const CONTENT: usize = PAGE - RESERVED;
