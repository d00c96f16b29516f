//! The mutations that clients ask for, as the committer takes them.

use std::sync::Arc;

use bytes::Bytes;

use crate::objects::attributes::{CopyAttributes, UpdateVersion};
use crate::objects::conditions::{EtagMatch, Precondition, SourceConditions};
use crate::upkeep::expired::Expire;
use crate::upkeep::sealed::SealStored;
use orcas_checksum::{Checksum, ChecksumAlgorithm, ChecksumType, Etag, ObjectChecksum};
use orcas_record::{
    Annotations, Attributes, BucketId, BucketSettings, ChunkLocation, Chunking, DocumentKind, Durability, Encryption,
    Fingerprint, Object, ObjectHeaders, ObjectLock, PackId, RefLevel, Seal, Sequence, UploadId, VersionId, Versioning,
};

/// A mutation. It carries the id of the bucket it was authorised for, never its name.
#[derive(Clone, Debug)]
pub enum Intent {
    CreateBucket {
        name: Bytes,
        owner: Bytes,
        location: Bytes,
        settings: BucketSettings,
        /// Object Lock, and with it versioning, is enabled from the beginning.
        object_lock: bool,
        /// The documents that it has from the beginning, one of each kind at most.
        documents: Vec<(DocumentKind, Bytes)>,
    },
    DeleteBucket {
        bucket: BucketId,
    },
    /// Deletes the bucket with all that it has, locked or not.
    DropBucket {
        bucket: BucketId,
    },
    UpdateBucket {
        bucket: BucketId,
        change: BucketChange,
    },
    /// Replaces a document of the bucket, or removes it if `document` is empty.
    PutDocument {
        bucket: BucketId,
        kind: DocumentKind,
        document: Bytes,
    },
    CreateSnapshot {
        bucket: BucketId,
        name: Bytes,
    },
    DeleteSnapshot {
        bucket: BucketId,
        name: Bytes,
    },
    /// Creates the bucket `name` with the objects of another one: as they are, or as a snapshot has them.
    ForkBucket {
        bucket: BucketId,
        snapshot: Option<Bytes>,
        name: Bytes,
    },
    /// Gives the bucket the objects that its snapshot has.
    RestoreBucket {
        bucket: BucketId,
        snapshot: Bytes,
    },
    PutObject(Box<PutObject>),
    /// Adds the body at the end of the object.
    AppendObject(Box<ObjectAppend>),
    DeleteObject {
        bucket: BucketId,
        key: Bytes,
        /// The version; `None` for the current one, which a bucket with versioning keeps behind a delete marker.
        version: Option<VersionId>,
        precondition: Precondition,
        /// Whether a retention in governance mode is bypassed.
        bypass: bool,
    },
    /// Each entry is decided on its own, in order.
    DeleteObjects {
        bucket: BucketId,
        entries: Vec<DeleteEntry>,
    },
    /// The removals of lifecycle rules. Each entry is decided on its own, in order.
    Expire(Box<Expire>),
    CopyObject(Box<Copy>),
    /// Copies objects of one bucket into another, or within it: all of them, or none.
    CopyObjects {
        source: BucketId,
        bucket: BucketId,
        entries: Vec<CopyEntry>,
    },
    UpdateVersion(Box<UpdateVersion>),
    Annotate(Box<Annotate>),
    MoveObject(Box<Move>),
    /// A move that is carried out once, however often it is asked for.
    MoveOnce {
        moved: Box<Move>,
        token: RequestToken,
    },
    MovePrefix(Box<MovePrefix>, UnderPrefix),
    CreateUpload {
        bucket: BucketId,
        key: Bytes,
        headers: Box<ObjectHeaders>,
        attributes: Attributes,
        checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    },
    PutPart(Box<PutPart>),
    CopyPart(Box<CopyPart>),
    StoredCopy(Box<StoredCopy>),
    /// The sealing of stored content, which no client asks for.
    SealStored(Box<SealStored>, Vec<Body>),
    AbortUpload {
        bucket: BucketId,
        key: Bytes,
        upload: UploadId,
        /// Only if nothing of it has come since then.
        idle_since_ms: Option<u64>,
    },
    CompleteUpload(Box<Complete>),
}

impl Intent {
    /// The token under which it happens once.
    pub fn token(&self) -> Option<RequestToken> {
        match self {
            Self::MoveOnce { token, .. } => Some(*token),
            _ => None,
        }
    }
}

/// The change of an UpdateBucket. Everything else of the bucket stays as it is then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketChange {
    Settings(SettingsChange),
    Versioning(Versioning),
    ObjectLock(ObjectLock),
}

/// The settings of a bucket that change. `Some(None)` removes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettingsChange {
    pub chunk_size: Option<Option<u32>>,
    pub durability: Option<Option<Durability>>,
    pub ref_level: Option<Option<RefLevel>>,
    pub chunking: Option<Option<Chunking>>,
    pub keep_sha256: Option<bool>,
}

impl SettingsChange {
    /// `settings` with this change applied.
    pub fn applied_to(&self, settings: BucketSettings) -> BucketSettings {
        BucketSettings {
            chunk_size: self.chunk_size.unwrap_or(settings.chunk_size),
            durability: self.durability.unwrap_or(settings.durability),
            ref_level: self.ref_level.unwrap_or(settings.ref_level),
            chunking: self.chunking.unwrap_or(settings.chunking),
            keep_sha256: self.keep_sha256.unwrap_or(settings.keep_sha256),
        }
    }
}

/// Stored bytes that a version or part will name.
#[derive(Clone, Debug)]
pub enum Body {
    /// Content of at most `record::INLINE_MAX` bytes, kept in the version record.
    Inline(Bytes),
    /// At most `record::CONTENT_MAX` bytes, kept as a record of its own. As they are stored: sealed if there is a seal.
    Content { fingerprint: Fingerprint, sharing: Sharing, bytes: Bytes, seal: Option<Seal> },
    /// Durable in packs, in the order of the content.
    Chunks(Vec<PlacedChunk>),
}

impl Body {
    /// Whether all of it is sealed, or none. An empty body is both.
    pub fn is(&self, encryption: Option<&Encryption>) -> bool {
        let wanted = encryption.is_some();
        match self {
            Self::Inline(bytes) => bytes.is_empty() || !wanted,
            Self::Content { seal, .. } => seal.is_some() == wanted,
            Self::Chunks(chunks) => chunks.iter().all(|chunk| chunk.sealed == wanted),
        }
    }
}

/// Whether a blob may be named by bodies that come later, and whether this body asks for an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Neither.
    Off,
    /// Later bodies may name it; a hint says that it is new.
    Offered,
    /// Later bodies may name it. If there is a blob with the same fingerprint, that one is taken instead.
    Sought,
}

/// Keeps the data that it was taken for in place until the decision that needs it is made.
pub type UploadPin = Arc<dyn std::any::Any + Send + Sync>;

#[derive(Clone, Debug)]
pub struct PlacedChunk {
    pub fingerprint: Fingerprint,
    pub sharing: Sharing,
    /// Content bytes.
    pub length: u32,
    pub sealed: bool,
    pub place: ChunkPlace,
    pub pin: Option<UploadPin>,
}

impl PlacedChunk {
    /// The pack that it was written to for this body.
    pub fn new_pack(&self) -> Option<PackId> {
        match self.place {
            ChunkPlace::New { at, .. } => Some(at.pack()),
            ChunkPlace::Known { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkPlace {
    /// Written for this body and durable there. `prefix_hash` is that of its bytes. `seal` is there if it is
    /// sealed.
    New { prefix_hash: u64, at: ChunkLocation, seal: Option<Seal> },
    /// Not written: this blob holds the same bytes. It was found with a pin on its fingerprint, so it is still there
    /// when the body is decided, and is not looked up again.
    Known { blob: Sequence },
}

#[derive(Clone, Debug)]
pub struct PutObject {
    pub bucket: BucketId,
    pub key: Bytes,
    /// The time of a replica, which is never ahead of the clock; `None` for now. So it is in `Copy` and `Complete`.
    pub modified_ms: Option<u64>,
    pub precondition: Precondition,
    pub size: u64,
    pub md5: [u8; 16],
    pub sha256: Option<[u8; 32]>,
    pub checksum: Option<Checksum>,
    pub headers: ObjectHeaders,
    pub attributes: Attributes,
    pub body: Body,
}

/// PutObject with a write offset.
#[derive(Clone, Debug)]
pub struct ObjectAppend {
    /// Metadata and attributes are those of an object that does not exist yet. The checksum is in the algorithm of the
    /// object.
    pub put: PutObject,
    /// Bytes: the size that the object must have.
    pub offset: u64,
    /// The request has user metadata.
    pub user_metadata: bool,
    /// The algorithm of the checksum that the client declared.
    pub declared: Option<ChecksumAlgorithm>,
}

#[derive(Clone, Debug)]
pub struct DeleteEntry {
    pub key: Bytes,
    /// As in [`Intent::DeleteObject`].
    pub version: Option<VersionId>,
    pub precondition: Precondition,
    /// As in [`Intent::DeleteObject`].
    pub bypass: bool,
}

/// CopyObject: refers to the source's blobs and copies no bytes.
#[derive(Clone, Debug)]
pub struct Copy {
    pub source: Source,
    pub source_conditions: SourceConditions,
    pub bucket: BucketId,
    pub key: Bytes,
    pub modified_ms: Option<u64>,
    pub precondition: Precondition,
    pub headers: CopyHeaders,
    pub attributes: CopyAttributes,
    /// A checksum computed for the copy, and the sequence of the source it was computed from.
    pub checksum: Option<(Sequence, Checksum)>,
}

/// An object that is copied together with others.
#[derive(Clone, Debug)]
pub struct CopyEntry {
    pub from: Bytes,
    /// That of the source.
    pub etag: Etag,
    pub key: Bytes,
    /// That of the object which the copy takes the place of; `None` if there must be none.
    pub replaces: Option<Etag>,
}

/// Bucket, key and version of what is copied; the current version when none is named.
pub type Source = (BucketId, Bytes, Option<VersionId>);

/// The headers of a copy, by the metadata directive. Storage class and website redirect never come from the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyHeaders {
    Keep { storage_class: Option<Bytes>, website_redirect: Option<Bytes> },
    Replace(Box<ObjectHeaders>),
}

impl Default for CopyHeaders {
    fn default() -> Self {
        Self::Keep { storage_class: None, website_redirect: None }
    }
}

impl CopyHeaders {
    /// The headers of the copy of an object with headers `source`.
    pub fn apply_to(&self, source: &ObjectHeaders) -> ObjectHeaders {
        match self {
            Self::Replace(headers) => ObjectHeaders::clone(headers),
            Self::Keep { storage_class, website_redirect } => ObjectHeaders {
                storage_class: storage_class.clone(),
                website_redirect: website_redirect.clone(),
                ..source.clone()
            },
        }
    }
}

/// A change of one annotation of a version: of the current one if `version` is `None`.
#[derive(Clone, Debug)]
pub struct Annotate {
    pub bucket: BucketId,
    pub key: Bytes,
    pub version: Option<VersionId>,
    /// The name of the annotation.
    pub name: Bytes,
    /// The condition on the entity tag of the object.
    pub if_match: Option<EtagMatch>,
    pub change: AnnotationChange,
}

#[derive(Clone, Debug)]
pub enum AnnotationChange {
    /// Adds the annotation or replaces it. The body is inline or a content, and not empty.
    /// `encryption` is that of the object for which the body was stored.
    Put { md5: [u8; 16], checksum: Option<Checksum>, body: Box<Body>, encryption: Option<Encryption> },
    /// Removes it if it is there. `bypass` as in [`Intent::DeleteObject`].
    Delete { bypass: bool },
}

/// RenameObject and the move extension: metadata only, atomic, also across buckets.
#[derive(Clone, Debug)]
pub struct Move {
    pub from_bucket: BucketId,
    pub from_key: Bytes,
    pub from_conditions: SourceConditions,
    pub bucket: BucketId,
    pub key: Bytes,
    pub precondition: Precondition,
}

/// Moves all objects whose keys begin with a prefix: metadata only, all or none.
#[derive(Clone, Debug)]
pub struct MovePrefix {
    pub from_bucket: BucketId,
    pub from_prefix: Bytes,
    pub bucket: BucketId,
    /// Takes the place of `from_prefix` in each key.
    pub prefix: Bytes,
    /// Whether keys with this prefix may exist already. An object is replaced if another one gets its key.
    pub overwrite: bool,
    /// Most objects.
    pub limit: usize,
}

/// The objects under a prefix, looked up before it is moved.
#[derive(Clone, Debug)]
pub struct UnderPrefix {
    /// The objects in the order of their keys, as far as they were found. A hint that saves time.
    pub found: Vec<Arc<Object>>,
    /// [`View::updates`](crate::View::updates) before they were looked up.
    pub updates: u64,
}

/// The token by which a repeated request is recognised (`x-amz-client-token`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestToken {
    /// Digest of the token, of who sent it and of the bucket.
    pub token: [u8; 32],
    /// Digest of everything else that the request asks for.
    pub request: [u8; 32],
}

#[derive(Clone, Debug)]
pub struct PutPart {
    pub bucket: BucketId,
    pub key: Bytes,
    pub upload: UploadId,
    pub number: u16,
    pub size: u64,
    pub md5: [u8; 16],
    /// The one that the client declared.
    pub checksum: Option<Checksum>,
    /// The checksum that the server computed in the algorithm of the upload.
    pub computed: Option<Checksum>,
    pub body: Body,
}

/// A copy whose bytes were read from the source at `source_sequence` and stored again, because they cannot be shared.
#[derive(Clone, Debug)]
pub struct StoredCopy {
    pub source: Source,
    pub source_sequence: Sequence,
    pub source_conditions: SourceConditions,
    pub into: StoredInto,
}

#[derive(Clone, Debug)]
pub enum StoredInto {
    /// An object with the attributes that the source has when this is decided, changed like this.
    Object {
        put: Box<PutObject>,
        attributes: CopyAttributes,
        annotations: StoredAnnotations,
    },
    Part(Box<PutPart>),
}

/// Annotations of the source of a copy whose texts were stored again as well.
#[derive(Clone, Debug, Default)]
pub struct StoredAnnotations {
    /// The annotations as they were found.
    pub found: Annotations,
    /// The stored texts, one for each of them.
    pub texts: Vec<StoredText>,
}

#[derive(Clone, Debug)]
pub struct StoredText {
    pub md5: [u8; 16],
    pub checksum: Option<Checksum>,
    /// The body in one piece.
    pub body: Body,
}

/// UploadPartCopy: refers to the source's blobs. The digests were computed from the source at `source_sequence`.
#[derive(Clone, Debug)]
pub struct CopyPart {
    pub source: Source,
    pub source_sequence: Sequence,
    pub source_conditions: SourceConditions,
    /// First and last byte, both included; the whole object when `None`.
    pub range: Option<(u64, u64)>,
    pub bucket: BucketId,
    pub key: Bytes,
    pub upload: UploadId,
    pub number: u16,
    pub md5: [u8; 16],
    pub checksum: Option<Checksum>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletePart {
    pub number: u16,
    pub md5: [u8; 16],
    /// When the client named one.
    pub checksum: Option<Checksum>,
}

#[derive(Clone, Debug)]
pub struct Complete {
    pub bucket: BucketId,
    pub key: Bytes,
    pub upload: UploadId,
    pub parts: Vec<CompletePart>,
    /// Checksum of the whole object as the client expects it. Without parts if the client does not state their number.
    pub checksum: Option<ObjectChecksum>,
    /// The type that the client says the upload's checksum has.
    pub checksum_type: Option<ChecksumType>,
    /// Size of the whole object as the client expects it, bytes.
    pub size: Option<u64>,
    pub modified_ms: Option<u64>,
    pub precondition: Precondition,
}
