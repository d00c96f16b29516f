//! What both versions of signatures share: the requirements of the server, and the result of a verification.

use super::error::SignatureError;
use super::payload::PayloadMode;
use orcas_http::Query;

/// The server's requirements of a signature at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Requirements<'a> {
    /// The only region accepted; `None` accepts the region that the request names.
    pub region: Option<&'a str>,
    /// A request that is signed in its headers may name none, as those of MinIO's admin clients.
    pub may_lack_region: bool,
    /// Milliseconds since 1970.
    pub now_unix_ms: i64,
    /// The largest distance of the request's date from now; normally `SKEW_MAX_MS`.
    pub skew_max_ms: i64,
    /// The service that the request is for, such as `s3`.
    pub service: &'static str,
    /// The SHA-256 of the body, if it is known already: then a request that is signed in its headers may lack
    /// `x-amz-content-sha256`.
    pub body: Option<[u8; 32]>,
    /// The longest time for which a presigned request may be signed, in seconds; normally `PRESIGN_EXPIRES_S_MAX`.
    pub presign_max_s: i64,
    /// The session token that the caller has found valid: the only one that the request may present. It presents none
    /// otherwise.
    pub session_token: Option<&'a [u8]>,
    /// How presigned requests of version 2 are read; `None` refuses them.
    pub version_two: Option<VersionTwo<'a>>,
    /// Every signature is valid, whatever its access key: for tests whose clients have any keys.
    pub any_signature: bool,
}

/// The facts about the address of a request that a signature of version 2 covers.
#[derive(Clone, Copy, Debug)]
pub struct VersionTwo<'a> {
    /// The domains of virtual-hosted buckets.
    pub domains: &'a [String],
    /// The bucket that a Host header names.
    pub hosted_bucket: fn(&[u8], &[String]) -> Option<String>,
    /// Whether a query parameter is part of the resource.
    pub is_resource: fn(&[u8]) -> bool,
}

/// How a request is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    Header,
    Presigned,
    PresignedVersionTwo,
    /// The request has no signature and no access key. The caller decides whether to serve it.
    Anonymous,
}

/// A request whose signature is valid, or one without a signature.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// Empty for an anonymous request.
    pub access_key: String,
    pub how: Authentication,
    pub payload: PayloadMode,
    pub query: Query,
    /// Set for a request that is signed in its headers.
    pub stamp: Option<Stamp>,
}

/// Identifies a signed request: two requests have the same stamp only if they are the same one, signed in the same
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Milliseconds since 1970, a whole second.
    pub signed_at_ms: i64,
    pub signature: [u8; 32],
}

/// Whether a session token, as a header, an address or a form presents it, is the valid one. An empty one stands for none.
pub(super) fn check_session_token(token: Option<&[u8]>, valid: Option<&[u8]>) -> Result<(), SignatureError> {
    let is_other = token.is_some_and(|token| !token.is_empty() && valid != Some(token));
    if is_other { Err(SignatureError::InvalidToken) } else { Ok(()) }
}

/// The secret for access keys that do not exist, so that refusing them takes as long as refusing a wrong signature.
pub(super) const NOBODY: &[u8] = b"no such access key: this secret signs for nobody";
