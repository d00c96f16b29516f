//! Versions that need not be current, their tags and locks, and the documents of buckets, as a store shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_engine::Handle;
use orcas_record::{Attributes, Bucket, BucketId, DocumentKind, VersionId, Versioning};

use crate::observe::{Seen, head, read};
use orcas_catalog::{ListVersions, ListedVersion, PinnedObject, VersionMarker, VersionSink};

/// Small, so that pages end in many places.
const PAGE: usize = 5;
/// More than any store has.
const LISTED_MAX: usize = 10_000;

/// What there is of versions: each with its place in the list, oldest last. Layers stand for buckets.
pub type Versions = BTreeMap<(BucketId, Bytes, VersionId), Version>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// What lists and heads say of it.
    line: String,
    attributes: Attributes,
    bytes: Arc<Vec<u8>>,
    delete_marker: bool,
    of_layer: bool,
}

impl Version {
    /// Whether somebody set a lock on it.
    fn is_locked(&self) -> bool {
        self.attributes.legal_hold == Some(true) || self.attributes.retention.is_some()
    }

    /// Whether `found` is locked at least as much.
    fn locks(&self, found: &Attributes) -> bool {
        found.legal_hold == Some(true)
            || found.legal_hold == self.attributes.legal_hold && found.retention == self.attributes.retention
    }
}

#[derive(Default)]
struct Lines(Vec<(Bytes, VersionId, String)>);

impl VersionSink for Lines {
    fn version(&mut self, version: &ListedVersion<'_>) {
        let ListedVersion { key, id, is_latest, delete_marker, listed } = *version;
        let key = Bytes::copy_from_slice(key);
        self.0.push((key, id, format!("latest {is_latest} marker {delete_marker} {listed:?}")));
    }

    fn prefix(&mut self, _: &[u8]) {}

    fn restart(&mut self) {
        self.0.clear();
    }
}

/// A bucket that shows the histories of its layers, if the id is of one. Otherwise it stands for what is under it alone.
fn layered(handle: &Handle, id: BucketId) -> Option<Arc<Bucket>> {
    let is_layered = |bucket: &Arc<Bucket>| bucket.id == id && bucket.amendments().is_some();
    handle.buckets().into_iter().find(is_layered)
}

fn version(handle: &Handle, id: BucketId, key: &Bytes, version: VersionId) -> Result<Option<PinnedObject>> {
    match layered(handle, id) {
        Some(bucket) => handle.version_in(&bucket, key, version),
        None => handle.version(id, key, version),
    }
}

fn list(handle: &Handle, bucket: BucketId) -> Result<Vec<(Bytes, VersionId, String)>> {
    let layered = layered(handle, bucket);
    let mut list = ListVersions { bucket, prefix: Bytes::new(), delimiter: None, after: None, max_keys: PAGE };
    let mut all = Vec::new();
    loop {
        let mut page = Lines::default();
        let next: Option<VersionMarker> = match &layered {
            Some(bucket) => handle.list_versions_in(bucket, &list, &mut page)?,
            None => handle.list_versions_to(&list, &mut page)?,
        };
        all.append(&mut page.0);
        list.after = next;
        if list.after.is_none() || all.len() > LISTED_MAX {
            return Ok(all);
        }
    }
}

/// Of a bucket of a store that is in order: with versioning, or with layers, each of which has versions of its own.
pub fn observe(handle: &Handle, bucket: &Bucket) -> Versions {
    let snapshots = handle.snapshots(&bucket.name);
    let layers = snapshots.iter().flat_map(|snapshot| &snapshot.layers).chain(&bucket.layers);
    let with_versions = (bucket.versioning != Versioning::Unversioned).then_some(bucket.id);
    // What is under the id of a bucket itself is asked for as what the bucket shows.
    let layers: BTreeSet<BucketId> = layers
        .copied()
        .filter(|layer| handle.buckets().iter().all(|it| it.id != *layer || it.amendments().is_none()))
        .collect();
    let layers = layers.into_iter().flat_map(|id| observe_one(handle, id, true));
    layers.chain(with_versions.into_iter().flat_map(|id| observe_one(handle, id, false))).collect()
}

fn observe_one(handle: &Handle, bucket: BucketId, of_layer: bool) -> Versions {
    let one = |(key, id, line): (Bytes, VersionId, String)| {
        let found = version(handle, bucket, &key, id).unwrap().unwrap();
        let line = format!("{line} {}", head(&found.object));
        let attributes = found.object.version.attributes.clone();
        let bytes = Arc::new(read(handle, &found).unwrap());
        let delete_marker = found.object.version.delete_marker;
        ((bucket, key, id), Version { line, attributes, bytes, delete_marker, of_layer })
    };
    list(handle, bucket).unwrap().into_iter().map(one).collect()
}

pub fn documents(handle: &Handle, bucket: &Bucket) -> Vec<String> {
    let document = |kind: &DocumentKind| {
        let document = handle.document(bucket.id, *kind)?;
        Some(format!("{:?} {kind:?} {}", bucket.id, String::from_utf8_lossy(&document.bytes)))
    };
    DocumentKind::ALL.iter().filter_map(document).collect()
}

/// Keys, and what was stored under each.
pub fn contents(versions: &Versions) -> impl Iterator<Item = (&Bytes, &[u8])> {
    versions.iter().map(|((_, key, _), version)| (key, &version.bytes[..]))
}

/// Whether the key has a version that is not the latest: with this id, or with any.
pub fn has_older(wanted: &Versions, (bucket, key): (BucketId, &Bytes), id: Option<VersionId>) -> bool {
    let is_wanted = |name: &(BucketId, Bytes, VersionId)| name.1 == *key && id.is_none_or(|id| name.2 == id);
    wanted
        .iter()
        .filter(|(name, _)| name.0 == bucket)
        .any(|(name, version)| is_wanted(name) && version.line.starts_with("latest false"))
}

fn is_amendments(handle: &Handle, layer: BucketId) -> bool {
    let snapshots = |bucket: Arc<Bucket>| handle.snapshots(&bucket.name).into_iter().chain([bucket]);
    handle.buckets().into_iter().flat_map(snapshots).any(|bucket| {
        // Right below the layer that was created with them.
        bucket.layers.windows(2).any(|pair| pair[1] == layer && pair[0].0 == layer.0 + 1)
    })
}

/// Every version that `wanted` has, asked of a store that may be damaged.
pub fn compare(handle: &Handle, wanted: &Versions, seen: &mut Seen) {
    let buckets: BTreeSet<BucketId> = wanted.keys().map(|(bucket, _, _)| *bucket).collect();
    for bucket in buckets {
        let of_bucket = |(of, _, _): &&(BucketId, Bytes, VersionId)| *of == bucket;
        let Some(listed) = seen.take(list(handle, bucket)) else { continue };
        let names: Vec<_> = listed.iter().map(|(key, id, _)| (bucket, key.clone(), *id)).collect();
        let absent = wanted.keys().filter(of_bucket).filter(|name| !names.contains(name));
        seen.absent.extend(absent.map(|(_, key, _)| String::from_utf8_lossy(key).into_owned()));
        for (name, (_, _, line)) in names.iter().zip(&listed) {
            compare_one(handle, name, line, wanted.get(name), seen);
        }
    }
}

fn compare_one(
    handle: &Handle,
    name: &(BucketId, Bytes, VersionId),
    line: &str,
    wanted: Option<&Version>,
    seen: &mut Seen,
) {
    let (bucket, key, id) = name;
    let Some(wanted) = wanted else {
        // A repair that gives up a null version hides that of the layers below.
        let is_hidden = *id == VersionId::Null && line.contains("marker true") && is_amendments(handle, *bucket);
        let key = || String::from_utf8_lossy(key).into_owned();
        return if is_hidden { seen.absent.push(key()) } else { seen.wrong(|| format!("version {name:?}: {line}")) };
    };
    let Some(found) = seen.take(version(handle, *bucket, key, *id)) else { return };
    let Some(found) = found else { return seen.wrong(|| format!("version {name:?} is listed and not there")) };
    // So a repair gives up an object of a layer, or one below would take its place.
    if wanted.of_layer && !wanted.delete_marker && found.object.version.delete_marker {
        return seen.absent.push(String::from_utf8_lossy(key).into_owned());
    }
    let line = format!("{line} {}", head(&found.object));
    if line != wanted.line && line.replacen("latest true", "latest false", 1) == wanted.line {
        // The newer version is not there.
        seen.absent.push(String::from_utf8_lossy(key).into_owned());
    } else if line != wanted.line {
        seen.wrong(|| format!("version {name:?}: {line}"));
    }
    let attributes = &found.object.version.attributes;
    if wanted.is_locked() && !wanted.locks(attributes) {
        seen.unlocked.push(format!("{name:?}: {attributes:?}"));
    }
    let with_hold = Attributes { legal_hold: attributes.legal_hold, ..wanted.attributes.clone() };
    if *attributes == with_hold && attributes.legal_hold == Some(true) {
        seen.held += u64::from(wanted.attributes.legal_hold != Some(true));
    } else if *attributes != wanted.attributes {
        seen.wrong(|| format!("version {name:?}: {attributes:?}"));
    }
    if let Some(bytes) = seen.take(read(handle, &found))
        && bytes != *wanted.bytes
    {
        seen.wrong(|| format!("version {name:?}: other bytes"));
    }
}
