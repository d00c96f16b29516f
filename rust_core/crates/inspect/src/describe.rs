//! Records and events as names and values. Of content and of what is sealed there is only the length.

use std::collections::HashMap;

use bytes::Bytes;

use orcas_engine::Change;
use orcas_http::hex;
use orcas_http::timestamp::iso_time;
use orcas_record::{
    Attributes, Bucket, BucketId, Cause, Encryption, Extent, ObjectHeaders, Record, Seal, Version, VersionId,
};
use orcas_s3::{Operation, versions::VersionName};

#[derive(Clone, Debug)]
pub enum Value {
    Number(u64),
    Text(String),
    /// What clients sent: any bytes.
    Bytes(Bytes),
    Numbers(Vec<u64>),
    Pairs(Vec<(Bytes, Bytes)>),
}

impl Value {
    pub fn hex(bytes: &[u8]) -> Self {
        Self::Text(hex(bytes))
    }
}

pub struct Fields<'a> {
    names: &'a HashMap<BucketId, Bytes>,
    pub out: Vec<(&'static str, Value)>,
}

impl<'a> Fields<'a> {
    pub fn new(names: &'a HashMap<BucketId, Bytes>) -> Self {
        Self { names, out: Vec::new() }
    }

    fn text(&mut self, name: &'static str, text: impl Into<String>) {
        self.out.push((name, Value::Text(text.into())));
    }

    fn number(&mut self, name: &'static str, number: impl Into<u64>) {
        self.out.push((name, Value::Number(number.into())));
    }

    /// `ms`: milliseconds since the Unix epoch.
    fn time(&mut self, name: &'static str, ms: u64) {
        let time = iso_time(i64::try_from(ms).unwrap_or(i64::MAX));
        self.text(name, String::from_utf8_lossy(&time));
    }

    fn bytes(&mut self, name: &'static str, bytes: &Bytes) {
        self.out.push((name, Value::Bytes(bytes.clone())));
    }

    fn hex(&mut self, name: &'static str, bytes: &[u8]) {
        self.out.push((name, Value::hex(bytes)));
    }

    /// Nothing for an empty list.
    fn numbers(&mut self, name: &'static str, numbers: impl Iterator<Item = u64>) {
        let numbers: Vec<u64> = numbers.collect();
        if !numbers.is_empty() {
            self.out.push((name, Value::Numbers(numbers)));
        }
    }

    fn pairs(&mut self, name: &'static str, pairs: &[(Bytes, Bytes)]) {
        if !pairs.is_empty() {
            self.out.push((name, Value::Pairs(pairs.to_vec())));
        }
    }

    /// The name of a bucket, or its number if no record names it.
    fn bucket(&mut self, name: &'static str, id: BucketId) {
        match self.names.get(&id) {
            Some(found) => self.bytes(name, found),
            None => self.text(name, format!("#{}", id.0)),
        }
    }

    fn object(&mut self, bucket: BucketId, key: &Bytes, version: VersionId) {
        self.bucket("bucket", bucket);
        self.bytes("key", key);
        self.version_id(version);
    }

    fn version_id(&mut self, version: VersionId) {
        let name = match version {
            VersionId::Null => VersionName::Null,
            VersionId::Named(id) => VersionName::Given(id),
        };
        self.text("version_id", name.to_string());
    }

    pub fn record(&mut self, record: &Record) {
        match record {
            Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => self.bucket_record(bucket),
            Record::DeleteBucket { bucket } => self.bucket("bucket", *bucket),
            Record::PutDocument { bucket, kind, document } => {
                self.bucket("bucket", *bucket);
                self.text("document", format!("{kind:?}"));
                self.number("length", document.len() as u64);
            }
            Record::CreatePack { pack } | Record::RetirePack { pack } => self.text("pack", pack.to_string()),
            Record::Content { fingerprint, bytes, seal, .. } => self.blob(&fingerprint.0, bytes.len() as u64, seal),
            Record::Chunk { fingerprint, at, length, seal, .. } => {
                self.blob(&fingerprint.0, u64::from(*length), seal);
                self.text("at", at.to_string());
            }
            Record::Segment { extents } => self.manifest(extents),
            Record::PutVersion(version) => self.version(version),
            Record::DeleteVersion { bucket, key, version_id } => self.object(*bucket, key, *version_id),
            Record::MoveVersion { from_bucket, from_key, version } => {
                self.version(version);
                self.bucket("from_bucket", *from_bucket);
                self.bytes("from_key", from_key);
            }
            Record::CreateUpload(upload) => {
                self.bucket("bucket", upload.bucket);
                self.bytes("key", &upload.key);
                self.hex("upload", &upload.id.0);
                self.time("initiated", upload.initiated_ms);
                self.headers(&upload.headers);
                self.attributes(&upload.attributes);
            }
            Record::PutPart(part) => {
                self.hex("upload", &part.upload.0);
                self.number("part", part.number);
                self.number("size", part.size);
                self.hex("md5", &part.md5);
                self.time("modified", part.modified_ms);
                self.manifest(&part.manifest);
            }
            Record::AbortUpload { upload } => self.hex("upload", &upload.0),
            Record::CompleteUpload { upload, version, .. } => {
                self.version(version);
                self.hex("upload", &upload.0);
            }
            Record::RememberUpload { upload, bucket, key, version_id, .. } => {
                self.object(*bucket, key, *version_id);
                self.hex("upload", &upload.0);
            }
            Record::CondemnBlobs { blobs } => self.numbers("blobs", blobs.iter().copied()),
            Record::MoveChunks { moves } => self.numbers("blobs", moves.iter().map(|moved| moved.blob)),
            Record::MoveContents { file, moves } => {
                self.text("log_file", file.to_string());
                self.numbers("blobs", moves.iter().map(|moved| moved.blob));
            }
            Record::ReplaceLog { file, first, last } => {
                self.text("log_file", file.to_string());
                self.number("first", *first);
                self.number("last", *last);
            }
            Record::UpdateVersion { bucket, key, version_id, version, attributes } => {
                self.object(*bucket, key, *version_id);
                self.number("version", *version);
                self.attributes(attributes);
            }
        }
    }

    fn bucket_record(&mut self, bucket: &Bucket) {
        self.bytes("bucket", &bucket.name);
        self.number("id", bucket.id.0);
        self.bytes("owner", &bucket.owner);
        self.time("created", bucket.created_ms);
        self.text("versioning", format!("{:?}", bucket.versioning));
        self.text("role", format!("{:?}", bucket.role));
        self.numbers("layers", bucket.layers.iter().map(|layer| layer.0));
    }

    fn blob(&mut self, fingerprint: &[u8], length: u64, seal: &Option<Seal>) {
        self.number("length", length);
        self.hex("fingerprint", fingerprint);
        if let Some(seal) = seal {
            self.hex("data_key", &seal.data_key);
        }
    }

    fn version(&mut self, version: &Version) {
        self.object(version.bucket, &version.key, version.version_id);
        self.time("modified", version.modified_ms);
        if version.delete_marker {
            return self.text("marker", "delete");
        }
        self.number("size", version.size);
        let mut etag = Vec::new();
        version.etag.write_hex(&mut etag);
        self.text("etag", String::from_utf8_lossy(&etag));
        if let Some(sha256) = &version.sha256 {
            self.hex("sha256", sha256);
        }
        if let Some(checksum) = version.checksum.as_ref().map(|checksum| &checksum.checksum) {
            self.text("checksum", format!("{}:{}", checksum.algorithm().name(), checksum.to_base64()));
        }
        self.numbers("part_sizes", version.parts.iter().map(|part| part.size));
        self.headers(&version.headers);
        self.attributes(&version.attributes);
        self.manifest(&version.manifest);
    }

    /// The blobs and segments by their sequences, and the bytes that are in the record itself.
    fn manifest(&mut self, manifest: &[Extent]) {
        let blob = |extent: &Extent| if let Extent::Blob { blob, .. } = extent { Some(*blob) } else { None };
        let segment =
            |extent: &Extent| if let Extent::Segment { segment, .. } = extent { Some(*segment) } else { None };
        let inline = |extent: &Extent| if let Extent::Inline(bytes) = extent { Some(bytes.len() as u64) } else { None };
        self.numbers("blobs", manifest.iter().filter_map(blob));
        self.numbers("segments", manifest.iter().filter_map(segment));
        self.numbers("inline", manifest.iter().filter_map(inline));
    }

    fn headers(&mut self, headers: &ObjectHeaders) {
        let named = [
            ("content_type", &headers.content_type),
            ("content_encoding", &headers.content_encoding),
            ("content_disposition", &headers.content_disposition),
            ("content_language", &headers.content_language),
            ("cache_control", &headers.cache_control),
            ("expires", &headers.expires),
            ("website_redirect", &headers.website_redirect),
            ("storage_class", &headers.storage_class),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                self.bytes(name, value);
            }
        }
        self.pairs("metadata", &headers.user);
        if let Some(sealed) = &headers.sealed {
            self.number("sealed_headers", sealed.bytes.len() as u64);
        }
    }

    fn attributes(&mut self, attributes: &Attributes) {
        self.pairs("tags", &attributes.tags);
        if let Some(retention) = attributes.retention {
            self.text("retention", format!("{:?}", retention.mode));
            self.time("retained_until", retention.until_ms);
        }
        if let Some(held) = attributes.legal_hold {
            self.text("legal_hold", if held { "on" } else { "off" });
        }
        if let Some(acl) = &attributes.acl {
            self.number("acl", acl.len() as u64);
        }
        self.numbers("annotations", attributes.annotations.as_slice().iter().map(|annotation| annotation.size()));
        match &attributes.encryption {
            None => {}
            Some(Encryption::Managed) => self.text("encryption", "SSE-S3"),
            Some(Encryption::Named(key)) => {
                self.text("encryption", "SSE-KMS");
                self.hex("kms_key", &key.id);
            }
            Some(Encryption::Customer(_)) => self.text("encryption", "SSE-C"),
        }
    }

    /// The operation and the id of the request, as in the log of the server.
    pub fn cause(&mut self, cause: &Cause) {
        match cause {
            Cause::Engine => {}
            Cause::Lifecycle => self.text("cause", "lifecycle"),
            Cause::Sealing => self.text("cause", "sealing"),
            Cause::Request(request) => {
                let operation = Operation::from_code(request.operation).map_or("unknown", Operation::name);
                self.text("operation", operation);
                self.text("request_id", format!("{:016X}", request.request));
            }
        }
    }

    pub fn change(&mut self, change: &Change) {
        self.number("ordinal", change.place.ordinal);
        self.time("time", change.time_ms);
        self.bucket("bucket", change.bucket);
        if !change.key.is_empty() {
            self.bytes("key", &change.key);
        }
        if let Some(version) = change.version {
            self.version_id(version);
        }
        if let Some((size, etag)) = &change.content {
            self.number("size", *size);
            let mut hex = Vec::new();
            etag.write_hex(&mut hex);
            self.text("etag", String::from_utf8_lossy(&hex));
        }
        self.bytes("owner", &change.owner);
        self.cause(&change.cause);
    }
}
