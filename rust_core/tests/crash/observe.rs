//! Reads a store through its own interface, every list and every byte, into the same text as the model's.

use orcas_base::error::Result;
use orcas_checksum::Etag;
use orcas_engine::{Found, Handle, ListObjects, ListParts, ListUploads};
use orcas_record::{Bucket, DocumentKind, Extent, Object, Part, Version, VersionId};

use crate::model::{bucket_line, object_line, part_line, upload_line};

/// Small, so that pages end everywhere.
const PAGE: usize = 3;

pub fn observe(handle: &Handle) -> Result<String> {
    let mut out = String::new();
    for bucket in handle.buckets() {
        bucket_line(&mut out, &bucket.name, bucket.created_ms, &bucket.settings);
        let documents: Vec<_> =
            DocumentKind::ALL.iter().filter_map(|kind| Some((*kind, handle.document(bucket.id, *kind)?))).collect();
        crate::documents::lines(&mut out, documents.iter().map(|(kind, document)| (*kind, &document.bytes[..])));
        objects(handle, &bucket, &mut out)?;
        uploads(handle, &bucket, &mut out)?;
    }
    Ok(out)
}

fn objects(handle: &Handle, bucket: &Bucket, out: &mut String) -> Result<()> {
    let mut list =
        ListObjects { bucket: bucket.id, prefix: Default::default(), delimiter: None, after: None, max_keys: PAGE };
    loop {
        let page = handle.list_objects(&list)?;
        for entry in page.entries {
            let found = handle.object(bucket.id, &entry.key)?.expect("a listed key is found");
            let Version { size, etag, modified_ms, headers, parts, .. } = &found.object.version;
            let listed = entry.listed;
            assert_eq!((listed.size, listed.etag, listed.modified_ms), (*size, *etag, *modified_ms));
            let bytes = read(handle, &found.object)?;
            let mut again = vec![0; bytes.len()];
            if handle.try_read(&found, 0, &mut again)? {
                assert!(again == bytes, "two ways to read {:?} differ", entry.key);
            }
            let parts: Vec<_> = parts.iter().map(|part| (part.number, part.size)).collect();
            object_line(out, &entry.key, *size, etag, *modified_ms, headers, &parts, &blake3::hash(&bytes));
        }
        list.after = page.next;
        if list.after.is_none() {
            return Ok(());
        }
    }
}

fn uploads(handle: &Handle, bucket: &Bucket, out: &mut String) -> Result<()> {
    let mut list = ListUploads {
        bucket: bucket.id,
        prefix: Default::default(),
        delimiter: None,
        after_key: None,
        after_upload: None,
        max_uploads: PAGE,
    };
    loop {
        let page = handle.list_uploads(&list)?;
        for upload in page.entries {
            upload_line(out, &upload.key, upload.id, upload.initiated_ms, &upload.headers);
            assert!(handle.upload(bucket.id, &upload.key, upload.id)?.is_some());
            let mut parts = ListParts { upload: upload.id, after: 0, max_parts: PAGE };
            loop {
                let page = handle.list_parts(parts)?;
                for part in &page.entries {
                    let hash = blake3::hash(&read(handle, &as_object(bucket, part))?);
                    part_line(out, part.number, part.size, &part.md5, part.modified_ms, &hash);
                }
                let Some(last) = page.entries.last().filter(|_| page.truncated) else { break };
                parts.after = last.number;
            }
        }
        let Some((key, upload)) = page.last.filter(|_| page.truncated) else { return Ok(()) };
        (list.after_key, list.after_upload) = (Some(key), upload);
    }
}

/// A part as if it were an object, so that its bytes can be read.
fn as_object(bucket: &Bucket, part: &Part) -> Object {
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
        attributes: Default::default(),
        parts: Vec::new(),
        manifest: part.manifest.clone(),
    };
    Object { sequence: 0, version }
}

fn read(handle: &Handle, object: &Object) -> Result<Vec<u8>> {
    let size = object.version.size;
    assert_eq!(object.version.manifest.iter().map(Extent::length).sum::<u64>(), size);
    let mut bytes = vec![0; size as usize];
    let found = Found::new(std::sync::Arc::new(object.clone()), handle.pin_epoch());
    let mut reader = handle.reader(&found, 0, size.saturating_sub(1));
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
