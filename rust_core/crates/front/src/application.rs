//! The way to the application that answers what is not S3: requests go over pairs of sockets as they came.
//!
//! One end of each pair is sent to the application over a socket that both have had from the start, so nobody else can
//! reach it.
//!
//! Path, query, headers and so the signature stay unchanged. The address of the client, the scheme and the certificate that
//! the client has shown are in headers of the listener's own, which only this writes: copies that a client has sent are
//! dropped. Both bodies are streamed.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Pair;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, EXPECT, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::ext::on_informational;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::net::UnixStream;

use crate::origin::Origin;
use crate::receiving::{Receiving, Wish};
use orcas_http::hex;

/// Address and port of the client, and how it writes the address of the server.
const CLIENT: HeaderName = HeaderName::from_static("orcas-front-client");
const SCHEME: HeaderName = HeaderName::from_static("orcas-front-scheme");
/// The certificate of the client, as DER in hexadecimal digits.
const CERTIFICATE: HeaderName = HeaderName::from_static("orcas-front-certificate");
/// The header that marks an answer of the application without an end of its own.
pub const ENDLESS: HeaderName = HeaderName::from_static("orcas-front-endless");
/// The header that marks an answer that the client is not to see: its connection ends instead.
pub const DROPPED: HeaderName = HeaderName::from_static("orcas-front-dropped");
/// Connections that are kept while nobody needs them.
const IDLE_MAX: usize = 32;
/// Bytes of a body that wait for the application, and that it answers at once.
const BUFFER_MAX: usize = 64 * 1024;
/// Until the next attempt, when the application has not taken the ends that were sent before.
const PAUSE: Duration = Duration::from_millis(1);

type Sender = SendRequest<Receiving>;
type Failure = Box<dyn std::error::Error + Send + Sync>;

pub struct Application {
    way: Arc<OwnedFd>,
    idle: Arc<Mutex<Vec<Sender>>>,
}

impl Application {
    /// `way`: ends of connections are sent over this socket.
    pub fn new(way: Arc<OwnedFd>) -> Self {
        Self { way, idle: Arc::default() }
    }

    /// The answer to a request. `wish`: the body waits for it, until the application asks for a 100 (Continue).
    /// `certificate`: the client has shown it, and it was verified.
    pub async fn ask(
        &self,
        parts: &Parts,
        body: Receiving,
        wish: Option<Arc<Wish>>,
        origin: &Origin,
        certificate: Option<&[u8]>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::new(body);
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = Uri::from(parts.uri.path_and_query().cloned().ok_or("a target has no path")?);
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = parts.headers.clone();
        let headers = request.headers_mut();
        // What concerns the connection of the client alone.
        for name in [CONNECTION, EXPECT, UPGRADE] {
            headers.remove(name);
        }
        headers.remove(CERTIFICATE);
        if let Some(certificate) = certificate {
            headers.insert(CERTIFICATE, HeaderValue::try_from(hex(certificate))?);
        }
        if wish.is_some() {
            headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
        headers.insert(CLIENT, HeaderValue::try_from(origin.client.to_string())?);
        headers.insert(SCHEME, HeaderValue::from_static(origin.scheme()));
        if let Some(wish) = wish {
            on_informational(&mut request, move |_| wish.want());
        }
        let (mut sender, answer) = self.send(request).await?;
        let idle = Arc::clone(&self.idle);
        tokio::spawn(async move {
            // It is ready again when the answer is read.
            if sender.ready().await.is_ok() {
                let mut idle = idle.lock();
                if idle.len() < IDLE_MAX {
                    idle.push(sender);
                }
            }
        });
        let mut answer = answer;
        answer.headers_mut().remove(TRANSFER_ENCODING);
        Ok(answer)
    }

    /// Sends it over a connection that is kept, or over a new one if that has ended meanwhile.
    async fn send(&self, mut request: Request<Receiving>) -> Result<(Sender, Response<Incoming>), Failure> {
        while let Some(mut sender) = self.take() {
            match sender.try_send_request(request).await {
                Ok(answer) => return Ok((sender, answer)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error().into()),
                },
            }
        }
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) = Builder::new().max_buf_size(BUFFER_MAX).handshake(stream).await?;
        tokio::spawn(connection);
        let answer = sender.send_request(request).await?;
        Ok((sender, answer))
    }

    async fn connect(&self) -> Result<UnixStream, Failure> {
        let (own, other) = Pair::pair()?;
        own.set_nonblocking(true)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let ends = [other.as_fd()];
        loop {
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&ends));
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(&*self.way, &[IoSlice::new(&[0])], &mut control, flags) {
                Ok(_) => return Ok(UnixStream::from_std(own)?),
                Err(Errno::AGAIN) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take(&self) -> Option<Sender> {
        let mut idle = self.idle.lock();
        std::iter::from_fn(|| idle.pop()).find(|sender| sender.is_ready())
    }
}
