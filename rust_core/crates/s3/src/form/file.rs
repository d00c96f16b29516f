//! The content of a form's file: what stands before the next delimiter, found as it arrives.
//!
//! The delimiter begins with the only carriage return that it has, so a beginning of it that turns out to be content
//! cannot hide another one. What is held back equals the delimiter and needs no memory.

use memchr::memmem::Finder;

use super::parameters::Boundary;
use super::policy::SizeRange;
use super::{ErrorCode, FORM_DATA_LEN_MAX, S3Error, malformed};

/// Limits of the rest of a form once its file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// Bytes of the file.
    pub size: SizeRange,
    /// Bytes of everything after the file at most, the delimiter included.
    pub after_max: u64,
}

/// Finds the end of the file.
pub struct FileDecoder {
    finder: Finder<'static>,
    /// Bytes of the delimiter that the body may just have begun with; all of them once the file has ended.
    matched: usize,
    counts: Counts,
}

/// The bytes that have arrived, and those that may.
struct Counts {
    limits: FileLimits,
    /// Bytes of the file.
    size: u64,
    /// Bytes since the file, the delimiter included.
    after: u64,
    /// The first two bytes behind the delimiter, which say whether it is one.
    behind: [u8; 2],
}

impl FileDecoder {
    pub fn new(boundary: &Boundary, limits: FileLimits) -> Self {
        let finder = Finder::new(boundary.delimiter()).into_owned();
        Self { finder, matched: 0, counts: Counts { limits, size: 0, after: 0, behind: [0; 2] } }
    }

    /// Takes the next bytes of the body and passes those of the file on, in order.
    ///
    /// Errors: `EntityTooLarge`; `MaxPostPreDataLengthExceededError` for too much after the file.
    pub fn push(&mut self, piece: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), S3Error> {
        let Self { finder, matched, counts } = self;
        let delimiter = finder.needle();
        let mut rest = piece;
        if 0 < *matched && *matched < delimiter.len() {
            let expected = &delimiter[*matched..];
            let same = rest.iter().zip(expected).take_while(|(a, b)| a == b).count();
            if same == expected.len() || same == rest.len() {
                *matched += same;
                rest = &rest[same..];
            } else {
                counts.pass(&delimiter[..*matched], sink)?;
                *matched = 0;
            }
        }
        if *matched == 0 {
            let (content, begun) = match finder.find(rest) {
                Some(at) => (at, delimiter.len()),
                None => beginning(delimiter, rest),
            };
            counts.pass(&rest[..content], sink)?;
            *matched = begun;
            rest = &rest[content + begun..];
        }
        if *matched == delimiter.len() { counts.skip(rest, delimiter.len() as u64) } else { Ok(()) }
    }

    /// Ends the body. Returns the bytes of the file.
    ///
    /// Errors: `MalformedPOSTRequest` if no delimiter has ended the file; `EntityTooSmall`.
    pub fn finish(self) -> Result<u64, S3Error> {
        let Counts { limits, size, behind, .. } = self.counts;
        if self.matched < self.finder.needle().len() || !matches!(&behind, b"--" | b"\r\n") {
            return Err(malformed());
        }
        if size < limits.size.min {
            return Err(S3Error::new(ErrorCode::EntityTooSmall)
                .field("ProposedSize", size.to_string())
                .field("MinSizeAllowed", limits.size.min.to_string()));
        }
        Ok(size)
    }
}

impl Counts {
    fn pass(&mut self, content: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), S3Error> {
        self.size += content.len() as u64;
        let SizeRange { max, .. } = self.limits.size;
        if self.size > max {
            return Err(S3Error::new(ErrorCode::EntityTooLarge)
                .field("ProposedSize", self.size.to_string())
                .field("MaxSizeAllowed", max.to_string()));
        }
        if !content.is_empty() {
            sink(content);
        }
        Ok(())
    }

    /// Passes over what follows the delimiter, which has `length` bytes.
    fn skip(&mut self, rest: &[u8], length: u64) -> Result<(), S3Error> {
        self.after = self.after.max(length);
        let begun = (self.after - length).min(2) as usize;
        for (place, byte) in self.behind[begun..].iter_mut().zip(rest) {
            *place = *byte;
        }
        self.after += rest.len() as u64;
        if self.after > self.limits.after_max { Err(too_much_after_the_file()) } else { Ok(()) }
    }
}

/// Splits `bytes`, which hold no delimiter, before a beginning of one at their end. Returns the lengths of both parts.
fn beginning(delimiter: &[u8], bytes: &[u8]) -> (usize, usize) {
    let last = bytes.len().saturating_sub(delimiter.len() - 1);
    match memchr::memrchr(b'\r', &bytes[last..]) {
        Some(at) if delimiter.starts_with(&bytes[last + at..]) => (last + at, bytes.len() - last - at),
        _ => (bytes.len(), 0),
    }
}

/// Fields after the file are passed over, but count like those before it.
fn too_much_after_the_file() -> S3Error {
    let message = format!("All that a form holds besides its file may have at most {FORM_DATA_LEN_MAX} bytes.");
    S3Error::with(ErrorCode::MaxPostPreDataLengthExceededError, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: FileLimits = FileLimits { size: SizeRange::ANY, after_max: 1000 };

    fn decode(limits: FileLimits, pieces: &[&[u8]]) -> Result<Vec<u8>, ErrorCode> {
        let boundary = Boundary::parse(b"m/f; boundary=xy").unwrap();
        let mut decoder = FileDecoder::new(&boundary, limits);
        let mut out = Vec::new();
        for piece in pieces {
            decoder.push(piece, &mut |content| out.extend_from_slice(content)).map_err(|error| error.code)?;
        }
        let size = decoder.finish().map_err(|error| error.code)?;
        assert_eq!(size, out.len() as u64);
        Ok(out)
    }

    #[test]
    fn a_file_ends_at_its_delimiter() {
        for (body, content) in [
            ("abc\r\n--xy--\r\n", Some("abc")),
            ("abc\r\n--xy--", Some("abc")),
            ("\r\n--xy--\r\n", Some("")),
            ("abc\r\n--xy\r\nContent-Disposition: form-data; name=\"submit\"\r\n\r\nx\r\n--xy--\r\n", Some("abc")),
            ("a\r\n--x\r\n\r\r\n-\r\n--xy--", Some("a\r\n--x\r\n\r\r\n-")),
            ("--xy--\r\n--xy--", Some("--xy--")),
            ("abc\r\n--xyz\r\n--xy--\r\n", None),
            ("abc\r\n--xy-", None),
            ("abc\r\n--xy", None),
            ("abc\r\n--x", None),
            ("abc", None),
            ("", None),
        ] {
            let expected = content.map(|text| text.as_bytes().to_vec()).ok_or(ErrorCode::MalformedPOSTRequest);
            assert_eq!(decode(ANY, &[body.as_bytes()]), expected, "{body:?}");
            let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
            assert_eq!(decode(ANY, &bytes), expected, "{body:?} byte by byte");
        }
    }

    #[test]
    fn sizes_have_bounds() {
        let limits = FileLimits { size: SizeRange { min: 2, max: 4 }, after_max: 12 };
        assert_eq!(decode(limits, &[b"a\r\n--xy--"]), Err(ErrorCode::EntityTooSmall));
        assert_eq!(decode(limits, &[b"ab\r\n--xy--"]), Ok(b"ab".to_vec()));
        assert_eq!(decode(limits, &[b"abcd\r\n--xy--\r\n"]), Ok(b"abcd".to_vec()));
        assert_eq!(decode(limits, &[b"abcde\r\n--xy--"]), Err(ErrorCode::EntityTooLarge));
        assert_eq!(decode(limits, &[b"abc\r\n--xy--\r\n...."]), Err(ErrorCode::MaxPostPreDataLengthExceededError));
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(content in "[a\r\n\\-xy]{0,40}", cuts in proptest::collection::vec(0usize..50, 0..6)) {
            let body = format!("{content}\r\n--xy--\r\n");
            let whole = decode(ANY, &[body.as_bytes()]);
            let mut pieces = Vec::new();
            let mut rest = body.as_bytes();
            for cut in cuts {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = more;
            }
            pieces.push(rest);
            prop_assert_eq!(decode(ANY, &pieces), whole.clone());
            if !content.contains("\r\n--xy") {
                prop_assert_eq!(whole, Ok(content.into_bytes()));
            }
        }
    }
}
