//! Responses of HTTP/1.1 as they come in: RFC 9112, read strictly, in pieces of any length, within limits. Pure.
//!
//! Invariant: where pieces are cut changes nothing; what is not understood ends the connection and is never skipped.

/// A head above this is no answer of a server that means well.
const HEAD_MAX: usize = 64 * 1024;
/// The line that gives a chunk its size, extensions included.
const CHUNK_LINE_MAX: usize = 1024;
const TRAILERS_MAX: usize = 8 * 1024;
/// Interim responses (100 Continue and the like) before the final one.
const INTERIM_MAX: usize = 16;

/// Why an answer cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the status line is none of HTTP/1.1")]
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
    #[error("bytes follow the answer")]
    Surplus,
}

/// What a client needs to know of a response's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// As the server declares it, for HEAD too.
    pub content_length: Option<u64>,
    pub etag: Option<Vec<u8>>,
    /// The server ends the connection behind this answer.
    pub closes: bool,
    chunked: bool,
}

impl Head {
    /// Reads a head that ends where `raw` does, its empty line included.
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
        // White space before the colon, or a line that continues the last one, hides headers from some readers.
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

/// `HTTP/1.1 200 OK`; the reason may be missing. HTTP/1.0 has other rules and is refused.
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

/// Digits only: no sign, no list.
fn parse_length(value: &[u8]) -> Result<u64, Malformed> {
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Malformed::Length);
    }
    Ok(value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// Bytes to come.
    Length(u64),
    ChunkLine,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    /// The body ends with the connection.
    UntilClose,
    Done,
}

/// One response, from its first byte to its last.
pub struct ResponseReader {
    state: State,
    /// Answers to HEAD have no body, whatever they declare.
    to_head: bool,
    /// The part of a head, a chunk's line or the trailers that came so far.
    line: Vec<u8>,
    interim: usize,
    trailer_bytes: usize,
    head: Head,
}

impl ResponseReader {
    pub fn new(to_head: bool) -> Self {
        Self { state: State::Head, to_head, line: Vec::new(), interim: 0, trailer_bytes: 0, head: Head::default() }
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The head, as soon as it was read.
    pub fn head(&self) -> Option<&Head> {
        (self.state != State::Head).then_some(&self.head)
    }

    /// Takes what has come; `body` is given the bytes of the body in between, with the head.
    pub fn feed(&mut self, mut input: &[u8], body: &mut impl FnMut(&Head, &[u8])) -> Result<(), Malformed> {
        while !input.is_empty() {
            input = match self.state {
                State::Head => self.take_head(input)?,
                State::Length(left) | State::ChunkData(left) => {
                    let (now, rest) = input.split_at(left.min(input.len() as u64) as usize);
                    body(&self.head, now);
                    self.took(left - now.len() as u64);
                    rest
                }
                State::ChunkLine => self.take_chunk_line(input)?,
                State::ChunkEnd => self.take_chunk_end(input)?,
                State::Trailers => self.take_trailers(input)?,
                State::UntilClose => {
                    body(&self.head, input);
                    &[]
                }
                State::Done => return Err(Malformed::Surplus),
            };
        }
        Ok(())
    }

    /// The server ended the connection; whether that is the end of the answer.
    pub fn end(&mut self) -> bool {
        if self.state == State::UntilClose {
            self.state = State::Done;
        }
        self.state == State::Done
    }

    fn took(&mut self, left: u64) {
        self.state = match (self.state, left) {
            (State::Length(_), 0) => State::Done,
            (State::Length(_), left) => State::Length(left),
            (_, 0) => State::ChunkEnd,
            (_, left) => State::ChunkData(left),
        };
    }

    fn take_head<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let Some((raw, rest)) = self.collect(input, b"\r\n\r\n", HEAD_MAX).map_err(|()| Malformed::LongHead)? else {
            return Ok(&[]);
        };
        let head = Head::parse(&raw)?;
        self.give_back(raw);
        if head.status < 200 {
            self.interim += 1;
            // 101 leaves HTTP, which nobody asked for.
            if self.interim > INTERIM_MAX || head.status == 101 {
                return Err(Malformed::Interim);
            }
            return Ok(rest);
        }
        self.state = match (head.chunked, head.content_length) {
            _ if self.to_head || matches!(head.status, 204 | 304) => State::Done,
            (true, Some(_)) => return Err(Malformed::Length),
            (true, None) => State::ChunkLine,
            (false, Some(0)) => State::Done,
            (false, Some(length)) => State::Length(length),
            (false, None) => State::UntilClose,
        };
        self.head = head;
        self.head.closes |= self.state == State::UntilClose;
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
        self.give_back(raw);
        self.state = if size == 0 { State::Trailers } else { State::ChunkData(size) };
        Ok(rest)
    }

    fn take_chunk_end<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let collected = self.collect(input, b"\r\n", 2).map_err(|()| Malformed::Chunk)?;
        let Some((raw, rest)) = collected else {
            return if b"\r\n".starts_with(&self.line) { Ok(&[]) } else { Err(Malformed::Chunk) };
        };
        self.give_back(raw);
        self.state = State::ChunkLine;
        Ok(rest)
    }

    /// Trailers say nothing that is needed: read to the empty line, which may be the first.
    fn take_trailers<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let collected = self.collect(input, b"\r\n", TRAILERS_MAX).map_err(|()| Malformed::Chunk)?;
        let Some((raw, rest)) = collected else { return Ok(&[]) };
        self.trailer_bytes += raw.len();
        if self.trailer_bytes > TRAILERS_MAX {
            return Err(Malformed::Chunk);
        }
        if raw == b"\r\n" {
            self.state = State::Done;
        }
        self.give_back(raw);
        Ok(rest)
    }

    /// What was kept and `input` up to the end of `ending`, and the rest of `input`; `None` keeps all of it for later.
    #[expect(clippy::type_complexity, reason = "two slices, if the ending is there and the limit was kept")]
    fn collect<'a>(&mut self, input: &'a [u8], ending: &[u8], limit: usize) -> Result<Option<(Vec<u8>, &'a [u8])>, ()> {
        let before = self.line.len();
        // Mostly all of it is there, and then what follows is not copied.
        let whole = if before == 0 { memchr::memmem::find(input, ending) } else { None };
        let taken = whole.map_or(input.len(), |at| at + ending.len()).min((limit + 1).saturating_sub(before));
        self.line.extend_from_slice(&input[..taken]);
        // The ending may have begun in what was kept.
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

    /// Keeps the memory of a line for the next one.
    fn give_back(&mut self, mut line: Vec<u8>) {
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

    const ANSWERS: [(&[u8], u16, &[u8]); 8] = [
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
    fn answers_cut_at_every_byte() {
        for (answer, status, body) in ANSWERS {
            let wanted = Ok(Some((status, body.to_vec())));
            assert_eq!(read(&[answer]), wanted, "{}", answer.escape_ascii());
            for cut in 1..answer.len() {
                assert_eq!(read(&[&answer[..cut], &answer[cut..]]), wanted, "{} at {cut}", answer.escape_ascii());
                assert_eq!(read(&[&answer[..cut]]), Ok(None), "{} up to {cut}", answer.escape_ascii());
            }
            let bytes: Vec<&[u8]> = answer.chunks(1).collect();
            assert_eq!(read(&bytes), wanted, "{} byte by byte", answer.escape_ascii());
            assert_eq!(read(&[answer, b"x"]), Err(Malformed::Surplus));
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
    fn hostile_answers() {
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
        for (answer, wanted) in cases {
            let shown = answer[..answer.len().min(80)].escape_ascii().to_string();
            assert_eq!(read(&[&answer]), Err(wanted), "{shown}");
            let bytes: Vec<&[u8]> = answer.chunks(1).collect();
            assert_eq!(read(&bytes), Err(wanted), "{shown} byte by byte");
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics_and_cuts_never_matter(
            noise in proptest::collection::vec(any::<u8>(), 0..300), answer in 0..ANSWERS.len(),
            at in any::<prop::sample::Index>(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let mut bytes = ANSWERS[answer].0.to_vec();
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
