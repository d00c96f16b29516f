//! Connections to a server that requests are passed on to. Each carries one request at a time, and is kept for a while when
//! its answer is read.
//!
//! Method, path, query and headers stay as they came, except those that concern the connection of the client alone. Both
//! bodies are streamed. Must not know how the server is reached, or what it is to know of the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::ext::on_informational;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::receiving::{Receiving, Wish};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// Connections that are kept while nobody needs them, and how long each is. The server ends those that it finds idle, and
/// nobody knows whether it has executed a request that it met on the way.
const IDLE_MAX: usize = 32;
const IDLE_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of a body that wait for the server, and that it answers at once.
const BUFFER_MAX: usize = 64 * 1024;
/// Headers of an answer: an object may have many with metadata.
const HEADERS_MAX: usize = 1024;

type Sender = SendRequest<Receiving>;
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A request has no answer.
#[derive(Debug)]
pub struct Unanswered {
    pub cause: Failure,
    /// The server has not got a byte of it.
    pub is_unsent: bool,
}

impl Unanswered {
    pub fn unsent(cause: impl Into<Failure>) -> Self {
        Self { cause: cause.into(), is_unsent: true }
    }

    pub fn lost(cause: impl Into<Failure>) -> Self {
        Self { cause: cause.into(), is_unsent: false }
    }
}

#[derive(Default)]
pub struct Pool {
    /// The one that was used last is the last one.
    idle: Arc<Mutex<Vec<(Instant, Sender)>>>,
}

impl Pool {
    /// The answer to a request. If no connection is at hand, `connect` makes one.
    pub async fn ask<S>(
        &self,
        request: Request<Receiving>,
        connect: impl Future<Output = Result<S, Failure>>,
    ) -> Result<Response<Incoming>, Unanswered>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, mut answer) = self.send(request, connect).await?;
        let idle = Arc::clone(&self.idle);
        tokio::spawn(async move {
            // It is ready again when the answer is read.
            if sender.ready().await.is_ok() {
                let mut idle = idle.lock();
                if idle.len() < IDLE_MAX {
                    idle.push((Instant::now(), sender));
                }
            }
        });
        let headers = answer.headers();
        let has_end = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
        if !has_end && !answer.body().is_end_stream() {
            return Err(Unanswered::lost("nobody could tell whether the answer is whole"));
        }
        let headers = answer.headers_mut();
        headers.remove(TRANSFER_ENCODING);
        headers.remove(KEEP_ALIVE);
        Ok(answer)
    }

    /// Sends it over a connection that is kept, or over a new one if that has ended meanwhile.
    async fn send<S>(
        &self,
        mut request: Request<Receiving>,
        connect: impl Future<Output = Result<S, Failure>>,
    ) -> Result<(Sender, Response<Incoming>), Unanswered>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        while let Some(mut sender) = self.take() {
            match sender.try_send_request(request).await {
                Ok(answer) => return Ok((sender, answer)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Unanswered::lost(error.into_error())),
                },
            }
        }
        let stream = TokioIo::new(connect.await.map_err(Unanswered::unsent)?);
        let mut builder = Builder::new();
        let builder = builder.max_buf_size(BUFFER_MAX).max_headers(HEADERS_MAX);
        let (mut sender, connection) = builder.handshake(stream).await.map_err(Unanswered::unsent)?;
        tokio::spawn(connection);
        match sender.try_send_request(request).await {
            Ok(answer) => Ok((sender, answer)),
            Err(mut error) => {
                let is_unsent = error.take_message().is_some();
                Err(Unanswered { cause: error.into_error().into(), is_unsent })
            }
        }
    }

    fn take(&self) -> Option<Sender> {
        let mut idle = self.idle.lock();
        idle.retain(|(since, sender)| since.elapsed() < IDLE_TIME_MAX && sender.is_ready());
        idle.pop().map(|(_, sender)| sender)
    }
}

/// A request as it is passed on. `wish`: the body waits for it, until the server asks for a 100 (Continue).
pub fn passed_on(parts: &Parts, body: Receiving, wish: Option<Arc<Wish>>) -> Result<Request<Receiving>, Failure> {
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = Uri::from(parts.uri.path_and_query().cloned().ok_or("a target has no path")?);
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = parts.headers.clone();
    let headers = request.headers_mut();
    remove_those_of_the_connection(headers);
    if let Some(wish) = wish {
        headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
        on_informational(&mut request, move |_| wish.want());
    }
    Ok(request)
}

/// Removes what concerns the connection of the client alone (RFC 9110, section 7.6.1), but neither the host nor where the
/// body ends, whatever Connection names.
fn remove_those_of_the_connection(headers: &mut HeaderMap) {
    let values: Vec<_> = headers.get_all(CONNECTION).iter().cloned().collect();
    let named = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    for name in named.filter_map(|name| HeaderName::try_from(name.trim()).ok()) {
        if ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING].contains(&name) {
            headers.remove(name);
        }
    }
    for name in [CONNECTION, EXPECT, UPGRADE, TE, KEEP_ALIVE, PROXY_CONNECTION] {
        headers.remove(name);
    }
}
