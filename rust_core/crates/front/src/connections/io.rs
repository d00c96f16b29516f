//! The bytes of one connection between its socket and hyper.
//!
//! Notes for the clock what arrives and leaves, and keeps the head of a request as it came, because hyper's parser drops
//! what a refusal must know. Swallows the answers that hyper gives by itself to what it cannot parse: an S3 document takes
//! their place. They have no Date, which every answer of a request has.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::connections::conn::Conn;
use crate::connections::limits::Limits;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// The first bytes of an answer to a request that cannot be parsed.
const BARE_ERROR: &[u8] = b"HTTP/1.1 4";

/// Bytes of a body from an unverified sender that are read at once. hyper makes its buffer larger when a read has filled
/// 8 KiB.
const STEP: usize = 4096;

/// A socket that several may look at.
pub struct Socket(pub Arc<TcpStream>);

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write_vectored(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The client may have reset the connection already.
        let _ = rustix::net::shutdown(&*self.0, rustix::net::Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}

/// The connection as hyper reads and writes it.
pub struct Io<S> {
    stream: S,
    conn: Arc<Conn>,
    limits: Limits,
    /// Bytes that were read of the stream and not handed on.
    early: Bytes,
    /// Bytes to be sent before anything else.
    ahead: &'static [u8],
}

impl<S: AsyncRead + AsyncWrite + Unpin> Io<S> {
    pub fn new(stream: S, conn: Arc<Conn>, limits: Limits) -> Self {
        Self::behind(Bytes::new(), stream, conn, limits)
    }

    /// The rest of a stream of which `early` was read already.
    pub fn behind(early: Bytes, stream: S, conn: Arc<Conn>, limits: Limits) -> Self {
        Self { stream, conn, limits, early, ahead: b"" }
    }

    /// The stream itself, and what was read of it and not handed on.
    pub fn into_parts(self) -> (S, Bytes) {
        (self.stream, self.early)
    }

    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.conn.take_continue() {
            self.ahead = CONTINUE;
        }
        while !self.ahead.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, self.ahead))?;
            self.ahead = &self.ahead[sent..];
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Io<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.early.is_empty() {
            let length = self.early.len().min(buffer.remaining());
            let taken = self.conn.read(&self.early[..length], &self.limits);
            buffer.put_slice(&self.early.split_to(taken));
            return if taken == 0 { Poll::Pending } else { Poll::Ready(Ok(())) };
        }
        let before = buffer.filled().len();
        if self.conn.is_unverified() {
            let mut step = [0; STEP];
            let mut read = ReadBuf::new(&mut step[..STEP.min(buffer.remaining())]);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
            buffer.put_slice(read.filled());
        } else {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        }
        let read = &buffer.filled()[before..];
        if read.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let taken = self.conn.read(read, &self.limits);
        if taken < read.len() {
            self.early = Bytes::copy_from_slice(&read[taken..]);
            buffer.set_filled(before + taken);
        }
        if taken == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Io<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.first().is_some_and(|first| is_bare_error(first)) && self.conn.is_silent() {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        if let Poll::Ready(sent) = self.poll_ahead(context) {
            sent?;
            if let Poll::Ready(sent) = Pin::new(&mut self.stream).poll_write_vectored(context, slices) {
                let sent = sent?;
                self.conn.written(sent);
                return Poll::Ready(Ok(sent));
            }
        }
        self.conn.write_waits();
        Poll::Pending
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.conn.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Whether hyper answers by itself.
fn is_bare_error(bytes: &[u8]) -> bool {
    bytes.starts_with(BARE_ERROR) && memmem::find(bytes, b"\r\ndate: ").is_none()
}
