//! The lookups of a handle: objects, versions, uploads, and pages of them.

use std::sync::Arc;

use bytes::Bytes;

use super::handle::Handle;
use orcas_base::error::Result;
use orcas_catalog::{
    self as catalog, ListObjects, ListParts, ListUploads, ListVersions, PageSink, PartPage, PinnedObject, UploadPage,
    VersionMarker, VersionSink,
};
use orcas_decide::Layers;
use orcas_record::{Bucket, BucketId, LayerKind, Upload, UploadId, VersionId};

/// All but those that begin with `try` block, and fail when the index cannot be read.
impl Handle {
    /// Under one id, of a bucket or a layer, from memory; `None` when only [`Handle::object`] can tell.
    pub fn try_object(&self, bucket: BucketId, key: &Bytes) -> Option<Option<PinnedObject>> {
        self.shared.catalog.try_object(bucket, key)
    }

    pub fn object(&self, bucket: BucketId, key: &Bytes) -> Result<Option<PinnedObject>> {
        self.shared.catalog.object(bucket, key)
    }

    /// The object of a bucket, if memory has the answer; `None` when only [`Handle::object_in`] can tell.
    pub fn try_object_in(&self, bucket: &Bucket, key: &Bytes) -> Option<Option<PinnedObject>> {
        self.shared.catalog.try_object_in(bucket, key)
    }

    pub fn object_in(&self, bucket: &Bucket, key: &Bytes) -> Result<Option<PinnedObject>> {
        self.shared.catalog.object_in(bucket, key)
    }

    /// The version with this id, current or not, also a delete marker.
    pub fn version(&self, bucket: BucketId, key: &Bytes, id: VersionId) -> Result<Option<PinnedObject>> {
        self.shared.catalog.version_with(bucket, key, id)
    }

    /// The version with this id in any layer of a bucket.
    pub fn version_in(&self, bucket: &Bucket, key: &Bytes, id: VersionId) -> Result<Option<PinnedObject>> {
        self.shared.catalog.version_in(bucket, key, id)
    }

    /// The delete marker that hides the versions of a key, in all layers of a bucket with versioning; `None` when the newest
    /// version is none.
    pub fn newest_marker_in(&self, bucket: &Bucket, key: &Bytes) -> Result<Option<PinnedObject>> {
        self.shared.catalog.newest_marker_in(bucket, key)
    }

    /// The meaning of the versions in a layer, from memory.
    pub fn layer_kind(&self, layer: BucketId) -> LayerKind {
        self.shared.catalog.kind(layer)
    }

    /// A page of objects in all layers of `bucket`, which `list` names, handed over while it is read. Returns its last key or
    /// common prefix when there is more.
    pub fn list_objects_in(
        &self,
        bucket: &Bucket,
        list: &ListObjects,
        sink: &mut dyn PageSink,
    ) -> Result<Option<Bytes>> {
        catalog::list_objects_in(&self.shared.catalog, bucket, list, sink)
    }

    /// A page of versions, handed over while it is read. Returns its last entry when there is more.
    pub fn list_versions_to(&self, list: &ListVersions, sink: &mut dyn VersionSink) -> Result<Option<VersionMarker>> {
        catalog::list_versions(&self.shared.catalog, list, sink)
    }

    /// Lists the versions in all layers of `bucket`, which `list` names.
    pub fn list_versions_in(
        &self,
        bucket: &Bucket,
        list: &ListVersions,
        sink: &mut dyn VersionSink,
    ) -> Result<Option<VersionMarker>> {
        catalog::list_versions_in(&self.shared.catalog, bucket, list, sink)
    }

    /// An open upload of this bucket and key.
    pub fn upload(&self, bucket: BucketId, key: &[u8], id: UploadId) -> Result<Option<Arc<Upload>>> {
        self.shared.catalog.upload(bucket, key, id)
    }

    /// Parts in the order of their numbers.
    pub fn list_parts(&self, list: ListParts) -> Result<PartPage> {
        catalog::list_parts(&self.shared.catalog, list)
    }

    /// Uploads in the order of their keys, those of one key in the order of their initiation.
    pub fn list_uploads(&self, list: &ListUploads) -> Result<UploadPage> {
        catalog::list_uploads(&self.shared.catalog, list)
    }

    /// A current object of `owner` with these bytes, to make another of.
    pub fn instant_source(&self, owner: &Bytes, sha256: &[u8; 32], size: u64) -> Result<Option<PinnedObject>> {
        catalog::instant_source(&self.shared.catalog, self.shared.options.ref_level, owner, sha256, size)
    }
}
