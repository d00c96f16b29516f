//! The verification of a request head: who signed it, and how its body is to be verified. Everything that depends on the
//! head alone is checked before a secret is used, and the signature last, in constant time.

use std::hint::black_box;
use std::sync::Arc;

use super::authentication::{Authenticated, Authentication, NOBODY, Requirements, Stamp, check_session_token};
use super::canonical::{CanonicalQuery, CanonicalRequest, SERVICE, canonical_path, is_graphic, parts, string_to_sign};
use super::claim::{Claim, Claimed, NO_REGION};
use super::error::SignatureError;
use super::keys::{ChunkContext, Credential, SigningKey, SigningKeys};
use super::payload::{PayloadClaim, invalid, unsigned_payload};
use super::version_two;
use orcas_http::{Headers, Query, RequestHead, hex};

/// Verifies the signature of `head`. `credential` looks an access key up; `keys` outlives requests.
pub fn authenticate(
    head: &RequestHead<'_>,
    requirements: &Requirements<'_>,
    keys: &SigningKeys,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Result<Authenticated, SignatureError> {
    let query = Query::parse(head.query).ok_or(SignatureError::InvalidUri)?;
    let hash;
    let mut claim = match Claimed::parse(&head.headers, &query, requirements.service)? {
        Claimed::Nobody => return anonymous(&head.headers, query),
        // Such a signature is valid in every region, so a server that accepts only its own refuses it.
        Claimed::VersionTwo => match requirements.version_two.filter(|_| requirements.region.is_none()) {
            Some(rules) => return version_two::authenticate(head, query, requirements, &rules, credential),
            None => return Err(SignatureError::UnsupportedMechanism),
        },
        Claimed::VersionFour(claim) => claim,
    };
    if !claim.payload_sent {
        hash = hex(&requirements.body.ok_or(SignatureError::MissingContentSha256)?);
        claim.payload = hash.as_bytes();
    }
    check_date(&claim, requirements)?;
    check_region(&claim, requirements)?;
    check_coverage(&claim, head)?;
    let valid = requirements.session_token;
    check_session_token(head.headers.get("x-amz-security-token").map(<[u8]>::trim_ascii), valid)?;
    if claim.how == Authentication::Presigned {
        check_session_token(query.get("X-Amz-Security-Token"), valid)?;
    }
    let payload = PayloadClaim::parse(claim.payload)?;
    if claim.how == Authentication::Presigned && payload.is_signed_stream() {
        return Err(invalid(claim.payload));
    }
    let key = if requirements.any_signature {
        Arc::new(SigningKey::any())
    } else {
        verify_signature(&claim, head, requirements.service, keys, credential)?
    };
    let context = || ChunkContext::new(key, &claim.timestamp, claim.region, requirements.service, claim.signature);
    Ok(Authenticated {
        payload: payload.into_mode(context),
        how: claim.how,
        access_key: claim.access_key.to_owned(),
        stamp: (claim.how == Authentication::Header)
            .then(|| Stamp { signed_at_ms: claim.timestamp.unix_ms(), signature: claim.signature }),
        query,
    })
}

/// Whether nothing in a request head says that it is signed.
pub fn claims_nobody(headers: &Headers<'_>, query: &Query) -> bool {
    matches!(Claimed::parse(headers, query, SERVICE), Ok(Claimed::Nobody))
}

/// A request without a signature may declare the hash of its body, but no signed chunks.
fn anonymous(headers: &Headers<'_>, query: Query) -> Result<Authenticated, SignatureError> {
    let payload = unsigned_payload(headers)?;
    Ok(Authenticated { access_key: String::new(), how: Authentication::Anonymous, payload, query, stamp: None })
}

fn check_date(claim: &Claim<'_>, requirements: &Requirements<'_>) -> Result<(), SignatureError> {
    let Requirements { now_unix_ms: now_ms, skew_max_ms, .. } = *requirements;
    let age_ms = now_ms.saturating_sub(claim.timestamp.unix_ms());
    match claim.expires_s {
        Some(expires_s) if expires_s > requirements.presign_max_s => Err(longer_than(requirements.presign_max_s)),
        Some(_) if age_ms < -skew_max_ms => Err(SignatureError::RequestNotYetValid),
        Some(expires_s) if age_ms > expires_s * 1000 => {
            let expired_ms = claim.timestamp.unix_ms() + expires_s * 1000;
            Err(SignatureError::RequestExpired { expired_ms, now_ms, lifetime_s: Some(expires_s) })
        }
        None if age_ms.saturating_abs() > skew_max_ms => {
            let signed_at = String::from_utf8_lossy(claim.timestamp.as_bytes()).into_owned();
            Err(SignatureError::RequestTimeTooSkewed { signed_at, now_ms, skew_max_ms })
        }
        Some(_) | None => Ok(()),
    }
}

/// The error for a presigned request that is signed for a longer time than this server accepts.
fn longer_than(max_s: i64) -> SignatureError {
    SignatureError::AuthorizationQueryParameters(
        format!("X-Amz-Expires must be at most {max_s} seconds: this server accepts no longer time").into(),
    )
}

fn check_region(claim: &Claim<'_>, requirements: &Requirements<'_>) -> Result<(), SignatureError> {
    if claim.region.is_empty() {
        return match claim.how {
            Authentication::Presigned => Err(SignatureError::InvalidQueryCredential(NO_REGION.into())),
            _ if requirements.may_lack_region => Ok(()),
            _ => Err(SignatureError::AuthorizationHeaderMalformed(NO_REGION.into())),
        };
    }
    match requirements.region {
        Some(expected) if expected != claim.region => {
            let (given, expected) = (claim.region.to_owned(), expected.to_owned());
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
    let (mut signs_host, mut is_complete, mut covered) = (false, true, 0);
    for name in parts(claim.signed, b';') {
        let values = head.headers.get_all(name).count();
        is_complete &= values != 0;
        signs_host |= name == "host";
        covered += if is_amz(name.as_bytes()) { values } else { 0 };
    }
    if !signs_host {
        return Err(SignatureError::UnsignedHeaders { names: "host".to_owned() });
    }
    // No name is signed twice, so these are all of them or fewer.
    if covered != head.headers.iter().filter(|(name, _)| is_amz(name)).count() {
        let unsigned = |name: &&[u8]| is_amz(name) && !claim.is_signed(name);
        let names = head.headers.iter().map(|(name, _)| name).filter(unsigned);
        let mut names: Vec<_> = names.map(String::from_utf8_lossy).collect();
        names.sort_unstable();
        names.dedup();
        return Err(SignatureError::UnsignedHeaders { names: names.join(", ") });
    }
    if head.method.is_empty() || !is_graphic(head.method) || !is_complete {
        return Err(SignatureError::SignatureDoesNotMatch);
    }
    Ok(())
}

fn is_amz(name: &[u8]) -> bool {
    name.starts_with(b"x-amz-")
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
        signed: claim.signed,
        payload: claim.payload,
    }
    .to_bytes()
}

fn verify_signature(
    claim: &Claim<'_>,
    head: &RequestHead<'_>,
    service: &'static str,
    keys: &SigningKeys,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Result<Arc<SigningKey>, SignatureError> {
    let strict_path = canonical_path(head.path).ok_or(SignatureError::InvalidUri)?;
    let day = claim.timestamp.day();
    let found = credential(claim.access_key);
    let (secret, generation) = found.as_ref().map_or((NOBODY, 0), |it| (&it.secret[..], it.generation));
    let cached = keys.get(claim.access_key, generation, &day, (claim.region, service));
    let is_cached = cached.is_some();
    let key = cached.unwrap_or_else(|| Arc::new(SigningKey::derive(secret, &day, claim.region, service)));
    let matches = |path: &[u8], query: &CanonicalQuery| {
        let canonical = canonical_request(claim, head, path, query);
        key.verify(&string_to_sign(&claim.timestamp, claim.region, service, &canonical), &claim.signature)
    };
    let verified = matches(&strict_path, &claim.query) || matches_as_sent(head, &strict_path, &claim.query, &matches);
    if !verified && is_cached {
        // Every refusal derives a key, also if the key was cached. Otherwise the response time would tell an access key
        // that was used recently from one that does not exist.
        black_box(SigningKey::derive(secret, &day, claim.region, service));
    }
    let Some(credential) = found else {
        return Err(SignatureError::InvalidAccessKeyId);
    };
    if !verified {
        return Err(SignatureError::SignatureDoesNotMatch);
    }
    if !is_cached {
        keys.keep(claim.access_key, credential.generation, day, (claim.region, service), Arc::clone(&key));
    }
    Ok(key)
}

/// Clients that sign a ready URL sign its bytes, not their strict encoding. Accepting both is safe, because both decode
/// to the same name.
pub(super) fn matches_as_sent(
    head: &RequestHead<'_>,
    strict_path: &[u8],
    strict_query: &CanonicalQuery,
    matches: &dyn Fn(&[u8], &CanonicalQuery) -> bool,
) -> bool {
    let sent_path = (is_graphic(head.path) && head.path != strict_path && !head.path.is_empty()).then_some(head.path);
    let sent_query = is_graphic(head.query).then(|| CanonicalQuery::as_sent(head.query));
    let sent_query = sent_query.filter(|sent| !sent.is_same(strict_query));
    // Only names whose values have no order may be repeated.
    let queries = [sent_query, strict_query.in_request_order()];
    sent_path.is_some_and(|path| matches(path, strict_query))
        || queries
            .iter()
            .flatten()
            .any(|query| matches(strict_path, query) || sent_path.is_some_and(|path| matches(path, query)))
}
