//! What a store shows, a line each: of the model, and the same lines for what is read.

use std::fmt::Write as _;

use orcas_checksum::Etag;
use orcas_record::{BucketSettings, ObjectHeaders, Retention, RetentionMode, UploadId, Versioning};

use super::{Model, Object, Part, Versions, documents};

impl Model {
    /// Everything that can be observed, a line each.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, bucket) in &self.buckets {
            let lock = bucket.lock.then_some(bucket.default);
            bucket_line(&mut out, name, bucket.created_ms, &bucket.settings, bucket.versioning, lock);
            documents::lines(&mut out, bucket.documents.iter().map(|(kind, document)| (*kind, &document[..])));
            version_lines(&mut out, &bucket.versions);
            let mut uploads: Vec<_> = bucket.uploads.iter().collect();
            uploads.sort_by_key(|(id, upload)| (upload.key.clone(), **id));
            for (id, upload) in uploads {
                upload_line(&mut out, &upload.key, *id, upload.initiated_ms, &upload.headers);
                for (number, part) in &upload.parts {
                    let Part { body, modified_ms } = part;
                    part_line(&mut out, *number, body.bytes.len() as u64, &body.md5, *modified_ms, &body.hash);
                }
            }
            for (name, snapshot) in &bucket.snapshots {
                snapshot_line(&mut out, name, snapshot.created_ms);
                version_lines(&mut out, &snapshot.versions);
            }
        }
        out
    }
}

fn version_lines(out: &mut String, versions: &Versions) {
    for (key, versions) in versions {
        for object in versions.iter().rev() {
            let locks = (object.tag, object.hold, object.retention);
            version_line(out, key, object.named, object.marker, locks);
            let Object { body, etag, modified_ms, headers, parts, .. } = object;
            object_line(out, body.bytes.len() as u64, etag, *modified_ms, headers, parts, &body.hash);
            for (name, (text, written_ms)) in &object.annotations {
                annotation_line(
                    out,
                    name.to_string().as_bytes(),
                    text.bytes.len() as u64,
                    &text.md5,
                    *written_ms,
                    &text.hash,
                );
            }
        }
    }
}

pub fn snapshot_line(out: &mut String, name: &[u8], created_ms: u64) {
    writeln!(out, "  snapshot {} created {created_ms}", String::from_utf8_lossy(name)).unwrap();
}

/// `lock` is the default retention of a bucket whose versions can be locked.
pub fn bucket_line(
    out: &mut String,
    name: &[u8],
    created_ms: u64,
    settings: &BucketSettings,
    versioning: Versioning,
    lock: Option<Option<RetentionMode>>,
) {
    let name = String::from_utf8_lossy(name);
    writeln!(out, "bucket {name} created {created_ms} {settings:?} {versioning:?} lock {lock:?}").unwrap();
}

/// The tag is a number, its only value.
pub fn version_line(
    out: &mut String,
    key: &[u8],
    named: bool,
    marker: bool,
    (tag, hold, retention): (Option<u64>, Option<bool>, Option<Retention>),
) {
    let key = String::from_utf8_lossy(key);
    let (id, kind) = (if named { "named" } else { "null" }, if marker { "marker" } else { "object" });
    writeln!(out, "  {kind} {key} {id} tag {tag:?} hold {hold:?} {retention:?}").unwrap();
}

pub fn object_line(
    out: &mut String,
    size: u64,
    etag: &Etag,
    modified_ms: u64,
    headers: &ObjectHeaders,
    parts: &[(u16, u64)],
    hash: &blake3::Hash,
) {
    let headers = (&headers.content_type, &headers.user);
    writeln!(out, "    {size} {etag} at {modified_ms} {headers:?} parts {parts:?} {hash}").unwrap();
}

pub fn annotation_line(out: &mut String, name: &[u8], size: u64, md5: &[u8; 16], written_ms: u64, hash: &blake3::Hash) {
    let (name, etag) = (String::from_utf8_lossy(name), Etag::simple(*md5));
    writeln!(out, "    annotation {name} {size} {etag} at {written_ms} {hash}").unwrap();
}

pub fn upload_line(out: &mut String, key: &[u8], id: UploadId, initiated_ms: u64, headers: &ObjectHeaders) {
    let (key, headers) = (String::from_utf8_lossy(key), (&headers.content_type, &headers.user));
    writeln!(out, "  upload {key} {:02x?} at {initiated_ms} {headers:?}", id.0).unwrap();
}

pub fn part_line(out: &mut String, number: u16, size: u64, md5: &[u8; 16], modified_ms: u64, hash: &blake3::Hash) {
    let etag = Etag::simple(*md5);
    writeln!(out, "    part {number} {size} {etag} at {modified_ms} {hash}").unwrap();
}
