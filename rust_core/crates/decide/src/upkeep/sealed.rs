//! Versions and uploads whose content was stored again, sealed: what they were when they were found, and where their
//! content is now.

use std::sync::Arc;

use bytes::Bytes;

use orcas_record::{Annotations, BucketId, ObjectHeaders, Part, Sequence, Upload, VersionId};

/// Versions and incomplete uploads whose content was stored again, sealed under keys of the server.
#[derive(Clone, Debug)]
pub struct SealStored {
    /// The bucket or the layer that has the keys, also one that takes no writes.
    pub layer: BucketId,
    /// Different keys. Each is decided on its own.
    pub keys: Vec<SealKey>,
    /// Different uploads. Each is decided on its own.
    pub uploads: Vec<SealUpload>,
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
    /// The sequence of the record that brought the version, when it was found.
    pub sequence: Sequence,
    /// The sealed content; `None` if it stays as it is.
    pub content: Option<SealedContent>,
}

/// The present place of the content of a version.
#[derive(Clone, Debug)]
pub struct SealedContent {
    pub extents: Vec<SealedExtent>,
    /// The annotations as they were found, and the blob of each text.
    pub annotations: Annotations,
    pub texts: Vec<usize>,
    /// The headers of the version, sealed. Nothing changes headers but a new version.
    pub headers: ObjectHeaders,
}

/// An upload that is not completed, as it was found, and where its content is now.
#[derive(Clone, Debug)]
pub struct SealUpload {
    pub upload: Arc<Upload>,
    /// The headers of the upload, sealed.
    pub headers: ObjectHeaders,
    /// All that it had, by their numbers.
    pub parts: Vec<SealPart>,
}

#[derive(Clone, Debug)]
pub struct SealPart {
    /// The part as it was found.
    pub part: Arc<Part>,
    pub extents: Vec<SealedExtent>,
}

/// A part of one of the blobs of the intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedExtent {
    pub blob: usize,
    pub start: u32,
    pub length: u32,
}

/// The result of sealing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    pub versions: u64,
    pub uploads: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Keys and uploads that were passed over, because something had changed since they were found.
    pub changed: u64,
}
