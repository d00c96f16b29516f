//! The response headers of an object: one pass from what is stored to a header list.
//!
//! Names are lower case, as ASGI wants them. Request headers are read elsewhere; status and body are the caller's.

use std::borrow::Cow;

use super::errors::S3Error;
use super::metadata::{ObjectHeaders, reflectable};
use crate::checksum::{Etag, ObjectChecksum};
use crate::http::Query;

/// What S3 answers when an upload named no type.
pub const CONTENT_TYPE_DEFAULT: &[u8] = b"binary/octet-stream";

/// Lower-case names with their values, ready for the wire.
pub type HeaderList = Vec<(Cow<'static, [u8]>, Vec<u8>)>;

/// `response-*` of the query: headers of the answer in place of the stored ones.
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
    /// Reads the query; a value that cannot stand in a header is refused. The caller refuses overrides on anonymous
    /// requests (`is_empty`).
    pub fn parse(query: &Query) -> Result<Self, S3Error> {
        let read = |name: &'static str| match query.get(name) {
            Some(value) => reflectable(value, name).map(|value| Some(value.to_vec())),
            None => Ok(None),
        };
        Ok(Self {
            content_type: read("response-content-type")?,
            content_encoding: read("response-content-encoding")?,
            content_disposition: read("response-content-disposition")?,
            content_language: read("response-content-language")?,
            cache_control: read("response-cache-control")?,
            expires: read("response-expires")?,
        })
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a GET or HEAD answers about its object.
pub struct ObjectAnswer<'a> {
    pub etag: Etag,
    /// Bytes of the whole object.
    pub size: u64,
    /// Milliseconds since the epoch.
    pub modified_ms: i64,
    pub stored: &'a ObjectHeaders,
    pub overrides: &'a Overrides,
    /// First and last byte of a 206.
    pub range: Option<(u64, u64)>,
    /// To show only when the client asked and it covers what is sent: SDKs verify the body against it.
    pub checksum: Option<&'a ObjectChecksum>,
    /// Of a multipart object; S3 shows it when a part number was asked for.
    pub parts_count: Option<u16>,
}

impl ObjectAnswer<'_> {
    /// The headers of a 200 or 206, Content-Length included.
    pub fn headers(&self) -> HeaderList {
        let mut list = self.begin();
        let length = self.range.map_or(self.size, |(first, last)| last - first + 1);
        push(&mut list, "content-length", decimal(length));
        push(&mut list, "accept-ranges", b"bytes".to_vec());
        if let Some((first, last)) = self.range {
            push(&mut list, "content-range", format!("bytes {first}-{last}/{}", self.size).into_bytes());
        }
        let (stored, over) = (self.stored, self.overrides);
        let content_type = over.content_type.as_ref().or(stored.content_type.as_ref());
        push(&mut list, "content-type", content_type.map_or(CONTENT_TYPE_DEFAULT, Vec::as_slice).to_vec());
        for (name, value) in [
            ("content-encoding", over.content_encoding.as_ref().or(stored.content_encoding.as_ref())),
            ("content-disposition", over.content_disposition.as_ref().or(stored.content_disposition.as_ref())),
            ("content-language", over.content_language.as_ref().or(stored.content_language.as_ref())),
        ] {
            if let Some(value) = value {
                push(&mut list, name, value.clone());
            }
        }
        for (name, value) in &stored.user {
            list.push((Cow::Owned([b"x-amz-meta-", name.as_slice()].concat()), value.clone()));
        }
        if let Some(checksum) = self.checksum {
            push(&mut list, checksum.checksum.algorithm().header(), checksum.to_text().into_bytes());
            push(&mut list, "x-amz-checksum-type", checksum.kind().name().as_bytes().to_vec());
        }
        if let Some(count) = self.parts_count {
            push(&mut list, "x-amz-mp-parts-count", decimal(u64::from(count)));
        }
        list
    }

    /// The headers of a 304: validators and caching only, nothing about the body.
    pub fn not_modified(&self) -> HeaderList {
        self.begin()
    }

    /// ETag, Last-Modified and what governs caches.
    fn begin(&self) -> HeaderList {
        let mut list = Vec::with_capacity(12 + self.stored.user.len());
        push(&mut list, "etag", self.etag.quoted());
        push(&mut list, "last-modified", http_date(self.modified_ms).into_bytes());
        let (stored, over) = (self.stored, self.overrides);
        if let Some(value) = over.cache_control.as_ref().or(stored.cache_control.as_ref()) {
            push(&mut list, "cache-control", value.clone());
        }
        if let Some(value) = over.expires.as_ref().or(stored.expires.as_ref()) {
            push(&mut list, "expires", value.clone());
        }
        list
    }
}

/// The headers of a successful PutObject or UploadPart.
pub fn uploaded(etag: &Etag, checksum: Option<&ObjectChecksum>, of_part: bool) -> HeaderList {
    let mut list = Vec::with_capacity(4);
    push(&mut list, "etag", etag.quoted());
    if let Some(checksum) = checksum {
        push(&mut list, checksum.checksum.algorithm().header(), checksum.to_text().into_bytes());
        if !of_part {
            push(&mut list, "x-amz-checksum-type", checksum.kind().name().as_bytes().to_vec());
        }
    }
    list
}

/// The Content-Range of a 416.
pub fn unsatisfied_range(size: u64) -> Vec<u8> {
    format!("bytes */{size}").into_bytes()
}

/// An HTTP date in whole seconds; times before the epoch or after the year 9999 are clamped.
pub fn http_date(ms: i64) -> String {
    const YEAR_9999_END_S: u64 = 253_402_300_799;
    let seconds = u64::try_from(ms.div_euclid(1000)).unwrap_or(0).min(YEAR_9999_END_S);
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
}

fn push(list: &mut HeaderList, name: &'static str, value: Vec<u8>) {
    list.push((Cow::Borrowed(name.as_bytes()), value));
}

fn decimal(number: u64) -> Vec<u8> {
    itoa::Buffer::new().format(number).as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{ChecksumAlgorithm, Hasher, Md5Hasher};

    fn lines(list: HeaderList) -> Vec<String> {
        list.into_iter()
            .map(|(name, value)| format!("{}: {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&value)))
            .collect()
    }

    fn answer<'a>(stored: &'a ObjectHeaders, overrides: &'a Overrides) -> ObjectAnswer<'a> {
        let etag = Etag::simple(Md5Hasher::digest(b""));
        let modified_ms = 1_767_323_045_678;
        ObjectAnswer { etag, size: 10, modified_ms, stored, overrides, range: None, checksum: None, parts_count: None }
    }

    #[test]
    fn a_plain_object() {
        assert_eq!(
            lines(answer(&ObjectHeaders::default(), &Overrides::default()).headers()),
            [
                "etag: \"d41d8cd98f00b204e9800998ecf8427e\"",
                "last-modified: Fri, 02 Jan 2026 03:04:05 GMT",
                "content-length: 10",
                "accept-ranges: bytes",
                "content-type: binary/octet-stream",
            ]
        );
    }

    #[test]
    fn stored_overridden_partial_and_checked() {
        let stored = ObjectHeaders {
            content_type: Some(b"text/plain".to_vec()),
            cache_control: Some(b"no-store".to_vec()),
            user: vec![(b"a".to_vec(), b"1".to_vec())],
            ..ObjectHeaders::default()
        };
        let query = Query::parse(b"response-content-type=image/png&response-expires=never").unwrap();
        let overrides = Overrides::parse(&query).unwrap();
        let checksum = ObjectChecksum::full(Hasher::digest(ChecksumAlgorithm::Crc32, b"123456789"));
        let mut answer = answer(&stored, &overrides);
        (answer.range, answer.checksum, answer.parts_count) = (Some((2, 4)), Some(&checksum), Some(3));
        let all = lines(answer.headers());
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
        let cached = lines(answer.not_modified());
        assert!(cached.iter().all(|line| !line.starts_with("content-") && !line.starts_with("x-amz-")), "{cached:?}");
    }

    #[test]
    fn overrides_cannot_split_a_response() {
        for bad in ["%0d%0aset-cookie:%20x", "%00", "%0a"] {
            let query = Query::parse(format!("response-content-disposition={bad}").as_bytes()).unwrap();
            assert!(Overrides::parse(&query).is_err(), "{bad}");
        }
    }

    #[test]
    fn dates_never_panic() {
        assert_eq!(http_date(i64::MIN), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
