//! What both versions of signatures have in common: what the server demands of one, and what is known once it holds.

use super::payload::PayloadMode;

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

/// What of a request the caller knows and the signature covers.
#[derive(Clone, Copy, Debug)]
pub struct VersionTwo<'a> {
    /// The names under which buckets are hosts.
    pub domains: &'a [String],
    /// The bucket that a Host header names.
    pub hosted_bucket: fn(&[u8], &[String]) -> Option<String>,
    /// Whether a query parameter is part of the resource.
    pub is_resource: fn(&[u8]) -> bool,
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

/// Signs for access keys that do not exist, so that their refusal costs the work of a wrong signature.
pub(super) const NOBODY: &[u8] = b"no such access key: this secret signs for nobody";
