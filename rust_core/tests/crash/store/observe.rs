//! Reads a store through its own interface, every list and every byte, into the same text as the model's.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_checksum::Etag;
use orcas_engine::Handle;
use orcas_record::{
    Annotation, Attributes, Bucket, DocumentKind, Encryption, Extent, LayerKind, Object, ObjectHeaders, Part, Sequence,
    UploadId, Version, VersionId, Versioning,
};

use super::sealed::key_for;
use crate::model::{annotation_line, bucket_line, object_line, part_line, snapshot_line, upload_line, version_line};
use crate::workload::KEYS;
use orcas_catalog::{
    ListObjects, ListPage, ListParts, ListUploads, ListVersions, Listed, ListedVersion, PinnedObject, VersionSink,
};

/// Small, so that pages end everywhere.
const PAGE: usize = 3;

pub fn observe(handle: &Handle) -> Result<String> {
    let (mut out, mut contents) = (String::new(), Contents::default());
    for bucket in handle.buckets() {
        let lock = bucket.object_lock.map(|lock| lock.default.map(|default| default.mode));
        bucket_line(&mut out, &bucket.name, bucket.created_ms, &bucket.settings, bucket.versioning, lock);
        let documents: Vec<_> =
            DocumentKind::ALL.iter().filter_map(|kind| Some((*kind, handle.document(bucket.id, *kind)?))).collect();
        crate::model::documents::lines(&mut out, documents.iter().map(|(kind, document)| (*kind, &document.bytes[..])));
        versions(handle, &bucket, &mut contents, &mut out)?;
        uploads(handle, &bucket, &mut out)?;
        for snapshot in handle.snapshots(&bucket.name) {
            snapshot_line(&mut out, &snapshot.name[bucket.name.len() + 1..], snapshot.created_ms);
            snapshot_lines(handle, &snapshot, &mut contents, &mut out)?;
        }
    }
    Ok(out)
}

/// What was read, by the record that brought it: layers are shown by several buckets, and each content is read once.
#[derive(Default)]
struct Contents(BTreeMap<Sequence, (Vec<Extent>, blake3::Hash)>);

impl Contents {
    fn hash(&mut self, handle: &Handle, object: &Object) -> Result<blake3::Hash> {
        let manifest = &object.version.manifest;
        if let Some((_, hash)) = self.0.get(&object.sequence).filter(|(known, _)| known == manifest) {
            return Ok(*hash);
        }
        let bytes = read(handle, object)?;
        let mut again = vec![0; bytes.len()];
        let key = key_for(handle, object.version.attributes.encryption.as_ref())?;
        let found = PinnedObject::new(Arc::new(object.clone()), handle.pin_epoch()).with_key(key);
        if handle.content().try_read(&found, 0, &mut again)? {
            assert!(again == bytes, "two ways to read {:?} differ", object.version.key);
        }
        let hash = blake3::hash(&bytes);
        self.0.insert(object.sequence, (manifest.clone(), hash));
        Ok(hash)
    }
}

/// An entry of a list of versions: key, id, whether it is the latest and a delete marker, and what is listed.
type Entry = (Bytes, VersionId, bool, bool, Listed);

#[derive(Default)]
struct Entries(Vec<Entry>);

impl VersionSink for Entries {
    fn version(&mut self, version: &ListedVersion<'_>) {
        let ListedVersion { key, id, is_latest, delete_marker, listed } = *version;
        self.0.push((Bytes::copy_from_slice(key), id, is_latest, delete_marker, listed));
    }

    fn prefix(&mut self, _: &[u8]) {
        unreachable!("no delimiter was given");
    }

    fn restart(&mut self) {
        self.0.clear();
    }
}

fn list_versions(handle: &Handle, bucket: &Bucket, prefix: &Bytes) -> Result<Vec<Entry>> {
    let prefix = prefix.clone();
    let mut list = ListVersions { bucket: bucket.id, prefix, delimiter: None, after: None, max_keys: PAGE };
    let mut all = Vec::new();
    loop {
        let mut page = Entries::default();
        list.after = handle.list_versions_in(bucket, &list, &mut page)?;
        all.append(&mut page.0);
        if list.after.is_none() {
            return Ok(all);
        }
    }
}

/// The ids of a key's versions, newest first.
pub fn version_ids(handle: &Handle, bucket: &Bucket, key: &Bytes) -> Result<Vec<VersionId>> {
    let all = list_versions(handle, bucket, key)?;
    Ok(all.into_iter().filter(|entry| entry.0 == *key).map(|entry| entry.1).collect())
}

fn versions(handle: &Handle, bucket: &Bucket, contents: &mut Contents, out: &mut String) -> Result<()> {
    let current = objects(handle, bucket, contents)?;
    let mut latest = Vec::new();
    let mut last = None;
    for (key, id, is_latest, delete_marker, listed) in list_versions(handle, bucket, &Bytes::new())? {
        assert_eq!(is_latest, last.as_ref() != Some(&key), "the first version of {key:?} is the latest");
        let found = handle.version_in(bucket, &key, id)?.expect("a listed version is found");
        let version = &found.object.version;
        assert_eq!((version.version_id, version.delete_marker), (id, delete_marker));
        assert_eq!((listed.size, listed.etag, listed.modified_ms), (version.size, version.etag, version.modified_ms));
        if is_latest && !delete_marker {
            latest.push((key.clone(), found.object.sequence, version.attributes.clone()));
        }
        if bucket.layers.is_empty() || bucket.versioning != Versioning::Unversioned {
            let marker = handle.newest_marker_in(bucket, &key)?.map(|found| found.object.version.version_id);
            assert!(!is_latest || marker == delete_marker.then_some(id), "what hides {key:?}");
        }
        lines(handle, &found.object, contents, out)?;
        last = Some(key);
    }
    assert_eq!(current, latest, "the objects listed are the latest versions");
    Ok(())
}

fn lines(handle: &Handle, object: &Object, contents: &mut Contents, out: &mut String) -> Result<()> {
    let Version { key, version_id, delete_marker, attributes, .. } = &object.version;
    let tag = attributes.tags.first().map(|(_, tag)| String::from_utf8_lossy(tag).parse().expect("a number"));
    let locks = (tag, attributes.legal_hold, attributes.retention);
    version_line(out, key, *version_id != VersionId::Null, *delete_marker, locks);
    let Version { size, etag, modified_ms, parts, .. } = &object.version;
    let headers = &opened_headers(handle, object)?;
    let parts: Vec<_> = parts.iter().map(|part| (part.number, part.size)).collect();
    let hash = contents.hash(handle, object)?;
    object_line(out, *size, etag, *modified_ms, headers, &parts, &hash);
    for Annotation { name, md5, modified_ms, .. } in attributes.annotations.as_slice() {
        let found = PinnedObject::new(Arc::new(object.clone()), handle.pin_epoch());
        let text = read(handle, &found.annotation(name).expect("the version has it").object)?;
        annotation_line(out, name, text.len() as u64, md5, *modified_ms, &blake3::hash(&text));
    }
    Ok(())
}

/// What the layers make of each key, one after the other from the lowest. Clients see a snapshot only through what is made
/// of it.
fn snapshot_lines(handle: &Handle, snapshot: &Bucket, contents: &mut Contents, out: &mut String) -> Result<()> {
    // Newest first.
    let mut shown: BTreeMap<Bytes, Vec<Arc<Object>>> = BTreeMap::new();
    for id in snapshot.layers.iter().rev() {
        let kind = handle.layer_kind(*id);
        let layer = Bucket { id: *id, layers: Vec::new(), ..snapshot.clone() };
        let mut above: BTreeMap<Bytes, Vec<Arc<Object>>> = BTreeMap::new();
        for (key, version_id, ..) in list_versions(handle, &layer, &Bytes::new())? {
            let found = handle.version(*id, &key, version_id)?.expect("a listed version is found");
            above.entry(key).or_default().push(found.object);
        }
        for (key, objects) in above {
            let below = shown.entry(key).or_default();
            for object in &objects {
                let named = |other: &Arc<Object>| other.version.version_id == object.version.version_id;
                match kind {
                    LayerKind::Single => below.clear(),
                    LayerKind::History => below.retain(|other| !named(other)),
                    LayerKind::Amendments if object.version.delete_marker => below.retain(|other| !named(other)),
                    LayerKind::Amendments => {
                        below.iter_mut().filter(|other| named(other)).for_each(|other| *other = Arc::clone(object));
                    }
                }
            }
            if kind != LayerKind::Amendments {
                let is_whiteout = |object: &Arc<Object>| kind == LayerKind::Single && object.version.delete_marker;
                below.splice(0..0, objects.into_iter().filter(|object| !is_whiteout(object)));
            }
        }
    }
    for object in shown.values().flatten() {
        lines(handle, object, contents, out)?;
    }
    Ok(())
}

/// Key, sequence and attributes of every object that is listed, each of which was read.
fn objects(handle: &Handle, bucket: &Bucket, contents: &mut Contents) -> Result<Vec<(Bytes, Sequence, Attributes)>> {
    let mut current = Vec::new();
    let mut list =
        ListObjects { bucket: bucket.id, prefix: Default::default(), delimiter: None, after: None, max_keys: PAGE };
    loop {
        let mut page = ListPage::default();
        list.after = handle.list_objects_in(bucket, &list, &mut page)?;
        for entry in page.entries {
            let found = handle.object_in(bucket, &entry.key)?.expect("a listed key is found");
            let Version { size, etag, modified_ms, .. } = &found.object.version;
            let listed = entry.listed;
            current.push((entry.key.clone(), found.object.sequence, found.object.version.attributes.clone()));
            assert_eq!((listed.size, listed.etag, listed.modified_ms), (*size, *etag, *modified_ms));
            contents.hash(handle, &found.object)?;
        }
        if list.after.is_none() {
            break;
        }
    }
    for key in KEYS.iter().filter(|_| !bucket.layers.is_empty()).map(|key| Bytes::from_static(key.as_bytes())) {
        let listed = current.iter().any(|(listed, ..)| *listed == key);
        assert!(listed || handle.object_in(bucket, &key)?.is_none(), "{key:?} is found and not listed");
    }
    Ok(current)
}

fn uploads(handle: &Handle, bucket: &Bucket, out: &mut String) -> Result<()> {
    let mut list = ListUploads::first(bucket.id, Bytes::new(), PAGE);
    loop {
        let page = handle.list_uploads(&list)?;
        for upload in &page.entries {
            let mut object = as_object(bucket, &NO_PART, upload.attributes.encryption.clone());
            object.version.headers = upload.headers.clone();
            upload_line(out, &upload.key, upload.id, upload.initiated_ms, &opened_headers(handle, &object)?);
            assert!(handle.upload(bucket.id, &upload.key, upload.id)?.is_some());
            let mut parts = ListParts { upload: upload.id, after: 0, max_parts: PAGE };
            loop {
                let page = handle.list_parts(parts)?;
                for part in &page.entries {
                    let object = as_object(bucket, part, upload.attributes.encryption.clone());
                    let hash = blake3::hash(&read(handle, &object)?);
                    part_line(out, part.number, part.size, &part.md5, part.modified_ms, &hash);
                }
                let Some(last) = page.entries.last().filter(|_| page.truncated) else { break };
                parts.after = last.number;
            }
        }
        if !list.advance(&page) {
            return Ok(());
        }
    }
}

const NO_PART: Part = Part {
    upload: UploadId([0; 16]),
    number: 0,
    size: 0,
    md5: [0; 16],
    modified_ms: 0,
    checksum: None,
    manifest: Vec::new(),
};

/// A part as if it were an object, so that its bytes can be read.
fn as_object(bucket: &Bucket, part: &Part, encryption: Option<Encryption>) -> Object {
    let version = Version {
        bucket: bucket.id,
        key: Default::default(),
        version_id: VersionId::Null,
        delete_marker: false,
        modified_ms: part.modified_ms,
        size: part.size,
        etag: Etag::simple(part.md5),
        sha256: None,
        checksum: None,
        headers: Default::default(),
        attributes: Attributes { encryption, ..Default::default() },
        parts: Vec::new(),
        manifest: part.manifest.clone(),
    };
    Object { sequence: 0, version }
}

/// As an answer shows them. Those of encrypted objects must be sealed.
fn opened_headers(handle: &Handle, object: &Object) -> Result<ObjectHeaders> {
    let encryption = object.version.attributes.encryption.as_ref();
    assert!(object.version.headers.fit(encryption), "headers in the clear: {object:?}");
    let key = key_for(handle, encryption)?;
    let found = PinnedObject::new(Arc::new(object.clone()), handle.pin_epoch()).with_key(key);
    Ok(handle.content().headers(&found)?.into_owned())
}

fn read(handle: &Handle, object: &Object) -> Result<Vec<u8>> {
    let size = object.version.size;
    assert_eq!(object.version.manifest.iter().map(Extent::length).sum::<u64>(), size);
    let mut bytes = vec![0; size as usize];
    let key = key_for(handle, object.version.attributes.encryption.as_ref())?;
    let found = PinnedObject::new(Arc::new(object.clone()), handle.pin_epoch()).with_key(key);
    let mut reader = handle.content().reader(&found, 0, size.saturating_sub(1));
    let mut filled = 0;
    loop {
        match reader.read(&mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    assert_eq!(filled as u64, size, "a read ends early");
    Ok(bytes)
}
