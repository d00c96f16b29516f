//! The state that decisions rest on.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::outcome::Completed;
use orcas_base::error::Result;
use orcas_record::{
    Bucket, BucketId, DocumentKind, Extent, Fingerprint, Object, Part, Sequence, Upload, UploadId, VersionId,
};

/// The state that a decision rests on: everything sequenced so far.
pub trait View {
    /// The bucket with this id, of any role.
    fn bucket(&self, id: BucketId) -> Option<Arc<Bucket>>;
    /// The bucket of clients with this name.
    fn bucket_by_name(&self, name: &[u8]) -> Option<Arc<Bucket>>;
    /// The number of buckets of clients.
    fn bucket_count(&self) -> usize;
    /// The snapshot of the name that [`super::snapshot_name`] gives.
    fn snapshot(&self, name: &[u8]) -> Option<Arc<Bucket>>;
    /// The number of snapshots of all buckets.
    fn snapshot_count(&self) -> usize;
    /// Whether a bucket or snapshot other than `by` names the layer.
    fn is_named_beside(&self, layer: BucketId, by: BucketId) -> bool;
    fn has_snapshots(&self, bucket: &Bucket) -> bool;
    /// A document of a bucket; empty if it was removed, `None` if there never was one.
    fn document(&self, bucket: BucketId, kind: DocumentKind) -> Option<Bytes>;
    /// Bytes of the documents of all buckets.
    fn documents_len(&self) -> usize;
    /// Whether no version of any kind is left under this id, delete markers included.
    fn bucket_is_empty(&self, id: BucketId) -> Result<bool>;
    /// Whether the layers of a bucket that has some show no version, delete markers included. May say no while versions
    /// that were deleted in this batch are the last.
    fn shows_nothing(&self, bucket: &Bucket) -> Result<bool>;
    /// The current version in a layer, which is the bucket itself if that has no layers. `None` when there is none or
    /// it is a delete marker.
    fn layer_object(&self, layer: BucketId, key: &[u8]) -> Result<Option<Arc<Object>>>;
    /// The version with this id, current or not, also a delete marker.
    fn layer_version(&self, layer: BucketId, key: &[u8], id: VersionId) -> Result<Option<Arc<Object>>>;
    /// The newest version with a lower sequence than `before`, also when it is a delete marker.
    fn layer_newest(&self, layer: BucketId, key: &[u8], before: Sequence) -> Result<Option<Arc<Object>>>;
    /// As [`Layers::pass_hidden`](super::Layers::pass_hidden).
    fn pass_hidden_in(&self, above: &[BucketId], layer: BucketId, key: &[u8], hidden: Sequence) -> Result<Sequence>;
    fn segment(&self, segment: Sequence) -> Result<Arc<[Extent]>>;
    /// The blob that a body of `length` bytes with this fingerprint may name. `prefix_hash` is that of the body, when it is
    /// known: a hint that may save a lookup.
    fn shared_blob(&self, fingerprint: &Fingerprint, length: u32, prefix_hash: Option<u64>)
    -> Result<Option<Sequence>>;
    fn upload(&self, id: UploadId) -> Result<Option<Arc<Upload>>>;
    fn parts(&self, id: UploadId) -> Result<BTreeMap<u16, Arc<Part>>>;
    /// The current objects of a bucket that never had versioning, as far as their keys begin with `prefix`: key and sequence
    /// of each, in order, until `visit` returns false. Whether it never did.
    fn each_object(
        &self,
        bucket: BucketId,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], Sequence) -> bool,
    ) -> Result<bool>;
    /// How many UpdateVersion records were decided since the store was opened.
    fn updates(&self) -> u64;
    /// The digest of the request that was carried out under `token`, while that is remembered.
    fn request_of(&self, token: &[u8; 32]) -> Option<[u8; 32]>;
    /// How `id` was completed, while that is remembered.
    fn completed(&self, id: UploadId) -> Result<Option<Completed>>;
}
