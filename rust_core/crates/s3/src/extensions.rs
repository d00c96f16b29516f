//! What Orcas adds to the S3 API: the names of its headers, and which operation gives each a meaning.
//!
//! All begin with `x-amz-`, so that a signature has to cover them. With any other operation they are refused, never
//! ignored.

use super::errors::S3Error;
use super::operations::Operation;
use orcas_http::Headers;

pub const PREFIX: &str = "x-amz-orcas-";

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

const OF_A_BUCKET: [&str; 5] = [CHUNK_SIZE, DURABILITY, REF_LEVEL, CHUNKING, KEEP_SHA256];
const OF_AN_INSTANT_UPLOAD: [&str; 4] = [INSTANT_SIZE, INSTANT_SHA256, INSTANT_CHALLENGE, INSTANT_ANSWER];

/// Whether `operation` reads the header `name` of an extension.
pub fn has_meaning(operation: Operation, name: &[u8]) -> bool {
    let known: &[&str] = match operation {
        Operation::CreateBucket | Operation::PutBucketSettings => &OF_A_BUCKET,
        Operation::InstantUpload => &OF_AN_INSTANT_UPLOAD,
        _ => &[],
    };
    known.iter().any(|known| known.as_bytes() == name)
}

/// The one value of a header of an extension; a repeated one is refused.
pub fn single<'a>(headers: &Headers<'a>, name: &'static str) -> Result<Option<&'a [u8]>, S3Error> {
    let mut values = headers.get_all(name);
    let value = values.next().map(<[u8]>::trim_ascii);
    match values.next() {
        Some(other) => Err(S3Error::argument("The header may stand only once", name, other)),
        None => Ok(value),
    }
}
