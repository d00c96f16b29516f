//! Encodes the payloads of records, as specified in `docs/format.md`. The order of the calls is the order of the fields; a
//! test compares their names and types with the tables of the document.

use super::kinds::*;
use super::output::{Output, Trace};
use crate::placement::codec::{chunk_parts, in_log_parts, log_file_number, pack_number};
use crate::*;

/// Appends the payload of `record`, caused by the engine, and returns its frame type.
pub fn encode(record: &Record, out: &mut Vec<u8>) -> u8 {
    encode_caused(record, &Cause::Engine, out)
}

/// Appends the payload of `record` and returns its frame type. A record that no event is made from does not keep `cause`.
pub fn encode_caused(record: &Record, cause: &Cause, out: &mut Vec<u8>) -> u8 {
    put_record(record, cause, &mut Output::new(out, ()))
}

/// The payload of a segment record, also used for manifests.
pub fn encode_extents(extents: &[Extent], out: &mut Vec<u8>) {
    put_extents("extents", extents, &mut Output::new(out, ()));
}

/// The headers of an object as they are before they are sealed.
pub fn encode_headers(headers: &ObjectHeaders) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_headers(headers, &mut Output::new(&mut bytes, ()));
    bytes
}

/// Like `encode_caused`, with a trace of the fields.
pub(crate) fn put_record<T: Trace>(record: &Record, cause: &Cause, out: &mut Output<'_, T>) -> u8 {
    let kind = put_fields(record, out);
    if keeps_cause(kind) {
        put_cause(cause, out);
    }
    kind
}

fn put_cause<T: Trace>(cause: &Cause, out: &mut Output<'_, T>) {
    out.structure("cause", "Cause", |out| match cause {
        Cause::Engine => out.u8("operation", 0),
        Cause::Lifecycle => put_request(&LIFECYCLE, out),
        Cause::Sealing => put_request(&SEALING, out),
        Cause::Request(request) => put_request(request, out),
    });
}

fn put_request<T: Trace>(cause: &RequestCause, out: &mut Output<'_, T>) {
    out.u8("operation", cause.operation.get());
    out.u64("request", cause.request);
    out.array("principal", &cause.principal);
}

fn put_fields<T: Trace>(record: &Record, out: &mut Output<'_, T>) -> u8 {
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
            out.u64("bucket", bucket.0);
            DELETE_BUCKET
        }
        Record::PutDocument { bucket, kind, document } => {
            out.u64("bucket", bucket.0);
            out.code("kind", kind.code());
            out.long_bytes("document", document);
            PUT_DOCUMENT
        }
        Record::CreatePack { pack } => {
            out.u64("pack", pack_number(*pack));
            CREATE_PACK
        }
        Record::Content { fingerprint, shared, bytes, seal } => {
            out.array("fingerprint", &fingerprint.0);
            out.rest("content", bytes);
            content_kind(*shared, seal.as_ref())
        }
        Record::Chunk { fingerprint, shared, prefix_hash, at, length, seal: Some(seal) } => {
            out.array("fingerprint", &fingerprint.0);
            out.flag("shared", *shared);
            out.u64("prefix_hash", *prefix_hash);
            put_chunk_location(*at, out);
            out.u32("length", *length);
            out.array("data_key", &seal.data_key);
            out.array("seal_id", &seal.id);
            out.u8("algorithm", seal.algorithm);
            SEALED_CHUNK
        }
        Record::Chunk { fingerprint, shared, prefix_hash, at, length, seal: None } => {
            out.array("fingerprint", &fingerprint.0);
            out.flag("shared", *shared);
            out.u64("prefix_hash", *prefix_hash);
            put_chunk_location(*at, out);
            out.u32("length", *length);
            CHUNK
        }
        Record::Segment { extents } => {
            put_extents("extents", extents, out);
            SEGMENT
        }
        Record::PutVersion(version) => {
            put_version(version, out);
            PUT_VERSION
        }
        Record::DeleteVersion { bucket, key, version_id } => {
            out.u64("bucket", bucket.0);
            out.bytes("key", key);
            put_version_id(*version_id, out);
            DELETE_VERSION
        }
        Record::MoveVersion { from_bucket, from_key, version } => {
            put_version(version, out);
            out.u64("from_bucket", from_bucket.0);
            out.bytes("from_key", from_key);
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
            out.array("upload", &upload.0);
            ABORT_UPLOAD
        }
        Record::CompleteUpload { upload, request, version } => {
            put_version(version, out);
            out.array("upload", &upload.0);
            out.array("request", request);
            COMPLETE_UPLOAD
        }
        Record::RememberUpload { upload, request, bucket, key, version_id, etag, checksum } => {
            out.array("upload", &upload.0);
            out.array("request", request);
            out.u64("bucket", bucket.0);
            out.bytes("key", key);
            put_version_id(*version_id, out);
            put_etag(etag, out);
            put_object_checksum(checksum.as_ref(), out);
            REMEMBER_UPLOAD
        }
        Record::UpdateVersion { bucket, key, version_id, version, attributes } => {
            out.u64("bucket", bucket.0);
            out.bytes("key", key);
            put_version_id(*version_id, out);
            out.u64("version", *version);
            put_attributes(attributes, None, out);
            UPDATE_VERSION
        }
        Record::CondemnBlobs { .. }
        | Record::MoveChunks { .. }
        | Record::RetirePack { .. }
        | Record::MoveContents { .. }
        | Record::ReplaceLog { .. } => put_reclamation(record, out),
    }
}

fn put_chunk_location<T: Trace>(at: ChunkLocation, out: &mut Output<'_, T>) {
    let (pack, offset) = chunk_parts(at);
    out.u64("pack", pack);
    out.u64("offset", offset);
}

/// The records of reclamation; empty for any other.
fn put_reclamation<T: Trace>(record: &Record, out: &mut Output<'_, T>) -> u8 {
    match record {
        Record::CondemnBlobs { blobs } => {
            out.u64s("blobs", blobs);
            CONDEMN_BLOBS
        }
        Record::MoveChunks { moves } => {
            out.list32("moves", "ChunkMove", moves, |out, moved| {
                out.u64("blob", moved.blob);
                put_chunk_location(moved.to, out);
            });
            MOVE_CHUNKS
        }
        Record::MoveContents { file, moves } => {
            out.u64("file", log_file_number(*file));
            out.list32("moves", "ContentMove", moves, |out, moved| {
                out.u64("blob", moved.blob);
                let (in_file, offset) = in_log_parts(moved.to);
                debug_assert_eq!(in_file, log_file_number(*file));
                out.u64("offset", offset);
            });
            MOVE_CONTENTS
        }
        Record::RetirePack { pack } => {
            out.u64("pack", pack_number(*pack));
            RETIRE_PACK
        }
        Record::ReplaceLog { file, first, last } => {
            out.u64("file", log_file_number(*file));
            out.u64("first", *first);
            out.u64("last", *last);
            REPLACE_LOG
        }
        _ => 0,
    }
}

fn put_extents<T: Trace>(name: &'static str, extents: &[Extent], out: &mut Output<'_, T>) {
    out.list32(name, "Extent", extents, |out, extent| put_extent(extent, out));
}

fn put_extent<T: Trace>(extent: &Extent, out: &mut Output<'_, T>) {
    match extent {
        Extent::Inline(bytes) => {
            out.code("kind", 0);
            out.bytes("bytes", bytes);
        }
        Extent::Blob { blob, start, length } => {
            out.code("kind", 1);
            out.u64("blob", *blob);
            out.u32("start", *start);
            out.u32("length", *length);
        }
        Extent::Segment { segment, length } => {
            out.code("kind", 2);
            out.u64("segment", *segment);
            out.u64("sum", *length);
        }
    }
}

fn put_version_id<T: Trace>(id: VersionId, out: &mut Output<'_, T>) {
    let bytes = match &id {
        VersionId::Null => None,
        VersionId::Named(bytes) => Some(bytes),
    };
    out.optional("version_id", bytes);
}

fn put_checksum<T: Trace>(checksum: Option<&Checksum>, out: &mut Output<'_, T>) {
    out.structure("checksum", "Checksum", |out| match checksum {
        None => out.code("algorithm", 0),
        Some(checksum) => {
            out.code("algorithm", checksum.algorithm().code());
            out.array("digest", checksum.as_bytes());
        }
    });
}

fn put_headers<T: Trace>(headers: &ObjectHeaders, out: &mut Output<'_, T>) {
    out.structure("headers", "Headers", |out| {
        let single = singles(headers);
        let bit = |(bit, (_, value)): (usize, &(_, Option<&Bytes>))| u8::from(value.is_some()) << bit;
        out.u8("present", single.iter().enumerate().map(bit).sum());
        for (name, value) in single {
            if let Some(value) = value {
                out.bytes(name, value);
            }
        }
        out.list16("user", "UserHeader", &headers.user, |out, (name, value)| {
            out.bytes("name", name);
            out.bytes("value", value);
        });
    });
}

/// Single headers in the order of their bits.
fn singles(headers: &ObjectHeaders) -> [(&'static str, Option<&Bytes>); 8] {
    [
        ("content_type", headers.content_type.as_ref()),
        ("content_encoding", headers.content_encoding.as_ref()),
        ("content_disposition", headers.content_disposition.as_ref()),
        ("content_language", headers.content_language.as_ref()),
        ("cache_control", headers.cache_control.as_ref()),
        ("expires", headers.expires.as_ref()),
        ("website_redirect", headers.website_redirect.as_ref()),
        ("storage_class", headers.storage_class.as_ref()),
    ]
}

/// The attributes of a version or an upload. How its headers are sealed is a part of how it is encrypted.
fn put_attributes<T: Trace>(attributes: &Attributes, sealed: Option<&SealedHeaders>, out: &mut Output<'_, T>) {
    out.structure("attributes", "Attributes", |out| {
        let Attributes { tags, retention, legal_hold, annotations, encryption, acl } = attributes;
        let hold = [legal_hold.is_some(), *legal_hold == Some(true)];
        let lists = [!tags.is_empty(), !annotations.is_empty()];
        let sealing = [encryption.is_some(), sealed.is_some()];
        let bits = [lists[0], retention.is_some(), hold[0], hold[1], lists[1], sealing[0], sealing[1], acl.is_some()];
        out.u8("present", bits.iter().enumerate().map(|(bit, set)| u8::from(*set) << bit).sum());
        if !tags.is_empty() {
            out.list16("tags", "ObjectTag", tags, |out, (key, value)| {
                out.bytes("key", key);
                out.bytes("value", value);
            });
        }
        if let Some(Retention { mode, until_ms }) = retention {
            put_mode(*mode, out);
            out.u64("until", *until_ms);
        }
        if !annotations.is_empty() {
            out.list16("annotations", "Annotation", annotations.as_slice(), |out, annotation| {
                let Annotation { name, modified_ms, md5, checksum, text } = annotation;
                out.bytes("name", name);
                out.u64("modified", *modified_ms);
                out.array("md5", md5);
                put_checksum(checksum.as_ref(), out);
                out.structure("text", "Extent", |out| put_extent(text, out));
            });
        }
        if let Some(encryption) = encryption {
            out.structure("encryption", "Encryption", |out| put_encryption(encryption, out));
        }
        if let Some(SealedHeaders { seal, bytes }) = sealed {
            out.structure("sealed", "SealedHeaders", |out| {
                out.array("data_key", &seal.data_key);
                out.array("seal_id", &seal.id);
                out.u8("algorithm", seal.algorithm);
                out.bytes("headers", bytes);
            });
        }
        if let Some(acl) = acl {
            out.bytes("acl", acl);
        }
    });
}

fn put_encryption<T: Trace>(encryption: &Encryption, out: &mut Output<'_, T>) {
    match encryption {
        Encryption::Managed => out.code("kind", 1),
        Encryption::Named(key) => {
            out.code("kind", 2);
            out.array("key", &key.id);
            out.bytes("context", &key.context);
            out.flag("bucket_key", key.bucket_key);
        }
        Encryption::Customer(check) => {
            out.code("kind", 3);
            out.array("salt", &check.salt);
            out.array("mac", &check.mac);
        }
    }
}

fn put_mode<T: Trace>(mode: RetentionMode, out: &mut Output<'_, T>) {
    let mode = match mode {
        RetentionMode::Governance => 0,
        RetentionMode::Compliance => 1,
    };
    out.code("mode", mode);
}

fn put_etag<T: Trace>(etag: &Etag, out: &mut Output<'_, T>) {
    out.array("etag_md5", &etag.md5);
    out.u16("etag_parts", etag.parts);
}

fn put_object_checksum<T: Trace>(checksum: Option<&ObjectChecksum>, out: &mut Output<'_, T>) {
    put_checksum(checksum.map(|whole| &whole.checksum), out);
    out.u16("checksum_parts", checksum.map_or(0, |whole| whole.parts));
}

fn put_version<T: Trace>(version: &Version, out: &mut Output<'_, T>) {
    out.structure("version", "Version", |out| {
        out.u64("bucket", version.bucket.0);
        out.bytes("key", &version.key);
        put_version_id(version.version_id, out);
        out.flag("delete_marker", version.delete_marker);
        out.u64("modified", version.modified_ms);
        out.u64("size", version.size);
        put_etag(&version.etag, out);
        out.optional("sha256", version.sha256.as_ref());
        put_object_checksum(version.checksum.as_ref(), out);
        put_headers(&version.headers, out);
        put_attributes(&version.attributes, version.headers.sealed.as_deref(), out);
        out.list16("parts", "CompletedPart", &version.parts, |out, part| {
            out.u16("number", part.number);
            out.u64("size", part.size);
            put_checksum(part.checksum.as_ref(), out);
        });
        put_extents("manifest", &version.manifest, out);
    });
}

fn put_bucket<T: Trace>(bucket: &Bucket, out: &mut Output<'_, T>) {
    out.structure("bucket", "Bucket", |out| {
        out.u64("id", bucket.id.0);
        out.bytes("name", &bucket.name);
        out.bytes("owner", &bucket.owner);
        out.u64("created", bucket.created_ms);
        out.bytes("location", &bucket.location);
        let versioning = match bucket.versioning {
            Versioning::Unversioned => 0,
            Versioning::Enabled => 1,
            Versioning::Suspended => 2,
        };
        out.code("versioning", versioning);
        put_object_lock(bucket.object_lock.as_ref(), out);
        put_settings(&bucket.settings, out);
        let role = match bucket.role {
            BucketRole::Bucket => 0,
            BucketRole::Layer => 1,
            BucketRole::Snapshot => 2,
            BucketRole::Dropped => 3,
            BucketRole::Amendments => 4,
        };
        out.code("role", role);
        out.list16("layers", "Layer", &bucket.layers, |out, layer| out.u64("bucket", layer.0));
    });
}

fn put_object_lock<T: Trace>(lock: Option<&ObjectLock>, out: &mut Output<'_, T>) {
    let default = lock.and_then(|lock| lock.default);
    out.u8("object_lock", u8::from(lock.is_some()) | u8::from(default.is_some()) << 1);
    if let Some(DefaultRetention { mode, period }) = default {
        put_mode(mode, out);
        let (unit, length) = match period {
            Period::Days(days) => (0, days),
            Period::Years(years) => (1, years),
        };
        out.code("unit", unit);
        out.u32("period", length);
    }
}

fn put_settings<T: Trace>(settings: &BucketSettings, out: &mut Output<'_, T>) {
    out.u32("chunk_size", settings.chunk_size.unwrap_or(0));
    let durability = match settings.durability {
        None => 0,
        Some(Durability::UnsafeNone) => 1,
        Some(Durability::Buffered) => 2,
        Some(Durability::Interval) => 3,
        Some(Durability::Sync) => 4,
    };
    out.code("durability", durability);
    let ref_level = match settings.ref_level {
        None => 0,
        Some(RefLevel::Off) => 1,
        Some(RefLevel::Full) => 2,
        Some(RefLevel::Fast) => 3,
    };
    out.code("ref_level", ref_level);
    let chunking = match settings.chunking {
        None => 0,
        Some(Chunking::Fixed) => 1,
        Some(Chunking::ContentDefined) => 2,
    };
    out.code("chunking", chunking);
    out.flag("keep_sha256", settings.keep_sha256);
}

fn put_upload<T: Trace>(upload: &Upload, out: &mut Output<'_, T>) {
    out.array("id", &upload.id.0);
    out.u64("bucket", upload.bucket.0);
    out.bytes("key", &upload.key);
    out.u64("initiated", upload.initiated_ms);
    put_headers(&upload.headers, out);
    put_attributes(&upload.attributes, upload.headers.sealed.as_deref(), out);
    match upload.checksum {
        None => out.code("algorithm", 0),
        Some((algorithm, kind)) => {
            out.code("algorithm", algorithm.code());
            let kind = match kind {
                ChecksumType::FullObject => 0,
                ChecksumType::Composite => 1,
            };
            out.code("type", kind);
        }
    }
}

fn put_part<T: Trace>(part: &Part, out: &mut Output<'_, T>) {
    out.array("upload", &part.upload.0);
    out.u16("number", part.number);
    out.u64("size", part.size);
    out.array("md5", &part.md5);
    out.u64("modified", part.modified_ms);
    put_checksum(part.checksum.as_ref(), out);
    put_extents("manifest", &part.manifest, out);
}
