//! One keep-alive connection: sends a request and receives its response, in pieces, without blocking.
//!
//! Invariant: received bytes are parsed in order, and no request is sent twice. Must not know operations.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::poller::Poller;
use super::response::{Head, Malformed, ResponseReader};
use crate::pattern::{Checker, Content, Pattern, Wrong};

/// Bytes that are generated, sent or received at a time, so that the connections of a thread take turns.
pub const PIECE: usize = 256 * 1024;
/// Bytes of a document that are kept. List pages are the longest documents.
const DOCUMENT_MAX: usize = 8 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no response.
#[derive(Debug)]
pub enum ConnectionError {
    Connect(ErrorKind),
    Io(ErrorKind),
    /// The server closed the connection before the end of the response.
    Closed,
    Malformed(Malformed),
    TimedOut,
}

impl ConnectionError {
    /// The name under which the error is counted.
    pub fn name(&self) -> String {
        match self {
            Self::Connect(ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
            Self::Connect(kind) => format!("cannot connect: {kind}"),
            Self::Io(kind) => kind.to_string(),
            Self::Closed => "connection closed early".to_owned(),
            Self::Malformed(why) => format!("bad response: {why}"),
            Self::TimedOut => "timed out".to_owned(),
        }
    }
}

/// Receives the body of a response.
#[derive(Default)]
pub struct BodyReceiver {
    /// Compares the body if the status is 200.
    checker: Option<Checker>,
    document: Vec<u8>,
    length: u64,
}

impl BodyReceiver {
    pub fn new(checker: Option<Checker>) -> Self {
        Self { checker, ..Self::default() }
    }

    fn take(&mut self, pattern: &Pattern, head: &Head, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        match &mut self.checker {
            Some(checker) if head.status == 200 => checker.feed(pattern, bytes),
            _ => {
                let room = DOCUMENT_MAX.saturating_sub(self.document.len()).min(bytes.len());
                self.document.extend_from_slice(&bytes[..room]);
            }
        }
    }
}

/// A complete response.
pub struct Response {
    pub head: Head,
    /// The body, if it was not compared; at most 8 MiB.
    pub document: Vec<u8>,
    /// Bytes of the body.
    pub length: u64,
    /// The result of the comparison, if there was one.
    pub checked: Option<Result<Option<u32>, Wrong>>,
    /// When its last byte was received.
    pub at: Instant,
}

/// The part of a body that is generated while it is sent.
struct Rest {
    content: Content,
    offset: u64,
    end: u64,
}

/// A connection that may be closed and opened again.
pub struct Connection {
    token: usize,
    stream: Option<TcpStream>,
    out: Vec<u8>,
    sent: usize,
    rest: Option<Rest>,
    write_failed: Option<ErrorKind>,
    watches_writes: bool,
    reader: ResponseReader,
    receiver: BodyReceiver,
}

impl Connection {
    pub fn new(token: usize) -> Self {
        Self {
            token,
            stream: None,
            out: Vec::new(),
            sent: 0,
            rest: None,
            write_failed: None,
            watches_writes: false,
            reader: ResponseReader::new(false),
            receiver: BodyReceiver::default(),
        }
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    pub fn open(&mut self, address: &SocketAddr, poller: &mut Poller) -> Result<(), ConnectionError> {
        let connect = || {
            let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let stream = connect().map_err(|error: io::Error| ConnectionError::Connect(error.kind()))?;
        poller.add(self.token, &stream).map_err(|error| ConnectionError::Connect(error.kind()))?;
        self.stream = Some(stream);
        self.watches_writes = false;
        Ok(())
    }

    pub fn close(&mut self, poller: &mut Poller) {
        if let Some(stream) = self.stream.take() {
            // If this fails, closing the descriptor removes it.
            let _ = poller.remove(self.token, &stream);
        }
    }

    /// Closes the connection if the server has closed it or has sent something while there was no request.
    pub fn close_if_stale(&mut self, poller: &mut Poller) {
        let quiet =
            |stream: &TcpStream| matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        if self.stream.as_ref().is_some_and(|stream| !quiet(stream)) {
            self.close(poller);
        }
    }

    /// An empty buffer for the head of the next request and any part of its body.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.clear();
        &mut self.out
    }

    /// Begins to send the request in the buffer, followed by the bytes of `content` from `offset` to `end`.
    pub fn request(&mut self, rest: Option<(Content, u64, u64)>, to_head: bool, receiver: BodyReceiver) {
        self.sent = 0;
        self.rest = rest.map(|(content, offset, end)| Rest { content, offset, end });
        self.write_failed = None;
        self.reader = ResponseReader::new(to_head);
        self.receiver = receiver;
    }

    /// Sends and receives at most `PIECE` bytes each. `None` while the response is incomplete.
    pub fn turn(
        &mut self,
        pattern: &Pattern,
        poller: &mut Poller,
        buffer: &mut [u8],
    ) -> Result<Option<Response>, ConnectionError> {
        if self.is_sending() {
            self.write(pattern, poller)?;
        }
        self.read(pattern, buffer)
    }

    fn is_sending(&self) -> bool {
        self.sent < self.out.len() || self.rest.is_some()
    }

    /// Sends at most `PIECE` bytes.
    pub fn write(&mut self, pattern: &Pattern, poller: &mut Poller) -> Result<(), ConnectionError> {
        let Some(stream) = &mut self.stream else { return Err(ConnectionError::Closed) };
        if self.sent == self.out.len()
            && let Some(rest) = &mut self.rest
        {
            let length = (rest.end - rest.offset).min(PIECE as u64);
            self.out.resize(length as usize, 0);
            pattern.fill(&rest.content, rest.offset, &mut self.out);
            self.sent = 0;
            rest.offset += length;
            if rest.offset == rest.end {
                self.rest = None;
            }
        }
        if self.sent < self.out.len() {
            match stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => {
                    // The server may have sent a response before it closed the connection.
                    self.write_failed = Some(error.kind());
                    self.rest = None;
                    self.sent = self.out.len();
                }
            }
        }
        let watch = self.sent < self.out.len() || self.rest.is_some();
        if watch != self.watches_writes {
            poller.watch_writes(self.token, stream, watch).map_err(|error| ConnectionError::Io(error.kind()))?;
            self.watches_writes = watch;
        }
        Ok(())
    }

    fn read(&mut self, pattern: &Pattern, buffer: &mut [u8]) -> Result<Option<Response>, ConnectionError> {
        let Some(stream) = &mut self.stream else { return Err(ConnectionError::Closed) };
        let received = stream.read(buffer);
        let at = Instant::now();
        match received {
            Ok(0) if !self.reader.end() => {
                return Err(self.write_failed.map_or(ConnectionError::Closed, ConnectionError::Io));
            }
            Ok(count) => {
                let receiver = &mut self.receiver;
                self.reader
                    .feed(&buffer[..count], &mut |head, bytes| receiver.take(pattern, head, bytes))
                    .map_err(ConnectionError::Malformed)?;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(None),
            Err(error) => return Err(ConnectionError::Io(self.write_failed.unwrap_or(error.kind()))),
        }
        let (true, Some(head)) = (self.reader.is_done(), self.reader.head()) else { return Ok(None) };
        let mut head = head.clone();
        // The server would take the rest of this request for the next one.
        head.closes |= self.is_sending() || self.write_failed.is_some();
        let BodyReceiver { checker, document, length } = std::mem::take(&mut self.receiver);
        let checked = checker.filter(|_| head.status == 200).map(Checker::finish);
        Ok(Some(Response { head, document, length, checked, at }))
    }
}
