//! A runtime thread: accepts connections from the shared sockets and serves them.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::connections::conn::Conn;
use crate::connections::io::Socket;
use crate::connections::{connection, http2, refusals, tls};
use crate::context::Context;
use crate::origin::Origin;

/// The code under which metrics count handshakes that failed.
const FAILED: &str = "TLSHandshakeFailed";
const TICK: Duration = Duration::from_secs(1);
/// Between two looks whether connections have ended, and how many of them there are when they were told to.
const LOOK: Duration = Duration::from_millis(10);
const FAREWELL_LOOKS: u32 = 100;
/// For clients of streams to read how these end, when the server stops.
const STREAMS: Duration = Duration::from_secs(1);
/// Until the next attempt when there are no descriptors or no memory for another connection.
const PAUSE: Duration = Duration::from_secs(1);

/// The phase of the server, which tells the threads what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Serve,
    /// Accept no more, and end when nobody is served any more.
    Drain,
    /// End what is left.
    Cut,
}

/// Serves until `phase` says otherwise. The sockets stay open in whoever has lent them.
pub async fn run(context: Arc<Context>, listeners: Vec<OwnedFd>, mut phase: watch::Receiver<Phase>) -> io::Result<()> {
    let distributing = tokio::spawn(Arc::clone(&context.waits).distribute());
    let ticking = tokio::spawn(tick(Arc::clone(&context)));
    let listeners: Vec<_> =
        listeners.into_iter().map(|listener| TcpListener::from_std(listener.into())).collect::<io::Result<_>>()?;
    // None of the sockets waits for another that is busy.
    let mut turn = 0;
    while *phase.borrow() == Phase::Serve {
        turn += 1;
        tokio::select! {
            _ = phase.changed() => {}
            accepted = poll_fn(|context| accept(&listeners, turn, context)) => match accepted {
                Ok((stream, peer)) => begin(&context, stream, peer),
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "No connection can be accepted");
                    sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listeners);
    context.conns().iter().for_each(|conn| conn.drain());
    let (mut left, draining) = (FAREWELL_LOOKS, Instant::now());
    while context.count_conns() > 0 && left > 0 {
        if draining.elapsed() > STREAMS {
            context.conns().iter().for_each(|conn| conn.cut_endless());
        }
        if *phase.borrow() == Phase::Cut {
            if left == FAREWELL_LOOKS {
                context.conns().iter().for_each(|conn| conn.cut());
            }
            left -= 1;
        }
        sleep(LOOK).await;
    }
    ticking.abort();
    distributing.abort();
    Ok(())
}

/// A connection to any of them. Which is asked first depends on `turn`.
fn accept(
    listeners: &[TcpListener],
    turn: usize,
    context: &mut task::Context<'_>,
) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    let in_turn = listeners.iter().cycle().skip(turn % listeners.len().max(1)).take(listeners.len());
    let ready = in_turn.map(|listener| listener.poll_accept(context)).find(Poll::is_ready);
    ready.unwrap_or(Poll::Pending)
}

fn begin(context: &Arc<Context>, stream: TcpStream, peer: SocketAddr) {
    // Answers are written whole.
    let _ = stream.set_nodelay(true);
    let stream = Arc::new(stream);
    let conn = Conn::new(Arc::clone(&stream));
    let open = context.open(&conn);
    let context = Arc::clone(context);
    let tls = context.shared.tls.config();
    let origin = Origin { client: peer, is_tls: tls.is_some() };
    tokio::spawn(async move {
        match tls {
            None => connection::serve(context, conn, Socket(stream), origin).await,
            Some(config) => greet(context, conn, stream, config, origin).await,
        }
        drop(open);
    });
}

/// Serves a connection with TLS, if its handshake ends in time.
async fn greet(
    context: Arc<Context>,
    conn: Arc<Conn>,
    stream: Arc<TcpStream>,
    config: Arc<ServerConfig>,
    origin: Origin,
) {
    let greeted = {
        let mut handshake = context.shared.tls.begin();
        let seconds = context.shared.options.limits.head_sec;
        let is_proxy = context.shared.options.trusted_proxies.trusts(origin.ip());
        let greeting = async {
            let mut first = [0];
            match stream.peek(&mut first).await? {
                0 => Ok(Greeted::Left),
                _ if first == [tls::HANDSHAKE] => {
                    let hello = LazyConfigAcceptor::new(Acceptor::default(), Socket(Arc::clone(&stream))).await?;
                    let config = context.shared.tls.choose(&hello.client_hello(), config);
                    let accepted = hello.into_stream(config).await?;
                    let shown = accepted.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    // That of a proxy says nothing of those who send requests through it.
                    if let Some(shown) = shown.filter(|_| !is_proxy) {
                        conn.identify(shown);
                    }
                    Ok(Greeted::Tls(Box::new(accepted)))
                }
                _ => Ok(Greeted::Plain),
            }
        };
        tokio::select! {
            greeted = greeting => greeted.map_err(|error: io::Error| error.to_string()),
            _ = &mut handshake.ended => Err("there were too many others".into()),
            () = sleep(Duration::from_secs(seconds.into())) => Err(format!("it took more than {seconds} s")),
        }
    };
    match greeted {
        Ok(Greeted::Tls(stream)) if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2) => {
            http2::serve(context, conn, stream, Bytes::new(), origin).await;
        }
        Ok(Greeted::Tls(mut stream)) if stream.get_ref().1.alpn_protocol() == Some(tls::CHALLENGE) => {
            let name = stream.get_ref().1.server_name().unwrap_or_default();
            tracing::info!(client = %origin, name, "The certificate of a challenge was shown");
            // The handshake was all there is to say.
            let _ = stream.shutdown().await;
        }
        Ok(Greeted::Tls(stream)) => connection::serve(context, conn, stream, origin).await,
        Ok(Greeted::Plain) => {
            connection::refuse(&context, Socket(stream), &origin, &refusals::NO_TLS).await;
        }
        Ok(Greeted::Left) => {}
        Err(cause) => {
            context.shared.count(FAILED);
            tracing::info!(client = %origin, cause, "A TLS handshake failed");
        }
    }
}

enum Greeted {
    Tls(Box<TlsStream<Socket>>),
    /// The client does not speak TLS.
    Plain,
    Left,
}

async fn tick(context: Arc<Context>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        context.tick();
    }
}

/// Whether only one connection is concerned, which its client has ended already.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
