//! The verdict on a request head: whose it is, and how its body will prove itself. Everything that depends on the head
//! alone is checked before a secret is touched, and the signature last, in constant time.

use std::hint::black_box;
use std::sync::Arc;

use super::authentication::{Authentication, Authorized, NOBODY, Policy, Stamp};
use super::canonical::{CanonicalQuery, CanonicalRequest, SERVICE, canonical_path, is_graphic, string_to_sign};
use super::claim::{Claim, Claimed};
use super::error::SignatureError;
use super::keys::{ChunkContext, Credential, SigningKey, SigningKeys};
use super::payload::{PayloadClaim, unsigned_payload};
use super::version_two;
use orcas_http::{Headers, RequestHead};

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
