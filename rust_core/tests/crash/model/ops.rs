//! What is asked of the store.

use bytes::Bytes;
use orcas_checksum::Md5Hasher;
use orcas_decide::{CopyEntry, DeleteEntry, ExpiredPlace, Precondition};
use orcas_record::{
    BucketId, BucketSettings, DocumentKind, ObjectHeaders, Retention, RetentionMode, UploadId, VersionId, Versioning,
};

/// Bytes with their digests.
#[derive(Clone, Debug)]
pub struct Payload {
    pub bytes: Bytes,
    pub md5: [u8; 16],
    pub hash: blake3::Hash,
}

impl Payload {
    pub fn new(bytes: Bytes) -> Self {
        Self { md5: Md5Hasher::digest(&bytes), hash: blake3::hash(&bytes), bytes }
    }
}

/// What is asked of the store.
#[derive(Clone, Debug)]
pub enum Op {
    CreateBucket {
        name: Bytes,
        settings: BucketSettings,
    },
    UpdateBucket {
        bucket: BucketId,
        settings: BucketSettings,
    },
    /// Enables or suspends versioning.
    Versioning {
        bucket: BucketId,
        versioning: Versioning,
    },
    DeleteBucket {
        bucket: BucketId,
    },
    PutDocument {
        bucket: BucketId,
        kind: DocumentKind,
        document: Bytes,
    },
    Put {
        bucket: BucketId,
        key: Bytes,
        body: Payload,
        chunked: bool,
        headers: ObjectHeaders,
        precondition: Precondition,
    },
    /// At `offset`, which must be the end.
    Append {
        bucket: BucketId,
        key: Bytes,
        offset: u64,
        body: Payload,
        chunked: bool,
        headers: ObjectHeaders,
        precondition: Precondition,
    },
    Delete {
        bucket: BucketId,
        key: Bytes,
        precondition: Precondition,
    },
    /// The default retention of new versions, for a day.
    DefaultRetention {
        bucket: BucketId,
        mode: Option<RetentionMode>,
    },
    DeleteVersion {
        bucket: BucketId,
        key: Bytes,
        version: Named,
        precondition: Precondition,
        bypass: bool,
    },
    Tag {
        bucket: BucketId,
        key: Bytes,
        version: Named,
        tag: u64,
    },
    /// Writes an annotation, or removes it. The name is a number.
    Annotate {
        bucket: BucketId,
        key: Bytes,
        version: Named,
        name: u64,
        text: Option<Payload>,
        bypass: bool,
    },
    Hold {
        bucket: BucketId,
        key: Bytes,
        version: Named,
        on: bool,
    },
    Retain {
        bucket: BucketId,
        key: Bytes,
        version: Named,
        retention: Option<Retention>,
        bypass: bool,
    },
    DeleteMany {
        bucket: BucketId,
        entries: Vec<DeleteEntry>,
    },
    Copy {
        source: (BucketId, Bytes),
        bucket: BucketId,
        key: Bytes,
        headers: Option<ObjectHeaders>,
        annotations: bool,
        precondition: Precondition,
    },
    /// All of them, or none.
    CopyMany {
        source: BucketId,
        bucket: BucketId,
        entries: Vec<CopyEntry>,
    },
    /// Under a token it happens once.
    Move {
        from_bucket: BucketId,
        from_key: Bytes,
        bucket: BucketId,
        key: Bytes,
        precondition: Precondition,
        token: Option<u64>,
    },
    /// `updates` is what the model had counted when the objects were looked up.
    MovePrefix {
        from_bucket: BucketId,
        from_prefix: Bytes,
        bucket: BucketId,
        prefix: Bytes,
        overwrite: bool,
        limit: usize,
        updates: u64,
    },
    CreateSnapshot {
        bucket: BucketId,
        name: Bytes,
    },
    DeleteSnapshot {
        bucket: BucketId,
        name: Bytes,
    },
    /// Of a snapshot, or of the bucket as it is.
    Fork {
        bucket: BucketId,
        snapshot: Option<Bytes>,
        name: Bytes,
    },
    Restore {
        bucket: BucketId,
        snapshot: Bytes,
    },
    /// What was found to expire under this lifecycle document.
    Expire {
        bucket: BucketId,
        document: Bytes,
        entries: Vec<Expiring>,
    },
    CreateUpload {
        bucket: BucketId,
        key: Bytes,
        headers: ObjectHeaders,
    },
    PutPart {
        bucket: BucketId,
        key: Bytes,
        upload: UploadId,
        number: u16,
        body: Payload,
        chunked: bool,
    },
    /// `body` is what the range held when the source had `stamp` and `sequence`.
    CopyPart {
        source: (BucketId, Bytes),
        stamp: u64,
        sequence: u64,
        range: Option<(u64, u64)>,
        body: Payload,
        bucket: BucketId,
        key: Bytes,
        upload: UploadId,
        number: u16,
    },
    Abort {
        bucket: BucketId,
        key: Bytes,
        upload: UploadId,
    },
    Complete {
        bucket: BucketId,
        key: Bytes,
        upload: UploadId,
        parts: Vec<(u16, [u8; 16])>,
        precondition: Precondition,
    },
}

/// A version or an upload that was found to expire.
#[derive(Clone, Debug)]
pub struct Expiring {
    pub key: Bytes,
    pub place: ExpiredPlace,
    pub sequence: u64,
    pub stamp: u64,
    pub first: u64,
    /// The tag that it had, if that mattered.
    pub tag: Option<Option<u64>>,
}

/// A version as a client names it.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    pub id: VersionId,
    /// Of the version with this id; whatever it is, if that is the null version.
    pub first: u64,
}
