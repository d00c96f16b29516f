//! From records to payload bytes, as `docs/format.md` has them. Integers are little-endian; byte strings stand behind
//! their length.

use super::kinds::*;
use super::*;

/// Appends the payload of `record` and returns its frame type.
pub fn encode(record: &Record, out: &mut Vec<u8>) -> u8 {
    match record {
        Record::CreateBucket(bucket) => {
            put_bucket(bucket, out);
            CREATE_BUCKET
        }
        Record::UpdateBucket(bucket) => {
            put_bucket(bucket, out);
            UPDATE_BUCKET
        }
        Record::DeleteBucket { bucket } => {
            put_u64(out, bucket.0);
            DELETE_BUCKET
        }
        Record::CreatePack { pack } => {
            put_u64(out, *pack);
            CREATE_PACK
        }
        Record::Content { identity, shared, bytes } => {
            out.extend_from_slice(&identity.0);
            out.extend_from_slice(bytes);
            content_kind(*shared)
        }
        Record::Chunk { identity, shared, head, pack, offset, length } => {
            out.extend_from_slice(&identity.0);
            out.push(u8::from(*shared));
            put_u64(out, *head);
            put_u64(out, *pack);
            put_u64(out, *offset);
            put_u32(out, *length);
            CHUNK
        }
        Record::Segment { extents } => {
            encode_extents(extents, out);
            SEGMENT
        }
        Record::PutVersion(version) => {
            put_version(version, out);
            PUT_VERSION
        }
        Record::DeleteVersion { bucket, key, version_id } => {
            put_u64(out, bucket.0);
            put_bytes(out, key);
            put_version_id(*version_id, out);
            DELETE_VERSION
        }
        Record::MoveVersion { from_bucket, from_key, version } => {
            put_version(version, out);
            put_u64(out, from_bucket.0);
            put_bytes(out, from_key);
            MOVE_VERSION
        }
        Record::CreateUpload(upload) => {
            put_upload(upload, out);
            CREATE_UPLOAD
        }
        Record::PutPart(part) => {
            put_part(part, out);
            PUT_PART
        }
        Record::AbortUpload { upload } => {
            out.extend_from_slice(&upload.0);
            ABORT_UPLOAD
        }
        Record::CompleteUpload { upload, request, version } => {
            put_version(version, out);
            out.extend_from_slice(&upload.0);
            out.extend_from_slice(request);
            COMPLETE_UPLOAD
        }
        Record::RememberUpload { upload, request, bucket, key, version_id, etag, checksum } => {
            out.extend_from_slice(&upload.0);
            out.extend_from_slice(request);
            put_u64(out, bucket.0);
            put_bytes(out, key);
            put_version_id(*version_id, out);
            put_etag(etag, out);
            put_object_checksum(checksum.as_ref(), out);
            REMEMBER_UPLOAD
        }
        Record::CondemnBlobs { .. }
        | Record::MoveChunks { .. }
        | Record::RetirePack { .. }
        | Record::MoveContents { .. }
        | Record::ReplaceLog { .. } => encode_reclamation(record, out),
    }
}

/// The records of reclamation; empty for any other.
fn encode_reclamation(record: &Record, out: &mut Vec<u8>) -> u8 {
    match record {
        Record::CondemnBlobs { blobs } => {
            put_u32(out, blobs.len() as u32);
            blobs.iter().for_each(|blob| put_u64(out, *blob));
            CONDEMN_BLOBS
        }
        Record::MoveChunks { moves } => {
            put_u32(out, moves.len() as u32);
            for moved in moves {
                put_u64(out, moved.blob);
                put_u64(out, moved.pack);
                put_u64(out, moved.offset);
            }
            MOVE_CHUNKS
        }
        Record::MoveContents { file, moves } => {
            put_u64(out, *file);
            put_u32(out, moves.len() as u32);
            for moved in moves {
                put_u64(out, moved.blob);
                put_u64(out, moved.offset);
            }
            MOVE_CONTENTS
        }
        Record::RetirePack { pack } => {
            put_u64(out, *pack);
            RETIRE_PACK
        }
        Record::ReplaceLog { file, first, last } => {
            put_u64(out, *file);
            put_u64(out, *first);
            put_u64(out, *last);
            REPLACE_LOG
        }
        _ => 0,
    }
}

/// The payload of a segment record, also used for manifests.
pub fn encode_extents(extents: &[Extent], out: &mut Vec<u8>) {
    put_u32(out, extents.len() as u32);
    for extent in extents {
        match extent {
            Extent::Inline(bytes) => {
                out.push(0);
                put_bytes(out, bytes);
            }
            Extent::Blob { blob, start, length } => {
                out.push(1);
                put_u64(out, *blob);
                put_u32(out, *start);
                put_u32(out, *length);
            }
            Extent::Segment { segment, length } => {
                out.push(2);
                put_u64(out, *segment);
                put_u64(out, *length);
            }
        }
    }
}

fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Every byte string of a record is bounded far below 64 KiB by the limits of S3 (keys 1 KiB, headers 8 KiB).
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u16::MAX));
    put_u16(out, bytes.len() as u16);
    out.extend_from_slice(bytes);
}

fn put_version_id(id: VersionId, out: &mut Vec<u8>) {
    match id {
        VersionId::Null => out.push(0),
        VersionId::Named(bytes) => {
            out.push(1);
            out.extend_from_slice(&bytes);
        }
    }
}

fn put_checksum(checksum: Option<&Checksum>, out: &mut Vec<u8>) {
    match checksum {
        None => out.push(0),
        Some(checksum) => {
            out.push(checksum.algorithm().code());
            out.extend_from_slice(checksum.as_bytes());
        }
    }
}

fn put_headers(headers: &ObjectHeaders, out: &mut Vec<u8>) {
    let single = singles(headers);
    let mask = single.iter().enumerate().fold(0u8, |mask, (bit, value)| mask | u8::from(value.is_some()) << bit);
    out.push(mask);
    for value in single.into_iter().flatten() {
        put_bytes(out, value);
    }
    put_u16(out, headers.user.len() as u16);
    for (name, value) in &headers.user {
        put_bytes(out, name);
        put_bytes(out, value);
    }
}

fn singles(headers: &ObjectHeaders) -> [Option<&Bytes>; 6] {
    [
        headers.content_type.as_ref(),
        headers.content_encoding.as_ref(),
        headers.content_disposition.as_ref(),
        headers.content_language.as_ref(),
        headers.cache_control.as_ref(),
        headers.expires.as_ref(),
    ]
}

fn put_etag(etag: &Etag, out: &mut Vec<u8>) {
    out.extend_from_slice(&etag.md5);
    put_u16(out, etag.parts);
}

fn put_object_checksum(checksum: Option<&ObjectChecksum>, out: &mut Vec<u8>) {
    put_checksum(checksum.map(|whole| &whole.checksum), out);
    put_u16(out, checksum.map_or(0, |whole| whole.parts));
}

fn put_version(version: &Version, out: &mut Vec<u8>) {
    put_u64(out, version.bucket.0);
    put_bytes(out, &version.key);
    put_version_id(version.version_id, out);
    out.push(u8::from(version.delete_marker));
    put_u64(out, version.modified_ms);
    put_u64(out, version.size);
    put_etag(&version.etag, out);
    out.push(u8::from(version.sha256.is_some()));
    out.extend_from_slice(version.sha256.as_ref().map_or(&[], |digest| &digest[..]));
    put_object_checksum(version.checksum.as_ref(), out);
    put_headers(&version.headers, out);
    put_u16(out, version.parts.len() as u16);
    for part in &version.parts {
        put_u16(out, part.number);
        put_u64(out, part.size);
        put_checksum(part.checksum.as_ref(), out);
    }
    encode_extents(&version.manifest, out);
}

fn put_bucket(bucket: &Bucket, out: &mut Vec<u8>) {
    put_u64(out, bucket.id.0);
    put_bytes(out, &bucket.name);
    put_bytes(out, &bucket.owner);
    put_u64(out, bucket.created_ms);
    put_bytes(out, &bucket.location);
    out.push(match bucket.versioning {
        Versioning::Unversioned => 0,
        Versioning::Enabled => 1,
        Versioning::Suspended => 2,
    });
    put_settings(&bucket.settings, out);
}

fn put_settings(settings: &BucketSettings, out: &mut Vec<u8>) {
    put_u32(out, settings.chunk_size.unwrap_or(0));
    out.push(match settings.durability {
        None => 0,
        Some(Durability::UnsafeNone) => 1,
        Some(Durability::Buffered) => 2,
        Some(Durability::Interval) => 3,
        Some(Durability::Sync) => 4,
    });
    out.push(match settings.ref_level {
        None => 0,
        Some(RefLevel::Off) => 1,
        Some(RefLevel::Full) => 2,
        Some(RefLevel::Fast) => 3,
    });
    out.push(match settings.chunking {
        None => 0,
        Some(Chunking::Fixed) => 1,
        Some(Chunking::ContentDefined) => 2,
    });
    out.push(u8::from(settings.keep_sha256));
}

fn put_upload(upload: &Upload, out: &mut Vec<u8>) {
    out.extend_from_slice(&upload.id.0);
    put_u64(out, upload.bucket.0);
    put_bytes(out, &upload.key);
    put_u64(out, upload.initiated_ms);
    put_headers(&upload.headers, out);
    match upload.checksum {
        None => out.push(0),
        Some((algorithm, kind)) => {
            out.push(algorithm.code());
            out.push(match kind {
                ChecksumType::FullObject => 0,
                ChecksumType::Composite => 1,
            });
        }
    }
}

fn put_part(part: &Part, out: &mut Vec<u8>) {
    out.extend_from_slice(&part.upload.0);
    put_u16(out, part.number);
    put_u64(out, part.size);
    out.extend_from_slice(&part.md5);
    put_u64(out, part.modified_ms);
    put_checksum(part.checksum.as_ref(), out);
    encode_extents(&part.manifest, out);
}
