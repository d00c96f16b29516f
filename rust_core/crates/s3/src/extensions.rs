//! What Orcas adds to the S3 API: the names of its headers, by the operations that give them a meaning.
//!
//! All begin with `x-amz-`, so that a signature has to cover them. With any other operation they are refused, never
//! ignored.

use super::errors::S3Error;
use orcas_http::Headers;

/// What a bucket has for itself instead of the store's settings.
pub const CHUNK_SIZE: &str = "x-amz-orcas-chunk-size";
pub const DURABILITY: &str = "x-amz-orcas-durability";
pub const REF_LEVEL: &str = "x-amz-orcas-ref-level";
pub const CHUNKING: &str = "x-amz-orcas-chunking";
pub const KEEP_SHA256: &str = "x-amz-orcas-keep-sha256";

/// What an instant upload says of the content that it does not send.
pub const INSTANT_SIZE: &str = "x-amz-orcas-instant-size";
pub const INSTANT_SHA256: &str = "x-amz-orcas-instant-sha256";
/// The token of a challenge, and its answer.
pub const INSTANT_CHALLENGE: &str = "x-amz-orcas-instant-challenge";
pub const INSTANT_ANSWER: &str = "x-amz-orcas-instant-answer";

pub const OF_A_BUCKET: &[&str] = &[CHUNK_SIZE, DURABILITY, REF_LEVEL, CHUNKING, KEEP_SHA256];
pub const OF_AN_INSTANT_UPLOAD: &[&str] = &[INSTANT_SIZE, INSTANT_SHA256, INSTANT_CHALLENGE, INSTANT_ANSWER];

/// The one value of a header of an extension; a repeated one is refused.
pub fn single<'a>(headers: &Headers<'a>, name: &'static str) -> Result<Option<&'a [u8]>, S3Error> {
    let mut values = headers.get_all(name);
    let value = values.next().map(<[u8]>::trim_ascii);
    match values.next() {
        Some(other) => Err(S3Error::argument("The header may stand only once", name, other)),
        None => Ok(value),
    }
}
