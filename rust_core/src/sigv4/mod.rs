//! AWS Signature Version 4 as S3 reads it: header and presigned authentication, the `aws-chunked` body decoder, and
//! the signer that clients of this crate use. Pure: no I/O, no clock, no knowledge of operations or access rules.
//!
//! Invariants: every `x-amz-*` header and `host` is covered by the signature; a signed name means the same object
//! however it was spelled; an expected signature never leaves this module. Rules are those of
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html>.

mod canonical;
mod chunked;
mod claim;
mod date;
mod diagnosis;
mod error;
mod keys;
mod sign;
#[cfg(test)]
mod tests;
mod verify;

pub use chunked::{ChunkMode, ChunkedDecoder, Trailers, decoded_length};
pub use diagnosis::{Diagnosis, Explanation, Place, claimed_access_key, diagnose, explain};
pub use error::SignatureError;
pub use keys::{ChunkContext, Credential, SigningKeys};
pub use sign::{ChunkSigner, Signer, sha256_hex};
pub use verify::{Authentication, Authorized, PayloadMode, Policy, authorize, verify_payload_hash};

/// How far a request's date may lie from the server's clock: the window in which a captured request can be replayed.
pub const SKEW_MAX_MS: i64 = 15 * 60 * 1000;

/// The longest life of a presigned URL, in seconds (seven days).
pub const PRESIGN_EXPIRES_S_MAX: i64 = 604_800;
