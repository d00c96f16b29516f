//! The file of a form on its way into the store.
//!
//! Where the file ends is known only when it has ended, but no more than 20 KiB may follow it. So all but the last part
//! of the body surely belongs to the file and is passed on as it arrives. The rest waits in memory for the end.

use bytes::Bytes;

use super::problem::Problem;
use orcas_s3::ErrorCode;
use orcas_s3::form::{Boundary, FileDecoder, FileLimits};

/// The frame of the file in the body of a form: its boundary and its limits.
#[derive(Clone, Debug)]
pub struct FileFrame {
    pub boundary: Boundary,
    pub limits: FileLimits,
    /// Bytes of the body from the first byte of the file on.
    pub length: u64,
}

impl FileFrame {
    fn decoder(&self) -> FileDecoder {
        FileDecoder::new(&self.boundary, self.limits)
    }

    /// Bytes that the file has at least, unless the form is refused.
    pub fn sure(&self) -> u64 {
        self.length.saturating_sub(self.limits.after_max)
    }

    /// The file in a body that is all in memory.
    pub fn content(&self, body: &Bytes) -> Result<Bytes, Problem> {
        let mut decoder = self.decoder();
        let mut length = 0;
        decoder.push(body, &mut |content| length += content.len())?;
        decoder.finish()?;
        Ok(body.slice(..length))
    }

    /// Starts to take in a body piece by piece.
    pub fn open(&self) -> FileBody {
        FileBody { decoder: self.decoder(), sure: self.sure(), rest_max: self.limits.after_max, rest: Vec::new() }
    }
}

/// A file that arrives.
pub struct FileBody {
    decoder: FileDecoder,
    /// Bytes still to be passed on.
    sure: u64,
    /// The bytes after those.
    rest: Vec<u8>,
    rest_max: u64,
}

impl FileBody {
    /// Takes the next bytes of the body, and passes those on that surely belong to the file.
    pub fn push(&mut self, piece: &Bytes, write: &mut dyn FnMut(&Bytes) -> Result<(), Problem>) -> Result<(), Problem> {
        let Self { decoder, sure, rest, rest_max } = self;
        let mut written = Ok(());
        decoder.push(piece, &mut |content| {
            let (now, later) = content.split_at(content.len().min(usize::try_from(*sure).unwrap_or(usize::MAX)));
            *sure -= now.len() as u64;
            if written.is_ok() && !now.is_empty() {
                written = write(&part(piece, now));
            }
            // More than was announced is refused below.
            rest.extend_from_slice(&later[..later.len().min(*rest_max as usize + 1 - rest.len())]);
        })?;
        if rest.len() as u64 > *rest_max { Err(ErrorCode::IncompleteBody.into()) } else { written }
    }

    /// Ends the body. Returns the bytes of the whole file, and those of it that were not passed on.
    pub fn finish(self) -> Result<(u64, Bytes), Problem> {
        let size = self.decoder.finish()?;
        if self.sure > 0 {
            return Err(ErrorCode::IncompleteBody.into());
        }
        Ok((size, self.rest.into()))
    }
}

/// `content` as a part of `piece`; copied if it is none, but the beginning of a delimiter that was held back.
fn part(piece: &Bytes, content: &[u8]) -> Bytes {
    let (whole, range) = (piece.as_ptr_range(), content.as_ptr_range());
    if whole.start <= range.start && range.end <= whole.end {
        piece.slice_ref(content)
    } else {
        Bytes::copy_from_slice(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_s3::form::SizeRange;

    const AFTER_MAX: u64 = 30;

    fn frame(body: &[u8]) -> FileFrame {
        FileFrame {
            boundary: Boundary::parse(b"m/f; boundary=xy").unwrap(),
            limits: FileLimits { size: SizeRange::ANY, after_max: AFTER_MAX },
            length: body.len() as u64,
        }
    }

    /// The bytes that are passed on, and the rest at the end.
    fn take(frame: &FileFrame, body: &[u8], piece: usize) -> Result<(Vec<u8>, Bytes), ErrorCode> {
        let mut file = frame.open();
        let mut passed = Vec::new();
        for piece in body.chunks(piece) {
            let pushed = file.push(&Bytes::copy_from_slice(piece), &mut |part| {
                passed.extend_from_slice(part);
                Ok(())
            });
            pushed.map_err(|problem| problem.error.code)?;
        }
        let (size, rest) = file.finish().map_err(|problem| problem.error.code)?;
        assert_eq!(size, (passed.len() + rest.len()) as u64);
        Ok((passed, rest))
    }

    #[test]
    fn all_that_is_sure_is_passed_on_and_the_rest_waits() {
        for length in [0, 1, 15, 29, 30, 31, 100] {
            for end in ["\r\n--xy--", "\r\n--xy--\r\n", "\r\n--xy\r\nsubmit...."] {
                let content: Vec<u8> = (0..length).map(|at| b"\r\n-a"[at % 4]).collect();
                let body = [&content[..], end.as_bytes()].concat();
                let frame = frame(&body);
                assert_eq!(frame.content(&body.clone().into()).unwrap(), content);
                for piece in [1, 3, 1000] {
                    let (passed, rest) = take(&frame, &body, piece).unwrap();
                    assert_eq!(passed.len() as u64, (body.len() as u64).saturating_sub(AFTER_MAX));
                    assert_eq!([&passed[..], &rest].concat(), content);
                }
            }
        }
    }

    #[test]
    fn bodies_of_another_length_than_announced_are_refused() {
        let body = b"0123456789\r\n--xy--";
        let shorter = FileFrame { length: 60, ..frame(body) };
        assert_eq!(take(&shorter, body, 5), Err(ErrorCode::IncompleteBody));
        let longer = [&[b'a'; 100][..], b"\r\n--xy--"].concat();
        let announced = FileFrame { length: 40, ..frame(&longer) };
        assert_eq!(take(&announced, &longer, 5), Err(ErrorCode::IncompleteBody));
        assert_eq!(take(&frame(b"0123456789"), b"0123456789", 5), Err(ErrorCode::MalformedPOSTRequest));
    }
}
