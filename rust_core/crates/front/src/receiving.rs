//! The body of a request as it arrives, piece by piece.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::connections::conn::{Conn, Order};
use crate::connections::refusals;
use orcas_bodies::incomplete::Counted;

/// The client has gone, or what it sends is no body. The connection ends.
#[derive(Debug)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the client has gone")
    }
}

impl std::error::Error for Gone {}

pub struct Receiving {
    /// `None`: there is none.
    body: Option<Incoming>,
    /// A piece that was taken and given back.
    held: Option<Bytes>,
    conn: Arc<Conn>,
    /// Whether the client was asked for it.
    is_begun: bool,
    wanted: Option<oneshot::Receiver<()>>,
    /// Ends when nobody wants the rest.
    kept: Option<oneshot::Receiver<()>>,
    /// The bytes that have arrived, which count as incomplete until the body is complete.
    counted: Option<Counted<Conn>>,
}

/// The signal for a body whose client sends it only if it is asked to: somebody wants the body, or nobody ever will.
pub struct Wish(Mutex<Option<oneshot::Sender<()>>>);

impl Wish {
    pub fn want(&self) {
        if let Some(waiting) = self.0.lock().take() {
            // Its request may have ended.
            let _ = waiting.send(());
        }
    }
}

/// Dropped with the answer to its request: nobody will want the body any more.
pub struct Unwanted {
    wish: Option<Arc<Wish>>,
    _kept: oneshot::Sender<()>,
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        if let Some(wish) = &self.wish {
            drop(wish.0.lock().take());
        }
    }
}

impl Receiving {
    pub fn new(body: Incoming, conn: Arc<Conn>) -> Self {
        Self { body: Some(body), held: None, conn, is_begun: false, wanted: None, kept: None, counted: None }
    }

    /// No body.
    pub fn nothing(conn: Arc<Conn>) -> Self {
        Self { body: None, held: None, conn, is_begun: false, wanted: None, kept: None, counted: None }
    }

    /// Receives nothing until it is wanted. `None`: the client was asked for it already.
    pub fn wait(&mut self) -> Option<Arc<Wish>> {
        if self.is_begun {
            return None;
        }
        let (waiting, wanted) = oneshot::channel();
        self.wanted = Some(wanted);
        Some(Arc::new(Wish(Mutex::new(Some(waiting)))))
    }

    /// Counts what arrives from now on as `counted`.
    pub fn count(&mut self, counted: Counted<Conn>) {
        self.counted = Some(counted);
    }

    /// Receives nothing after the return value is dropped. `wish`: that of `wait`.
    pub fn until_answered(&mut self, wish: Option<Arc<Wish>>) -> Unwanted {
        let (keep, kept) = oneshot::channel();
        self.kept = Some(kept);
        Unwanted { wish, _kept: keep }
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, Gone>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As `next`. Trailers are dropped: only the head was signed.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Gone>>> {
        if let Some(held) = self.held.take() {
            return Poll::Ready(Some(Ok(held)));
        }
        if let Some(wanted) = &mut self.wanted {
            if ready!(Pin::new(wanted).poll(context)).is_err() {
                return Poll::Ready(Some(Err(Gone)));
            }
            self.wanted = None;
        }
        if let Some(kept) = &mut self.kept
            && Pin::new(kept).poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(Gone)));
        }
        self.is_begun = true;
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) else {
                self.conn.await_body();
                return Poll::Pending;
            };
            let data = match frame {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    // The connection ends. Where framing is broken, nobody knows where the next request begins.
                    let order = if is_framing(&error) { Order::Refuse(&refusals::MALFORMED) } else { Order::Abort };
                    self.conn.end(order);
                    return Poll::Ready(Some(Err(Gone)));
                }
                None => {
                    self.conn.body_arrived(0, true);
                    return Poll::Ready(None);
                }
            };
            let is_all = body.is_end_stream();
            self.conn.body_arrived(data.len(), is_all);
            if is_all {
                self.counted = None;
            } else if let Some(counted) = &self.counted {
                // The application holds it, too.
                counted.grow(2 * data.len());
            }
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(data)));
            }
        }
    }

    /// Whether nothing more comes.
    pub fn is_complete(&self) -> bool {
        self.held.is_none() && self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    /// Gives back what was taken, as the next piece.
    pub fn give_back(&mut self, rest: Bytes) {
        if !rest.is_empty() {
            self.held = Some(rest);
        }
    }
}

/// Whether the client has sent what is no body, and not just less than it announced.
fn is_framing(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| matches!(cause.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData))
}

/// As it is passed on to another server.
impl Body for Receiving {
    type Data = Bytes;
    type Error = Gone;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Gone>>> {
        self.poll_next(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_complete()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.as_ref().map_or(0, |held| held.len() as u64);
        let rest = self.body.as_ref().map_or(Some(0), |body| body.size_hint().exact());
        rest.map_or_else(SizeHint::new, |rest| SizeHint::with_exact(rest + held))
    }
}
