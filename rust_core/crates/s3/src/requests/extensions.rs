//! The headers of the extensions of Orcas, by the operations that implement them.
//!
//! All begin with `x-amz-`, so that a signature has to cover them. Every other operation refuses them.

use crate::errors::S3Error;
use orcas_http::Headers;

/// Settings of a bucket, which replace those of the store.
pub const CHUNK_SIZE: &str = "x-amz-orcas-chunk-size";
pub const DURABILITY: &str = "x-amz-orcas-durability";
pub const REF_LEVEL: &str = "x-amz-orcas-ref-level";
pub const CHUNKING: &str = "x-amz-orcas-chunking";
pub const KEEP_SHA256: &str = "x-amz-orcas-keep-sha256";

/// The size and hash of the content of an instant upload.
pub const INSTANT_SIZE: &str = "x-amz-orcas-instant-size";
pub const INSTANT_SHA256: &str = "x-amz-orcas-instant-sha256";
/// The token of a challenge, and its answer.
pub const INSTANT_CHALLENGE: &str = "x-amz-orcas-instant-challenge";
pub const INSTANT_ANSWER: &str = "x-amz-orcas-instant-answer";

/// When the object was stored that a replica is copied from, as its `Last-Modified` says.
pub const REPLICA_TIME: &str = "x-amz-orcas-replica-time";

pub const OF_A_BUCKET: &[&str] = &[CHUNK_SIZE, DURABILITY, REF_LEVEL, CHUNKING, KEEP_SHA256];
pub const OF_A_COMPLETION: &[&str] = &[REPLICA_TIME];
pub const OF_AN_INSTANT_UPLOAD: &[&str] =
    &[INSTANT_SIZE, INSTANT_SHA256, INSTANT_CHALLENGE, INSTANT_ANSWER, REPLICA_TIME];

/// The one value of a header of an extension; a repeated one is refused.
pub fn single<'a>(headers: &Headers<'a>, name: &'static str) -> Result<Option<&'a [u8]>, S3Error> {
    let mut values = headers.get_all(name);
    let value = values.next().map(<[u8]>::trim_ascii);
    match values.next() {
        Some(other) => Err(S3Error::argument("The header may occur only once", name, other)),
        None => Ok(value),
    }
}
