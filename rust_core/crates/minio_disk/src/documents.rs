//! The documents of a bucket: policy, lifecycle and more, which MinIO keeps as one object of its own.

use std::collections::BTreeMap;

use crate::content::Content;
use crate::drives::Drives;
use crate::msgpack::Reader;
use crate::walk::system_path;

const DOCUMENTS_MAX: usize = 64 << 20;

/// A small object of MinIO's own, by its path below `.minio.sys`. `Ok(None)`: there is none.
pub fn system_file(drives: &Drives, name: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let Some(found) = drives.object(name.to_vec(), system_path(name)) else { return Ok(None) };
    let Some(version) = found.versions.first() else {
        return if found.problem.is_empty() { Ok(None) } else { Err(found.problem) };
    };
    if !version.problem.is_empty() {
        return Err(version.problem.clone());
    }
    let mut bytes = Vec::new();
    for part in 0..version.shape.parts.len() {
        let content = Content::open(drives, found.set, &found.path, version, part);
        let mut content = content.ok_or("it has no content")?;
        loop {
            let piece = content.next_piece()?;
            if piece.is_empty() {
                break;
            }
            bytes.extend_from_slice(&piece);
            if bytes.len() > DOCUMENTS_MAX {
                return Err("it is too large".to_owned());
            }
        }
    }
    Ok(Some(bytes))
}

/// The documents of a bucket by the names that MinIO has for them, such as `PolicyConfigJSON`.
pub fn documents(drives: &Drives, bucket: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut documents = BTreeMap::new();
    let Some(bytes) = system_file(drives, &[b"buckets/", bucket, b"/.metadata.bin"].concat())? else {
        return Ok(documents);
    };
    let damaged = || "its .metadata.bin is damaged, or of another version".to_owned();
    let mut reader = Reader(bytes.strip_prefix(&[1, 0, 1, 0]).ok_or_else(damaged)?);
    let read = reader.map(|name, reader| {
        if !(name.ends_with(b"XML") || name.ends_with(b"JSON")) {
            return reader.skip();
        }
        let document = reader.bytes()?;
        if !document.is_empty() {
            documents.insert(String::from_utf8_lossy(name).into_owned(), document.to_vec());
        }
        Some(())
    });
    read.ok_or_else(damaged)?;
    Ok(documents)
}
