//! The response headers of an object: one pass from what is stored to a header block.
//!
//! Request headers are read elsewhere; status and body are the caller's.

use bytes::Bytes;

use super::active_content::{SANDBOX, is_active};
use super::header_block::HeaderBlock;
use crate::encoded_words::{self, latin};
use crate::errors::{ErrorCode, S3Error};
use crate::objects::metadata::USER_PREFIX;
use crate::objects::object_lock::{LockHeaders, hold_name};
use crate::objects::versions::VersionName;
use orcas_checksum::{ChecksumType, Etag, ObjectChecksum};
use orcas_http::Query;
use orcas_http::timestamp::iso_time;

/// The `response-*` parameters of the query, which replace stored headers in the response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    content_type: Option<Vec<u8>>,
    content_encoding: Option<Vec<u8>>,
    content_disposition: Option<Vec<u8>>,
    content_language: Option<Vec<u8>>,
    cache_control: Option<Vec<u8>>,
    expires: Option<Vec<u8>>,
}

impl Overrides {
    /// Reads the query. As on S3, an empty value changes nothing.
    ///
    /// Errors: `InvalidArgument` for a header that cannot be replaced, and for a value that cannot stand in one.
    pub fn parse(query: &Query) -> Result<Self, S3Error> {
        let mut overrides = Self::default();
        for (name, value) in query.iter().filter(|(name, _)| name.starts_with(b"response-")) {
            let (known, place) = match name {
                b"response-content-type" => ("response-content-type", &mut overrides.content_type),
                b"response-content-encoding" => ("response-content-encoding", &mut overrides.content_encoding),
                b"response-content-disposition" => ("response-content-disposition", &mut overrides.content_disposition),
                b"response-content-language" => ("response-content-language", &mut overrides.content_language),
                b"response-cache-control" => ("response-cache-control", &mut overrides.cache_control),
                b"response-expires" => ("response-expires", &mut overrides.expires),
                other => return Err(not_replaceable(other, value)),
            };
            if place.is_none() && !value.is_empty() {
                *place = Some(latin(value, known)?);
            }
        }
        Ok(overrides)
    }
}

fn not_replaceable(name: &[u8], value: &[u8]) -> S3Error {
    let shown = String::from_utf8_lossy(name);
    let message = format!(
        "{shown} is not in the set of overridable response headers. Please refer to the S3 API documentation for a \
         complete list of overridable response headers."
    );
    S3Error::with(ErrorCode::InvalidArgument, message).field("ArgumentName", name).field("ArgumentValue", value)
}

/// The stored headers of an object, borrowed from its record.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredHeaders<'a> {
    pub content_type: Option<&'a [u8]>,
    pub content_encoding: Option<&'a [u8]>,
    pub content_disposition: Option<&'a [u8]>,
    pub content_language: Option<&'a [u8]>,
    pub cache_control: Option<&'a [u8]>,
    pub expires: Option<&'a [u8]>,
    pub storage_class: Option<&'a [u8]>,
    pub website_redirect: Option<&'a [u8]>,
    /// User metadata: names without their prefix, and values.
    pub user: &'a [(Bytes, Bytes)],
}

/// The facts about an object that a GET or HEAD answers.
pub struct ObjectAnswer<'a> {
    pub etag: Etag,
    /// Bytes of the whole object.
    pub size: u64,
    /// Milliseconds since the epoch.
    pub modified_ms: i64,
    pub stored: StoredHeaders<'a>,
    pub overrides: &'a Overrides,
    /// First and last byte of a 206.
    pub range: Option<(u64, u64)>,
    /// Set only if the client asked for it and it covers exactly what is sent, because SDKs verify the body with it. With
    /// the type of the object's, also if it is of a part.
    pub checksum: Option<(&'a ObjectChecksum, ChecksumType)>,
    /// The name of the version, where the bucket has or had versioning.
    pub version: Option<VersionName>,
    pub tag_count: usize,
    pub lock: LockHeaders,
    /// The number of parts of a multipart object; S3 shows it when a part number was asked for.
    pub parts_count: Option<u16>,
    /// The object has the origin of the server, which its scripts must not have.
    pub shares_origin: bool,
}

impl ObjectAnswer<'_> {
    /// The headers of a 200 or 206, Content-Length included.
    pub fn headers(&self) -> HeaderBlock {
        let (stored, over) = (&self.stored, self.overrides);
        let user = stored.user.iter().map(|(name, value)| USER_PREFIX.len() + name.len() + value.len() + 4).sum();
        let mut block = HeaderBlock::with_room(user);
        let length = self.range.map_or(self.size, |(first, last)| last - first + 1);
        match over.content_type.as_deref().or(stored.content_type) {
            Some(kind) => {
                block.set_object_headers_with_content_type(&self.etag, length, self.modified_ms, kind);
                if self.shares_origin && is_active(kind) {
                    block.push("content-security-policy", SANDBOX);
                }
            }
            None => block.set_object_headers(&self.etag, length, self.modified_ms),
        }
        if let Some((first, last)) = self.range {
            block.set_content_range(first, last, self.size);
        }
        self.caching(&mut block);
        for (name, value) in [
            ("content-encoding", over.content_encoding.as_deref().or(stored.content_encoding)),
            ("content-disposition", over.content_disposition.as_deref().or(stored.content_disposition)),
            ("content-language", over.content_language.as_deref().or(stored.content_language)),
            ("x-amz-storage-class", stored.storage_class),
            ("x-amz-website-redirect-location", stored.website_redirect),
        ] {
            if let Some(value) = value {
                block.push(name, value);
            }
        }
        let mut missing = 0;
        for (name, value) in stored.user {
            missing += u64::from(!block.push_prefixed(USER_PREFIX, name, &encoded_words::encode(value)));
        }
        if missing > 0 {
            block.push_number("x-amz-missing-meta", missing);
        }
        if let Some((checksum, kind)) = self.checksum {
            block.set_checksum(checksum);
            block.set_checksum_type(kind);
        }
        if let Some(count) = self.parts_count {
            block.push_number("x-amz-mp-parts-count", u64::from(count));
        }
        self.attributes(&mut block);
        block
    }

    /// The version, its tags and its lock.
    fn attributes(&self, block: &mut HeaderBlock) {
        if let Some(version) = &self.version {
            block.set_version_id(version);
        }
        if self.tag_count > 0 {
            block.push_number("x-amz-tagging-count", self.tag_count as u64);
        }
        if let Some(retention) = &self.lock.retention {
            block.push("x-amz-object-lock-mode", retention.mode.name().as_bytes());
            let until = iso_time(i64::try_from(retention.until_ms).unwrap_or(i64::MAX));
            block.push("x-amz-object-lock-retain-until-date", &until);
        }
        if let Some(on) = self.lock.legal_hold {
            block.push("x-amz-object-lock-legal-hold", hold_name(on).as_bytes());
        }
    }

    /// The headers of a 304: validators and caching only, nothing about the body.
    pub fn not_modified(&self) -> HeaderBlock {
        let mut block = HeaderBlock::new();
        block.set_validators(&self.etag, self.modified_ms);
        if let Some(version) = &self.version {
            block.set_version_id(version);
        }
        self.caching(&mut block);
        block
    }

    /// The headers that govern caches.
    fn caching(&self, block: &mut HeaderBlock) {
        let (stored, over) = (&self.stored, self.overrides);
        if let Some(value) = over.cache_control.as_deref().or(stored.cache_control) {
            block.push("cache-control", value);
        }
        if let Some(value) = over.expires.as_deref().or(stored.expires) {
            block.push("expires", value);
        }
    }
}

/// The headers of a successful PutObject or UploadPart, apart from the version.
pub fn uploaded(etag: &Etag, checksum: Option<&ObjectChecksum>, of_part: bool) -> HeaderBlock {
    let mut block = HeaderBlock::new();
    block.set_etag(etag);
    if let Some(checksum) = checksum {
        block.set_checksum(checksum);
        if !of_part {
            block.set_checksum_type(checksum.kind());
        }
    }
    block
}

/// The ARN of a bucket.
pub fn bucket_arn(name: &str) -> String {
    ["arn:aws:s3:::", name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::object_lock::{Mode, Retention};
    use orcas_checksum::{ChecksumAlgorithm, Hasher, Md5Hasher};

    fn lines(block: &HeaderBlock) -> Vec<String> {
        block.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect()
    }

    fn answer<'a>(stored: StoredHeaders<'a>, overrides: &'a Overrides) -> ObjectAnswer<'a> {
        let etag = Etag::simple(Md5Hasher::digest(b""));
        let modified_ms = 1_767_323_045_678;
        ObjectAnswer {
            etag,
            size: 10,
            modified_ms,
            stored,
            overrides,
            range: None,
            checksum: None,
            version: None,
            tag_count: 0,
            lock: LockHeaders::default(),
            parts_count: None,
            shares_origin: false,
        }
    }

    #[test]
    fn a_plain_object() {
        assert_eq!(
            lines(&answer(StoredHeaders::default(), &Overrides::default()).headers()),
            [
                "etag: \"d41d8cd98f00b204e9800998ecf8427e\"",
                "last-modified: Fri, 02 Jan 2026 03:04:05 GMT",
                "accept-ranges: bytes",
                "content-length: 10",
                "content-type: binary/octet-stream",
            ]
        );
    }

    #[test]
    fn stored_overridden_partial_and_checked() {
        let stored = StoredHeaders {
            content_type: Some(b"text/plain"),
            cache_control: Some(b"no-store"),
            user: &[(Bytes::from_static(b"a"), Bytes::from_static(b"1"))],
            ..StoredHeaders::default()
        };
        let query = Query::parse(b"response-content-type=image/png&response-expires=never").unwrap();
        let overrides = Overrides::parse(&query).unwrap();
        let checksum = ObjectChecksum::full(Hasher::digest(ChecksumAlgorithm::Crc32, b"123456789"));
        let mut answer = answer(stored, &overrides);
        (answer.range, answer.checksum, answer.parts_count) =
            (Some((2, 4)), Some((&checksum, checksum.kind())), Some(3));
        let all = lines(&answer.headers());
        for expected in [
            "content-length: 3",
            "content-range: bytes 2-4/10",
            "content-type: image/png",
            "cache-control: no-store",
            "expires: never",
            "x-amz-meta-a: 1",
            "x-amz-checksum-crc32: y/Q5Jg==",
            "x-amz-checksum-type: FULL_OBJECT",
            "x-amz-mp-parts-count: 3",
        ] {
            assert!(all.iter().any(|line| line == expected), "{expected} not in {all:?}");
        }
        let cached = lines(&answer.not_modified());
        assert!(cached.iter().all(|line| !line.starts_with("content-") && !line.starts_with("x-amz-")), "{cached:?}");
    }

    #[test]
    fn a_locked_version_with_tags() {
        let stored = StoredHeaders {
            storage_class: Some(b"GLACIER"),
            website_redirect: Some(b"/elsewhere"),
            ..StoredHeaders::default()
        };
        let overrides = Overrides::default();
        let mut answer = answer(stored, &overrides);
        let retention = Retention { mode: Mode::Compliance, until_ms: 1_767_323_045_678 };
        answer.lock = LockHeaders { retention: Some(retention), legal_hold: Some(false) };
        (answer.version, answer.tag_count) = (Some(VersionName::Given([0xab; 16])), 2);
        let all = lines(&answer.headers());
        assert_eq!(
            all[5..],
            [
                "x-amz-storage-class: GLACIER".to_owned(),
                "x-amz-website-redirect-location: /elsewhere".to_owned(),
                format!("x-amz-version-id: {}", "ab".repeat(16)),
                "x-amz-tagging-count: 2".to_owned(),
                "x-amz-object-lock-mode: COMPLIANCE".to_owned(),
                "x-amz-object-lock-retain-until-date: 2026-01-02T03:04:05.678Z".to_owned(),
                "x-amz-object-lock-legal-hold: OFF".to_owned(),
            ]
        );
        assert!(lines(&answer.not_modified()).contains(&format!("x-amz-version-id: {}", "ab".repeat(16))));
    }

    #[test]
    fn overrides_are_of_known_headers_and_in_latin() {
        let parse = |query: &str| Overrides::parse(&Query::parse(query.as_bytes()).unwrap());
        let disposition = |query: &str| parse(query).map(|overrides| overrides.content_disposition);
        assert_eq!(disposition("response-content-disposition=caf%C3%A9"), Ok(Some(b"caf\xe9".to_vec())));
        assert_eq!(disposition("response-content-disposition="), Ok(None));
        for bad in ["%0d%0aset-cookie:%20x", "%00", "%0a", "%1b", "%E2%80%93", "%e9"] {
            let error = parse(&format!("response-content-disposition={bad}")).unwrap_err();
            assert_eq!(error.message, "Header value cannot be represented using ISO-8859-1.", "{bad}");
        }
        let error = parse("response-etag=x").unwrap_err();
        assert!(error.message.starts_with("response-etag is not in the set of overridable response headers."));
        assert_eq!(error.extra, [("ArgumentName", b"response-etag".to_vec()), ("ArgumentValue", b"x".to_vec())]);
    }
}
