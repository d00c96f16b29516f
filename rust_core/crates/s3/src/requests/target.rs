//! What a request addresses: the service, a bucket, or an object, from the raw path and the Host header.
//!
//! Keys are opaque bytes, decoded exactly once and never read as paths. Owns the naming rules of buckets and keys and
//! the grammar of copy sources. Must see the path as it stood in the request line.

use super::operations::SourceHeader;
use crate::errors::{ErrorCode, S3Error};
use crate::objects::versions::VersionName;
use orcas_http::{Headers, form_decode, percent_decode};

/// Bytes of the longest key.
pub const KEY_LEN_MAX: usize = 1024;

/// The target of a request: the service, a bucket or an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Service,
    Bucket(String),
    /// The key is valid UTF-8 of 1 to 1,024 bytes.
    Object {
        bucket: String,
        key: Vec<u8>,
        /// The host names the bucket, and not the path.
        hosted: bool,
    },
    /// The fixed path of WriteGetObjectResponse, which names no bucket.
    ObjectLambda,
}

impl Target {
    /// The bucket addressed, if any.
    pub fn bucket(&self) -> Option<&str> {
        match self {
            Self::Bucket(bucket) | Self::Object { bucket, .. } => Some(bucket),
            Self::Service | Self::ObjectLambda => None,
        }
    }

    pub fn bucket_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Bucket(bucket) | Self::Object { bucket, .. } => Some(bucket),
            Self::Service | Self::ObjectLambda => None,
        }
    }

    /// The key addressed, if any.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Object { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Reads path-style and virtual-hosted-style addresses.
    ///
    /// `path` is raw and undecoded; `host` is the Host header, with or without a port; `domains` are the names under
    /// which buckets are hosts, in lower case (`localhost` always is one).
    pub fn parse(path: &[u8], host: &[u8], domains: &[String]) -> Result<Self, S3Error> {
        let rest = path.strip_prefix(b"/").ok_or(ErrorCode::InvalidURI)?;
        match hosted_bucket(host, domains) {
            Some(bucket) => Self::of(checked_bucket(bucket.into_bytes())?, rest, true),
            None if rest.is_empty() => Ok(Self::Service),
            None if rest == b"WriteGetObjectResponse" => Ok(Self::ObjectLambda),
            None => {
                let (bucket, key) = split_once(rest);
                Self::of(checked_bucket(percent_decode(bucket).ok_or(ErrorCode::InvalidURI)?)?, key, false)
            }
        }
    }

    fn of(bucket: String, raw_key: &[u8], hosted: bool) -> Result<Self, S3Error> {
        if raw_key.is_empty() {
            return Ok(Self::Bucket(bucket));
        }
        let key = checked_key(percent_decode(raw_key).ok_or(ErrorCode::InvalidURI)?)?;
        Ok(Self::Object { bucket, key, hosted })
    }
}

/// Splits at the first slash, which belongs to neither side.
fn split_once(raw: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'/', raw) {
        Some(at) => (&raw[..at], &raw[at + 1..]),
        None => (raw, b""),
    }
}

/// The bucket that a Host header names: what stands before the longest domain that ends it, in lower case and unchecked.
/// `None` for path style.
///
/// Nothing else decides what a virtual host is, but that `hosted_website` is asked before. The control plane asks both
/// functions too, so it never takes a key under `_orcas/` of a bucket in the host for a path of its own.
pub fn hosted_bucket(host: &[u8], domains: &[String]) -> Option<String> {
    let host = host_name(host)?;
    let name = host.as_str();
    let known = || domains.iter().map(String::as_str).chain(["localhost"]);
    if known().any(|domain| name == domain) {
        return None;
    }
    known()
        .filter_map(|domain| name.strip_suffix(domain)?.strip_suffix('.'))
        .filter(|bucket| !bucket.is_empty())
        .min_by_key(|bucket| bucket.len())
        .map(str::to_owned)
}

/// The bucket whose website a Host header names: what stands before `website`, which is in lower case. The name is in
/// lower case and unchecked; it is empty for `website` itself, which names nothing else either.
pub fn hosted_website(host: &[u8], website: &str) -> Option<String> {
    let name = host_name(host)?;
    let before = name.strip_suffix(website)?;
    if before.is_empty() { Some(String::new()) } else { before.strip_suffix('.').map(str::to_owned) }
}

/// The name in a Host header, in lower case, without the port and the dot of the root.
fn host_name(host: &[u8]) -> Option<String> {
    let mut name = std::str::from_utf8(host.trim_ascii()).ok()?.to_ascii_lowercase();
    if let Some((before, port)) = name.rsplit_once(':')
        && port.bytes().all(|b| b.is_ascii_digit())
    {
        let length = before.len();
        name.truncate(length);
    }
    if name.ends_with('.') {
        name.pop();
    }
    Some(name)
}

/// Refuses a name that could never be a bucket's. There may be no bucket with one that only the old rule of S3 allows, but
/// to ask for it is no mistake.
fn checked_bucket(name: Vec<u8>) -> Result<String, S3Error> {
    match String::from_utf8(name) {
        Ok(name) if once_valid_bucket_name(&name) => Ok(name),
        Ok(name) => Err(S3Error::new(ErrorCode::InvalidBucketName).field("BucketName", name)),
        Err(raw) => Err(S3Error::new(ErrorCode::InvalidBucketName).field("BucketName", raw.into_bytes())),
    }
}

/// Refuses a key that is too long or not UTF-8. `key` is not empty.
pub fn checked_key(key: Vec<u8>) -> Result<Vec<u8>, S3Error> {
    if key.len() > KEY_LEN_MAX {
        let (size, max) = (key.len().to_string(), KEY_LEN_MAX.to_string());
        return Err(S3Error::new(ErrorCode::KeyTooLongError).field("Size", size).field("MaxSizeAllowed", max));
    }
    if std::str::from_utf8(&key).is_err() {
        return Err(ErrorCode::InvalidURI.into());
    }
    Ok(key)
}

/// [`valid_bucket_name`] in words.
pub const BUCKET_NAME_RULE: &str = "The name of a bucket has 3 to 63 lower-case letters, digits, periods and hyphens. \
    Each part between periods begins and ends with a letter or a digit. It is no IP address, and does not begin or end \
    as names do that S3 reserves.";

/// The rules for names of general purpose buckets: 3 to 63 of `a-z 0-9 . -`, labels that begin and end with a letter
/// or digit, no IPv4 address, none of the reserved prefixes and suffixes.
pub fn valid_bucket_name(name: &str) -> bool {
    const RESERVED_PREFIXES: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];
    const RESERVED_SUFFIXES: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];
    let label_ok = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    (3..=63).contains(&name.len())
        && name.split('.').all(label_ok)
        && name.parse::<std::net::Ipv4Addr>().is_err()
        && !looks_like_ipv4(name)
        && !RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && !RESERVED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// The rule of S3 for names of buckets in us-east-1 until 2018.
pub fn once_valid_bucket_name(name: &str) -> bool {
    (3..=255).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        && !looks_like_ipv4(name)
}

/// Four groups of digits, whatever their size: formatted like an address.
fn looks_like_ipv4(name: &str) -> bool {
    name.split('.').count() == 4 && name.bytes().all(|b| b == b'.' || b.is_ascii_digit())
}

/// The object that a copy, move or rename reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    pub bucket: String,
    pub key: Vec<u8>,
    /// The current one if `None`.
    pub version: Option<VersionName>,
}

impl CopySource {
    /// Reads the header that names the source of a request about `bucket`.
    pub fn of_request(source: SourceHeader, bucket: &str, headers: &Headers<'_>) -> Result<Self, S3Error> {
        let value = |header| headers.get(header).unwrap_or_default();
        match source {
            SourceHeader::Copied(header) | SourceHeader::Moved(header) => Self::parse(header, value(header)),
            SourceHeader::Renamed(header) => Self::parse_rename(header, bucket, value(header)),
        }
    }

    /// Reads `[/]bucket/key[?versionId=ID]`, percent-encoded, from the header called `header`.
    ///
    /// A `+` is a space, as in a query: s5cmd and other clients encode the header so.
    pub fn parse(header: &'static str, value: &[u8]) -> Result<Self, S3Error> {
        let refuse = |part: &str| S3Error::argument(format!("Invalid copy source {part}"), header, value);
        if value.starts_with(b"arn:") {
            return Err(S3Error::with(ErrorCode::NotImplemented, "Copying from an access point is not implemented"));
        }
        let (path, version) = match memchr::memmem::rfind(value, b"?versionId=") {
            Some(at) => (&value[..at], Some(&value[at + b"?versionId=".len()..])),
            None => (value, None),
        };
        let version = version.map(|version| VersionName::parse("versionId", version)).transpose()?;
        // Some clients encode the separating slashes too, so the whole is decoded before it is split.
        let path = form_decode(path).ok_or_else(|| refuse("encoding"))?;
        let path = path.strip_prefix(b"/").unwrap_or(&path);
        let (bucket, key) = split_once(path);
        if key.is_empty() {
            return Err(refuse("object key"));
        }
        let bucket = std::str::from_utf8(bucket).ok().filter(|name| once_valid_bucket_name(name));
        let bucket = bucket.ok_or_else(|| refuse("bucket name"))?;
        Ok(Self { bucket: bucket.to_owned(), key: checked_key(key.to_vec())?, version })
    }

    /// Reads `[/][bucket/]key` of the header called `header`: a rename stays within `bucket`, and the header holds the
    /// key alone, optionally after a slash.
    pub fn parse_rename(header: &'static str, bucket: &str, value: &[u8]) -> Result<Self, S3Error> {
        let decoded = percent_decode(value).filter(|key| key != b"" && key != b"/");
        let decoded = decoded.ok_or_else(|| S3Error::argument("The rename source is malformed", header, value))?;
        let key = decoded.strip_prefix(b"/").unwrap_or(&decoded);
        let within = key.strip_prefix(bucket.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
        let key = if decoded.starts_with(b"/") { within.filter(|key| !key.is_empty()).unwrap_or(key) } else { key };
        Ok(Self { bucket: bucket.to_owned(), key: checked_key(key.to_vec())?, version: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_http::percent_encode_into;
    use proptest::prelude::*;

    fn object(bucket: &str, key: &[u8]) -> Target {
        Target::Object { bucket: bucket.into(), key: key.to_vec(), hosted: false }
    }

    fn hosted(bucket: &str, key: &[u8]) -> Target {
        Target::Object { bucket: bucket.into(), key: key.to_vec(), hosted: true }
    }

    fn path_style(path: &str) -> Result<Target, S3Error> {
        Target::parse(path.as_bytes(), b"127.0.0.1:9000", &[])
    }

    fn code(result: Result<Target, S3Error>) -> ErrorCode {
        result.unwrap_err().code
    }

    #[test]
    fn path_style_addresses() {
        assert_eq!(path_style("/"), Ok(Target::Service));
        assert_eq!(path_style("/abc"), Ok(Target::Bucket("abc".into())));
        assert_eq!(path_style("/abc/"), Ok(Target::Bucket("abc".into())));
        assert_eq!(path_style("/abc/k"), Ok(object("abc", b"k")));
        assert_eq!(path_style("/abc//k/"), Ok(object("abc", b"/k/")));
        assert_eq!(path_style("/WriteGetObjectResponse"), Ok(Target::ObjectLambda));
        for name in ["A_Bucket", "abc.-", &"a".repeat(255)] {
            assert_eq!(path_style(&format!("/{name}/k")), Ok(object(name, b"k")));
        }
        for name in ["", "ab", "a+b", "192.168.5.4", "%c3%a4%c3%a4", &"a".repeat(256)] {
            assert_eq!(code(path_style(&format!("/{name}/k"))), ErrorCode::InvalidBucketName);
        }
        assert_eq!(code(path_style("abc")), ErrorCode::InvalidURI);
    }

    #[test]
    fn keys_are_decoded_once_and_never_resolved() {
        for (raw, key) in [
            ("..", "..".as_bytes()),
            ("a/../b", b"a/../b"),
            ("%2e%2E/", b"../"),
            ("%252e", b"%2e"),
            ("a%2Fb", b"a/b"),
            ("a\\b", b"a\\b"),
            ("a+b", b"a+b"),
            ("%00", b"\0"),
            ("%c3%a9", "é".as_bytes()),
            ("e%cc%81", "e\u{301}".as_bytes()),
        ] {
            assert_eq!(path_style(&format!("/abc/{raw}")), Ok(object("abc", key)), "{raw}");
        }
        assert_eq!(code(path_style("/abc/%zz")), ErrorCode::InvalidURI);
        assert_eq!(code(path_style("/abc/%2")), ErrorCode::InvalidURI);
        assert_eq!(code(path_style("/abc/%ff")), ErrorCode::InvalidURI);
        assert!(path_style(&format!("/abc/{}", "k".repeat(1024))).is_ok());
        assert_eq!(code(path_style(&format!("/abc/{}", "k".repeat(1025)))), ErrorCode::KeyTooLongError);
    }

    #[test]
    fn virtual_hosted_addresses() {
        let domains = ["s3.example.com".to_owned(), "example.com".to_owned()];
        let at = |host: &str, path: &str| Target::parse(path.as_bytes(), host.as_bytes(), &domains);
        assert_eq!(at("abc.localhost:9000", "/"), Ok(Target::Bucket("abc".into())));
        assert_eq!(at("ABC.LocalHost", "/x/y"), Ok(hosted("abc", b"x/y")));
        assert_eq!(at("a.b.c.s3.example.com.:80", "/k"), Ok(hosted("a.b.c", b"k")));
        assert_eq!(at("s3.example.com", "/abc/k"), Ok(object("abc", b"k")));
        assert_eq!(at("abc.elsewhere.org", "/abc/k"), Ok(object("abc", b"k")));
        assert_eq!(at("[::1]:9000", "/abc/k"), Ok(object("abc", b"k")));
        assert_eq!(at("", "/abc"), Ok(Target::Bucket("abc".into())));
        assert_eq!(at(" abc.localhost ", "/"), Ok(Target::Bucket("abc".into())));
        assert_eq!(at("localhost", "/abc/k"), Ok(object("abc", b"k")));
        assert_eq!(at("localhost.:9000", "/abc/k"), Ok(object("abc", b"k")));
        assert_eq!(at("notlocalhost", "/abc/k"), Ok(object("abc", b"k")));
        assert_eq!(at("abc.localhost:", "/k"), Ok(hosted("abc", b"k")));
        assert_eq!(at("abc.localhost:x", "/abc/k"), Ok(object("abc", b"k")));
        assert_eq!(at("127.0.0.1", "/abc/k"), Ok(object("abc", b"k")));
        assert_eq!(at("a_b.localhost", "/k"), Ok(hosted("a_b", b"k")));
        assert_eq!(code(at("a*b.localhost", "/k")), ErrorCode::InvalidBucketName);
    }

    #[test]
    fn hosts_of_websites() {
        let website = |host: &str| hosted_website(host.as_bytes(), "web.test");
        for (host, bucket) in [
            ("abc.web.test", "abc"),
            ("ABC.Web.Test.:80", "abc"),
            (" a.b.web.test:9000 ", "a.b"),
            ("web.test", ""),
            ("WEB.test.", ""),
            (".web.test", ""),
            ("a_b.web.test", "a_b"),
            ("..web.test", "."),
        ] {
            assert_eq!(website(host).as_deref(), Some(bucket), "{host}");
        }
        for host in ["", "test", "xweb.test", "abc.web.test.org", "abc.web.test:x", "abc.web.test..", "web.test@a.b"] {
            assert_eq!(website(host), None, "{host}");
        }
    }

    #[test]
    fn bucket_names() {
        for good in ["abc", "a.b", "1-2", "a--b", "127.0.0.com", &"a".repeat(63)] {
            assert!(valid_bucket_name(good), "{good}");
        }
        for bad in [
            "ab",
            "Abc",
            "a_b",
            "-abc",
            "abc-",
            ".abc",
            "abc.",
            "a..b",
            "a.-b",
            "a-.b",
            "192.168.5.4",
            "999.1.1.1",
            "xn--abc",
            "abc-s3alias",
            "abc--x-s3",
            "_orcas",
            "a b",
            "a/b",
            "abc\n",
            &"a".repeat(64),
        ] {
            assert!(!valid_bucket_name(bad), "{bad}");
        }
    }

    #[test]
    fn copy_sources() {
        let parse = |value: &str| CopySource::parse("x-amz-copy-source", value.as_bytes());
        let of = |bucket: &str, key: &str| Ok(CopySource { bucket: bucket.into(), key: key.into(), version: None });
        assert_eq!(parse("/abc/k"), of("abc", "k"));
        assert_eq!(parse("abc/a%2Fb%3F+%2B%25"), of("abc", "a/b? +%"));
        let version = |text: &str| parse(&format!("abc/k?versionId={text}")).map(|source| source.version);
        assert_eq!(version("null"), Ok(Some(VersionName::Null)));
        assert_eq!(version(&"0f".repeat(16)), Ok(Some(VersionName::Given([15; 16]))));
        assert_eq!(parse("abc%2Fk"), of("abc", "k"));
        assert_eq!(parse("abc//k"), of("abc", "/k"));
        assert_eq!(parse("abc/what?"), of("abc", "what?"));
        for bad in ["", "/", "abc", "abc/", "%zz/k"] {
            assert_eq!(parse(bad).unwrap_err().code, ErrorCode::InvalidArgument, "{bad}");
        }
        assert_eq!(parse("abc/k?versionId=v1").unwrap_err().code, ErrorCode::InvalidArgument);
        for bad in ["../abc", "192.168.1.1/k", "my-buc@k/k", "%ff%fe%fd/k"] {
            let error = parse(bad).unwrap_err();
            assert_eq!((error.code, &*error.message), (ErrorCode::InvalidArgument, "Invalid copy source bucket name"));
        }
        let renamed = |value: &[u8]| CopySource::parse_rename("x-amz-rename-source", "abc", value);
        assert_eq!(renamed(b"/abc/k%20"), of("abc", "k "));
        assert_eq!(renamed(b"abc/k"), of("abc", "abc/k"));
        assert_eq!(renamed(b"/k/x"), of("abc", "k/x"));
    }

    proptest! {
        #[test]
        fn any_key_survives_the_address(key in "\\PC{1,40}|[\\x00-\\x7f]{1,40}") {
            let mut path = b"/abc/".to_vec();
            percent_encode_into(&mut path, key.as_bytes(), true);
            prop_assert_eq!(Target::parse(&path, b"h", &[]), Ok(object("abc", key.as_bytes())));
        }

        #[test]
        fn no_address_panics(path in proptest::collection::vec(any::<u8>(), 0..60),
                             host in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = Target::parse(&path, &host, &[]);
            let _ = CopySource::parse("x-amz-copy-source", &path);
            let _ = CopySource::parse_rename("x-amz-rename-source", "abc", &path);
        }
    }
}
