//! Objects of buckets that have several layers: the newest layer that has a key decides. A frozen layer is never
//! written to: what replaces or hides one of its objects goes to the top layer.

use std::sync::Arc;

use bytes::Bytes;

use super::outcome::Failure;
use super::view::View;
use orcas_base::error::Result;
use orcas_checksum::Etag;
use orcas_record::{Attributes, Bucket, BucketId, Object, ObjectHeaders, Record, Version, VersionId};

/// The current version of a key; never a delete marker.
pub(super) fn object(view: &dyn View, bucket: &Bucket, key: &[u8]) -> Result<Option<Arc<Object>>> {
    if bucket.layers.is_empty() { view.layer_object(bucket.id, key) } else { shown_by(view, &bucket.layers, key) }
}

/// The version of a key with this id. In a bucket without layers also a delete marker.
pub(super) fn version(view: &dyn View, bucket: &Bucket, key: &[u8], id: VersionId) -> Result<Option<Arc<Object>>> {
    match id {
        _ if bucket.layers.is_empty() => view.layer_version(bucket.id, key, id),
        VersionId::Null => shown_by(view, &bucket.layers, key),
        VersionId::Named(_) => Ok(None),
    }
}

/// Whether a layer below the top one shows the key.
pub(super) fn is_below(view: &dyn View, bucket: &Bucket, key: &[u8]) -> Result<bool> {
    Ok(shown_by(view, bucket.lower(), key)?.is_some())
}

fn shown_by(view: &dyn View, layers: &[BucketId], key: &[u8]) -> Result<Option<Arc<Object>>> {
    for layer in layers {
        if let Some(newest) = view.layer_newest(*layer, key)? {
            return Ok(Some(newest).filter(|newest| !newest.version.delete_marker));
        }
    }
    Ok(None)
}

/// The record that removes this version from what `bucket` shows.
pub(super) fn removal(
    view: &dyn View,
    bucket: &Bucket,
    key: Bytes,
    version_id: VersionId,
    now_ms: u64,
) -> Result<Record, Failure> {
    if is_below(view, bucket, &key)? {
        return Ok(Record::PutVersion(delete_marker(bucket.top(), key, version_id, now_ms)));
    }
    Ok(Record::DeleteVersion { bucket: bucket.top(), key, version_id })
}

/// A delete marker. In a layer it hides the key in the layers below.
pub fn delete_marker(bucket: BucketId, key: Bytes, version_id: VersionId, now_ms: u64) -> Version {
    Version {
        bucket,
        key,
        version_id,
        delete_marker: true,
        modified_ms: now_ms,
        size: 0,
        etag: Etag { md5: [0; 16], parts: 0 },
        sha256: None,
        checksum: None,
        headers: ObjectHeaders::default(),
        attributes: Attributes::default(),
        parts: Vec::new(),
        manifest: Vec::new(),
    }
}
