//! The way to the application that answers what is not S3: requests go over pairs of sockets as they came.
//!
//! One end of each pair is sent to the application over a socket that both have had from the start, so nobody else can
//! reach it.
//!
//! The address of the client, the scheme and the certificate that the client has shown are in headers of the listener's
//! own, which only this writes: copies that a client has sent are dropped.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Pair;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};
use hyper::body::Incoming;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::net::UnixStream;

use crate::elsewhere::pool::{Failure, Pool, passed_on};
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
/// Until the next attempt, when the application has not taken the ends that were sent before.
const PAUSE: Duration = Duration::from_millis(1);

pub struct Application {
    way: Arc<OwnedFd>,
    pool: Pool,
}

impl Application {
    /// `way`: ends of connections are sent over this socket.
    pub fn new(way: Arc<OwnedFd>) -> Self {
        Self { way, pool: Pool::default() }
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
        let mut request = passed_on(parts, body, wish)?;
        let headers = request.headers_mut();
        headers.remove(CERTIFICATE);
        if let Some(certificate) = certificate {
            headers.insert(CERTIFICATE, HeaderValue::try_from(hex(certificate))?);
        }
        headers.insert(CLIENT, HeaderValue::try_from(origin.client.to_string())?);
        headers.insert(SCHEME, HeaderValue::from_static(origin.scheme()));
        self.pool.ask(request, self.connect()).await.map_err(|unanswered| unanswered.cause)
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
}
