//! Versions whose content was stored again, sealed: what they were when they were found, and where their content is now.

use bytes::Bytes;

use orcas_record::{Annotations, BucketId, ObjectHeaders, Sequence, VersionId};

/// Versions whose content was stored again, sealed under keys of the server.
#[derive(Clone, Debug)]
pub struct SealStored {
    /// The bucket or the layer that has them, also one that takes no writes.
    pub layer: BucketId,
    /// Different keys. Each is decided on its own.
    pub keys: Vec<SealKey>,
}

/// The versions of a key from the oldest that is sealed to the newest, in this order.
#[derive(Clone, Debug)]
pub struct SealKey {
    pub key: Bytes,
    pub versions: Vec<SealVersion>,
}

#[derive(Clone, Debug)]
pub struct SealVersion {
    pub id: VersionId,
    /// Of the record that brought the version, when it was found.
    pub sequence: Sequence,
    /// `None` if it stays as it is.
    pub content: Option<SealedContent>,
}

/// Where the content of a version is now.
#[derive(Clone, Debug)]
pub struct SealedContent {
    pub extents: Vec<SealedExtent>,
    /// As they were found, and the blob of each text.
    pub annotations: Annotations,
    pub texts: Vec<usize>,
    /// The headers of the version, sealed. Nothing changes headers but a new version.
    pub headers: ObjectHeaders,
}

/// A part of one of the blobs of the intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedExtent {
    pub blob: usize,
    pub start: u32,
    pub length: u32,
}

/// What was sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    pub versions: u64,
    /// Of their content.
    pub bytes: u64,
    /// Keys that were passed over, because something had changed since they were found.
    pub changed: u64,
}
