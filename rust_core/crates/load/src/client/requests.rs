//! Encodes requests: the keys of objects, request heads and their signatures.
//!
//! Path style, one signature for each request, only the headers that are needed. Must not know responses.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::pattern::mix;
use crate::plan::Target;
use orcas_http::{Headers, RequestHead, parse_hex};
use orcas_sigv4::Signer;

/// Servers allow 15 minutes between a signature's date and their clock.
const SIGNER_AGE_MAX: Duration = Duration::from_secs(60);
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";
/// The SHA-256 of no bytes.
const EMPTY_PAYLOAD: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The operation that made an object. Its letter is the beginning of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Object,
    Copy,
    Multipart,
}

impl Kind {
    fn letter(self) -> char {
        match self {
            Self::Object => 'o',
            Self::Copy => 'c',
            Self::Multipart => 'm',
        }
    }

    /// A number that is unique among the objects of a load.
    pub fn identity(self, number: u32) -> u64 {
        (self as u64) << 32 | u64::from(number)
    }
}

/// The key of an object, `o/SCATTER-NUMBER` in hexadecimal: the order of keys is not the order of creation.
pub fn key_of(seed: u64, kind: Kind, number: u32) -> String {
    format!("{}/{:08x}-{number:08x}", kind.letter(), hash_of(seed, number))
}

/// The number in a key of `Kind::Object`. `None` if this is not the key of such an object.
pub fn number_of(seed: u64, key: &[u8]) -> Option<u32> {
    let (found, number) = key.strip_prefix(b"o/")?.split_at_checked(8)?;
    let number = u32::from_be_bytes(parse_hex(number.strip_prefix(b"-")?)?);
    (parse_hex(found)? == hash_of(seed, number).to_be_bytes()).then_some(number)
}

fn hash_of(seed: u64, number: u32) -> u32 {
    (mix(mix(seed ^ 3) ^ u64::from(number)) >> 32) as u32
}

/// A request before it is signed. Key and query are percent-encoded; query parameters are sorted.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestParts<'a> {
    pub method: &'a str,
    /// Empty for a request to the bucket.
    pub key: &'a str,
    pub query: &'a str,
    pub header: Option<(&'a str, &'a str)>,
    /// The length of the body in bytes, and the value of `x-amz-content-sha256`.
    pub body: Option<(u64, &'a str)>,
}

/// Writes and signs the requests of one thread.
pub struct Requests {
    target: Target,
    signer: Signer,
    signer_made: Instant,
}

/// `None` when the system clock is outside the years 1970 to 9999.
#[expect(clippy::disallowed_methods, reason = "a client uses the system clock")]
fn signer_now(target: &Target) -> Option<Signer> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let now = i64::try_from(now).ok()?;
    Signer::new(&target.access_key, target.secret_key.as_bytes(), &target.region, now)
}

impl Requests {
    /// `None` when no request can be signed at the time of the system clock.
    pub fn new(target: Target) -> Option<Self> {
        let signer = signer_now(&target)?;
        Some(Self { target, signer, signer_made: Instant::now() })
    }

    /// Appends the head of a request, up to and including its empty line.
    pub fn write(&mut self, parts: &RequestParts<'_>, out: &mut Vec<u8>) {
        if self.signer_made.elapsed() > SIGNER_AGE_MAX
            && let Some(signer) = signer_now(&self.target)
        {
            (self.signer, self.signer_made) = (signer, Instant::now());
        }
        let target = &self.target;
        let path = format!("/{}{}{}", target.bucket, if parts.key.is_empty() { "" } else { "/" }, parts.key);
        let mut headers: [(&[u8], &[u8]); 3] = [(b"host", target.host.as_bytes()), (b"", b""), (b"", b"")];
        let mut count = 1;
        let token = target.session_token.as_deref().map(|token| ("x-amz-security-token", token));
        for (name, value) in [parts.header, token].into_iter().flatten() {
            headers[count] = (name.as_bytes(), value.as_bytes());
            count += 1;
        }
        let headers = &headers[..count];
        let (length, payload) = parts.body.map_or((None, EMPTY_PAYLOAD), |(length, hash)| (Some(length), hash));
        let head = RequestHead {
            method: parts.method.as_bytes(),
            path: path.as_bytes(),
            query: parts.query.as_bytes(),
            headers: Headers::new(headers),
        };
        // Signing fails only for malformed escapes in path or query. Keys are letters and digits, so there are none.
        let signed = self.signer.sign_request(&head, payload).unwrap_or_default();
        out.extend_from_slice(parts.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(path.as_bytes());
        if !parts.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(parts.query.as_bytes());
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in headers.iter().copied().chain(signed.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()))) {
            push_header(out, name, value);
        }
        if let Some(length) = length {
            push_header(out, b"content-length", itoa::Buffer::new().format(length).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn push_header(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::target;

    #[test]
    fn the_number_of_an_object_can_be_read_from_its_key() {
        for number in [0, 1, 77, 0xffff_ffff] {
            let key = key_of(5, Kind::Object, number);
            assert_eq!(number_of(5, key.as_bytes()), Some(number), "{key}");
            assert_eq!(number_of(6, key.as_bytes()), None, "of another run");
            assert_eq!(number_of(5, key_of(5, Kind::Copy, number).as_bytes()), None);
            assert_eq!(number_of(5, &key.as_bytes()[..key.len() - 1]), None);
            assert_eq!(number_of(5, format!("{key}0").as_bytes()), None);
        }
        assert_eq!(number_of(5, b"o/"), None);
    }

    #[test]
    fn a_request_is_what_was_signed() {
        let mut target = target();
        target.session_token = Some("token".to_owned());
        let mut requests = Requests::new(target).expect("a clock");
        let header = Some(("x-amz-copy-source", "/bucket/o/1"));
        let parts = RequestParts { method: "PUT", key: "c/2", query: "partNumber=1", header, body: Some((3, "abc")) };
        let mut out = b"before".to_vec();
        requests.write(&parts, &mut out);
        let text = String::from_utf8(out).expect("ASCII");
        let mut lines = text.split("\r\n");
        assert_eq!(lines.next(), Some("beforePUT /bucket/c/2?partNumber=1 HTTP/1.1"));
        let headers: Vec<&str> = lines.map(|line| line.split(": ").next().unwrap_or_default()).collect();
        let names = ["host", "x-amz-copy-source", "x-amz-security-token", "x-amz-content-sha256", "x-amz-date"];
        assert_eq!(headers, [&names[..], &["authorization", "content-length", "", ""]].concat());
        let signed = "SignedHeaders=host;x-amz-content-sha256;x-amz-copy-source;x-amz-date;x-amz-security-token,";
        assert!(text.contains(signed) && text.contains("content-length: 3\r\n"), "{text}");
        assert!(text.contains("x-amz-content-sha256: abc\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }
}
