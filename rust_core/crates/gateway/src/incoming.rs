//! A body on its way in, as the event loop and its worker know it: the pieces that wait, what covers them, and how the
//! body ends. Whoever adds something that a worker has to look at is told so, and tells the crew.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::budget::{Client, Permit};
use orcas_base::buffers::{Buffer, Buffers};

/// What the event loop hands over at most in one piece, bytes: 64 KiB that stop uvicorn's reading plus one read of
/// uvloop. So much budget is taken for a piece, and as much may wait in a connection without any.
pub const PIECE_MAX: u64 = 320 * 1024;
/// Bytes of memory that one body may take while it waits for its worker; bounds what one fast sender takes from the budget.
pub(super) const STREAM_WINDOW: u64 = 4 * 1024 * 1024;
/// What is received goes behind what waits, into buffers of between these sizes, so that tiny pieces do not cost one
/// each.
pub(super) const BUFFER_MIN: usize = 1024;
pub(super) const BUFFER_MAX: usize = 256 * 1024;

/// What a worker does with a body. Dropping it unfinished leaves nothing stored.
pub trait Consumer: Send + 'static {
    /// Why a body is refused.
    type Error: Send + 'static;
    /// Whom to tell the end of it.
    type Reply: Send + 'static;

    /// Takes a piece. When it comes in company, what is better done for several bodies at once may be left to `settle`.
    fn consume(&mut self, piece: &Bytes, in_company: bool) -> Result<(), Self::Error>;
    /// Does what was left to be done for these bodies.
    fn settle(company: &mut [&mut Self]);
    /// Called once after the last piece.
    fn finish(self: Box<Self>, reply: Self::Reply);
    /// Called instead of `finish` when a piece was refused.
    fn refuse(error: Self::Error, reply: Self::Reply);
}

/// Called exactly once for each `Flow::Wait`, from some thread, without locks held: ask again.
pub type Resume = Box<dyn FnOnce() + Send>;

/// What the event loop and a worker know of one body.
pub(super) struct Incoming<C: Consumer> {
    /// Bytes of the whole body on the wire, when they were announced.
    announced: Option<u64>,
    pub budget: Client,
    pub buffers: Arc<Buffers>,
    pub state: Mutex<State<C>>,
}

pub(super) struct State<C: Consumer> {
    /// Taken out while a worker runs.
    pub consumer: Option<Box<C>>,
    pub pieces: VecDeque<Piece>,
    pub waiting_bytes: u64,
    pub received: u64,
    /// What the next piece may bring; once the socket is read into memory lent here, what the next read probably does.
    pub read_size: u64,
    /// Room for a piece that has come, or for the read under way.
    pub grant: Option<Permit>,
    /// What was read when the budget had nothing for it. No more is read until it has.
    pub unpaid: Option<Bytes>,
    /// Set while the window is full.
    pub resume: Option<Resume>,
    pub running: bool,
    pub refused: Option<C::Error>,
    pub reply: Option<C::Reply>,
    /// No more pieces are accepted.
    pub ended: bool,
    /// The consumer is lost; replies are dropped, which tells their owners.
    pub dead: bool,
}

pub(super) struct Piece {
    pub content: Content,
    pub permit: Permit,
}

pub(super) enum Content {
    /// Copied, one piece behind the other, as long as there is room.
    Gathered(Buffer),
    /// As the socket read it.
    Read(Bytes),
}

/// What becomes of a body that a worker is done with for now.
pub(super) enum Next<C: Consumer> {
    /// Everything has come.
    Finish(Box<C>, C::Reply),
    /// Pieces wait for the next worker.
    Wait,
    /// Nothing is to be done, or nothing ever again.
    Rest,
}

impl<C: Consumer> State<C> {
    /// True when the body has not been with the crew, and is from now on: the crew has to be told.
    pub fn begin_to_wait(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }
}

impl<C: Consumer> Incoming<C> {
    pub fn new(budget: Client, buffers: Arc<Buffers>, announced: Option<u64>, consumer: C) -> Self {
        let state = State {
            consumer: Some(Box::new(consumer)),
            pieces: VecDeque::new(),
            waiting_bytes: 0,
            received: 0,
            read_size: PIECE_MAX,
            grant: None,
            unpaid: None,
            resume: None,
            running: false,
            refused: None,
            reply: None,
            ended: false,
            dead: false,
        };
        Self { announced, budget, buffers, state: Mutex::new(state) }
    }

    /// Puts what was owed behind what waits, under `permit`. True as for `begin_to_wait`.
    pub fn pay(&self, permit: Permit) -> bool {
        let mut state = self.state.lock();
        let Some(read) = state.unpaid.take() else { return false };
        if state.ended || state.refused.is_some() {
            return false;
        }
        state.waiting_bytes += permit.bytes();
        state.pieces.push_back(Piece { content: Content::Read(read), permit });
        state.begin_to_wait()
    }

    /// Keeps `permit` for the next push, unless the stream ended meanwhile.
    pub fn keep_grant(&self, permit: Permit) {
        let mut state = self.state.lock();
        if state.ended {
            drop(state);
            drop(permit);
        } else {
            state.grant = Some(permit);
        }
    }

    /// Bytes that may come in one piece or read, as far as the stream knows.
    pub fn room(&self, state: &State<C>) -> u64 {
        // No more than will be lent: a sender that stalls holds up nobody with what it does not use.
        let left = self.announced.map_or(u64::MAX, |whole| whole.saturating_sub(state.received));
        left.min(state.read_size)
    }

    /// Puts `bytes` behind what waits. Only the last buffer has room left, and no more than waits in all.
    pub fn append(&self, state: &mut State<C>, mut bytes: &[u8], mut permit: Permit) {
        while !bytes.is_empty() {
            let (mut buffer, mut held) = match state.pieces.pop_back() {
                Some(Piece { content: Content::Gathered(last), permit }) if last.len() < last.capacity() => {
                    (last, permit)
                }
                full => {
                    state.pieces.extend(full);
                    let room = bytes.len().max(state.waiting_bytes as usize / 2);
                    (self.buffers.take(room.clamp(BUFFER_MIN, BUFFER_MAX)), permit.split(0))
                }
            };
            let (now, later) = bytes.split_at(bytes.len().min(buffer.capacity() - buffer.len()));
            buffer.extend_from_slice(now);
            held.merge(permit.split(now.len() as u64));
            state.pieces.push_back(Piece { content: Content::Gathered(buffer), permit: held });
            bytes = later;
        }
    }

    /// Called by a worker, which is the only one until it calls `leave`, `refuse` or `die`. `None` for a body that was
    /// aborted.
    pub fn take_consumer(&self) -> Option<Box<C>> {
        self.state.lock().consumer.take()
    }

    /// The next piece, if there is one, and its share of the budget.
    pub fn take_piece(&self) -> Option<(Bytes, Permit)> {
        let mut state = self.state.lock();
        let piece = state.pieces.pop_front()?;
        state.waiting_bytes = state.waiting_bytes.saturating_sub(piece.permit.bytes());
        let resume = if state.waiting_bytes < STREAM_WINDOW / 2 { state.resume.take() } else { None };
        drop(state);
        if let Some(resume) = resume {
            resume();
        }
        let bytes = match piece.content {
            Content::Gathered(buffer) => buffer.into(),
            Content::Read(bytes) => bytes,
        };
        Some((bytes, piece.permit))
    }

    /// The worker is done with the body for now; an aborted one drops its consumer.
    pub fn leave(&self, consumer: Box<C>) -> Next<C> {
        let mut state = self.state.lock();
        if state.ended && state.reply.is_none() {
            return Next::Rest;
        }
        if state.pieces.is_empty() {
            if let Some(reply) = state.reply.take() {
                return Next::Finish(consumer, reply);
            }
            state.running = false;
        }
        let next = if state.running { Next::Wait } else { Next::Rest };
        state.consumer = Some(consumer);
        next
    }

    /// The consumer is lost, or nobody will ever take it. Replies are dropped, which tells their owners.
    pub fn die(&self) {
        let mut state = self.state.lock();
        state.dead = true;
        state.ended = true;
        let dropped = (state.consumer.take(), std::mem::take(&mut state.pieces), state.grant.take());
        state.unpaid = None;
        let (reply, resume) = (state.reply.take(), state.resume.take());
        drop(state);
        drop(dropped);
        drop(reply);
        if let Some(resume) = resume {
            resume();
        }
    }

    /// Remembers why the body is refused, or tells at once when the end has come already.
    pub fn refuse(&self, error: C::Error) {
        let mut state = self.state.lock();
        let resume = state.resume.take();
        let dropped = (std::mem::take(&mut state.pieces), state.grant.take());
        state.unpaid = None;
        let reply = state.reply.take();
        let told = match reply {
            Some(reply) => Some((error, reply)),
            None => {
                state.refused = Some(error);
                None
            }
        };
        drop(state);
        drop(dropped);
        if let Some((error, reply)) = told {
            C::refuse(error, reply);
        }
        if let Some(resume) = resume {
            resume();
        }
    }
}
