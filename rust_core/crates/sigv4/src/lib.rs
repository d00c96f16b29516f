//! AWS Signature Version 4 as S3 verifies it: in headers, in presigned URLs, in forms, and in `aws-chunked` bodies; the
//! signer for clients; and Version 2 of presigned URLs and forms. Pure: no I/O, no clock, no knowledge of operations or access rules.
//!
//! Invariants: the signature covers every `x-amz-*` header, and `host` or the bucket that it names; a signed name means
//! the same object however it was spelled; an expected signature never leaves this crate. The rules are those of
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html>.
#![forbid(unsafe_code)]

mod authentication;
mod canonical;
mod chunked;
mod claim;
mod date;
mod diagnosis;
mod error;
mod form;
mod keys;
mod payload;
mod sign;
#[cfg(test)]
mod tests;
mod verify;
mod version_two;

pub use authentication::{Authenticated, Authentication, Requirements, Stamp, VersionTwo};
pub use canonical::SERVICE;
pub use chunked::{ChunkMode, ChunkedDecoder, Trailers, decoded_length};
pub use diagnosis::{Diagnosis, Explanation, ServerNames, claimed_signature, diagnose, explain};
pub use error::SignatureError;
pub use form::{AuthenticatedForm, FormError, SignedForm, authenticate_form};
pub use keys::{ChunkContext, Credential, SigningKeys};
pub use payload::{AnnouncedHash, PayloadMode};
pub use sign::{ChunkSigner, Signer, sha256_hex};
pub use verify::{authenticate, claims_nobody};

/// How far a request's date may lie from the server's clock: the window in which a captured request can be replayed.
pub const SKEW_MAX_MS: i64 = 15 * 60 * 1000;

/// The longest life of a presigned URL, in seconds (seven days).
pub const PRESIGN_EXPIRES_S_MAX: i64 = 604_800;
