//! Versions and uploads that were found to expire, and their state when they were found.

use bytes::Bytes;

use orcas_record::{BucketId, Sequence, UploadId, VersionId};

/// Versions and uploads that were found to expire.
#[derive(Clone, Debug)]
pub struct Expire {
    pub bucket: BucketId,
    /// The lifecycle document that says so. Nothing happens if the bucket has another one now.
    pub document: Bytes,
    /// The top layer that the bucket had, if it had layers and versioning. Nothing happens if a restore has given it up:
    /// what was newer than a version, or older, may be something else then.
    pub top: Option<BucketId>,
    pub entries: Vec<ExpireEntry>,
}

#[derive(Clone, Debug)]
pub struct ExpireEntry {
    pub key: Bytes,
    /// The sequence of the record that brought the version. Unused for an upload, whose id never means another one.
    pub sequence: Sequence,
    pub place: ExpiredPlace,
    /// The tags that the version had, if its expiration depends on them.
    pub tags: Option<Vec<(Bytes, Bytes)>>,
}

/// The place of an expiring version among those of its key. It does not expire once that is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredPlace {
    /// The current version.
    Current,
    /// A delete marker that is the only version.
    LoneMarker,
    /// Not the newest version.
    Noncurrent(VersionId),
    Upload(UploadId),
}
