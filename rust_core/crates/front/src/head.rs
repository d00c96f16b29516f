//! The head of a request, from hyper's form to that of the gateway; and what of it is refused before anybody looks at it.

use http::header::{CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Method, Version};
use orcas_http::{Headers, RequestHead};

use crate::connections::message::Lines;
use crate::connections::refusals::{self, Refusal};

/// A head whose framing is sound. `Host` is that of the target, if the target has one.
pub struct Head {
    parts: Parts,
    pub expects_continue: bool,
    pub has_body: bool,
}

impl Head {
    /// `lines`: how it has come, in HTTP/1.1. `is_all`: there is no body.
    #[expect(clippy::result_large_err, reason = "the head goes on, whole, whichever way")]
    pub fn check(
        mut parts: Parts,
        lines: Lines,
        is_all: bool,
        size_max: usize,
    ) -> Result<Self, (Parts, &'static Refusal)> {
        match check(&mut parts, lines, size_max) {
            Ok(()) => {
                if parts.version == Version::HTTP_2 && !is_all && !parts.headers.contains_key(CONTENT_LENGTH) {
                    // What HTTP/1.1 calls a body whose length is not known.
                    parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
                }
                let one = |name| parts.headers.get(name).is_some();
                let length = parts.headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
                let has_body = one(TRANSFER_ENCODING) || length.is_some_and(|length| length != b"0");
                let expects = parts.headers.get(EXPECT).is_some_and(|value| {
                    value.as_bytes().eq_ignore_ascii_case(b"100-continue") && parts.version == Version::HTTP_11
                });
                Ok(Self { parts, expects_continue: expects, has_body })
            }
            Err(refusal) => Err((parts, refusal)),
        }
    }

    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    pub fn path(&self) -> &str {
        self.parts.uri.path()
    }

    pub fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.parts.headers.get(name).map(HeaderValue::as_bytes)
    }

    pub fn host(&self) -> &[u8] {
        self.header("host").unwrap_or_default()
    }

    pub fn version(&self) -> &'static str {
        match self.parts.version {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            _ => "1.1",
        }
    }

    /// Whether the connection ends after the answer because of the protocol.
    pub fn is_last(&self) -> bool {
        self.parts.version == Version::HTTP_10
    }

    /// Names and values, for `with`.
    pub fn pairs(&self) -> Vec<(&[u8], &[u8])> {
        self.parts.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())).collect()
    }

    pub fn as_request<'a>(&'a self, pairs: &'a [(&'a [u8], &'a [u8])]) -> RequestHead<'a> {
        RequestHead {
            method: self.parts.method.as_str().as_bytes(),
            path: self.path().as_bytes(),
            query: self.query().as_bytes(),
            headers: Headers::new(pairs),
        }
    }

    pub fn parts(&self) -> &Parts {
        &self.parts
    }
}

fn check(parts: &mut Parts, lines: Lines, size_max: usize) -> Result<(), &'static Refusal> {
    let uri = &parts.uri;
    let is_ascii = uri.path_and_query().is_none_or(|target| target.as_str().is_ascii());
    if lines.is_malformed || !is_ascii || !parts.method.as_str().bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(&refusals::MALFORMED);
    }
    if let Some(authority) = uri.authority() {
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_web || !is_authority(authority.as_str()) || parts.method == Method::CONNECT {
            return Err(&refusals::BAD_TARGET);
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| &refusals::BAD_TARGET)?;
        let mut said = parts.headers.get_all(HOST).iter();
        if parts.version == Version::HTTP_2 {
            // If there is a Host besides, it is the same (RFC 9113, section 8.3.1).
            if said.any(|said| *said != host) {
                return Err(&refusals::BAD_HOST);
            }
            parts.headers.insert(HOST, host);
        } else if said.count() == 1 {
            // The host of the target takes the place of that in the header (RFC 9112, section 3.2.2).
            parts.headers.insert(HOST, host);
        }
    } else if !uri.path().starts_with('/') || parts.method == Method::CONNECT {
        return Err(&refusals::BAD_TARGET);
    }
    if lines.has_fragment {
        return Err(&refusals::BAD_TARGET);
    }
    if parts.headers.get_all(HOST).iter().count() != 1 {
        return Err(&refusals::BAD_HOST);
    }
    let size: usize = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if size + uri.path().len() + uri.query().map_or(0, str::len) > size_max {
        return Err(&refusals::HEAD_TOO_LARGE);
    }
    let mut codings = parts.headers.get_all(TRANSFER_ENCODING).iter();
    let coding = codings.next();
    if let Some(coding) = coding {
        let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !is_chunked || codings.next().is_some() {
            return Err(&refusals::BAD_CODING);
        }
    }
    if lines.lengths > usize::from(coding.is_none()) {
        return Err(&refusals::BAD_LENGTH);
    }
    Ok(())
}

/// Whether a target may name this host and port: no user information, which would be a way to show another host than the
/// real one (RFC 9110, section 4.2.4).
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            (address.parse::<std::net::Ipv6Addr>().is_ok(), rest.strip_prefix(':').unwrap_or(rest))
        }
        None => {
            let (name, port) = text.split_once(':').unwrap_or((text, ""));
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
            (!name.is_empty() && name.bytes().all(is_plain), port)
        }
    };
    host && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}
