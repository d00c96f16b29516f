//! Answers on their way out, in hyper's form. Whoever made one has checked it: nothing is added but Date and how the
//! connection goes on.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, DATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::connections::conn::{Conn, Order};
use crate::connections::refusals::Refusal;
use crate::life::Life;
use crate::receiving::Unwanted;
use crate::waits::{Wait, Waits};
use orcas_base::buffers::Buffer;
use orcas_bodies::download::Download;
use orcas_bodies::problem::Problem;
use orcas_gateway::{Completion, Delivery, Responder};
use orcas_s3::header_block::{HeaderBlock, Name};

/// An answer, or the rest of one, cannot be sent.
#[derive(Debug)]
pub struct CutOff;

impl fmt::Display for CutOff {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the answer, or the rest of it, cannot be sent")
    }
}

impl std::error::Error for CutOff {}

/// The body of an answer. Its request is done when it is dropped.
pub struct AnswerBody {
    content: Content,
    life: Option<Box<Life>>,
    conn: Arc<Conn>,
    /// The rest cannot be sent.
    is_broken: bool,
}

pub enum Content {
    Empty,
    Whole(Bytes),
    Pieces(Pieces),
    /// The body of an answer of the application.
    Passed {
        body: Incoming,
        /// Ends a body that may have no end of its own, when its client has gone.
        gone: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
        /// The body of the request, as long as somebody may want it.
        _unwanted: Unwanted,
    },
}

impl AnswerBody {
    pub fn new(content: Content, life: Option<Box<Life>>, conn: &Arc<Conn>) -> Self {
        Self { content, life, conn: Arc::clone(conn), is_broken: false }
    }

    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        if self.is_broken {
            return Poll::Ready(Some(Err(CutOff)));
        }
        let frame = self.next_of_content(context);
        if matches!(frame, Poll::Ready(Some(Err(_)))) {
            // hyper ends the connection at once, but sends what it was given before it asks again.
            self.is_broken = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        frame
    }

    fn next_of_content(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        match &mut self.content {
            Content::Empty => Poll::Ready(None),
            Content::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.content = Content::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Content::Pieces(pieces) => {
                let piece = ready!(pieces.poll_next(context));
                if pieces.is_over()
                    && let Some(life) = &mut self.life
                {
                    life.sent();
                }
                Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
            }
            Content::Passed { body, gone, .. } => {
                if gone.as_mut().is_some_and(|gone| gone.as_mut().poll(context).is_ready()) {
                    return Poll::Ready(Some(Err(CutOff)));
                }
                let frame = ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map_err(|_| CutOff)))
            }
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if matches!(&self.content, Content::Empty)
            && let Some(life) = &mut self.life
        {
            life.sent();
        }
        // Before the next request begins.
        self.life = None;
        self.conn.idle();
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let this = self.get_mut();
        if !this.conn.is_stream() {
            return this.next(context);
        }
        if matches!(this.conn.order(context.waker()), Some(Order::Abort)) {
            return Poll::Ready(Some(Err(CutOff)));
        }
        let frame = this.next(context);
        this.conn.hold_back(frame.is_ready());
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Whole(_) => false,
            Content::Pieces(pieces) => pieces.is_over(),
            Content::Passed { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Pieces(pieces) => SizeHint::with_exact(pieces.left),
            Content::Passed { body, .. } => body.size_hint(),
        }
    }
}

/// A large body, which is read while it is sent.
pub struct Pieces {
    download: Arc<Download>,
    waits: Arc<Waits>,
    delivery: Option<Arc<Delivery>>,
    left: u64,
    /// Bytes of the piece before, which counts as sent when the next one is asked for.
    underway: u64,
    waiting: Option<Wait>,
    first: Option<Buffer>,
}

impl Pieces {
    pub fn new(download: Arc<Download>, waits: &Arc<Waits>, delivery: Option<Arc<Delivery>>) -> Self {
        let left = download.length();
        Self { download, waits: Arc::clone(waits), delivery, left, underway: 0, waiting: None, first: None }
    }

    /// Waits for the first piece: until it is there, the answer can still be another.
    pub async fn begin(&mut self) -> Result<(), CutOff> {
        self.first = Some(poll_fn(|context| self.poll_piece(context)).await?);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutOff>>> {
        self.count(0);
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = match self.first.take() {
            Some(piece) => piece,
            None => ready!(self.poll_piece(context))?,
        };
        let length = piece.len() as u64;
        self.left = self.left.saturating_sub(length);
        self.count(length);
        if self.left == 0 {
            self.count(0);
        }
        Poll::Ready(Some(Ok(piece.into())))
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Buffer, CutOff>> {
        let piece = match &mut self.waiting {
            None => self.ask(),
            Some(_) => None,
        };
        let piece = match (piece, &mut self.waiting) {
            (Some(piece), _) => piece,
            (None, Some(waiting)) => match ready!(Pin::new(waiting).poll(context)) {
                Completion::Piece(piece) => piece,
                _ => return Poll::Ready(Err(CutOff)),
            },
            (None, None) => return Poll::Ready(Err(CutOff)),
        };
        self.waiting = None;
        Poll::Ready(piece.map_err(|problem| {
            let reason = problem.fault.unwrap_or_else(|| problem.error.to_string());
            tracing::error!(reason, "An object is damaged: the rest of a response cannot be sent");
            CutOff
        }))
    }

    /// Asks for a piece, which is there, or is waited for from now on.
    fn ask(&mut self) -> Option<Result<Buffer, Problem>> {
        let slot = self.waits.slot();
        let (waits, number) = (Arc::clone(&self.waits), slot.number());
        let piece = self.download.next(Box::new(move |piece| waits.complete(number, Completion::Piece(piece))));
        if piece.is_none() {
            self.waiting = Some(slot.wait());
        }
        piece
    }

    /// The piece before was handed to the socket, and `next` bytes follow.
    fn count(&mut self, next: u64) {
        let sent = std::mem::replace(&mut self.underway, next);
        if let Some(delivery) = self.delivery.as_ref().filter(|_| sent > 0) {
            delivery.add(sent);
        }
    }
}

/// The headers of an answer of the gateway.
pub fn headers_of(block: HeaderBlock, date: HeaderValue) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(DATE, date);
    for (name, value) in block.into_fields() {
        let name = match name {
            Name::Known(name) => Ok(HeaderName::from_static(name)),
            Name::Given(name) => HeaderName::from_bytes(name.as_bytes()),
        };
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_maybe_shared(value)) {
            headers.append(name, value);
        }
    }
    headers
}

/// The connection ends after this, unless it carries other requests.
pub fn close(headers: &mut HeaderMap, conn: &Conn) {
    if !conn.is_stream() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// The answer to what is refused before it is a request.
pub fn refused(refusal: &Refusal, request_id: &str, date: HeaderValue, conn: &Arc<Conn>) -> Response<AnswerBody> {
    let document = Bytes::from(refusal.document(request_id));
    let length = HeaderValue::from(document.len() as u64);
    let content = if conn.facts().is_head_request { Content::Empty } else { Content::Whole(document) };
    let mut response = Response::new(AnswerBody::new(content, None, conn));
    *response.status_mut() = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let headers = response.headers_mut();
    headers.insert(DATE, date);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    headers.insert(http::header::CONTENT_LENGTH, length);
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(HeaderName::from_static("x-amz-request-id"), id);
    }
    close(headers, conn);
    response
}
