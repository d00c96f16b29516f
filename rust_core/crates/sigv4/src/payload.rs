//! How a request body is verified, which `x-amz-content-sha256` declares.

use std::borrow::Cow;

use super::canonical::parse_hex;
use super::error::SignatureError;
use super::keys::ChunkContext;
use orcas_http::{Headers, hex};

/// How the body is verified.
#[derive(Clone, Debug)]
pub enum PayloadMode {
    /// The SHA-256 of the whole body.
    Hash([u8; 32]),
    /// Of a request without a signature: what it sends in place of a hash, which no body has.
    Mistaken(Box<[u8]>),
    Unsigned,
    StreamingSigned(ChunkContext),
    StreamingSignedTrailer(ChunkContext),
    StreamingUnsignedTrailer,
}

/// The hash of a body that was announced.
#[derive(Clone, Debug)]
pub enum AnnouncedHash {
    Sha256([u8; 32]),
    /// As of [`PayloadMode::Mistaken`].
    Mistaken(Box<[u8]>),
}

impl AnnouncedHash {
    pub fn of(payload: &PayloadMode) -> Option<Self> {
        match payload {
            PayloadMode::Hash(hash) => Some(Self::Sha256(*hash)),
            PayloadMode::Mistaken(text) => Some(Self::Mistaken(text.clone())),
            PayloadMode::Unsigned
            | PayloadMode::StreamingSigned(_)
            | PayloadMode::StreamingSignedTrailer(_)
            | PayloadMode::StreamingUnsignedTrailer => None,
        }
    }

    /// Compares it with the hash of the received body.
    pub fn verify(&self, computed: &[u8; 32]) -> Result<(), SignatureError> {
        let announced = match self {
            Self::Sha256(hash) if hash == computed => return Ok(()),
            Self::Sha256(hash) => hex(hash),
            Self::Mistaken(text) => String::from_utf8_lossy(text).into_owned(),
        };
        Err(SignatureError::ContentSha256Mismatch { announced, computed: hex(computed) })
    }
}

/// How the body of a request without a signature is verified. As on S3, what is no hash is compared like one.
pub(super) fn unsigned_payload(headers: &Headers<'_>) -> Result<PayloadMode, SignatureError> {
    let payload = match headers.get("x-amz-content-sha256") {
        Some(text) => match PayloadClaim::parse(text.trim_ascii()) {
            Err(SignatureError::InvalidContentSha256 { .. }) => {
                return Ok(PayloadMode::Mistaken(text.trim_ascii().into()));
            }
            parsed => parsed?,
        },
        None => PayloadClaim::Unsigned,
    };
    match payload {
        PayloadClaim::Hash(hash) => Ok(PayloadMode::Hash(hash)),
        PayloadClaim::Unsigned => Ok(PayloadMode::Unsigned),
        PayloadClaim::StreamingUnsignedTrailer => Ok(PayloadMode::StreamingUnsignedTrailer),
        PayloadClaim::StreamingSigned | PayloadClaim::StreamingSignedTrailer => Err(SignatureError::AnonymousStream),
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
            _ => parse_hex(&hex_lower(text)).map(Self::Hash).ok_or_else(|| invalid(text)),
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

/// The error for a value of `x-amz-content-sha256` that has no meaning.
pub(super) fn invalid(value: &[u8]) -> SignatureError {
    SignatureError::InvalidContentSha256 { value: String::from_utf8_lossy(value).into_owned() }
}

/// A payload hash may be written in either case; it is signed as written.
fn hex_lower(text: &[u8]) -> Cow<'_, [u8]> {
    let has_upper = text.iter().fold(false, |found, byte| found | byte.is_ascii_uppercase());
    if has_upper { Cow::Owned(text.to_ascii_lowercase()) } else { Cow::Borrowed(text) }
}
