//! Header formatting as one writes it first: with `format!`, `to_string` and the httpdate crate, one `String` a value.
//!
//! Only to be compared with: the benchmarks measure against it, and tests require that the product says the same.

use std::time::{Duration, UNIX_EPOCH};

pub fn etag(md5: [u8; 16], parts: u16) -> String {
    let digits = u128::from_be_bytes(md5);
    if parts == 0 { format!("\"{digits:032x}\"") } else { format!("\"{digits:032x}-{parts}\"") }
}

pub fn content_length(length: u64) -> String {
    length.to_string()
}

/// Times before 1970 and after the year 9999, which httpdate does not take, are clamped.
pub fn last_modified(modified_ms: i64) -> String {
    let seconds = (modified_ms.max(0) as u64 / 1000).min(253_402_300_799);
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}

pub fn content_range(first: u64, last: u64, size: u64) -> String {
    format!("bytes {first}-{last}/{size}")
}

/// The headers of an object, in the order of the product.
pub fn object_headers(
    md5: [u8; 16],
    parts: u16,
    length: u64,
    modified_ms: i64,
    content_type: &str,
) -> Vec<(String, String)> {
    vec![
        ("etag".to_string(), etag(md5, parts)),
        ("last-modified".to_string(), last_modified(modified_ms)),
        ("accept-ranges".to_string(), "bytes".to_string()),
        ("content-length".to_string(), content_length(length)),
        ("content-type".to_string(), content_type.to_string()),
    ]
}
