//! The typed records of the log and what they are made of. Pure. `encode` and `decode` turn them into payload bytes and
//! back; `docs/format.md` is the byte specification. The sequence of a record is in its frame.
//!
//! Blobs (contents and chunks), segments, versions and parts are named by the sequence of the record that introduced
//! them, not by file and offset, so compaction can move bytes without changing a manifest.
#![forbid(unsafe_code)]

mod annotations;
mod attributes;
mod cause;
mod document;
mod encoding;
mod extent;
mod headers;
pub mod placement;
mod role;
mod seal;
mod storage_class;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use orcas_checksum::{Checksum, ChecksumAlgorithm, ChecksumType, Etag, ObjectChecksum};

pub use annotations::{ANNOTATIONS_MAX, Annotation, Annotations};
pub use attributes::{
    Attributes, DefaultRetention, Encryption, KeyCheck, NamedKey, ObjectLock, Period, Retention, RetentionMode,
};
pub use cause::{Cause, RequestCause};
use cause::{LIFECYCLE, SEALING};
pub use document::{DOCUMENT_MAX, DocumentKind};
pub use encoding::kinds::{
    UPDATE_VERSION, content_kind, is_content, is_sealed, keeps_cause, kind_name, may_amend, may_end,
};
pub use encoding::{
    decode, decode_caused, decode_extents, decode_headers, encode, encode_caused, encode_extents, encode_headers,
    named_in,
};
pub use extent::{Extent, Sequence};
pub use headers::{ObjectHeaders, SealedHeaders};
pub use placement::{BlobLocation, ChunkLocation, LogFileId, LogLocation, PackId};
pub use role::{BucketRole, LayerKind};
pub use seal::{SEALED_MAX, Seal};
pub use storage_class::StorageClass;

/// Never reused, so a bucket that was deleted and created again is a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(pub u64);

/// Random; the upload id that clients see is its hexadecimal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(pub [u8; 16]);

/// The keyed BLAKE3 of a content or chunk within its owner's scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// `Null` is the one version of an object in a bucket without versioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VersionId {
    Null,
    Named([u8; 16]),
}

impl VersionId {
    /// The sequence with which the version was first put, as its name has it.
    pub fn first_sequence(self) -> Option<Sequence> {
        match self {
            Self::Null => None,
            Self::Named([a, b, c, d, e, f, g, h, ..]) => Some(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        }
    }
}

/// Content up to this size is stored in the version record itself.
pub const INLINE_MAX: usize = 256;
/// Extents in one segment record.
pub const SEGMENT_EXTENTS_MAX: usize = 16_384;
/// Most extents in a version or part. Longer manifests use segments.
pub const MANIFEST_EXTENTS_MAX: usize = 64;

/// One part of a completed upload, kept for `partNumber` reads and GetObjectAttributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPart {
    pub number: u16,
    pub size: u64,
    /// The checksum in the object's algorithm, when the upload had one.
    pub checksum: Option<Checksum>,
}

/// One state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub bucket: BucketId,
    pub key: Bytes,
    pub version_id: VersionId,
    /// A delete marker has no size, headers or manifest.
    pub delete_marker: bool,
    /// Milliseconds since the Unix epoch.
    pub modified_ms: u64,
    pub size: u64,
    pub etag: Etag,
    /// The SHA-256 of the whole content, if the upload declared it or the bucket requires it. Instant uploads find
    /// content by it.
    pub sha256: Option<[u8; 32]>,
    pub checksum: Option<ObjectChecksum>,
    pub headers: ObjectHeaders,
    pub attributes: Attributes,
    /// Empty unless the object was a multipart upload.
    pub parts: Vec<CompletedPart>,
    pub manifest: Vec<Extent>,
}

/// A bucket and the settings that the engine needs. Its configuration documents are records of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub id: BucketId,
    pub name: Bytes,
    pub owner: Bytes,
    pub created_ms: u64,
    /// The LocationConstraint of the client. Empty for us-east-1.
    pub location: Bytes,
    pub versioning: Versioning,
    /// `Some` when Object Lock is enabled.
    pub object_lock: Option<ObjectLock>,
    pub settings: BucketSettings,
    pub role: BucketRole,
    /// The buckets under whose ids its objects are, the newest first: the first takes what is written, the others never
    /// change. With versioning, the second takes amendments. Empty if its objects are under its own id alone.
    pub layers: Vec<BucketId>,
}

impl Bucket {
    /// The layer that takes what is written.
    pub fn top(&self) -> BucketId {
        self.layers.first().copied().unwrap_or(self.id)
    }

    /// All layers, the newest first. Never empty.
    pub fn stack(&self) -> &[BucketId] {
        if self.layers.is_empty() { std::slice::from_ref(&self.id) } else { &self.layers }
    }

    /// The layer that takes what becomes of versions that lower layers have, in a bucket with layers and versioning.
    pub fn amendments(&self) -> Option<BucketId> {
        self.layers.get(1).copied().filter(|_| self.versioning != Versioning::Unversioned)
    }

    /// The layers that take what is written: the top one, and that of amendments.
    pub fn written(&self) -> &[BucketId] {
        &self.stack()[..1 + usize::from(self.amendments().is_some())]
    }

    /// The layers that never change.
    pub fn lower(&self) -> &[BucketId] {
        &self.stack()[self.written().len()..]
    }

    /// The meaning of the versions under the id of this bucket, as a layer.
    pub fn layer_kind(&self) -> LayerKind {
        match (self.role, self.versioning) {
            (BucketRole::Amendments, _) => LayerKind::Amendments,
            (_, Versioning::Unversioned) => LayerKind::Single,
            (_, Versioning::Enabled | Versioning::Suspended) => LayerKind::History,
        }
    }
}

/// Settings of a bucket. The default of the store applies to those that are not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketSettings {
    /// Bytes.
    pub chunk_size: Option<u32>,
    pub durability: Option<Durability>,
    pub ref_level: Option<RefLevel>,
    /// Fixed or content-defined boundaries.
    pub chunking: Option<Chunking>,
    /// Whether the SHA-256 of every upload is computed and stored.
    pub keep_sha256: bool,
}

/// Whether new content is looked up, to share content that its owner has stored before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefLevel {
    Off,
    /// Every content and chunk.
    Full,
    /// Only content whose prefix hash may be known according to the filter.
    Fast,
}

impl RefLevel {
    const ALL: [Self; 3] = [Self::Off, Self::Full, Self::Fast];

    /// The name as settings and headers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Full => "full",
            Self::Fast => "fast",
        }
    }

    /// The number or the name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|level| level.name() == name)
            .or_else(|| Self::ALL.get(name.parse::<usize>().ok()?).copied())
    }
}

/// How a large body is split into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// Into chunks of the same size.
    Fixed,
    /// Chunks that end at content-defined boundaries (FastCDC), so that an insertion does not move later boundaries.
    ContentDefined,
}

impl Chunking {
    /// The name as settings and headers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::ContentDefined => "content-defined",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Fixed, Self::ContentDefined].into_iter().find(|chunking| chunking.name() == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioning {
    Unversioned,
    Enabled,
    Suspended,
}

/// The guarantee of an acknowledgement. Ordered: a batch gets the highest durability of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    UnsafeNone,
    Buffered,
    Interval,
    Sync,
}

impl Durability {
    const ALL: [Self; 4] = [Self::UnsafeNone, Self::Buffered, Self::Interval, Self::Sync];

    /// The name as settings and headers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnsafeNone => "unsafe-none",
            Self::Buffered => "buffered",
            Self::Interval => "interval",
            Self::Sync => "sync",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|durability| durability.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub id: UploadId,
    pub bucket: BucketId,
    pub key: Bytes,
    pub initiated_ms: u64,
    pub headers: ObjectHeaders,
    /// The attributes of the object to be.
    pub attributes: Attributes,
    /// If the client chose one.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub upload: UploadId,
    /// 1 to 10,000.
    pub number: u16,
    pub size: u64,
    pub md5: [u8; 16],
    pub modified_ms: u64,
    pub checksum: Option<Checksum>,
    pub manifest: Vec<Extent>,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    CreateBucket(Bucket),
    /// Replaces the record of the bucket; id, name, owner and creation stay.
    UpdateBucket(Bucket),
    DeleteBucket {
        bucket: BucketId,
    },
    /// Replaces the document of the bucket of this kind. Empty: it was removed. At most `DOCUMENT_MAX` bytes.
    PutDocument {
        bucket: BucketId,
        kind: DocumentKind,
        document: Bytes,
    },
    /// The birth of a pack, whose directory entry is durable. Later chunks may name it.
    CreatePack {
        pack: PackId,
    },
    /// A small body, stored in the log itself. At most `CONTENT_MAX` bytes.
    Content {
        fingerprint: Fingerprint,
        /// Later bodies with the same fingerprint may name this blob.
        shared: bool,
        /// The bytes as stored. If the content is sealed, its authentication tags and this seal follow it.
        bytes: Bytes,
        /// `Some` if the content is sealed.
        seal: Option<Seal>,
    },
    /// A chunk that is durable in a pack, `length` stored bytes.
    Chunk {
        fingerprint: Fingerprint,
        /// As for contents.
        shared: bool,
        /// See [`HASHED_PREFIX`].
        prefix_hash: u64,
        at: ChunkLocation,
        length: u32,
        /// As for contents.
        seal: Option<Seal>,
    },
    /// Extents of blobs only.
    Segment {
        extents: Vec<Extent>,
    },
    /// Replaces the version with the same bucket, key and version id.
    PutVersion(Version),
    DeleteVersion {
        bucket: BucketId,
        key: Bytes,
        version_id: VersionId,
    },
    /// Atomically adds the version under its new name and removes the one under the old name.
    MoveVersion {
        from_bucket: BucketId,
        from_key: Bytes,
        version: Version,
    },
    CreateUpload(Upload),
    /// Replaces the part with the same number.
    PutPart(Part),
    AbortUpload {
        upload: UploadId,
    },
    /// Atomically adds the version and removes the upload with its parts. `request` is the digest of the part list, by which
    /// a repeated request is recognised.
    CompleteUpload {
        upload: UploadId,
        request: [u8; 32],
        version: Version,
    },
    /// Replaces `CompleteUpload` when its version is gone, to keep the answer for a repeated request.
    RememberUpload {
        upload: UploadId,
        request: [u8; 32],
        bucket: BucketId,
        key: Bytes,
        version_id: VersionId,
        etag: Etag,
        checksum: Option<ObjectChecksum>,
    },
    /// Condemns blobs without references. From here on their fingerprints are unknown and their bytes may be destroyed.
    /// Ascending.
    CondemnBlobs {
        blobs: Vec<Sequence>,
    },
    /// Chunks that are now durable in another pack. Blobs that no longer exist are ignored.
    MoveChunks {
        moves: Vec<ChunkMove>,
    },
    /// The pack has no live chunk any more, and its file is deleted.
    RetirePack {
        pack: PackId,
    },
    /// Contents that are now durable in the compacted log file `file`.
    MoveContents {
        file: LogFileId,
        moves: Vec<ContentMove>,
    },
    /// The compacted log file `file` replaces the files with the records `first..=last`, which are deleted.
    ReplaceLog {
        file: LogFileId,
        first: Sequence,
        last: Sequence,
    },
    /// Replaces the attributes of the version whose record has the sequence `version`. Everything else about the
    /// version stays, also its place among the versions of its key.
    UpdateVersion {
        bucket: BucketId,
        key: Bytes,
        version_id: VersionId,
        version: Sequence,
        attributes: Attributes,
    },
}

impl Record {
    /// The extents of a manifest or a segment, and those of annotations.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        let (extents, attributes): (&[Extent], Option<&Attributes>) = match self {
            Self::PutVersion(version) | Self::MoveVersion { version, .. } | Self::CompleteUpload { version, .. } => {
                (&version.manifest, Some(&version.attributes))
            }
            Self::UpdateVersion { attributes, .. } => (&[], Some(attributes)),
            Self::PutPart(part) => (&part.manifest, None),
            Self::Segment { extents } => (extents, None),
            _ => (&[], None),
        };
        extents.iter().chain(attributes.into_iter().flat_map(|attributes| attributes.annotations.extents()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMove {
    pub blob: Sequence,
    pub to: ChunkLocation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentMove {
    pub blob: Sequence,
    /// The location in the file that the record names.
    pub to: LogLocation,
}

/// Most entries of a `CondemnBlobs`, `MoveChunks` or `MoveContents` record.
pub const MOVES_MAX: usize = 4_096;

/// Bytes of a blob that its prefix hash covers. The prefix hash is the short hash of their keyed BLAKE3: for a blob that is
/// not longer, of its fingerprint. A hint, which does not identify the blob.
pub const HASHED_PREFIX: usize = 100 * 1024;

/// The short hash of a fingerprint or digest: its first eight bytes.
pub fn short_hash(hash: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Bytes from which on instant uploads find an object by its SHA-256. To send a smaller one takes no longer than to ask
/// for it.
pub const INSTANT_SIZE_MIN: u64 = 65_536;

/// Bytes of the largest body that is stored as a content in the log.
pub const CONTENT_MAX: usize = 1024 * 1024;

/// A version and the sequence of the record that introduced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub sequence: Sequence,
    pub version: Version,
}
