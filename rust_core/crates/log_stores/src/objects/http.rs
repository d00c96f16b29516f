//! Requests to one server, over connections that are kept for the next request.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::Error;
use crate::tls::{connector, server_name};

/// As many as a node that reads ahead uses.
const KEPT_CONNECTIONS: usize = 8;

pub(super) struct Http {
    pub(super) host: String,
    tls: Option<TlsConnector>,
    idle: Mutex<Vec<SendRequest<Whole>>>,
}

pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

type Anything = Box<dyn std::error::Error + Send + Sync>;

impl Http {
    pub(super) fn new(host: String, tls: bool, authorities: &str) -> Result<Self, Error> {
        let tls = if tls { Some(connector(authorities)?) } else { None };
        Ok(Self { host, tls, idle: Mutex::default() })
    }

    /// Sends a request once. A connection that was closed meanwhile, and did not say so yet, makes it fail.
    pub(super) async fn send(&self, request: Request<Whole>, limit: usize) -> Result<Response, Anything> {
        let kept = std::iter::from_fn(|| self.idle.lock().pop()).find(|kept| !kept.is_closed());
        let mut sender = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        sender.ready().await?;
        let (head, mut body) = sender.send_request(request).await?.into_parts();
        let mut whole = BytesMut::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            if let Ok(data) = frame?.into_data() {
                if whole.len() + data.len() > limit {
                    return Err(format!("a response is longer than {limit} bytes").into());
                }
                whole.extend_from_slice(&data);
            }
        }
        let mut idle = self.idle.lock();
        if idle.len() < KEPT_CONNECTIONS {
            idle.push(sender);
        }
        Ok(Response { status: head.status, headers: head.headers, body: whole.freeze() })
    }

    async fn connect(&self) -> Result<SendRequest<Whole>, Anything> {
        let (name, port) = match self.host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((name, port)) => (name, port.parse()?),
            None => (self.host.as_str(), if self.tls.is_some() { 443 } else { 80 }),
        };
        let stream = TcpStream::connect((name.trim_start_matches('[').trim_end_matches(']'), port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            Some(tls) => begin(tls.connect(server_name(name)?, stream).await?).await,
            None => begin(stream).await,
        }
    }
}

async fn begin<S>(stream: S) -> Result<SendRequest<Whole>, Anything>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends when its sender is dropped. What has failed, the request says.
    tokio::spawn(connection);
    Ok(sender)
}

/// A body in one piece.
pub(super) struct Whole(pub(super) Bytes);

impl Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let body = std::mem::take(&mut self.0);
        Poll::Ready((!body.is_empty()).then(|| Ok(Frame::data(body))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}
