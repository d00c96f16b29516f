//! A connection from its first byte to its end: hyper speaks, the clock and the server may end it, and its last answer
//! gets time to be read. Every connection begins with HTTP/1.1, unless TLS has negotiated HTTP/2.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::connections::conn::{Conn, Facts, Order};
use crate::connections::http2;
use crate::connections::io::Io;
use crate::connections::refusals::{self, Refusal};
use crate::context::Context;
use crate::exchange;
use crate::origin::Origin;

/// Headers of a request: each costs memory, however short it is.
const HEADERS_MAX: usize = 256;
/// Bytes that hyper reads at once, at most.
const BUFFER_MAX: usize = 256 * 1024;
/// Most bytes that are received after an answer that leaves a body unread: some clients read it only when they have
/// sent everything, and closing at once would reset their connection.
const DRAIN_BYTES_MAX: usize = 16 * 1024 * 1024;
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// How hyper's part has ended.
enum End {
    /// As HTTP has it.
    Done,
    /// The bytes that came are no request.
    Malformed(&'static Refusal),
    Ordered(&'static Refusal),
    Broken,
}

/// Serves a connection to its end.
pub async fn serve<S>(context: Arc<Context>, conn: Arc<Conn>, stream: S, origin: Origin)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = context.shared.options.limits;
    let io = TokioIo::new(Io::new(stream, Arc::clone(&conn), limits));
    let (of_service, of_conn) = (Arc::clone(&context), Arc::clone(&conn));
    let service = service_fn(move |request: Request<Incoming>| {
        Box::pin(exchange::answer(Arc::clone(&of_service), Arc::clone(&of_conn), origin, request))
    });
    let mut hyper = http1::Builder::new()
        .half_close(true)
        .header_read_timeout(None)
        .max_headers(HEADERS_MAX)
        .max_header_size(limits.head_size_max)
        .max_buf_size(BUFFER_MAX.max(limits.head_size_max))
        .auto_date_header(false)
        .writev(true)
        .serve_connection(io, service);
    let mut is_closing = false;
    let end = poll_fn(|task| {
        match conn.order(task.waker()) {
            None => {}
            Some(Order::Abort) => return Poll::Ready(End::Broken),
            Some(Order::Refuse(refusal)) if conn.facts().responded => {
                debug_assert!(refusal.status > 0);
                return Poll::Ready(End::Broken);
            }
            Some(Order::Refuse(refusal)) => return Poll::Ready(End::Ordered(refusal)),
            Some(Order::Close) if is_closing => {}
            Some(Order::Close) => {
                is_closing = true;
                Pin::new(&mut hyper).graceful_shutdown();
            }
        }
        hyper.poll_without_shutdown(task).map(|ended| match ended {
            Ok(()) => End::Done,
            // The client has ended it in the middle of a request.
            Err(error) if error.is_incomplete_message() => End::Done,
            Err(error) => refusal_of(&error).map_or(End::Broken, End::Malformed),
        })
    })
    .await;
    let Facts { is_busy, is_head_request, speaks_tls, .. } = conn.facts();
    // Drops the request under way, which is counted with the order of the connection.
    let parts = hyper.into_parts();
    let (mut stream, early) = parts.io.into_inner().into_parts();
    if matches!(end, End::Malformed(_)) {
        let ahead = Bytes::from([parts.read_buf, early].concat());
        if http2::is_spoken(&ahead) {
            // In memory of its own, because each idle connection has room for whatever it awaits.
            return Box::pin(http2::serve(context, conn, stream, ahead, origin)).await;
        }
    } else {
        // Its end may take seconds, and keeps no memory.
        drop((parts.read_buf, early));
    }
    let unread = match end {
        End::Broken => return,
        End::Done => conn.facts().unread,
        End::Malformed(refusal) => {
            let refusal = if speaks_tls { &refusals::UNEXPECTED_TLS } else { refusal };
            context.shared.count(refusal.code);
            send(&context, &origin, &mut stream, refusal, false).await;
            true
        }
        End::Ordered(refusal) => {
            if !is_busy {
                context.shared.count(refusal.code);
            }
            send(&context, &origin, &mut stream, refusal, is_head_request).await;
            true
        }
    };
    finish(&mut stream, unread).await;
}

/// Ends a connection that has not spoken HTTP with this answer.
pub async fn refuse<S>(context: &Context, mut stream: S, origin: &Origin, refusal: &Refusal)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    context.shared.count(refusal.code);
    send(context, origin, &mut stream, refusal, false).await;
    finish(&mut stream, true).await;
}

async fn finish<S>(stream: &mut S, unread: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // The client may have left.
    let _ = stream.shutdown().await;
    if unread {
        // What is not read in time is not waited for.
        let _ = tokio::time::timeout(DRAIN_MAX, drain(stream)).await;
    }
}

fn refusal_of(error: &hyper::Error) -> Option<&'static Refusal> {
    if error.is_parse_too_large() {
        Some(&refusals::HEAD_TOO_LARGE)
    } else if error.is_parse() {
        Some(&refusals::MALFORMED)
    } else {
        None
    }
}

async fn send<S>(context: &Context, origin: &Origin, stream: &mut S, refusal: &Refusal, bodiless: bool)
where
    S: AsyncWrite + Unpin,
{
    let request_id = context.shared.gateway.services.ids.next();
    let request_id = std::str::from_utf8(&request_id).unwrap_or_default();
    exchange::report(refusal, request_id, origin);
    let response = refusal.response(request_id, context.date().to_str().unwrap_or_default(), bodiless);
    let _ = stream.write_all(&response).await;
    let _ = stream.flush().await;
}

thread_local! {
    /// A buffer for bytes that nobody looks at: all connections of a thread receive them in the same place.
    static DROPPED: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 * 1024]);
}

/// Receives and drops what the client still sends.
async fn drain<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<()> {
    let mut left = DRAIN_BYTES_MAX;
    while left > 0 {
        let read = poll_fn(|task| {
            DROPPED.with_borrow_mut(|place| {
                let mut buffer = ReadBuf::new(place);
                let read = ready!(Pin::new(&mut *stream).poll_read(task, &mut buffer));
                Poll::Ready(read.map(|()| buffer.filled().len()))
            })
        });
        match read.await? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}
