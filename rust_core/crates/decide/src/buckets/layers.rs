//! Objects of buckets that have several layers: the newest layer that has a key decides, or with versioning, the newest
//! version that the layers show. A frozen layer is never written to: what replaces, hides or changes one of its versions
//! goes to the layers above it.

use std::sync::Arc;

use bytes::Bytes;

use crate::buckets::histories::{Layers, find_newest, find_version};
use crate::outcome::Failure;
use crate::view::View;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_checksum::Etag;
use orcas_record::{
    Attributes, Bucket, BucketId, LayerKind, Object, ObjectHeaders, Record, Sequence, Version, VersionId, Versioning,
};

impl Layers for dyn View + '_ {
    type Found = Arc<Object>;

    fn object(found: &Arc<Object>) -> &Object {
        found
    }

    fn kind(&self, layer: BucketId) -> LayerKind {
        self.bucket(layer).map_or(LayerKind::History, |layer| layer.layer_kind())
    }

    fn version(&self, layer: BucketId, key: &[u8], id: VersionId) -> Result<Option<Arc<Object>>> {
        self.layer_version(layer, key, id)
    }

    fn newest(&self, layer: BucketId, key: &[u8], before: Sequence) -> Result<Option<Arc<Object>>> {
        self.layer_newest(layer, key, before)
    }

    fn pass_hidden(&self, above: &[BucketId], layer: BucketId, key: &[u8], hidden: Sequence) -> Result<Sequence> {
        self.pass_hidden_in(above, layer, key, hidden)
    }
}

fn is_unversioned(bucket: &Bucket) -> bool {
    bucket.versioning == Versioning::Unversioned
}

/// The current version of a key; never a delete marker.
pub(crate) fn object(view: &dyn View, bucket: &Bucket, key: &[u8]) -> Result<Option<Arc<Object>>> {
    match &bucket.layers[..] {
        [] => view.layer_object(bucket.id, key),
        layers if is_unversioned(bucket) => shown_by(view, layers, key),
        layers => Ok(find_newest(view, layers, key)?.filter(|newest| !newest.version.delete_marker)),
    }
}

/// The newest version of a key, in a bucket with versioning also a delete marker.
pub(crate) fn newest(view: &dyn View, bucket: &Bucket, key: &[u8]) -> Result<Option<Arc<Object>>> {
    match &bucket.layers[..] {
        [] => view.layer_newest(bucket.id, key, Sequence::MAX),
        layers if is_unversioned(bucket) => shown_by(view, layers, key),
        layers => find_newest(view, layers, key),
    }
}

/// The version of a key with this id. In a bucket with versioning also a delete marker.
pub(crate) fn version(view: &dyn View, bucket: &Bucket, key: &[u8], id: VersionId) -> Result<Option<Arc<Object>>> {
    match (&bucket.layers[..], id) {
        ([], _) => view.layer_version(bucket.id, key, id),
        (layers, VersionId::Null) if is_unversioned(bucket) => shown_by(view, layers, key),
        (_, VersionId::Named(_)) if is_unversioned(bucket) => Ok(None),
        (layers, _) => find_version(view, layers, key, id),
    }
}

/// Whether a layer below the top one shows the key. Only for buckets without versioning.
pub(crate) fn is_below(view: &dyn View, bucket: &Bucket, key: &[u8]) -> Result<bool> {
    Ok(shown_by(view, bucket.lower(), key)?.is_some())
}

fn shown_by(view: &dyn View, layers: &[BucketId], key: &[u8]) -> Result<Option<Arc<Object>>> {
    for layer in layers {
        if let Some(newest) = view.layer_newest(*layer, key, Sequence::MAX)? {
            return Ok(Some(newest).filter(|newest| !newest.version.delete_marker));
        }
    }
    Ok(None)
}

/// Adds the records that remove a version from what `bucket` shows. `new`: earlier ones of them have put it there.
pub(crate) fn remove(
    view: &dyn View,
    bucket: &Bucket,
    (key, version_id): (Bytes, VersionId),
    (new, now_ms): (bool, u64),
    records: &mut Vec<Record>,
) -> Result<(), Failure> {
    let removed = |key| Record::DeleteVersion { bucket: bucket.top(), key, version_id };
    let hidden = |layer, key| Record::PutVersion(delete_marker(layer, key, version_id, now_ms));
    let Some(amendments) = bucket.amendments() else {
        let is_below = is_below(view, bucket, &key)?;
        records.push(if is_below { hidden(bucket.top(), key) } else { removed(key) });
        return Ok(());
    };
    if new || view.layer_version(bucket.top(), &key, version_id)?.is_some() {
        records.push(removed(key.clone()));
    }
    if find_version(view, bucket.lower(), &key, version_id)?.is_some() {
        records.push(hidden(amendments, key));
    }
    Ok(())
}

/// The record that gives a version that `bucket` shows these attributes.
pub(crate) fn changed(bucket: &Bucket, found: &Object, attributes: Attributes) -> Record {
    let version = &found.version;
    if bucket.written().contains(&version.bucket) {
        return Record::UpdateVersion {
            bucket: version.bucket,
            key: version.key.clone(),
            version_id: version.version_id,
            version: found.sequence,
            attributes,
        };
    }
    // A frozen layer has it: the changed version goes above it.
    let layer = bucket.amendments().filter(|_| !planted::is(Bug::AmendmentAsVersion)).unwrap_or(bucket.top());
    Record::PutVersion(Version { bucket: layer, attributes, ..version.clone() })
}

/// A delete marker. In a layer without versioning it hides the key in the layers below, and among amendments the version
/// with its id.
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
