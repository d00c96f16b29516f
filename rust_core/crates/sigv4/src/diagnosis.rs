//! Why a signature was refused, for the operator's log and for clients under development. Runs after the refusal: it finds
//! the cause by trying what usually happens to requests on their way (another Host, another spelling of the path, another
//! region …) and asking whether the signature would then be right.
//!
//! Invariants: nothing here accepts a request; the work is bounded; no expected signature is shown. The texts that were
//! signed follow from the request alone, and S3 shows them to every client. A cause reveals which change makes a signature
//! right, so it is shown only to operators and in development mode.

use super::SignatureError;
use super::authentication::{Authentication, Requirements};
use super::canonical::{CanonicalQuery, SERVICE, canonical_path, string_to_sign};
use super::claim::{Claim, Claimed};
use super::keys::{Credential, SigningKey};
use super::verify::{canonical_request, matches_as_sent};
use orcas_http::{Headers, Query, RequestHead, hex, percent_decode, percent_encode_into};

/// The texts that a client needs in order to find its mistake; they hold no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// `None` for a form, of which the policy alone is signed.
    pub canonical_request: Option<Vec<u8>>,
    pub string_to_sign: Vec<u8>,
}

/// The known facts about a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The likely cause and what to do about it.
    pub cause: Option<String>,
    pub explanation: Option<Explanation>,
}

/// The region and the domains of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerNames<'a> {
    pub region: &'a str,
    pub domains: &'a [String],
}

/// Bytes of the largest head that is looked into: each try hashes all of it.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Names of hosts that are tried.
const HOSTS_MAX: usize = 16;

/// The canonical request and the string to sign of a request, as this server computes them; `None` if it is not signed,
/// malformed or too large.
pub fn explain(head: &RequestHead<'_>) -> Option<Explanation> {
    if head_bytes(head) > HEAD_BYTES_MAX {
        return None;
    }
    let query = Query::parse(head.query)?;
    let claim = Claim::parse(&head.headers, &query).ok()??;
    let path = canonical_path(head.path)?;
    let canonical_request = canonical_request(&claim, head, &path, &claim.query);
    let string_to_sign = string_to_sign(&claim.timestamp, claim.region, SERVICE, &canonical_request);
    Some(Explanation { canonical_request: Some(canonical_request), string_to_sign })
}

/// The access key and the signature that a request names, whoever signed it.
pub fn claimed_signature(head: &RequestHead<'_>) -> Option<(String, String)> {
    let query = Query::parse(head.query)?;
    match Claimed::parse(&head.headers, &query, SERVICE).ok()? {
        Claimed::Nobody => None,
        Claimed::VersionFour(claim) => Some((claim.access_key.to_owned(), hex(&claim.signature))),
        Claimed::VersionTwo => {
            let parameter = |name: &str| String::from_utf8(query.get(name)?.to_vec()).ok();
            Some((parameter("AWSAccessKeyId")?, parameter("Signature").unwrap_or_default()))
        }
    }
}

/// The cause of `error`, with which `head` was refused; `None` if the error itself says everything.
pub fn diagnose(
    head: &RequestHead<'_>,
    error: &SignatureError,
    requirements: &Requirements<'_>,
    names: &ServerNames<'_>,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Option<Diagnosis> {
    if head_bytes(head) > HEAD_BYTES_MAX {
        return None;
    }
    let cause = cause_of(head, error, requirements, names, credential);
    let explanation = explain(head);
    (cause.is_some() || explanation.is_some()).then_some(Diagnosis { cause, explanation })
}

fn head_bytes(head: &RequestHead<'_>) -> usize {
    let headers: usize = head.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    head.path.len() + head.query.len() + headers
}

fn cause_of(
    head: &RequestHead<'_>,
    error: &SignatureError,
    requirements: &Requirements<'_>,
    names: &ServerNames<'_>,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Option<String> {
    use SignatureError as E;
    let query = Query::parse(head.query)?;
    let claim = Claim::parse(&head.headers, &query);
    let cause = match error {
        E::RequestTimeTooSkewed { .. } | E::RequestNotYetValid | E::RequestExpired { .. } => {
            clock(&claim.ok()??, requirements)
        }
        E::InvalidAccessKeyId => "unknown access key: the client uses the keys of another store or service".to_owned(),
        E::WrongRegionInHeader { given, expected } | E::WrongRegionInQuery { given, expected } => format!(
            "region: the client signs for '{given}' and this server takes signatures for '{expected}' only; set the \
             client's region, or turn ORCAS_STRICT_REGION off"
        ),
        E::UnsignedHeaders { names } => {
            format!("the header '{names}' came without being signed: the client left it out, or a proxy added it")
        }
        E::SignatureDoesNotMatch => match claim {
            Err(_) => "the signature is not 64 lower-case hexadecimal digits".to_owned(),
            Ok(claim) => Trial { head, claim: &claim?, names }.run(credential),
        },
        _ => return None,
    };
    Some(cause)
}

/// How far the client's clock is off, as far as it is the clock.
fn clock(claim: &Claim<'_>, requirements: &Requirements<'_>) -> String {
    let age_s = requirements.now_unix_ms.saturating_sub(claim.timestamp.unix_ms()) / 1000;
    let date = String::from_utf8_lossy(claim.timestamp.as_bytes());
    match (claim.how, claim.expires_s) {
        (Authentication::Presigned, Some(expires_s)) if age_s > 0 => format!(
            "expired: the URL was signed at {date} for {expires_s} seconds and came {age_s} seconds later; if it is new, \
             the clock of its signer is behind"
        ),
        _ if age_s > 0 => {
            format!(
                "clock: signed at {date}; the client's clock is {age_s} seconds behind the server's, or the request is old"
            )
        }
        _ => format!("clock: signed at {date}; the client's clock is {} seconds ahead of the server's", -age_s),
    }
}

/// The search for a change that makes a signature right.
struct Trial<'a> {
    head: &'a RequestHead<'a>,
    claim: &'a Claim<'a>,
    names: &'a ServerNames<'a>,
}

impl Trial<'_> {
    fn run(&self, credential: &dyn Fn(&str) -> Option<Credential>) -> String {
        let missing = self.claim.signed.split(';').find(|name| self.head.headers.get(name).is_none());
        if let Some(name) = missing {
            return format!("the header '{name}' was signed and did not arrive: a proxy removed it");
        }
        let Some(known) = credential(self.claim.access_key) else { return "unknown access key".to_owned() };
        let key = self.key(&known.secret, self.claim.region);
        let found = self.host(&key).or_else(|| self.path(&key)).or_else(|| self.query(&key));
        let found = found.or_else(|| self.method(&key)).or_else(|| self.headers(&key)).or_else(|| self.payload(&key));
        found.or_else(|| self.region(&known.secret)).or_else(|| self.secret(&known.secret)).unwrap_or_else(|| {
            let proxies = ["via", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];
            let through = proxies.iter().find(|name| self.head.headers.get(name).is_some());
            let through = through.map_or(String::new(), |name| {
                format!("; the request came through a proxy ('{name}'), which may have changed what was signed")
            });
            format!(
                "most likely the secret key: no change of Host, path, query, method, region or common headers that was \
                 tried makes the signature right{through}"
            )
        })
    }

    fn key(&self, secret: &[u8], region: &str) -> SigningKey {
        SigningKey::derive(secret, &self.claim.timestamp.day(), region, SERVICE)
    }

    /// Whether the signature is that of this path and query, as they are.
    fn is(
        &self,
        key: &SigningKey,
        claim: &Claim<'_>,
        head: &RequestHead<'_>,
        path: &[u8],
        query: &CanonicalQuery,
    ) -> bool {
        let canonical = canonical_request(claim, head, path, query);
        key.verify(&string_to_sign(&claim.timestamp, claim.region, SERVICE, &canonical), &claim.signature)
    }

    /// Whether the signature is that of `head`, in any form that would be accepted.
    fn accepts(&self, key: &SigningKey, claim: &Claim<'_>, head: &RequestHead<'_>) -> bool {
        let Some(path) = canonical_path(head.path) else { return false };
        let matches = |path: &[u8], query: &CanonicalQuery| self.is(key, claim, head, path, query);
        matches(&path, &claim.query) || matches_as_sent(head, &path, &claim.query, &matches)
    }

    /// Whether it would be right if the header `name` had another value.
    fn accepts_with(&self, key: &SigningKey, name: &str, value: &[u8]) -> bool {
        let others = self.head.headers.iter().filter(|(sent, _)| *sent != name.as_bytes());
        let list: Vec<(&[u8], &[u8])> = others.chain([(name.as_bytes(), value)]).collect();
        self.accepts(key, self.claim, &RequestHead { headers: Headers::new(&list), ..*self.head })
    }

    fn host(&self, key: &SigningKey) -> Option<String> {
        let sent = String::from_utf8_lossy(self.head.headers.get("host")?).into_owned();
        let signed = self.hosts(&sent).into_iter().find(|host| self.accepts_with(key, "host", host.as_bytes()))?;
        Some(format!(
            "Host: the client signed for '{signed}' and '{sent}' arrived: a proxy rewrites Host, and must pass it on as it \
             is (nginx: proxy_set_header Host $http_host)"
        ))
    }

    /// The hosts that the client may have signed for.
    fn hosts(&self, sent: &str) -> Vec<String> {
        let (name, port) = match sent.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
            _ => (sent, None),
        };
        let value = |header: &str| self.head.headers.get(header).and_then(|value| std::str::from_utf8(value).ok());
        let forwarded = value("forwarded").into_iter().flat_map(|value| value.split([';', ',']));
        let forwarded =
            forwarded.filter_map(|field| field.trim().strip_prefix("host=")).map(|host| host.trim_matches('"'));
        let named = ["x-forwarded-host", "x-original-host", "x-forwarded-server"].into_iter().filter_map(value);
        let named = named.filter_map(|value| value.split(',').next()).map(str::trim).chain(forwarded);
        let mut names: Vec<String> = named.map(str::to_owned).collect();
        names.push(name.to_owned());
        names.extend(self.names.domains.iter().cloned());
        names.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let ports = [port, value("x-forwarded-port"), Some("80"), Some("443")];
        let mut hosts: Vec<String> = Vec::new();
        // Names first, then each with a port: what a proxy said about itself comes before guesses.
        let with_ports = names.iter().flat_map(|name| ports.iter().flatten().map(move |port| format!("{name}:{port}")));
        for host in names.iter().cloned().chain(with_ports) {
            if host != sent && !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts.truncate(HOSTS_MAX);
        hosts
    }

    fn path(&self, key: &SigningKey) -> Option<String> {
        let strict = canonical_path(self.head.path)?;
        let mut twice = Vec::new();
        percent_encode_into(&mut twice, &strict, true);
        let once_less = percent_decode(self.head.path).and_then(|path| canonical_path(&path));
        let spaces: Vec<u8> = self.head.path.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
        let slash = strict.strip_suffix(b"/").map_or_else(|| [&strict[..], b"/"].concat(), <[u8]>::to_vec);
        let original = ["x-original-uri", "x-original-url", "x-forwarded-uri"].into_iter();
        let original = original.filter_map(|name| self.head.headers.get(name)).next();
        let original = original.and_then(|uri| canonical_path(uri.split(|&byte| byte == b'?').next()?));
        let prefixed = self.head.headers.get("x-forwarded-prefix");
        let prefixed =
            prefixed.map(|prefix| [prefix.trim_ascii_end().strip_suffix(b"/").unwrap_or(prefix), &strict].concat());
        let mut candidates = vec![
            (Some(twice), "the client encodes the path twice, as services other than S3 expect; sign for S3"),
            (once_less, "the path was encoded once more on its way: a proxy encodes its percent signs again"),
            (
                Some(normalised(&strict)),
                "the client signed a path without '//', '.' and '..'; in S3 they belong to the key",
            ),
            (canonical_path(&spaces), "the client signed a space where '+' arrived; in a path a space is %20"),
            (percent_decode(self.head.path), "the client signed the path without encoding it"),
            (Some(slash), "a slash at the end of the path was added or removed"),
        ];
        candidates.push((original, "a proxy changed the path; it must pass the path on unchanged"));
        candidates.push((prefixed, "a proxy removed a prefix from the path; it must pass the path on unchanged"));
        let as_sent = CanonicalQuery::as_sent(self.head.query);
        let right = |path: &[u8]| {
            path != strict
                && [&self.claim.query, &as_sent].iter().any(|query| self.is(key, self.claim, self.head, path, query))
        };
        let found = candidates.into_iter().find(|(path, _)| path.as_deref().is_some_and(right))?;
        Some(format!("path encoding: {}", found.1))
    }

    fn query(&self, key: &SigningKey) -> Option<String> {
        let path = canonical_path(self.head.path)?;
        let sent = String::from_utf8_lossy(self.head.query);
        let cases = [
            (sent.replace('+', "%2B"), "the client signed '+' as %2B and sent it as '+', which is a space"),
            (sent.replace("%20", "%2B"), "the client signed '+' and a space arrived"),
            (signature_only(&sent), "the client left the query out of the signature"),
        ];
        let found = cases.into_iter().find(|(query, _)| {
            let query = Query::parse(query.as_bytes()).map(|query| CanonicalQuery::strict(&query));
            query.is_some_and(|query| {
                !query.is_same(&self.claim.query) && self.is(key, self.claim, self.head, &path, &query)
            })
        })?;
        Some(format!("query encoding: {}", found.1))
    }

    fn method(&self, key: &SigningKey) -> Option<String> {
        let others: [&[u8]; 5] = [b"GET", b"HEAD", b"PUT", b"POST", b"DELETE"];
        let signed = others.into_iter().filter(|method| *method != self.head.method);
        let mut signed = signed.filter(|method| self.accepts(key, self.claim, &RequestHead { method, ..*self.head }));
        let signed = String::from_utf8_lossy(signed.next()?);
        let sent = String::from_utf8_lossy(self.head.method);
        Some(format!("method: the request was signed as {signed} and arrived as {sent}"))
    }

    /// Headers that proxies and HTTP libraries are known to change after signing.
    fn headers(&self, key: &SigningKey) -> Option<String> {
        let bare = self.head.headers.get("content-type").and_then(|value| value.split(|&byte| byte == b';').next());
        let cases: [(&str, Option<&[u8]>); 8] = [
            ("accept-encoding", Some(b"identity")),
            ("accept-encoding", Some(b"gzip")),
            ("accept-encoding", Some(b"gzip, deflate")),
            ("accept-encoding", Some(b"gzip, deflate, br")),
            ("accept-encoding", Some(b"")),
            ("content-type", bare),
            ("content-type", Some(b"")),
            ("connection", Some(b"keep-alive")),
        ];
        let changed = cases.into_iter().find(|(name, value)| {
            self.claim.is_signed(name.as_bytes()) && value.is_some_and(|value| self.accepts_with(key, name, value))
        })?;
        Some(format!(
            "the header '{}' was changed after it was signed, by a proxy or by the client's HTTP library",
            changed.0
        ))
    }

    fn payload(&self, key: &SigningKey) -> Option<String> {
        const EMPTY: &[u8] = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let signed: [&[u8]; 2] = [b"UNSIGNED-PAYLOAD", EMPTY];
        let signed = signed.into_iter().find(|&payload| {
            let claim = Claim { payload, ..self.claim.clone() };
            self.claim.payload != payload && self.accepts(key, &claim, self.head)
        })?;
        let signed = String::from_utf8_lossy(signed);
        Some(format!("payload: the client signed '{signed}' and sent another x-amz-content-sha256"))
    }

    /// Whether the key was derived for another region, or the whole scope was another's.
    fn region(&self, secret: &[u8]) -> Option<String> {
        let sent = self.claim.region;
        let signed =
            [self.names.region, "us-east-1", "auto"].into_iter().filter(|region| *region != sent).find(|&region| {
                let key = self.key(secret, region);
                let claim = Claim { region, ..self.claim.clone() };
                self.accepts(&key, self.claim, self.head) || self.accepts(&key, &claim, self.head)
            })?;
        Some(format!("region: the client signed for '{signed}' and names '{sent}' in its credential"))
    }

    /// Whether white space came along with the secret: from a file, or from where it was copied.
    fn secret(&self, secret: &[u8]) -> Option<String> {
        let around: [(&[u8], &[u8]); 5] = [(b"", b"\n"), (b"", b"\r\n"), (b"", b"\r"), (b"", b" "), (b" ", b"")];
        around.into_iter().find(|(before, after)| {
            let key = self.key(&[before, secret, after].concat(), self.claim.region);
            self.accepts(&key, self.claim, self.head)
        })?;
        Some("the client's secret key has a line end or a space around it".to_owned())
    }
}

/// A query without what does not belong to its signature.
fn signature_only(query: &str) -> String {
    query.split('&').filter(|pair| pair.starts_with("X-Amz-")).collect::<Vec<_>>().join("&")
}

/// A canonical path as other services normalise it: no empty parts, no dots.
fn normalised(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    let mut out = [b"/", &parts.join(&b'/')[..]].concat();
    if path.ends_with(b"/") && !parts.is_empty() {
        out.push(b'/');
    }
    out
}
