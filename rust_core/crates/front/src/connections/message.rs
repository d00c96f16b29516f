//! The end of a message of HTTP/1.1 in the bytes of its connection, and the facts of its head that a parser drops.
//!
//! hyper is given one message at a time, so each head is seen here before a request is made of it. Only the end of a
//! chunked body is not known: what has come behind one before its answer is not served, and the connection ends.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use memchr::memchr;

/// The head at the beginning of a message, as far as it has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    /// The beginning of the first line that is not seen yet; behind the head, if it is whole.
    at: usize,
    has_request_line: bool,
    /// The empty line is there.
    pub is_whole: bool,
    /// A line does not end as it should.
    pub is_malformed: bool,
    pub has_fragment: bool,
    /// How often there is a Content-Length, and what the last one says.
    pub lengths: usize,
    length: u64,
    is_chunked: bool,
}

impl Lines {
    /// Looks at what has come of `head` since the last time.
    pub fn scan(&mut self, head: &[u8]) {
        while !self.is_whole && !self.is_malformed {
            let rest = &head[self.at..];
            let Some(end) = memchr(b'\n', rest) else { return };
            self.at += end + 1;
            match rest[..end].strip_suffix(b"\r") {
                None => self.is_malformed = true,
                Some(line) => self.take(line),
            }
        }
    }

    fn take(&mut self, line: &[u8]) {
        if line.is_empty() {
            // Before the request line there may be empty ones.
            self.is_whole = self.has_request_line;
        } else if !self.has_request_line {
            self.has_request_line = true;
            self.has_fragment = memchr(b'#', line).is_some();
        } else if let Some(value) = value_of(line, CONTENT_LENGTH.as_str()) {
            self.lengths += 1;
            // A parser refuses what is no number.
            self.length = std::str::from_utf8(value.trim_ascii()).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        } else if value_of(line, TRANSFER_ENCODING.as_str()).is_some() {
            self.is_chunked = true;
        }
    }

    /// The offset at which the head ends in the scanned bytes, and the number of bytes of the body that follow it;
    /// `u64::MAX`: nobody knows.
    pub fn extent(&self) -> (usize, u64) {
        (self.at, if self.is_chunked { u64::MAX } else { self.length })
    }
}

/// The value of a header line, if it is that of `name`.
fn value_of<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (start, rest) = line.split_at_checked(name.len())?;
    if start.eq_ignore_ascii_case(name.as_bytes()) { rest.strip_prefix(b":") } else { None }
}
