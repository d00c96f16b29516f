//! What can be wrong with a signature or a signed body: one variant for each S3 code and message that a client sees.
//! The caller folds these into its error catalogue; nothing here carries a secret or an expected signature.

use std::borrow::Cow;

use thiserror::Error;

/// A refusal. `Display` is the message for the client, `code` and `status` the S3 error code and HTTP status.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SignatureError {
    /// Headers that must be signed are not: `host`, or `x-amz-*` headers that the request carries. Joined with `, `.
    #[error("There were headers present in the request which were not signed")]
    UnsignedHeaders { names: String },
    /// A presigned request came too late. Times in milliseconds since the epoch; Version 4 also has a lifetime, in
    /// seconds.
    #[error("Request has expired")]
    RequestExpired { expired_ms: i64, now_ms: i64, lifetime_s: Option<i64> },
    #[error("Request is not valid yet")]
    RequestNotYetValid,
    #[error("Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters")]
    QueryAuthIncomplete,
    #[error("Invalid date (should be seconds since epoch): {0}")]
    InvalidExpires(String),
    #[error("AWS authentication requires a valid Date or x-amz-date header")]
    MissingDate,
    #[error(
        "The request signature we calculated does not match the signature you provided. Check your key and signing method."
    )]
    SignatureDoesNotMatch,
    #[error("The AWS Access Key Id you provided does not exist in our records.")]
    InvalidAccessKeyId,
    /// `signed_at` as the signature has it. Times in milliseconds, `now_ms` since the epoch.
    #[error("The difference between the request time and the current time is too large.")]
    RequestTimeTooSkewed { signed_at: String, now_ms: i64, skew_max_ms: i64 },
    #[error("The authorization header is malformed; {0}")]
    AuthorizationHeaderMalformed(Cow<'static, str>),
    #[error("The authorization header is malformed; the region '{given}' is wrong; expecting '{expected}'")]
    WrongRegionInHeader { given: String, expected: String },
    #[error("{0}")]
    AuthorizationQueryParameters(Cow<'static, str>),
    #[error("Error parsing the X-Amz-Credential parameter; {0}")]
    InvalidQueryCredential(Cow<'static, str>),
    #[error("Error parsing the X-Amz-Credential parameter; the region '{given}' is wrong; expecting '{expected}'")]
    WrongRegionInQuery { given: String, expected: String },
    #[error("{0}")]
    InvalidArgument(&'static str),
    /// The value of the Authorization header is none.
    #[error("{message}")]
    InvalidAuthorization { message: &'static str, value: String },
    #[error("The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")]
    UnsupportedMechanism,
    #[error("Missing required header for this request: x-amz-content-sha256")]
    MissingContentSha256,
    #[error(
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 value."
    )]
    InvalidContentSha256 { value: String },
    /// Chunks cannot be signed where the request is not.
    #[error(
        "Anonymous requests don't support this x-amz-content-sha256 value. Please use UNSIGNED-PAYLOAD or STREAMING-UNSIGNED-PAYLOAD-TRAILER."
    )]
    AnonymousStream,
    #[error("The provided token is malformed or otherwise invalid.")]
    InvalidToken,
    #[error("The provided token has expired.")]
    ExpiredToken,
    #[error("AWS4-ECDSA-P256-SHA256 signatures are not implemented")]
    AsymmetricNotImplemented,
    #[error("Couldn't parse the specified URI.")]
    InvalidUri,
    #[error("The provided 'x-amz-content-sha256' header does not match what was computed.")]
    ContentSha256Mismatch { announced: String, computed: String },
    #[error("You must provide the x-amz-decoded-content-length HTTP header.")]
    MissingDecodedLength,
    #[error("You did not provide the number of bytes specified by the x-amz-decoded-content-length HTTP header")]
    IncompleteBody,
    /// An aws-chunked body ends early, or its framing is broken: S3 takes that for the same.
    #[error("The request body terminated unexpectedly")]
    MalformedChunk,
    #[error("The request contained trailing data that was not well-formed or did not conform to our published schema.")]
    MalformedTrailer,
    /// As on S3, `chunk` is the one that follows the small one, counted from 1. `size` in bytes.
    #[error("Only the last chunk is allowed to have a size less than 8192 bytes")]
    InvalidChunkSize { chunk: u64, size: u64 },
}

impl SignatureError {
    /// The S3 error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnsignedHeaders { .. }
            | Self::RequestExpired { .. }
            | Self::RequestNotYetValid
            | Self::QueryAuthIncomplete
            | Self::InvalidExpires(_)
            | Self::MissingDate => "AccessDenied",
            Self::SignatureDoesNotMatch => "SignatureDoesNotMatch",
            Self::InvalidAccessKeyId => "InvalidAccessKeyId",
            Self::RequestTimeTooSkewed { .. } => "RequestTimeTooSkewed",
            Self::AuthorizationHeaderMalformed(_) | Self::WrongRegionInHeader { .. } => "AuthorizationHeaderMalformed",
            Self::AuthorizationQueryParameters(_)
            | Self::InvalidQueryCredential(_)
            | Self::WrongRegionInQuery { .. } => "AuthorizationQueryParametersError",
            Self::InvalidArgument(_) | Self::InvalidAuthorization { .. } | Self::InvalidContentSha256 { .. } => {
                "InvalidArgument"
            }
            Self::UnsupportedMechanism | Self::MissingContentSha256 | Self::AnonymousStream => "InvalidRequest",
            Self::InvalidToken => "InvalidToken",
            Self::ExpiredToken => "ExpiredToken",
            Self::AsymmetricNotImplemented => "NotImplemented",
            Self::InvalidUri => "InvalidURI",
            Self::ContentSha256Mismatch { .. } => "XAmzContentSHA256Mismatch",
            Self::MissingDecodedLength => "MissingContentLength",
            Self::IncompleteBody | Self::MalformedChunk => "IncompleteBody",
            Self::MalformedTrailer => "MalformedTrailerError",
            Self::InvalidChunkSize { .. } => "InvalidChunkSizeError",
        }
    }

    /// The HTTP status that goes with the code.
    pub fn status(&self) -> u16 {
        match self {
            Self::UnsignedHeaders { .. }
            | Self::RequestExpired { .. }
            | Self::RequestNotYetValid
            | Self::QueryAuthIncomplete
            | Self::InvalidExpires(_)
            | Self::MissingDate
            | Self::SignatureDoesNotMatch
            | Self::InvalidAccessKeyId
            | Self::RequestTimeTooSkewed { .. } => 403,
            Self::AuthorizationHeaderMalformed(_)
            | Self::WrongRegionInHeader { .. }
            | Self::AuthorizationQueryParameters(_)
            | Self::InvalidQueryCredential(_)
            | Self::WrongRegionInQuery { .. }
            | Self::InvalidArgument(_)
            | Self::InvalidAuthorization { .. }
            | Self::UnsupportedMechanism
            | Self::MissingContentSha256
            | Self::InvalidContentSha256 { .. }
            | Self::AnonymousStream
            | Self::InvalidToken
            | Self::ExpiredToken
            | Self::InvalidUri
            | Self::ContentSha256Mismatch { .. }
            | Self::IncompleteBody
            | Self::MalformedChunk
            | Self::MalformedTrailer
            | Self::InvalidChunkSize { .. } => 400,
            Self::MissingDecodedLength => 411,
            Self::AsymmetricNotImplemented => 501,
        }
    }
}
