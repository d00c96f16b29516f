//! The limits of Amazon S3 that decisions enforce.

/// Largest object that one PUT, one part or one copy may bring: 5 GiB (Amazon S3 user guide, quotas).
pub const PUT_SIZE_MAX: u64 = 5 << 30;
/// Largest object: 50 TiB (Amazon S3 user guide, quotas).
pub const OBJECT_SIZE_MAX: u64 = 50 << 40;
/// Parts of an object, each of them uploaded or appended (Amazon S3 user guide, appending data).
pub const OBJECT_PARTS_MAX: u16 = 10_000;
/// Bytes of the longest key.
pub const KEY_LEN_MAX: usize = 1024;
/// Bytes of the records of one decision that moves a prefix, as they are estimated: half of what a batch may have.
pub const MOVE_RECORDS_LEN_MAX: usize = 512 << 20;
/// Objects that are copied together.
pub const COPIES_MAX: usize = 1_000;
/// Bytes of the records of one decision that copies objects together, as they are estimated.
pub const COPIES_RECORDS_LEN_MAX: usize = 64 << 20;
/// Buckets in one store; all of them are kept in memory.
pub const BUCKETS_MAX: usize = 10_000;
/// Snapshots in one store; all of them are kept in memory.
pub const SNAPSHOTS_MAX: usize = 10_000;
/// Bytes of the name of a snapshot.
pub const SNAPSHOT_NAME_LEN_MAX: usize = 63;
/// Layers of one bucket, those of amendments not counted: a lookup may ask each of them.
pub const LAYERS_MAX: usize = 32;
/// Bytes that the documents of all buckets have together; all of them are kept in memory.
pub const DOCUMENTS_LEN_MAX: usize = 64 << 20;
/// Smallest part but the last: 5 MiB (Amazon S3 user guide, multipart upload limits).
pub const PART_SIZE_MIN: u64 = 5 << 20;
