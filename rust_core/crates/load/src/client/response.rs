//! A strict, incremental parser of HTTP/1.1 responses (RFC 9112) with limits. Pure.
//!
//! Invariant: the result does not depend on how the input is split. Anything unexpected is an error and is not skipped.

/// Most bytes of a head.
const HEAD_MAX: usize = 64 * 1024;
/// Most bytes of the line with the size of a chunk, extensions included.
const CHUNK_LINE_MAX: usize = 1024;
const TRAILERS_MAX: usize = 8 * 1024;
/// Most interim responses (100 Continue and others) before the final one.
const INTERIM_MAX: usize = 16;

/// Why a response is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the status line is not that of HTTP/1.1")]
    StatusLine,
    #[error("the head is longer than 64 KiB")]
    LongHead,
    #[error("a header line is malformed")]
    Header,
    #[error("the length of the body is contradictory or unreadable")]
    Length,
    #[error("the transfer encoding is not chunked")]
    Encoding,
    #[error("a chunk is malformed")]
    Chunk,
    #[error("too many interim responses")]
    Interim,
    #[error("bytes follow the response")]
    Surplus,
}

/// The parts of a response head that the load needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// Content-Length, which is present for HEAD too.
    pub content_length: Option<u64>,
    pub etag: Option<Vec<u8>>,
    /// The server closes the connection after this response.
    pub closes: bool,
    chunked: bool,
}

impl Head {
    /// Parses a head; `raw` includes its empty line.
    fn parse(raw: &[u8]) -> Result<Self, Malformed> {
        let mut lines = raw[..raw.len() - 3].split(|&byte| byte == b'\n');
        let status_line = lines.next().and_then(|line| line.strip_suffix(b"\r"));
        let mut head = parse_status_line(status_line.ok_or(Malformed::StatusLine)?)?;
        for line in lines {
            head.take_header(line.strip_suffix(b"\r").ok_or(Malformed::Header)?)?;
        }
        Ok(head)
    }

    fn take_header(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let colon = memchr::memchr(b':', line).ok_or(Malformed::Header)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // Parsers disagree about white space before the colon and about continuation lines.
        if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_graphic()) || value.contains(&b'\r') {
            return Err(Malformed::Header);
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = parse_length(value)?;
            if self.content_length.is_some_and(|before| before != length) {
                return Err(Malformed::Length);
            }
            self.content_length = Some(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed::Encoding);
            }
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"connection") {
            let mut options = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            self.closes |= options.any(|option| option.eq_ignore_ascii_case(b"close"));
        } else if name.eq_ignore_ascii_case(b"etag") {
            self.etag = Some(value.to_vec());
        }
        Ok(())
    }
}

/// `HTTP/1.1 200 OK`; the reason may be missing. HTTP/1.0 is refused because its framing differs.
fn parse_status_line(line: &[u8]) -> Result<Head, Malformed> {
    let rest = line.strip_prefix(b"HTTP/1.1 ").ok_or(Malformed::StatusLine)?;
    let (digits, reason) = rest.split_at_checked(3).ok_or(Malformed::StatusLine)?;
    let complete = reason.first().is_none_or(|&byte| byte == b' ') && !reason.contains(&b'\r');
    if !complete || !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
        return Err(Malformed::StatusLine);
    }
    let status = digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    Ok(Head { status, ..Head::default() })
}

/// Only digits: no sign and no list.
fn parse_length(value: &[u8]) -> Result<u64, Malformed> {
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Malformed::Length);
    }
    Ok(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParseState {
    Head,
    /// Bytes left.
    Length(u64),
    ChunkLine,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    /// The body ends when the connection is closed.
    UntilClose,
    Done,
}

/// The parser of one response.
pub struct ResponseReader {
    state: ParseState,
    /// A response to HEAD has no body, whatever its headers say.
    to_head: bool,
    /// The incomplete head, chunk line or trailer that was received so far.
    line: Vec<u8>,
    interim: usize,
    trailer_bytes: usize,
    head: Head,
}

impl ResponseReader {
    pub fn new(to_head: bool) -> Self {
        Self { state: ParseState::Head, to_head, line: Vec::new(), interim: 0, trailer_bytes: 0, head: Head::default() }
    }

    pub fn is_done(&self) -> bool {
        self.state == ParseState::Done
    }

    /// The head, once it is complete.
    pub fn head(&self) -> Option<&Head> {
        (self.state != ParseState::Head).then_some(&self.head)
    }

    /// Parses received bytes and passes those of the body to `body`, with the head.
    pub fn feed(&mut self, mut input: &[u8], body: &mut impl FnMut(&Head, &[u8])) -> Result<(), Malformed> {
        while !input.is_empty() {
            input = match self.state {
                ParseState::Head => self.take_head(input)?,
                ParseState::Length(left) | ParseState::ChunkData(left) => {
                    let (now, rest) = input.split_at(left.min(input.len() as u64) as usize);
                    body(&self.head, now);
                    self.took(left - now.len() as u64);
                    rest
                }
                ParseState::ChunkLine => self.take_chunk_line(input)?,
                ParseState::ChunkEnd => self.take_chunk_end(input)?,
                ParseState::Trailers => self.take_trailers(input)?,
                ParseState::UntilClose => {
                    body(&self.head, input);
                    &[]
                }
                ParseState::Done => return Err(Malformed::Surplus),
            };
        }
        Ok(())
    }

    /// The server closed the connection. Returns whether the response is complete.
    pub fn end(&mut self) -> bool {
        if self.state == ParseState::UntilClose {
            self.state = ParseState::Done;
        }
        self.state == ParseState::Done
    }

    fn took(&mut self, left: u64) {
        self.state = match (self.state, left) {
            (ParseState::Length(_), 0) => ParseState::Done,
            (ParseState::Length(_), left) => ParseState::Length(left),
            (_, 0) => ParseState::ChunkEnd,
            (_, left) => ParseState::ChunkData(left),
        };
    }

    fn take_head<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let Some((raw, rest)) = self.collect(input, b"\r\n\r\n", HEAD_MAX).map_err(|()| Malformed::LongHead)? else {
            return Ok(&[]);
        };
        let head = Head::parse(&raw)?;
        self.reuse(raw);
        if head.status < 200 {
            self.interim += 1;
            // 101 switches protocols, which the load never requests.
            if self.interim > INTERIM_MAX || head.status == 101 {
                return Err(Malformed::Interim);
            }
            return Ok(rest);
        }
        self.state = match (head.chunked, head.content_length) {
            _ if self.to_head || matches!(head.status, 204 | 304) => ParseState::Done,
            (true, Some(_)) => return Err(Malformed::Length),
            (true, None) => ParseState::ChunkLine,
            (false, Some(0)) => ParseState::Done,
            (false, Some(length)) => ParseState::Length(length),
            (false, None) => ParseState::UntilClose,
        };
        self.head = head;
        self.head.closes |= self.state == ParseState::UntilClose;
        Ok(rest)
    }

    fn take_chunk_line<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let collected = self.collect(input, b"\r\n", CHUNK_LINE_MAX).map_err(|()| Malformed::Chunk)?;
        let Some((raw, rest)) = collected else { return Ok(&[]) };
        let line = &raw[..raw.len() - 2];
        let size = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
        if size.is_empty() || size.len() > 15 {
            return Err(Malformed::Chunk);
        }
        let mut digits = size.iter().map(|&digit| orcas_http::hex_value(digit));
        let size = digits.try_fold(0, |sum, digit| Some(sum << 4 | u64::from(digit?))).ok_or(Malformed::Chunk)?;
        self.reuse(raw);
        self.state = if size == 0 { ParseState::Trailers } else { ParseState::ChunkData(size) };
        Ok(rest)
    }

    fn take_chunk_end<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let collected = self.collect(input, b"\r\n", 2).map_err(|()| Malformed::Chunk)?;
        let Some((raw, rest)) = collected else {
            return if b"\r\n".starts_with(&self.line) { Ok(&[]) } else { Err(Malformed::Chunk) };
        };
        self.reuse(raw);
        self.state = ParseState::ChunkLine;
        Ok(rest)
    }

    /// Skips trailers up to the empty line.
    fn take_trailers<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let collected = self.collect(input, b"\r\n", TRAILERS_MAX).map_err(|()| Malformed::Chunk)?;
        let Some((raw, rest)) = collected else { return Ok(&[]) };
        self.trailer_bytes += raw.len();
        if self.trailer_bytes > TRAILERS_MAX {
            return Err(Malformed::Chunk);
        }
        if raw == b"\r\n" {
            self.state = ParseState::Done;
        }
        self.reuse(raw);
        Ok(rest)
    }

    /// Everything up to the end of `ending`, and the rest of `input`. `None` if there is no `ending` yet: all is kept.
    #[expect(clippy::type_complexity, reason = "two slices, if the ending is there and the limit was kept")]
    fn collect<'a>(&mut self, input: &'a [u8], ending: &[u8], limit: usize) -> Result<Option<(Vec<u8>, &'a [u8])>, ()> {
        let before = self.line.len();
        // Usually the ending is in `input`; what follows it is then not copied.
        let whole = if before == 0 { memchr::memmem::find(input, ending) } else { None };
        let taken = whole.map_or(input.len(), |at| at + ending.len()).min((limit + 1).saturating_sub(before));
        self.line.extend_from_slice(&input[..taken]);
        // The ending may begin in the bytes that were kept.
        let from = before.saturating_sub(ending.len() - 1);
        match memchr::memmem::find(&self.line[from..], ending).map(|at| from + at + ending.len()) {
            Some(end) if end <= limit => {
                self.line.truncate(end);
                Ok(Some((std::mem::take(&mut self.line), &input[end - before..])))
            }
            None if self.line.len() <= limit => Ok(None),
            _ => Err(()),
        }
    }

    /// Keeps the memory of `line` for the next one.
    fn reuse(&mut self, mut line: Vec<u8>) {
        line.clear();
        self.line = line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Status and body after all pieces, or why not; `None` when more must come.
    type Read = Result<Option<(u16, Vec<u8>)>, Malformed>;

    fn read_from(mut reader: ResponseReader, pieces: &[&[u8]], ends: bool) -> Read {
        let mut body = Vec::new();
        for piece in pieces {
            reader.feed(piece, &mut |_, bytes| body.extend_from_slice(bytes))?;
        }
        let done = if ends { reader.end() } else { reader.is_done() };
        Ok(done.then(|| (reader.head().expect("done").status, body)))
    }

    fn read(pieces: &[&[u8]]) -> Read {
        read_from(ResponseReader::new(false), pieces, false)
    }

    const RESPONSES: [(&[u8], u16, &[u8]); 8] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"e\"\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.1 200 \r\ncontent-length:0\r\n\r\n", 200, b""),
        (b"HTTP/1.1 204\r\nserver: x\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 77\r\n\r\n", 304, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Slow\r\ncontent-length: 2\r\n\r\nno", 503, b"no"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\n\r\n",
            200,
            b"abc0123456789",
        ),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n1 \r\nz\r\n0\r\nx-sum: 1\r\ny: 2\r\n\r\n", 200, b"z"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n.", 200, b"."),
    ];

    #[test]
    fn responses_split_at_every_byte() {
        for (response, status, body) in RESPONSES {
            let wanted = Ok(Some((status, body.to_vec())));
            assert_eq!(read(&[response]), wanted, "{}", response.escape_ascii());
            for cut in 1..response.len() {
                assert_eq!(read(&[&response[..cut], &response[cut..]]), wanted, "{} at {cut}", response.escape_ascii());
                assert_eq!(read(&[&response[..cut]]), Ok(None), "{} up to {cut}", response.escape_ascii());
            }
            let bytes: Vec<&[u8]> = response.chunks(1).collect();
            assert_eq!(read(&bytes), wanted, "{} byte by byte", response.escape_ascii());
            assert_eq!(read(&[response, b"x"]), Err(Malformed::Surplus));
        }
    }

    #[test]
    fn what_a_head_says() {
        let mut reader = ResponseReader::new(true);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nETag:  \"abc\" \r\nConnection: foo, Close\r\n\r\n";
        reader.feed(head, &mut |_, _| panic!("no body follows HEAD")).expect("well-formed");
        let head = reader.head().expect("read").clone();
        assert!(reader.is_done() && head.closes);
        assert_eq!((head.content_length, head.etag.as_deref()), (Some(12), Some(&b"\"abc\""[..])));
    }

    #[test]
    fn a_body_without_length_ends_with_the_connection() {
        let pieces: [&[u8]; 2] = [b"HTTP/1.1 200 OK\r\n\r\nab", b"cd"];
        assert_eq!(read(&pieces), Ok(None));
        let ended = |pieces: &[&[u8]]| read_from(ResponseReader::new(false), pieces, true);
        assert_eq!(ended(&pieces), Ok(Some((200, b"abcd".to_vec()))));
        assert_eq!(ended(&[b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabc"]), Ok(None), "cut short");
        assert_eq!(ended(&[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"]), Ok(None));
    }

    #[test]
    fn malformed_responses() {
        let long_line = [b"HTTP/1.1 200 OK\r\nx: ", &vec![b'a'; HEAD_MAX][..], b"\r\n\r\n"].concat();
        let endless = vec![b'H'; HEAD_MAX + 1];
        let chunked = |rest: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{rest}").into_bytes();
        let with = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n").into_bytes();
        let cases: Vec<(Vec<u8>, Malformed)> = vec![
            (b"HTTP/1.0 200 OK\r\n\r\n".to_vec(), Malformed::StatusLine),
            (b"HTTP/2 200\r\n\r\n".to_vec(), Malformed::StatusLine),
            (b"HTTP/1.1 20\r\n\r\n".to_vec(), Malformed::StatusLine),
            (b"HTTP/1.1 2000 OK\r\n\r\n".to_vec(), Malformed::StatusLine),
            (b"HTTP/1.1 +20 OK\r\n\r\n".to_vec(), Malformed::StatusLine),
            (b"HTTP/1.1 099 OK\r\n\r\n".to_vec(), Malformed::StatusLine),
            (b"HTTP/1.1 200 OK\ncontent-length: 1\r\n\r\n".to_vec(), Malformed::StatusLine),
            (b"\r\n\r\n".to_vec(), Malformed::StatusLine),
            (b"HTTP/1.1 101 Switching\r\n\r\n".to_vec(), Malformed::Interim),
            (b"HTTP/1.1 100 \r\n\r\n".repeat(INTERIM_MAX + 1), Malformed::Interim),
            (with("content-length: 1\ny: 2"), Malformed::Header),
            (with("content-length: -1"), Malformed::Length),
            (with("content-length: 1, 1"), Malformed::Length),
            (with("content-length: 99999999999999999999"), Malformed::Length),
            (with("content-length:"), Malformed::Length),
            (with("content-length: 1\r\ncontent-length: 2"), Malformed::Length),
            (with("content-length: 1\r\ntransfer-encoding: chunked"), Malformed::Length),
            (with("transfer-encoding: gzip, chunked"), Malformed::Encoding),
            (with("transfer-encoding: chunked\r\ntransfer-encoding: chunked"), Malformed::Encoding),
            (with("no colon"), Malformed::Header),
            (with(": no name"), Malformed::Header),
            (with("content-length : 1"), Malformed::Header),
            (with("x: 1\r\n continued: 2"), Malformed::Header),
            (long_line, Malformed::LongHead),
            (endless, Malformed::LongHead),
            (chunked("\r\n"), Malformed::Chunk),
            (chunked("-1\r\n"), Malformed::Chunk),
            (chunked("0x1\r\n"), Malformed::Chunk),
            (chunked("1111111111111111\r\n"), Malformed::Chunk),
            (chunked("1\r\nabc"), Malformed::Chunk),
            (chunked("1\r\na\rb"), Malformed::Chunk),
            (chunked(&format!("1;{}", "x".repeat(CHUNK_LINE_MAX))), Malformed::Chunk),
            (chunked(&format!("0\r\n{}", "a: b\r\n".repeat(TRAILERS_MAX / 6 + 1))), Malformed::Chunk),
        ];
        for (response, wanted) in cases {
            let shown = response[..response.len().min(80)].escape_ascii().to_string();
            assert_eq!(read(&[&response]), Err(wanted), "{shown}");
            let bytes: Vec<&[u8]> = response.chunks(1).collect();
            assert_eq!(read(&bytes), Err(wanted), "{shown} byte by byte");
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics_and_cuts_never_matter(
            noise in proptest::collection::vec(any::<u8>(), 0..300), response in 0..RESPONSES.len(),
            at in any::<prop::sample::Index>(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let mut bytes = RESPONSES[response].0.to_vec();
            let at = at.index(bytes.len());
            bytes.splice(at..at, noise);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[&bytes]));
        }
    }
}
