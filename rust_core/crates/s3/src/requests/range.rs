//! Which bytes of an object a request asks for: Range, the copy source range, and part numbers.
//!
//! A Range that S3 does not honour (malformed, several ranges, another unit) means the whole object; a copy source
//! range is strict. Positions are bytes, last included.

use crate::errors::{ErrorCode, S3Error};
use orcas_http::Query;

/// The highest part number of an upload.
pub const PART_NUMBER_MAX: u16 = 10_000;

/// The bytes that a Range means in an object of a known size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// No range applies: 200 with everything.
    Whole,
    /// 206 with bytes `first` to `last`.
    Part { first: u64, last: u64 },
    /// 416; nothing of the object lies in the range.
    Unsatisfiable,
}

/// Reads a Range header for an object of `size` bytes.
pub fn span(header: Option<&[u8]>, size: u64) -> Span {
    let Some((start, end)) = header.and_then(single) else { return Span::Whole };
    match (start, end) {
        (Some(first), Some(last)) if first > last => Span::Whole,
        (Some(first), _) if first >= size => Span::Unsatisfiable,
        (Some(first), last) => Span::Part { first, last: last.unwrap_or(u64::MAX).min(size - 1) },
        (None, Some(0)) => Span::Unsatisfiable,
        // The last bytes of nothing are nothing, as on S3.
        (None, Some(_)) if size == 0 => Span::Whole,
        (None, Some(count)) => Span::Part { first: size.saturating_sub(count), last: size - 1 },
        (None, None) => Span::Whole,
    }
}

/// The two sides of one `bytes=a-b`. `None` when malformed, of another unit, or more than one range.
fn single(header: &[u8]) -> Option<(Option<u64>, Option<u64>)> {
    let header = header.trim_ascii();
    let (unit, ranges) = header.split_at(memchr::memchr(b'=', header)?);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let range = &ranges[1..];
    let dash = memchr::memchr(b'-', range)?;
    let side = |digits: &[u8]| if digits.is_empty() { Some(None) } else { decimal(digits).map(Some) };
    let (start, end) = (side(&range[..dash])?, side(&range[dash + 1..])?);
    (start.is_some() || end.is_some()).then_some((start, end))
}

/// Decimal digits only; what exceeds 64 bits counts as the largest value, which lies behind every object.
fn decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, &digit| {
        digit.is_ascii_digit().then(|| value.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

/// Reads `x-amz-copy-source-range`: only `bytes=first-last`, both inside the source of `size` bytes.
pub fn copy_source_range(value: &[u8], size: u64) -> Result<(u64, u64), S3Error> {
    let refuse = || {
        let message = "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last \
                       are the zero-based offsets of the first and last bytes to copy";
        S3Error::argument(message, "x-amz-copy-source-range", value)
    };
    let ends = value.strip_prefix(b"bytes=").and_then(|range| {
        let dash = memchr::memchr(b'-', range)?;
        let side = |digits: &[u8]| if digits.is_empty() { None } else { decimal(digits) };
        Some((side(&range[..dash])?, side(&range[dash + 1..])?))
    });
    let (first, last) = ends.filter(|(first, last)| first <= last).ok_or_else(refuse)?;
    if first >= size {
        let message = "The specified copy range is invalid for the source object size";
        return Err(S3Error::with(ErrorCode::InvalidRequest, message));
    }
    if last >= size {
        let message = format!("Range specified is not valid for source object of size: {size}");
        return Err(S3Error::argument(message, "x-amz-copy-source-range", value));
    }
    Ok((first, last))
}

/// The error for part `number` of an object with `count` parts.
pub fn no_such_part(number: u16, count: usize) -> S3Error {
    S3Error::new(ErrorCode::InvalidPartNumber)
        .field("ActualPartCount", count.to_string())
        .field("PartNumberRequested", number.to_string())
}

/// Reads the query's `partNumber`, 1 to 10,000.
pub fn part_number(query: &Query) -> Result<Option<u16>, S3Error> {
    let Some(value) = query.get("partNumber") else { return Ok(None) };
    match decimal(value).and_then(|number| u16::try_from(number).ok()) {
        Some(number @ 1..=PART_NUMBER_MAX) if !value.is_empty() => Ok(Some(number)),
        _ => {
            let message = "Part number must be an integer between 1 and 10000, inclusive";
            Err(S3Error::argument(message, "partNumber", value))
        }
    }
}

/// Refuses a read that asks for a range and a part at once.
pub fn check_range_or_part(range: Option<&[u8]>, part: Option<u16>) -> Result<(), S3Error> {
    if range.is_some() && part.is_some() {
        let message = "Cannot specify both Range header and partNumber query parameter";
        return Err(S3Error::with(ErrorCode::InvalidRequest, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_and_their_edges() {
        let at = |range: &str, size| span(Some(range.as_bytes()), size);
        let part = |first, last| Span::Part { first, last };
        assert_eq!(span(None, 10), Span::Whole);
        assert_eq!(at("bytes=0-0", 10), part(0, 0));
        assert_eq!(at("bytes=2-", 10), part(2, 9));
        assert_eq!(at("bytes=-3", 10), part(7, 9));
        assert_eq!(at("bytes=-30", 10), part(0, 9));
        assert_eq!(at("bytes=5-99999999999999999999999", 10), part(5, 9));
        assert_eq!(at(" Bytes=1-2 ", 10), part(1, 2));
        assert_eq!(at("bytes=00-01", 10), part(0, 1));
        for unsatisfiable in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(at(unsatisfiable, 10), Span::Unsatisfiable, "{unsatisfiable}");
        }
        assert_eq!(at("bytes=0-", 0), Span::Unsatisfiable);
        assert_eq!(at("bytes=-0", 0), Span::Unsatisfiable);
        assert_eq!(at("bytes=-1", 0), Span::Whole);
        for whole in [
            "bytes=1-2,4-5",
            "bytes=3-2",
            "bytes=-",
            "bytes=",
            "bytes",
            "items=1-2",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1 -2",
            "bytes= -1",
            "bytes =1-2",
            "bytes=1--2",
            "",
        ] {
            assert_eq!(at(whole, 10), Span::Whole, "{whole}");
        }
    }

    #[test]
    fn copy_source_ranges_are_strict() {
        assert_eq!(copy_source_range(b"bytes=0-9", 10), Ok((0, 9)));
        for bad in ["bytes=0-", "bytes=-5", "0-9", "bytes=5-4", "bytes=0-1,3-4", "Bytes=0-1", "bytes= 0-1", ""] {
            assert_eq!(copy_source_range(bad.as_bytes(), 10).unwrap_err().code, ErrorCode::InvalidArgument, "{bad}");
        }
        assert_eq!(copy_source_range(b"bytes=0-10", 10).unwrap_err().code, ErrorCode::InvalidArgument);
        assert_eq!(copy_source_range(b"bytes=10-10", 10).unwrap_err().code, ErrorCode::InvalidRequest);
        assert_eq!(copy_source_range(b"bytes=0-0", 0).unwrap_err().code, ErrorCode::InvalidRequest);
    }

    #[test]
    fn part_numbers() {
        let read = |query: &str| part_number(&Query::parse(query.as_bytes()).unwrap()).map_err(|error| error.code);
        assert_eq!(read("a=b"), Ok(None));
        assert_eq!(read("partNumber=10000"), Ok(Some(10_000)));
        for bad in ["0", "10001", "-1", "", "1x", "%2B1", "65537"] {
            assert_eq!(read(&format!("partNumber={bad}")), Err(ErrorCode::InvalidArgument), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_span_lies_inside_the_object(range in "bytes=[0-9]{0,3}-[0-9]{0,3}|\\PC{0,20}", size in 0u64..500) {
            if let Span::Part { first, last } = span(Some(range.as_bytes()), size) {
                prop_assert!(first <= last && last < size);
            }
        }
    }
}
