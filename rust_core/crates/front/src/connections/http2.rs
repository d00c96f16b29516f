//! A connection of HTTP/2: many requests at once, each with a state like that of a connection with one request.
//!
//! Everything that a client may have pending is bounded: streams, bytes of bodies and of answers, the size of a head, and
//! how many requests it gives up. The protocol itself, and floods of its frames, are h2's.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::answer::{AnswerBody, CutOff};
use crate::connections::conn::{Conn, Order};
use crate::connections::io::Io;
use crate::context::Context;
use crate::exchange;
use crate::origin::Origin;

/// The first bytes of a connection whose client knows that the server speaks HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of its first line.
const FIRST_LINE: usize = 16;
/// Requests that a connection carries at once.
const STREAMS_MAX: u32 = 128;
/// Bytes of bodies that clients may send ahead, for each request and each connection.
const STREAM_WINDOW: u32 = 512 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Bytes of an answer that wait for its client.
const SEND_BUFFER_MAX: usize = 256 * 1024;
/// Streams that clients have reset before anybody saw them, and that the server has reset for an error of the client.
const RESET_MAX: usize = 32;

/// Whether a connection that begins with this speaks HTTP/2, as far as its first line and what follows tell.
pub fn is_spoken(beginning: &[u8]) -> bool {
    beginning.starts_with(PREFACE) || beginning.len() >= FIRST_LINE && PREFACE.starts_with(beginning)
}

/// Serves a connection to its end. `ahead`: what was read of it already.
pub async fn serve<S>(context: Arc<Context>, conn: Arc<Conn>, stream: S, ahead: Bytes, origin: Origin)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = context.shared.options.limits;
    conn.multiplex();
    let io = TokioIo::new(Io::behind(ahead, stream, Arc::clone(&conn), limits));
    let of_service = Arc::clone(&conn);
    let service =
        service_fn(move |request| Box::pin(answer(Arc::clone(&context), of_service.open_stream(), origin, request)));
    let mut hyper = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_MAX)
        .max_local_error_reset_streams(RESET_MAX)
        .max_header_list_size(u32::try_from(limits.head_size_max).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER_MAX)
        .auto_date_header(false)
        .serve_connection(io, service);
    let mut is_closing = false;
    poll_fn(|task| {
        match conn.order(task.waker()) {
            Some(Order::Abort | Order::Refuse(_)) => return Poll::Ready(()),
            Some(Order::Close) if !is_closing => {
                is_closing = true;
                Pin::new(&mut hyper).graceful_shutdown();
            }
            Some(Order::Close) | None => {}
        }
        // What ends it otherwise is the client's.
        Pin::new(&mut hyper).poll(task).map(drop)
    })
    .await;
}

/// Answers one request, unless its stream is told to end.
async fn answer(
    context: Arc<Context>,
    stream: Arc<Conn>,
    origin: Origin,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, CutOff> {
    let ordered = {
        let mut answering = pin!(exchange::answer(Arc::clone(&context), Arc::clone(&stream), origin, request));
        poll_fn(|task| {
            if let Poll::Ready(Ok(response)) = answering.as_mut().poll(task) {
                return Poll::Ready(Ok(response));
            }
            match stream.order(task.waker()) {
                Some(Order::Abort) => Poll::Ready(Err(None)),
                Some(Order::Refuse(refusal)) => Poll::Ready(Err(Some(refusal))),
                Some(Order::Close) | None => Poll::Pending,
            }
        })
        .await
        // Here the request is dropped, which is counted with the order of its stream.
    };
    ordered.or_else(|refusal| {
        let refusal = refusal.ok_or(CutOff)?;
        stream.respond();
        Ok(exchange::refused(&context, &stream, &origin, refusal))
    })
}
