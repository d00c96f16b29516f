//! The owner of the log that the nodes of a cluster share, as far as this node knows it, and the way to it.
//!
//! The owner carries requests out, and the other nodes pass them on to it. It has to see the client as if that had come to
//! it directly, so the address and the scheme are in the headers of proxies: it believes them if it trusts this node. A
//! request makes one such hop, however wrong nodes are about each other. Must not know how an owner is found.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::HOST;
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use parking_lot::Mutex;
use rustix::net::sockopt;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::elsewhere::pool::{Failure, Pool, Unanswered, passed_on};
use crate::origin::Origin;
use crate::receiving::{Receiving, Wish};

/// The header of a request that another node has passed on. A client that sends it has its request refused where others'
/// would be passed on, and nothing else comes of it.
pub const HOP: HeaderName = HeaderName::from_static("orcas-hop");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Name, connection and TLS together.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// A machine that has gone without a word is noticed after the first silence and so many questions.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const QUESTIONS_PAUSE: Duration = Duration::from_secs(5);
const QUESTIONS_MAX: u32 = 3;
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MS_MAX: u32 = 25_000;
/// For answers that an owner still gives when another one has taken its place.
const FAREWELL: Duration = Duration::from_secs(5);

/// The node that carries requests out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This one.
    Here,
    /// A server that is reached at this address. `authorities`: whose certificates count if it speaks TLS (PEM).
    At { url: String, authorities: String },
    /// No node, as far as this one knows.
    Nobody,
}

/// As `Owner`, with a way to it.
#[derive(Clone)]
pub enum Place {
    Here,
    At(Arc<Remote>),
    Nobody,
}

/// How often requests were passed on, by what came of it, and how often they were read here instead.
#[derive(Default)]
pub struct PassedCounts([AtomicU64; 5]);

/// What came of a request that this node does not carry out.
#[derive(Clone, Copy, Debug)]
pub enum Passed {
    Answered,
    /// The owner is not known, or could not be reached.
    Refused,
    /// The way to the owner broke before there was an answer.
    Lost,
    /// The request went a second time after that.
    Repeated,
    /// This node has answered it, though another one owns the log.
    Read,
}

impl PassedCounts {
    pub fn add(&self, passed: Passed) {
        self.0[passed as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> [(&'static str, u64); 5] {
        let names = ["answered", "refused", "lost", "repeated", "read"];
        std::array::from_fn(|at| (names[at], self.0[at].load(Ordering::Relaxed)))
    }
}

/// Where the owner is, which may change at any time.
pub struct Ownership {
    place: watch::Sender<Place>,
    /// What the place was made of.
    said: Mutex<Owner>,
    threads: usize,
}

impl Ownership {
    /// `threads`: those that pass requests on.
    pub fn new(threads: usize, is_known: bool) -> Self {
        let (owner, place) = if is_known { (Owner::Here, Place::Here) } else { (Owner::Nobody, Place::Nobody) };
        Self { place: watch::Sender::new(place), said: Mutex::new(owner), threads }
    }

    /// Requests go there from now on. `changed` is called before another change can be made.
    ///
    /// # Errors
    /// Says why they cannot; then the owner stays who it was.
    pub fn set(&self, owner: Owner, changed: impl FnOnce(&Place)) -> Result<(), String> {
        let mut said = self.said.lock();
        if *said == owner {
            return Ok(());
        }
        let place = match &owner {
            Owner::Here => Place::Here,
            Owner::At { url, authorities } => Place::At(Arc::new(Remote::new(url, authorities, self.threads)?)),
            Owner::Nobody => Place::Nobody,
        };
        self.place.send_replace(place.clone());
        changed(&place);
        *said = owner;
        Ok(())
    }

    pub fn place(&self) -> Place {
        self.place.borrow().clone()
    }

    /// Waits until the owner is not `remote` any more, and it has had time for its last answers.
    pub async fn is_replaced(&self, remote: &Arc<Remote>) {
        let mut told = self.place.subscribe();
        // The sender is a part of this.
        let _ = told.wait_for(|place| !matches!(place, Place::At(now) if Arc::ptr_eq(now, remote))).await;
        sleep(FAREWELL).await;
    }
}

/// Another server.
pub struct Remote {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// One for each thread, whose event loop its connections are bound to.
    pools: Vec<Pool>,
}

/// A socket, with or without TLS.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Remote {
    fn new(url: &str, authorities: &str, threads: usize) -> Result<Self, String> {
        let wrong = || format!("{url:?} is no address of a server, such as https://node-1:9000");
        let parsed: Uri = url.parse().map_err(|_| wrong())?;
        let authority = parsed.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        let is_tls = match parsed.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(wrong()),
        };
        if parsed.path() != "/" || parsed.query().is_some() || authority.host().is_empty() {
            return Err(wrong());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = if is_tls {
            let name = ServerName::try_from(host.clone()).map_err(|_| wrong())?;
            Some((connector(authorities)?, name))
        } else {
            None
        };
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self { host, port, tls, pools: (0..threads).map(|_| Pool::default()).collect() })
    }

    /// The answer to a request that `thread` passes on. `wish`: the body waits for it, until the owner asks for a 100
    /// (Continue).
    pub async fn ask(
        &self,
        thread: usize,
        parts: &Parts,
        body: Receiving,
        wish: Option<Arc<Wish>>,
        origin: &Origin,
    ) -> Result<Response<Incoming>, Unanswered> {
        let mut request = passed_on(parts, body, wish).map_err(Unanswered::unsent)?;
        let headers = request.headers_mut();
        headers.insert(HOP, HeaderValue::from_static("1"));
        headers.insert(FORWARDED_FOR, HeaderValue::try_from(origin.ip().to_string()).map_err(Unanswered::unsent)?);
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static(origin.scheme()));
        let connect = async { timeout(CONNECT_MAX, self.connect()).await.map_err(Failure::from)? };
        self.pools[thread].ask(request, connect).await
    }

    /// The answer to a request of this node's own, which `thread` sends.
    pub async fn send(&self, thread: usize, mut request: Request<Receiving>) -> Result<Response<Incoming>, Unanswered> {
        let host = HeaderValue::try_from(format!("{}:{}", self.host, self.port)).map_err(Unanswered::unsent)?;
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(HOP, HeaderValue::from_static("1"));
        let connect = async { timeout(CONNECT_MAX, self.connect()).await.map_err(Failure::from)? };
        self.pools[thread].ask(request, connect).await
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, Failure> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        watch_over(&stream)?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
        })
    }
}

/// Lets the connection fail when the machine at its other end has gone.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE_MAX)?;
    sockopt::set_tcp_keepintvl(stream, QUESTIONS_PAUSE)?;
    sockopt::set_tcp_keepcnt(stream, QUESTIONS_MAX)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS_MAX)?;
    Ok(())
}

fn connector(authorities: &str) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        let found = found.map_err(|error| format!("the certificates of authorities: {error}"))?;
        // Collections for a whole system have certificates that nobody can use.
        let _ = roots.add(found);
    }
    if roots.is_empty() {
        return Err("TLS needs the certificates of authorities, and there are none".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
}
