//! How a request body is verified, which `x-amz-content-sha256` declares.

use std::borrow::Cow;

use super::canonical::parse_hex;
use super::error::SignatureError;
use super::keys::ChunkContext;
use orcas_http::Headers;

/// How the body is verified.
#[derive(Clone, Debug)]
pub enum PayloadMode {
    /// The SHA-256 of the whole body.
    Hash([u8; 32]),
    Unsigned,
    StreamingSigned(ChunkContext),
    StreamingSignedTrailer(ChunkContext),
    StreamingUnsignedTrailer,
}

/// Compares the hash of a received body with the one that `PayloadMode::Hash` announced.
pub fn verify_payload_hash(announced: &[u8; 32], computed: &[u8; 32]) -> Result<(), SignatureError> {
    if announced == computed { Ok(()) } else { Err(SignatureError::ContentSha256Mismatch) }
}

/// How a body without signed chunks is verified.
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

/// The meaning of `x-amz-content-sha256`.
pub(super) enum PayloadClaim {
    Hash([u8; 32]),
    Unsigned,
    StreamingSigned,
    StreamingSignedTrailer,
    StreamingUnsignedTrailer,
}

impl PayloadClaim {
    pub(super) fn parse(text: &[u8]) -> Result<Self, SignatureError> {
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

    pub(super) fn is_signed_stream(&self) -> bool {
        match self {
            Self::StreamingSigned | Self::StreamingSignedTrailer => true,
            Self::Hash(_) | Self::Unsigned | Self::StreamingUnsignedTrailer => false,
        }
    }

    pub(super) fn into_mode(self, context: impl FnOnce() -> ChunkContext) -> PayloadMode {
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
    let has_upper = text.iter().fold(false, |found, byte| found | byte.is_ascii_uppercase());
    if has_upper { Cow::Owned(text.to_ascii_lowercase()) } else { Cow::Borrowed(text) }
}
