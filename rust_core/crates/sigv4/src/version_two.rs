//! Presigned requests of Signature Version 2, which boto3 and the AWS command line make for us-east-1 by default. Rules of <https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html>.
//!
//! The signature covers method, path, bucket, expiry, Content-MD5, Content-Type, every `x-amz-*` header and the parameters
//! that name a resource. Headers may stand in the query, as botocore puts them. The signed text is not encoded, so
//! every request is refused whose text could be parsed in two ways.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::authentication::{Authenticated, Authentication, NOBODY, Requirements, VersionTwo, check_session_token};
use super::canonical::is_graphic;
use super::claim::{ACCESS_KEY_BYTES_MAX, DUPLICATE_PARAMETER, single};
use super::error::SignatureError;
use super::keys::Credential;
use super::payload::unsigned_payload;
use orcas_checksum::base64_decode;
use orcas_http::{Query, RequestHead, raw_pairs};

const CONFLICT: SignatureError =
    SignatureError::InvalidArgument("A header and a query parameter of the presigned request contradict each other");

/// Verifies a request that claims such a signature.
pub(super) fn authenticate(
    head: &RequestHead<'_>,
    query: Query,
    requirements: &Requirements<'_>,
    rules: &VersionTwo<'_>,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Result<Authenticated, SignatureError> {
    let parameters = Parameters::parse(head.query, &query)?;
    let claim = Claim::parse(&parameters)?;
    claim.check_expiry(requirements)?;
    let texts = strings_to_sign(head, &parameters, &claim, (rules, requirements.session_token))?;
    let found = credential(&claim.access_key);
    let secret = found.as_ref().map_or(NOBODY, |it| &it.secret[..]);
    let key = Hmac::<Sha1>::new_from_slice(secret).expect("HMAC is defined for keys of any length");
    // In constant time. All spellings are tried, so that a refusal costs the same for every access key.
    let verified =
        texts.iter().filter(|text| key.clone().chain_update(text).verify_slice(&claim.signature).is_ok()).count();
    if found.is_none() && !requirements.any_signature {
        return Err(SignatureError::InvalidAccessKeyId);
    }
    if verified == 0 && !requirements.any_signature {
        return Err(SignatureError::SignatureDoesNotMatch);
    }
    Ok(Authenticated {
        access_key: claim.access_key,
        how: Authentication::PresignedVersionTwo,
        payload: unsigned_payload(&head.headers)?,
        query,
        stamp: None,
    })
}

struct Parameter {
    /// Decoded; in lower case where it stands for a header.
    name: Vec<u8>,
    value: Vec<u8>,
    has_equals: bool,
}

/// The decoded query, by name.
struct Parameters(Vec<Parameter>);

impl Parameters {
    /// Refuses a name that stands twice.
    fn parse(raw: &[u8], query: &Query) -> Result<Self, SignatureError> {
        let mut list = Vec::with_capacity(8);
        for ((name, value), (_, sent)) in query.iter().zip(raw_pairs(raw)) {
            let mut name = name.to_vec();
            let lower = name.to_ascii_lowercase();
            if lower.starts_with(b"x-amz-") || [&b"content-md5"[..], b"content-type"].contains(&&lower[..]) {
                // A colon or a line end would let one name pass for a header and its value, or for two headers.
                if !lower.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
                    return Err(SignatureError::SignatureDoesNotMatch);
                }
                name = lower;
            }
            list.push(Parameter { name, value: value.to_vec(), has_equals: sent.is_some() });
        }
        list.sort_by(|a, b| a.name.cmp(&b.name));
        if list.windows(2).any(|two| two[0].name == two[1].name) { Err(DUPLICATE_PARAMETER) } else { Ok(Self(list)) }
    }

    fn get(&self, name: &str) -> Option<&[u8]> {
        let at = self.0.binary_search_by(|parameter| parameter.name.as_slice().cmp(name.as_bytes())).ok()?;
        self.0.get(at).map(|parameter| parameter.value.as_slice())
    }
}

struct Claim {
    access_key: String,
    /// Seconds since 1970.
    expires_s: i64,
    /// The expiry as it was signed.
    expires: Vec<u8>,
    signature: [u8; 20],
}

impl Claim {
    fn parse(parameters: &Parameters) -> Result<Self, SignatureError> {
        let required = |name| parameters.get(name).ok_or(SignatureError::QueryAuthIncomplete);
        let (access_key, expires, signature) =
            (required("AWSAccessKeyId")?, required("Expires")?, required("Signature")?);
        let access_key = std::str::from_utf8(access_key)
            .ok()
            .filter(|key| !key.is_empty() && key.len() <= ACCESS_KEY_BYTES_MAX && is_graphic(key.as_bytes()));
        let digits = std::str::from_utf8(expires).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let expires_s = digits.and_then(|text| text.parse().ok());
        // A plus that a client left unencoded arrives as a space.
        let signature: Vec<u8> = signature.iter().map(|&b| if b == b' ' { b'+' } else { b }).collect();
        let signature = base64_decode(&signature).and_then(|bytes| bytes.try_into().ok());
        Ok(Self {
            access_key: access_key.ok_or(SignatureError::InvalidAccessKeyId)?.to_owned(),
            expires_s: expires_s
                .ok_or_else(|| SignatureError::InvalidExpires(String::from_utf8_lossy(expires).into_owned()))?,
            expires: expires.to_vec(),
            signature: signature.ok_or(SignatureError::SignatureDoesNotMatch)?,
        })
    }

    /// S3 has no limit. Here, the expiry may be as far ahead as with version 4, plus the allowed clock skew.
    fn check_expiry(&self, requirements: &Requirements<'_>) -> Result<(), SignatureError> {
        let left_ms = self.expires_s.saturating_mul(1000).saturating_sub(requirements.now_unix_ms);
        if left_ms < 0 {
            let expired_ms = self.expires_s.saturating_mul(1000);
            Err(SignatureError::RequestExpired { expired_ms, now_ms: requirements.now_unix_ms, lifetime_s: None })
        } else if left_ms > requirements.presign_max_s * 1000 + requirements.skew_max_ms {
            let max_s = requirements.presign_max_s;
            Err(SignatureError::AuthorizationQueryParameters(
                format!("Expires must lie at most {max_s} seconds ahead of the server's clock").into(),
            ))
        } else {
            Ok(())
        }
    }
}

/// The texts that may have been signed: more than one if a parameter without a value, or a bucket without a key, can be
/// written in two ways.
fn strings_to_sign(
    head: &RequestHead<'_>,
    parameters: &Parameters,
    claim: &Claim,
    (rules, session_token): (&VersionTwo<'_>, Option<&[u8]>),
) -> Result<Vec<Vec<u8>>, SignatureError> {
    if !is_graphic(head.method) || !is_graphic(head.path) {
        return Err(SignatureError::SignatureDoesNotMatch);
    }
    let amz = amz_headers(head, parameters)?;
    check_session_token(amz.get(&b"x-amz-security-token"[..]).map(|token| &token[..]), session_token)?;
    let mut text = Vec::with_capacity(512);
    for line in [
        head.method,
        standard_header(head, parameters, "content-md5")?,
        standard_header(head, parameters, "content-type")?,
        &claim.expires,
    ] {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    for (name, value) in &amz {
        for part in [&name[..], b":", value, b"\n"] {
            text.extend_from_slice(part);
        }
    }
    let hosted = head.headers.get("host").and_then(|host| (rules.hosted_bucket)(host, rules.domains));
    // botocore signs `/bucket/` and sends `/bucket`. The two are the same only where the host names no bucket: below one
    // that does, they are two keys.
    let adds_slash = hosted.is_none() && names_bucket_alone(head.path);
    if let Some(bucket) = hosted {
        text.push(b'/');
        text.extend_from_slice(bucket.as_bytes());
    }
    text.extend_from_slice(if head.path.is_empty() { b"/" } else { head.path });
    let mut queries = vec![resource_query(parameters, rules, true)?];
    let bare = resource_query(parameters, rules, false)?;
    if !queries.contains(&bare) {
        queries.push(bare);
    }
    let slashes: &[&[u8]] = if adds_slash { &[b"", b"/"] } else { &[b""] };
    Ok(slashes.iter().flat_map(|slash| queries.iter().map(|query| [&text[..], slash, query].concat())).collect())
}

/// Whether a path in path style is `/bucket`.
fn names_bucket_alone(path: &[u8]) -> bool {
    path.len() > 1 && memchr::memrchr(b'/', path) == Some(0)
}

/// All `x-amz-*` headers, those in the query too: names in lower case, the values of one joined with commas.
fn amz_headers(head: &RequestHead<'_>, parameters: &Parameters) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, SignatureError> {
    let mut found: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for (name, value) in head.headers.iter().filter(|(name, _)| name.starts_with(b"x-amz-")) {
        let joined = found.entry(name.to_vec()).or_default();
        if head.headers.get_all(std::str::from_utf8(name).unwrap_or_default()).count() > 1 {
            return Err(SignatureError::InvalidArgument("A header of the presigned request occurs twice"));
        }
        joined.extend_from_slice(value.trim_ascii());
    }
    for parameter in parameters.0.iter().filter(|parameter| parameter.name.starts_with(b"x-amz-")) {
        let value = one_line(&parameter.value)?;
        match found.get(&parameter.name) {
            Some(sent) if sent == value => {}
            Some(_) => return Err(CONFLICT),
            None => drop(found.insert(parameter.name.clone(), value.to_vec())),
        }
    }
    Ok(found)
}

/// A header that has a line of its own; empty if it is absent.
fn standard_header<'a>(
    head: &RequestHead<'a>,
    parameters: &'a Parameters,
    name: &str,
) -> Result<&'a [u8], SignatureError> {
    let header = single(&head.headers, name).map_err(|()| SignatureError::SignatureDoesNotMatch)?;
    let parameter = parameters.get(name).map(one_line).transpose()?;
    match (header, parameter) {
        (Some(header), Some(parameter)) if header != parameter => Err(CONFLICT),
        (Some(value), _) | (None, Some(value)) => Ok(value),
        (None, None) => Ok(b""),
    }
}

/// A decoded value without line ends, which would change how the signed text is parsed.
fn one_line(value: &[u8]) -> Result<&[u8], SignatureError> {
    if value.iter().any(u8::is_ascii_control) {
        Err(SignatureError::SignatureDoesNotMatch)
    } else {
        Ok(value.trim_ascii())
    }
}

/// `?` and the parameters of the resource, decoded and sorted; nothing if there is none. `equals`: those without a value
/// keep the `=` that they were sent with.
fn resource_query(parameters: &Parameters, rules: &VersionTwo<'_>, equals: bool) -> Result<Vec<u8>, SignatureError> {
    let mut out = Vec::new();
    for Parameter { name, value, has_equals } in parameters.0.iter().filter(|it| (rules.is_resource)(&it.name)) {
        // A value in which the next parameter seems to begin could be cut there, and two parameters be joined.
        let names = value.split(|&byte| byte == b'&').skip(1).map(|part| part.split(|&byte| byte == b'=').next());
        if names.flatten().any(rules.is_resource) {
            return Err(SignatureError::SignatureDoesNotMatch);
        }
        out.push(if out.is_empty() { b'?' } else { b'&' });
        out.extend_from_slice(name);
        if !value.is_empty() || (*has_equals && equals) {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    Ok(out)
}
