//! The header by which a replica has the time of its source.

use super::conditions::parse_http_date;
use super::extensions::{REPLICA_TIME, single};
use crate::errors::S3Error;
use crate::objects::metadata::WRITE_OFFSET;
use orcas_http::Headers;

/// The headers that only PutObject takes, and those that few others take as well.
pub const OF_A_PUT: &[&str] = &[WRITE_OFFSET, REPLICA_TIME];

/// The time that the object has, in milliseconds since the epoch, if it is a replica with the time of its source.
///
/// # Errors
/// `InvalidArgument` for what is no date of HTTP, or one before 1970.
pub fn replica_time_ms(headers: &Headers<'_>) -> Result<Option<u64>, S3Error> {
    let Some(value) = single(headers, REPLICA_TIME)? else { return Ok(None) };
    let seconds = parse_http_date(value).and_then(|seconds| u64::try_from(seconds).ok());
    let time = seconds.and_then(|seconds| seconds.checked_mul(1_000));
    time.map(Some).ok_or_else(|| S3Error::argument("The time is not a date of HTTP", REPLICA_TIME, value))
}
