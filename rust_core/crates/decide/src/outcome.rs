//! The result of the decision of an intent: the outcome for the client, or the reason why nothing happened.

use std::sync::Arc;

use bytes::Bytes;

use crate::upkeep::sealed::Sealed;
use orcas_base::error::Error;
use orcas_checksum::{Checksum, ChecksumAlgorithm, ChecksumType, Etag, ObjectChecksum};
use orcas_record::{Bucket, BucketId, Encryption, Sequence, UploadId, VersionId};

/// The answer to an intent that happened.
#[derive(Clone, Debug)]
pub enum Outcome {
    Done,
    Bucket(Arc<Bucket>),
    Put(Put),
    DeletedOne(Deleted),
    Deleted(Vec<Result<Deleted, Refusal>>),
    Expired(Expired),
    Sealed(Sealed),
    /// The attributes of this version were changed.
    Updated(Option<VersionId>),
    /// An annotation of this version was written.
    Annotated {
        version: Option<VersionId>,
        etag: Etag,
        checksum: Option<Checksum>,
    },
    Upload(UploadId),
    Part(Put),
    /// The encryption of the object is told only the first time.
    Completed(Completed, Option<Encryption>),
    /// How many objects were moved, and the bytes that they have together.
    Moved {
        objects: u64,
        bytes: u64,
    },
}

/// A completed upload: what its answer says, and which request it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Digest of the part list.
    pub request: [u8; 32],
    pub bucket: BucketId,
    pub key: Bytes,
    pub version_id: VersionId,
    pub etag: Etag,
    pub checksum: Option<ObjectChecksum>,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// The version that was named, or the delete marker that was made.
    pub version_id: Option<VersionId>,
    /// The version is, or was, a delete marker.
    pub delete_marker: bool,
}

/// The removals of lifecycle rules, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Versions that were removed for good, delete markers among them.
    pub versions: u64,
    /// Delete markers that were added.
    pub markers: u64,
    /// Uploads that were aborted.
    pub uploads: u64,
    /// Passed over, because something had changed since they were found.
    pub changed: u64,
    /// Passed over, because retention or a legal hold forbids it.
    pub locked: u64,
    /// The rules are not those of the bucket any more, so nothing was removed.
    pub void: bool,
}

/// A version or part as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    pub sequence: Sequence,
    pub etag: Etag,
    pub modified_ms: u64,
    pub size: u64,
    pub checksum: Option<ObjectChecksum>,
    /// The id of a version other than the null version.
    pub version_id: Option<VersionId>,
    pub encryption: Option<Encryption>,
}

/// Why S3 says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    NoSuchBucket,
    BucketAlreadyOwnedByYou,
    BucketAlreadyExists,
    BucketNotEmpty,
    TooManyBuckets,
    NoSuchSnapshot,
    SnapshotAlreadyExists,
    /// The documents of all buckets would have more than `DOCUMENTS_LEN_MAX` bytes.
    TooManyDocuments,
    /// A bucket or its owner would hold more than its quota.
    QuotaExceeded {
        of: QuotaOf,
        limit: u64,
    },
    NoSuchKey,
    NoSuchVersion,
    /// The version named is a delete marker, which can only be deleted.
    DeleteMarker,
    /// Retention or a legal hold forbids it.
    ObjectLocked,
    /// A retention ends before it begins.
    RetentionInPast,
    InvalidBucketState {
        reason: &'static str,
    },
    NoSuchUpload,
    /// The header whose condition failed, as S3 names it.
    PreconditionFailed {
        condition: &'static str,
    },
    /// No part with this number and ETag.
    InvalidPart {
        number: u16,
    },
    InvalidPartOrder,
    /// A part other than the last is under 5 MiB.
    EntityTooSmall {
        number: u16,
        size: u64,
    },
    EntityTooLarge {
        size: u64,
    },
    /// The checksums that a client states of an upload are wrong.
    Checksum(ChecksumRefusal),
    /// Bytes of the whole object as the client expects it, and as the parts give it.
    ObjectSize {
        expected: u64,
        computed: u64,
    },
    InvalidRequest {
        reason: &'static str,
    },
    /// The range of a part copy lies outside its source.
    InvalidRange {
        size: u64,
    },
    /// An object append at another place than the end. `size` is that of the object, in bytes.
    InvalidWriteOffset {
        size: u64,
    },
    /// The version has `ANNOTATIONS_MAX` annotations.
    TooManyAnnotations,
    /// A copy with annotations is to be encrypted with a customer's key.
    AnnotationsNotCopied,
    /// The object has `OBJECT_PARTS_MAX` parts.
    TooManyParts,
    /// More objects than `limit` are to be moved, or their metadata is too much for one batch.
    TooManyObjects {
        limit: usize,
    },
    /// Objects are to be moved to a prefix that keys have already.
    DestinationNotEmpty,
    /// The key that an object would get.
    KeyTooLong,
    /// Another prefix is being moved.
    MoveUnderWay,
    /// Another request was carried out under the same token.
    TokenReused,
    /// What the request was checked against was replaced since: the digests of a source, or an access control list; check
    /// and submit again.
    SourceChanged,
    /// The sender may not hand over the tags of the source, or its annotations.
    Withheld {
        tags: bool,
    },
    /// The upload was sealed while the body of a part arrived without encryption; look it up and send the part again.
    UploadSealed,
    /// The text of an annotation is sealed and its object is not encrypted, or the reverse; look the object up again.
    EncryptionDiffers,
    /// The source of the copy is encrypted with another key than the one that the request sends.
    SourceKeyDiffers,
}

/// Which quota would be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaOf {
    BucketBytes,
    BucketVersions,
    OwnerBytes,
    OwnerVersions,
}

/// The fault of the checksums that a client states of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumRefusal {
    /// The checksum that the client expects of the whole object is not what the parts give.
    Object { algorithm: ChecksumAlgorithm },
    /// The list of parts has a checksum in another algorithm than the upload's.
    Part { algorithm: ChecksumAlgorithm, number: u16 },
    /// The list of parts lacks a checksum.
    Missing { algorithm: ChecksumAlgorithm, number: u16 },
    /// A part has no checksum in the algorithm of its upload.
    Algorithm { expected: ChecksumAlgorithm, actual: Option<ChecksumAlgorithm> },
    /// The client states another type of checksum than the upload's, which may have none.
    Type { of_upload: Option<ChecksumType> },
}

/// Why an intent did not happen.
#[derive(Clone, Debug)]
pub enum Failure {
    /// S3 says no. Nothing was written.
    Refused(Refusal),
    /// The store could not tell or could not write.
    Engine(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ChecksumRefusal> for Refusal {
    fn from(refusal: ChecksumRefusal) -> Self {
        Self::Checksum(refusal)
    }
}
