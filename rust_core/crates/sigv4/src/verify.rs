//! The verdict on a request head: whose it is, and how its body will prove itself. Everything that depends on the head
//! alone is checked before a secret is touched, and the signature last, in constant time.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

use super::canonical::{CanonicalQuery, CanonicalRequest, canonical_path, is_graphic, parse_hex, string_to_sign};
use super::claim::{Claim, Claimed};
use super::error::SignatureError;
use super::keys::{ChunkContext, Credential, SigningKey, SigningKeys};
use super::version_two::{self, VersionTwo};
use orcas_http::{Headers, RequestHead};

/// What the server demands of a signature at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// The only region accepted; `None` accepts the region that the request names.
    pub region: Option<&'a str>,
    /// Milliseconds since 1970.
    pub now_unix_ms: i64,
    /// The largest distance of the request's date from now; normally `SKEW_MAX_MS`.
    pub skew_max_ms: i64,
    /// How presigned requests of version 2 are read; `None` refuses them.
    pub version_two: Option<VersionTwo<'a>>,
}

/// How a request proved who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    Header,
    Presigned,
    PresignedVersionTwo,
    /// It claims nobody: there is no access key, and the caller decides whether strangers may ask.
    Anonymous,
}

/// How the body proves itself.
#[derive(Clone, Debug)]
pub enum PayloadMode {
    /// The SHA-256 of the whole body.
    Hash([u8; 32]),
    Unsigned,
    StreamingSigned(ChunkContext),
    StreamingSignedTrailer(ChunkContext),
    StreamingUnsignedTrailer,
}

/// A request whose signature holds, or one that claims none.
#[derive(Clone, Debug)]
pub struct Authorized {
    /// Empty for an anonymous request.
    pub access_key: String,
    pub how: Authentication,
    pub payload: PayloadMode,
    /// Of a request that is signed in its headers.
    pub stamp: Option<Stamp>,
}

/// What tells a signed request from any other: two have one stamp only if they are the same request, signed for the same
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Milliseconds since 1970, a whole second.
    pub signed_at_ms: i64,
    pub signature: [u8; 32],
}

pub(super) const SERVICE: &str = "s3";

/// Signs for access keys that do not exist, so that their refusal costs the work of a wrong signature.
pub(super) const NOBODY: &[u8] = b"no such access key: this secret signs for nobody";

/// Verifies the signature of `head`. `credential` looks an access key up; `keys` outlives requests.
pub fn authorize(
    head: &RequestHead<'_>,
    policy: &Policy<'_>,
    keys: &SigningKeys,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Result<Authorized, SignatureError> {
    let query = CanonicalQuery::strict(head.query).map_err(|_| SignatureError::InvalidUri)?;
    let claim = match Claimed::parse(&head.headers, &query)? {
        Claimed::Nobody => return anonymous(&head.headers),
        // Such a signature is good for every region, so a server that insists on its own takes none.
        Claimed::VersionTwo => match policy.version_two.filter(|_| policy.region.is_none()) {
            Some(rules) => return version_two::authorize(head, policy, &rules, credential),
            None => return Err(SignatureError::UnsupportedMechanism),
        },
        Claimed::VersionFour(claim) => claim,
    };
    check_date(&claim, policy)?;
    check_region(&claim, policy)?;
    check_coverage(&claim, head)?;
    let payload = PayloadClaim::parse(&claim.payload)?;
    if claim.how == Authentication::Presigned && payload.is_signed_stream() {
        return Err(SignatureError::InvalidContentSha256);
    }
    let key = verify_signature(&claim, head, &query, keys, credential)?;
    let context = || ChunkContext::new(key, &claim.timestamp, &claim.region, SERVICE, claim.signature);
    Ok(Authorized {
        payload: payload.into_mode(context),
        how: claim.how,
        access_key: claim.access_key.into_owned(),
        stamp: (claim.how == Authentication::Header)
            .then(|| Stamp { signed_at_ms: claim.timestamp.unix_ms(), signature: claim.signature }),
    })
}

/// Compares the hash of a received body with the one that `PayloadMode::Hash` announced.
pub fn verify_payload_hash(announced: &[u8; 32], computed: &[u8; 32]) -> Result<(), SignatureError> {
    if announced == computed { Ok(()) } else { Err(SignatureError::ContentSha256Mismatch) }
}

/// Whether nothing in a request head says that it is signed.
pub fn claims_nobody(head: &RequestHead<'_>) -> bool {
    let query = CanonicalQuery::strict(head.query);
    query.is_ok_and(|query| matches!(Claimed::parse(&head.headers, &query), Ok(Claimed::Nobody)))
}

/// The body of a request without a signature may still announce its hash, but no chain of signatures.
fn anonymous(headers: &Headers<'_>) -> Result<Authorized, SignatureError> {
    let payload = unsigned_payload(headers)?;
    Ok(Authorized { access_key: String::new(), how: Authentication::Anonymous, payload, stamp: None })
}

/// What a body proves that no chain of signatures goes with.
pub(super) fn unsigned_payload(headers: &Headers<'_>) -> Result<PayloadMode, SignatureError> {
    let payload = match headers.get("x-amz-content-sha256") {
        Some(text) => PayloadClaim::parse(text.trim_ascii())?,
        None => PayloadClaim::Unsigned,
    };
    match payload {
        PayloadClaim::Hash(hash) => Ok(PayloadMode::Hash(hash)),
        PayloadClaim::Unsigned => Ok(PayloadMode::Unsigned),
        PayloadClaim::StreamingUnsignedTrailer => Ok(PayloadMode::StreamingUnsignedTrailer),
        PayloadClaim::StreamingSigned | PayloadClaim::StreamingSignedTrailer => {
            Err(SignatureError::InvalidContentSha256)
        }
    }
}

fn check_date(claim: &Claim<'_>, policy: &Policy<'_>) -> Result<(), SignatureError> {
    let age_ms = policy.now_unix_ms.saturating_sub(claim.timestamp.unix_ms());
    match claim.expires_s {
        Some(_) if age_ms < -policy.skew_max_ms => Err(SignatureError::RequestNotYetValid),
        Some(expires_s) if age_ms > expires_s * 1000 => Err(SignatureError::RequestExpired),
        None if age_ms.saturating_abs() > policy.skew_max_ms => Err(SignatureError::RequestTimeTooSkewed),
        Some(_) | None => Ok(()),
    }
}

fn check_region(claim: &Claim<'_>, policy: &Policy<'_>) -> Result<(), SignatureError> {
    match policy.region {
        Some(expected) if *expected != *claim.region => {
            let (given, expected) = (claim.region.to_string(), expected.to_owned());
            Err(match claim.how {
                Authentication::Presigned => SignatureError::WrongRegionInQuery { given, expected },
                Authentication::Header | Authentication::PresignedVersionTwo | Authentication::Anonymous => {
                    SignatureError::WrongRegionInHeader { given, expected }
                }
            })
        }
        Some(_) | None => Ok(()),
    }
}

/// `host` and all `x-amz-*` headers are signed, all signed headers are there, and the method is one word.
fn check_coverage(claim: &Claim<'_>, head: &RequestHead<'_>) -> Result<(), SignatureError> {
    if !claim.is_signed(b"host") {
        return Err(SignatureError::UnsignedHeader { name: "host".to_owned() });
    }
    for (name, _) in head.headers.iter() {
        if name.starts_with(b"x-amz-") && !claim.is_signed(name) {
            return Err(SignatureError::UnsignedHeader { name: String::from_utf8_lossy(name).into_owned() });
        }
    }
    let mut names = claim.signed.split(';');
    if head.method.is_empty() || !is_graphic(head.method) || names.any(|name| head.headers.get(name).is_none()) {
        return Err(SignatureError::SignatureDoesNotMatch);
    }
    if head.headers.get("x-amz-security-token").is_some() {
        return Err(SignatureError::InvalidToken);
    }
    Ok(())
}

pub(super) fn canonical_request(
    claim: &Claim<'_>,
    head: &RequestHead<'_>,
    path: &[u8],
    query: &CanonicalQuery,
) -> Vec<u8> {
    CanonicalRequest {
        method: head.method,
        path,
        query,
        headers: head.headers,
        signed: &claim.signed,
        payload: &claim.payload,
    }
    .to_bytes()
}

fn verify_signature(
    claim: &Claim<'_>,
    head: &RequestHead<'_>,
    query: &CanonicalQuery,
    keys: &SigningKeys,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Result<Arc<SigningKey>, SignatureError> {
    let strict_path = canonical_path(head.path).map_err(|_| SignatureError::InvalidUri)?;
    let day = claim.timestamp.day();
    let found = credential(&claim.access_key);
    let (secret, generation) = found.as_ref().map_or((NOBODY, 0), |it| (&it.secret[..], it.generation));
    let cached = keys.get(&claim.access_key, generation, &day, &claim.region);
    let is_cached = cached.is_some();
    let key = cached.unwrap_or_else(|| Arc::new(SigningKey::derive(secret, &day, &claim.region, SERVICE)));
    let matches = |path: &[u8], query: &CanonicalQuery| {
        let canonical = canonical_request(claim, head, path, query);
        key.verify(&string_to_sign(&claim.timestamp, &claim.region, SERVICE, &canonical), &claim.signature)
    };
    let verified = matches(&strict_path, query) || matches_as_sent(head, &strict_path, query, &matches);
    if !verified && is_cached {
        // Every refusal derives a key: one that a known access key was spared until now is made up for here, or the time
        // of the answer would tell an access key that was used lately from one that does not exist.
        black_box(SigningKey::derive(secret, &day, &claim.region, SERVICE));
    }
    let Some(credential) = found else {
        return Err(SignatureError::InvalidAccessKeyId);
    };
    if !verified {
        return Err(SignatureError::SignatureDoesNotMatch);
    }
    if !is_cached {
        keys.keep(&claim.access_key, credential.generation, day, &claim.region, Arc::clone(&key));
    }
    Ok(key)
}

/// Clients that sign a ready URL sign its bytes, not the strict encoding of them. Accepting both is sound: a strict
/// form and the bytes it came from decode to the same name.
pub(super) fn matches_as_sent(
    head: &RequestHead<'_>,
    strict_path: &[u8],
    strict_query: &CanonicalQuery,
    matches: &dyn Fn(&[u8], &CanonicalQuery) -> bool,
) -> bool {
    let sent_path = (is_graphic(head.path) && head.path != strict_path && !head.path.is_empty()).then_some(head.path);
    let sent_query = is_graphic(head.query).then(|| CanonicalQuery::as_sent(head.query));
    let sent_query = sent_query.filter(|sent| !sent.is_same(strict_query));
    sent_path.is_some_and(|path| matches(path, strict_query))
        || sent_query
            .is_some_and(|query| matches(strict_path, &query) || sent_path.is_some_and(|path| matches(path, &query)))
}

/// The meaning of `x-amz-content-sha256`.
enum PayloadClaim {
    Hash([u8; 32]),
    Unsigned,
    StreamingSigned,
    StreamingSignedTrailer,
    StreamingUnsignedTrailer,
}

impl PayloadClaim {
    fn parse(text: &[u8]) -> Result<Self, SignatureError> {
        match text {
            b"UNSIGNED-PAYLOAD" => Ok(Self::Unsigned),
            b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => Ok(Self::StreamingSigned),
            b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => Ok(Self::StreamingSignedTrailer),
            b"STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Ok(Self::StreamingUnsignedTrailer),
            _ if text.starts_with(b"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD") => {
                Err(SignatureError::AsymmetricNotImplemented)
            }
            _ => parse_hex(&hex_lower(text)).map(Self::Hash).ok_or(SignatureError::InvalidContentSha256),
        }
    }

    fn is_signed_stream(&self) -> bool {
        match self {
            Self::StreamingSigned | Self::StreamingSignedTrailer => true,
            Self::Hash(_) | Self::Unsigned | Self::StreamingUnsignedTrailer => false,
        }
    }

    fn into_mode(self, context: impl FnOnce() -> ChunkContext) -> PayloadMode {
        match self {
            Self::Hash(hash) => PayloadMode::Hash(hash),
            Self::Unsigned => PayloadMode::Unsigned,
            Self::StreamingSigned => PayloadMode::StreamingSigned(context()),
            Self::StreamingSignedTrailer => PayloadMode::StreamingSignedTrailer(context()),
            Self::StreamingUnsignedTrailer => PayloadMode::StreamingUnsignedTrailer,
        }
    }
}

/// A payload hash may be written in either case; it is signed as written.
fn hex_lower(text: &[u8]) -> Cow<'_, [u8]> {
    if text.iter().any(u8::is_ascii_uppercase) { Cow::Owned(text.to_ascii_lowercase()) } else { Cow::Borrowed(text) }
}
