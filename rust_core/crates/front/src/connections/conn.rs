//! The state of one connection that its task, its requests and the clock share: how far the present request is, and how
//! the connection is to end.
//!
//! Where a connection carries several requests at once (HTTP/2), each stream has a state of its own, which is that of a
//! connection with one request. The clock ticks once a second for each connection, so a request needs no timer. Must not
//! know HTTP beyond the stages of a request.

use std::iter::Sum;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::connections::limits::Limits;
use crate::connections::message::Lines;
use crate::connections::refusals::{self, Refusal};
use crate::connections::tls;
use orcas_bodies::incomplete::Sender;

/// The least rate of a body, against clients that send slowly on purpose.
const BODY_BYTES_PER_SECOND: f64 = 1024.0;
/// Bytes of a head that are kept beyond its limit, so that it is seen that it is too long.
const HEAD_SLACK: usize = 1024;

/// Requests on one connection that its client may give up before they have an answer, beyond those that it waits for: the
/// work for them has begun, and nothing else limits how fast it gives up more (CVE-2023-44487).
const GIVEN_UP_MAX: u32 = 100;

/// The end of a chunked body.
const END: &[u8; 4] = b"\r\n\r\n";

/// Between two looks whether a client has gone that has sent its next request already.
const LOOK: Duration = Duration::from_secs(1);

/// How a connection is to end.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// After the request under way.
    Close,
    /// With this answer, if none has begun.
    Refuse(&'static Refusal),
    Abort,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// A head is arriving.
    Head,
    /// A request is being answered.
    Busy,
}

pub struct Conn {
    pub socket: Arc<TcpStream>,
    /// The connection that this is a stream of.
    carrier: Option<Arc<Conn>>,
    /// The certificate that the client has shown, if it was verified.
    certificate: OnceLock<Box<[u8]>>,
    /// A body is arriving whose sender is not known: it is read in small steps, for which hyper keeps its buffer small.
    is_unverified: AtomicBool,
    state: Mutex<State>,
}

/// The streams of one connection.
#[derive(Default)]
struct Streams {
    /// The streams whose request is not done.
    open: Vec<Weak<Conn>>,
    /// Requests that were given up, less those that were not.
    given_up: u32,
}

#[derive(Default)]
struct State {
    stage: Stage,
    /// Seconds since the stage began, or since the last progress.
    age: u32,
    /// The bytes of the head that have arrived, and below the facts from its lines.
    head: Vec<u8>,
    lines: Lines,
    /// Bytes of the message that have not arrived, once its head is whole; `u64::MAX`: nobody knows.
    left: u64,
    /// The last bytes that have arrived of a message whose end nobody knows.
    tail: [u8; END.len()],
    /// The bytes that have arrived already belong to the next message.
    is_ahead: bool,
    /// Bytes of the present body, those that the last tick saw, and the seconds by which its sender is behind.
    received: u64,
    seen: u64,
    behind: f64,
    has_whole_body: bool,
    /// A request waits for its sender, and only for its sender.
    awaits_body: bool,
    /// The socket takes no more at the moment.
    write_waits: bool,
    written: u64,
    written_seen: u64,
    /// Something of an answer may still be in hyper's buffers.
    is_dirty: bool,
    /// The client asked for a 100 (Continue) before a body of no bytes.
    wants_continue: bool,
    /// The present request has its answer, or a part of it.
    responded: bool,
    /// A body was left unread.
    unread: bool,
    is_head_request: bool,
    /// The answer to the present request has no end of its own.
    is_endless: bool,
    order: Option<Order>,
    task: Option<Waker>,
    /// The streams of a connection that carries several requests at once.
    streams: Option<Box<Streams>>,
    /// The client takes no more of the answer at the moment. Only of a stream.
    is_held_back: bool,
}

impl Sender for Conn {
    fn shed(&self) {
        self.end(Order::Refuse(&refusals::SLOW_DOWN));
    }
}

impl Conn {
    pub fn new(socket: Arc<TcpStream>) -> Arc<Self> {
        Arc::new(Self {
            socket,
            carrier: None,
            certificate: OnceLock::new(),
            is_unverified: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// The client has shown this certificate (DER), which was verified.
    pub fn identify(&self, certificate: &[u8]) {
        self.certificate.get_or_init(|| certificate.into());
    }

    /// The certificate of the client (DER), if it has shown one that was verified.
    pub fn certificate(&self) -> Option<&[u8]> {
        let of_connection = self.carrier.as_deref().unwrap_or(self);
        of_connection.certificate.get().map(|certificate| &**certificate)
    }

    /// From now on, requests of this connection are streams.
    pub fn multiplex(&self) {
        let mut state = self.state.lock();
        (state.stage, state.age) = (Stage::Head, 0);
        state.head = Vec::new();
        state.streams = Some(Box::default());
    }

    /// The state of a new stream of this connection.
    pub fn open_stream(self: &Arc<Self>) -> Arc<Self> {
        let (socket, carrier) = (Arc::clone(&self.socket), Some(Arc::clone(self)));
        let (certificate, is_unverified) = Default::default();
        let stream = Arc::new(Self { socket, carrier, certificate, is_unverified, state: Mutex::default() });
        let mut state = self.state.lock();
        state.stage = Stage::Busy;
        if let Some(streams) = &mut state.streams {
            streams.open.push(Arc::downgrade(&stream));
        }
        stream
    }

    pub fn is_stream(&self) -> bool {
        self.carrier.is_some()
    }

    /// The request of this stream is done, or its client has given it up.
    fn close_stream(&self, carrier: &Self) {
        let gave_up = !self.state.lock().responded;
        let mut state = carrier.state.lock();
        let Some(streams) = &mut state.streams else { return };
        streams.open.retain(|open| open.as_ptr() != std::ptr::from_ref(self));
        streams.given_up = if gave_up { streams.given_up + 1 } else { streams.given_up.saturating_sub(1) };
        let too_many = streams.given_up > GIVEN_UP_MAX;
        if streams.open.is_empty() {
            (state.stage, state.age) = (Stage::Idle, 0);
        }
        drop(state);
        if too_many {
            carrier.end(Order::Abort);
        }
    }

    /// The next part of the answer of a stream was asked for: whether it is there, and so waits for the client now.
    pub fn hold_back(&self, is_there: bool) {
        let mut state = self.state.lock();
        (state.is_held_back, state.age) = (is_there, 0);
    }

    /// The order that the connection's task follows; it is woken for the next one.
    pub fn order(&self, waker: &Waker) -> Option<Order> {
        let mut state = self.state.lock();
        if !state.task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            state.task = Some(waker.clone());
        }
        state.order
    }

    pub fn end(&self, order: Order) {
        let mut state = self.state.lock();
        // The first refusal stays; only an abort is more.
        if matches!(state.order, None | Some(Order::Close)) || matches!(order, Order::Abort) {
            state.order = Some(order);
        }
        let task = state.task.take();
        drop(state);
        task.into_iter().for_each(Waker::wake);
    }

    /// The answer that the connection gives in place of the application.
    pub fn refusal(&self) -> Option<&'static Refusal> {
        match self.state.lock().order {
            Some(Order::Refuse(refusal)) => Some(refusal),
            _ => None,
        }
    }

    /// Bytes have arrived that no parser has seen yet. Returns how many of them belong to the present message; if there
    /// are others, they are offered again. If none does, the connection's task is woken when the next message may begin.
    pub fn read(&self, bytes: &[u8], limits: &Limits) -> usize {
        let state = &mut *self.state.lock();
        if state.streams.is_some() {
            return bytes.len();
        }
        if state.stage == Stage::Idle {
            (state.stage, state.age) = (Stage::Head, 0);
            state.head.clear();
            (state.lines, state.left, state.tail) = (Lines::default(), 0, [0; END.len()]);
        }
        let mut of_head = 0;
        if state.stage == Stage::Head && !state.lines.is_whole {
            let before = state.head.len();
            let room = (limits.head_size_max + HEAD_SLACK).saturating_sub(before);
            state.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
            state.lines.scan(&state.head);
            if !state.lines.is_whole {
                // The parser refuses what does not become whole.
                return bytes.len();
            }
            let (end, of_body) = state.lines.extent();
            (of_head, state.left) = (end - before, of_body);
        }
        let rest = bytes.len() - of_head;
        let of_body = rest.min(usize::try_from(state.left).unwrap_or(usize::MAX));
        if state.left < u64::MAX {
            state.left -= of_body as u64;
        } else {
            let seen = [&state.tail[..], &bytes[bytes.len() - rest.min(END.len())..]].concat();
            state.tail.copy_from_slice(&seen[seen.len() - END.len()..]);
        }
        state.is_ahead = of_body < rest;
        of_head + of_body
    }

    pub fn written(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.written += bytes as u64;
        (state.write_waits, state.is_dirty) = (false, true);
    }

    pub fn flushed(&self) {
        self.state.lock().is_dirty = false;
    }

    /// Sends a 100 (Continue) before the answer to the present request. False: an earlier answer is still on its way.
    pub fn send_continue(&self) -> bool {
        let mut state = self.state.lock();
        state.wants_continue = !state.is_dirty;
        state.wants_continue
    }

    pub fn take_continue(&self) -> bool {
        std::mem::take(&mut self.state.lock().wants_continue)
    }

    pub fn write_waits(&self) {
        self.state.lock().write_waits = true;
    }

    /// A request begins. Returns what the lines of its head say.
    pub fn begin(&self, is_head_request: bool) -> Lines {
        self.set_unverified(false);
        let mut state = self.state.lock();
        state.stage = Stage::Busy;
        (state.received, state.seen, state.behind) = (0, 0, 0.0);
        (state.awaits_body, state.responded, state.is_head_request) = (false, false, is_head_request);
        (state.is_endless, state.has_whole_body) = (false, false);
        std::mem::take(&mut state.lines)
    }

    /// The answer to the request begins.
    pub fn respond(&self) {
        self.state.lock().responded = true;
    }

    pub fn never_ends(&self) {
        self.state.lock().is_endless = true;
    }

    /// Ends an answer without an end of its own. It may be complete, but its client reads too slowly.
    pub fn cut_endless(&self) {
        self.streams().iter().for_each(|stream| stream.cut_endless());
        if self.state.lock().is_endless {
            self.end(Order::Abort);
        }
    }

    pub fn leave_unread(&self) {
        self.state.lock().unread = true;
    }

    /// The request is done.
    pub fn idle(&self) {
        let mut state = self.state.lock();
        (state.stage, state.age, state.awaits_body) = (Stage::Idle, 0, false);
        state.is_dirty = true;
        let task = if std::mem::take(&mut state.is_ahead) { state.task.take() } else { None };
        // Behind a chunked body there is the beginning of something, whose end would be taken for a head.
        let is_unclear = state.left == u64::MAX && state.tail != *END;
        drop(state);
        task.into_iter().for_each(Waker::wake);
        if is_unclear {
            self.end(Order::Close);
        }
    }

    /// The sender of the present body is not known yet.
    pub fn is_unverified(&self) -> bool {
        self.is_unverified.load(Ordering::Relaxed)
    }

    pub fn set_unverified(&self, is_unverified: bool) {
        self.is_unverified.store(is_unverified, Ordering::Relaxed);
    }

    /// Whether nothing of an answer is on its way, so that what is sent next begins with a status line.
    pub fn is_silent(&self) -> bool {
        let state = self.state.lock();
        state.streams.is_none() && state.stage != Stage::Busy && !state.is_dirty
    }

    pub fn await_body(&self) {
        self.state.lock().awaits_body = true;
    }

    /// `is_all`: nothing more of the body comes.
    pub fn body_arrived(&self, bytes: usize, is_all: bool) {
        let mut state = self.state.lock();
        state.received += bytes as u64;
        (state.awaits_body, state.has_whole_body) = (false, is_all);
    }

    pub fn has_whole_body(&self) -> bool {
        self.state.lock().has_whole_body
    }

    pub fn facts(&self) -> Facts {
        let state = self.state.lock();
        let is_busy = state.stage == Stage::Busy;
        Facts {
            is_busy,
            responded: is_busy && state.responded,
            unread: state.unread,
            is_head_request: is_busy && state.is_head_request,
            speaks_tls: state.head.first() == Some(&tls::HANDSHAKE),
        }
    }

    /// The requests and answers of this connection that a stop waits for.
    pub fn under_way(&self) -> UnderWay {
        let state = self.state.lock();
        let requests = match &state.streams {
            Some(streams) => streams.open.len(),
            None => usize::from(state.stage == Stage::Busy),
        };
        if state.write_waits {
            // hyper may have the whole answer already.
            UnderWay { requests: 0, unread: requests.max(1) }
        } else {
            UnderWay { requests, unread: 0 }
        }
    }

    /// Waits until the client sends nothing more, which is all that is heard of one that has gone. A stream whose client has
    /// gone is dropped instead.
    pub async fn gone(&self) {
        if self.is_stream() {
            return std::future::pending().await;
        }
        loop {
            // This waits, unless the next request has arrived already.
            let has_more = matches!(self.socket.peek(&mut [0]).await, Ok(1..));
            if !has_more || !self.socket.ready(Interest::READABLE).await.is_ok_and(|ready| !ready.is_read_closed()) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The streams that are open.
    fn streams(&self) -> Vec<Arc<Self>> {
        let state = self.state.lock();
        state.streams.iter().flat_map(|streams| &streams.open).filter_map(Weak::upgrade).collect()
    }

    /// A second has passed: ends what takes too long.
    pub fn tick(&self, limits: &Limits) {
        for stream in self.streams() {
            stream.tick_stream(self, limits);
        }
        let mut state = self.state.lock();
        state.age += 1;
        let is_multiplexed = state.streams.is_some();
        let order = if state.write_waits {
            // A client that reads slowly may take as long as it makes any progress.
            if state.written != state.written_seen {
                (state.written_seen, state.age) = (state.written, 0);
            }
            (state.age > limits.body_sec).then_some(Order::Abort)
        } else {
            match state.stage {
                Stage::Busy => {
                    state.age = 0;
                    let too_slow = state.awaits_body && state.falls_behind(limits);
                    too_slow.then_some(Order::Refuse(&refusals::SLOW_BODY))
                }
                Stage::Head if is_multiplexed => (state.age > limits.head_sec).then_some(Order::Abort),
                Stage::Head => (state.age > limits.head_sec).then_some(Order::Refuse(&refusals::SLOW_HEAD)),
                // Time to say goodbye, which a client may leave without an answer.
                Stage::Idle if state.age > limits.idle_sec + limits.head_sec => Some(Order::Abort),
                Stage::Idle => (state.age > limits.idle_sec).then_some(Order::Close),
            }
        };
        drop(state);
        if let Some(order) = order {
            self.end(order);
        }
    }

    fn tick_stream(&self, carrier: &Self, limits: &Limits) {
        let mut state = self.state.lock();
        state.age += 1;
        let too_slow = state.awaits_body && !state.responded && state.falls_behind(limits);
        let is_stuck = state.is_held_back && state.age > limits.body_sec;
        drop(state);
        if too_slow {
            self.end(Order::Refuse(&refusals::SLOW_BODY));
        }
        if is_stuck {
            // There is no other way to end it.
            carrier.end(Order::Abort);
        }
    }

    /// The server stops: what is idle ends now, what is busy after its request.
    pub fn drain(&self) {
        self.end(Order::Close);
    }

    /// Whether it was told to end, whatever happens.
    pub fn is_ending(&self) -> bool {
        matches!(self.state.lock().order, Some(Order::Abort | Order::Refuse(_)))
    }

    /// The time to drain is over.
    pub fn cut(&self) {
        let streams = self.streams();
        if !streams.is_empty() {
            // The connection ends when they have.
            return streams.iter().for_each(|stream| stream.cut());
        }
        let facts = self.facts();
        self.end(if facts.is_busy && !facts.responded { Order::Refuse(&refusals::STOPPING) } else { Order::Abort });
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if let Some(carrier) = self.carrier.take() {
            self.close_stream(&carrier);
        }
    }
}

/// The requests and answers that a stop waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Requests that their clients await the answers to.
    pub requests: usize,
    /// Answers that their clients do not read.
    pub unread: usize,
}

impl Sum for UnderWay {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, next| Self {
            requests: sum.requests + next.requests,
            unread: sum.unread + next.unread,
        })
    }
}

/// The facts that decide how a connection ends.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub is_busy: bool,
    pub responded: bool,
    pub unread: bool,
    pub is_head_request: bool,
    /// The client speaks TLS.
    pub speaks_tls: bool,
}

impl State {
    /// Accounts for a second more. Whether the sender is then further behind the least rate than it may be.
    fn falls_behind(&mut self, limits: &Limits) -> bool {
        // Nothing is saved up, so a fast start does not make up for a stall.
        let earned = (self.received - self.seen) as f64 / BODY_BYTES_PER_SECOND;
        self.seen = self.received;
        self.behind = (self.behind - earned).max(0.0) + 1.0;
        self.behind > f64::from(limits.body_sec)
    }
}
