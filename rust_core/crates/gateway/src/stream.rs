//! A request body on its way in, processed in order by one worker at a time, with back-pressure.
//!
//! The event loop brings bytes, either as pieces, which are copied, or by having the socket read into memory that it
//! borrows here. A worker of the crew consumes them; hashing and disk writes overlap with receiving. Bytes held here are
//! covered by a permit of the process-wide budget, taken when they have come: a sender that stalls holds nothing. Only
//! one short read may be held without one. What the bytes mean is the consumer's business.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::budget::{Client, Permit};
use super::crew::Crew;
use orcas_base::buffers::{Buffer, Buffers, Room};

/// What the event loop hands over at most in one piece, bytes: 64 KiB that stop uvicorn's reading plus one read of
/// uvloop. So much budget is taken for a piece, and as much may wait in a connection without any.
pub const PIECE_MAX: u64 = 320 * 1024;
/// Bytes of memory that one body may take while it waits for its worker; bounds what one fast sender takes from the budget.
const STREAM_WINDOW: u64 = 4 * 1024 * 1024;
/// What is received goes behind what waits, into buffers of between these sizes, so that tiny pieces do not cost one
/// each.
const BUFFER_MIN: usize = 1024;
const BUFFER_MAX: usize = 256 * 1024;
/// The least memory that is lent for a read, unless less is to come.
const READ_MIN: usize = 16 * 1024;
/// What is lent when the budget has nothing: as much as a connection may hold without it in any case.
const UNPAID_MAX: usize = 64 * 1024;

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

/// What the sender of pieces does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Receive the next piece.
    More,
    /// Wait until `resume` was called.
    Wait,
    /// The body is refused already: receive no more, ask for the answer.
    Stop,
}

/// Called exactly once for each `Flow::Wait`, from some thread, without locks held: ask again.
pub type Resume = Box<dyn FnOnce() + Send>;

pub struct BodyStream<C: Consumer> {
    shared: Arc<Shared<C>>,
}

/// What the event loop and a worker know of one body.
pub(super) struct Shared<C: Consumer> {
    /// Bytes of the whole body on the wire, when they were announced.
    announced: Option<u64>,
    crew: Arc<Crew<C>>,
    budget: Client,
    buffers: Arc<Buffers>,
    state: Mutex<State<C>>,
}

struct State<C: Consumer> {
    /// Taken out while a worker runs.
    consumer: Option<Box<C>>,
    pieces: VecDeque<Piece>,
    waiting_bytes: u64,
    received: u64,
    /// What the next piece may bring; once the socket is read into memory lent here, what the next read probably does.
    read_size: u64,
    /// Room for a piece that has come, or for the read under way.
    grant: Option<Permit>,
    /// What was read when the budget had nothing for it. No more is read until it has.
    unpaid: Option<Bytes>,
    /// Set while the window is full.
    resume: Option<Resume>,
    running: bool,
    refused: Option<C::Error>,
    reply: Option<C::Reply>,
    /// No more pieces are accepted.
    ended: bool,
    /// The consumer is lost; replies are dropped, which tells their owners.
    dead: bool,
}

struct Piece {
    content: Content,
    permit: Permit,
}

enum Content {
    /// Copied, one piece behind the other, as long as there is room.
    Gathered(Buffer),
    /// As the socket read it.
    Read(Bytes),
}

impl<C: Consumer> BodyStream<C> {
    /// `announced`: bytes of the whole body on the wire, if known.
    pub fn new(crew: Arc<Crew<C>>, budget: Client, buffers: Arc<Buffers>, announced: Option<u64>, consumer: C) -> Self {
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
        Self { shared: Arc::new(Shared { announced, crew, budget, buffers, state: Mutex::new(state) }) }
    }

    /// Asks for room for a piece that has come, at most `PIECE_MAX` bytes; to be called before it is pushed.
    pub fn admit(&self, resume: Resume) -> Flow {
        let room = {
            let mut state = self.shared.state.lock();
            if state.refused.is_some() || state.ended {
                return Flow::Stop;
            }
            if state.grant.is_some() {
                return Flow::More;
            }
            if state.waiting_bytes >= STREAM_WINDOW {
                state.resume = Some(resume);
                return Flow::Wait;
            }
            self.shared.room(&state)
        };
        let shared = Arc::clone(&self.shared);
        let granted = move |permit| {
            shared.keep_grant(permit);
            resume();
        };
        match self.shared.budget.take_or_wait(room, granted) {
            Some(permit) => {
                self.shared.keep_grant(permit);
                Flow::More
            }
            None => Flow::Wait,
        }
    }

    /// Asks whether the socket may be read on, before the first read and after `fill` said no.
    pub fn ready(&self, resume: Resume) -> Flow {
        let owed = {
            let mut state = self.shared.state.lock();
            if state.refused.is_some() || state.ended {
                return Flow::Stop;
            }
            if state.waiting_bytes >= STREAM_WINDOW {
                state.resume = Some(resume);
                return Flow::Wait;
            }
            match &state.unpaid {
                Some(read) => read.len() as u64,
                None => return Flow::More,
            }
        };
        let shared = Arc::clone(&self.shared);
        let granted = move |permit| {
            shared.pay(permit);
            resume();
        };
        match self.shared.budget.take_or_wait(owed, granted) {
            Some(permit) => {
                self.shared.pay(permit);
                Flow::More
            }
            None => Flow::Wait,
        }
    }

    /// Takes one received piece, under the grant that `admit` got.
    pub fn push(&self, bytes: &[u8]) {
        self.take_in(bytes.len(), bytes.len(), |shared, state, permit| shared.append(state, bytes, permit));
    }

    /// Memory for a read of at most `limit` bytes, when there is something to read; `None` for a read of nothing. What is
    /// read of a body that was refused since then is forgotten by `fill`.
    pub fn lend(&self, limit: u64) -> Option<Room> {
        let (wanted, granted) = {
            let state = self.shared.state.lock();
            let wanted = state.read_size.min(BUFFER_MAX as u64).min(limit);
            let over = state.refused.is_some() || state.ended;
            let granted = if over { Some(READ_MIN as u64) } else { state.grant.as_ref().map(Permit::bytes) };
            (wanted, granted)
        };
        if wanted == 0 {
            return None;
        }
        let size = match granted {
            Some(granted) => wanted.min(granted),
            None => match self.shared.budget.try_take(wanted) {
                Some(permit) => {
                    self.shared.keep_grant(permit);
                    wanted
                }
                None => wanted.min(UNPAID_MAX as u64),
            },
        } as usize;
        Some(Room::new(self.shared.buffers.take(size), size))
    }

    /// Takes what was read into memory lent for `lent` bytes. True: the socket may be read on, else `ready` says when.
    pub fn fill(&self, read: Bytes, lent: usize) -> bool {
        let count = read.len();
        let granted = self.shared.state.lock().grant.is_some();
        // Not worth so much memory for as long as it waits.
        let sparse = count < lent / 2;
        if !granted {
            self.owe(if sparse { self.shared.buffers.copy(&read) } else { read });
        } else if sparse {
            self.push(&read);
        } else {
            self.take_in(count, lent, |_, state, permit| {
                state.pieces.push_back(Piece { content: Content::Read(read), permit });
            });
        }
        let mut state = self.shared.state.lock();
        let expected = if count == lent { 2 * count } else { count.next_power_of_two() };
        state.read_size = expected.clamp(READ_MIN, BUFFER_MAX) as u64;
        granted && state.refused.is_none() && !state.ended && state.waiting_bytes < STREAM_WINDOW
    }

    /// Gives back what a read was granted that brought nothing.
    pub fn rest(&self) {
        let grant = self.shared.state.lock().grant.take();
        // Outside the lock: giving back may resume another stream.
        drop(grant);
    }

    /// Holds what was read without a grant.
    fn owe(&self, read: Bytes) {
        let mut state = self.shared.state.lock();
        if !read.is_empty() && state.refused.is_none() && !state.ended {
            state.received += read.len() as u64;
            state.unpaid = Some(read);
        }
    }

    /// Puts `length` bytes, which hold on to `held` bytes of memory, where `keep` puts them, under the grant.
    fn take_in(&self, length: usize, held: usize, keep: impl FnOnce(&Shared<C>, &mut State<C>, Permit)) {
        let Some(mut permit) = self.shared.state.lock().grant.take() else { return };
        if length == 0 {
            return;
        }
        // Outside the lock: giving back may resume another stream.
        permit.shrink_to(held as u64);
        let mut state = self.shared.state.lock();
        if state.refused.is_some() || state.ended {
            return;
        }
        state.waiting_bytes += permit.bytes();
        state.received += length as u64;
        keep(&self.shared, &mut state, permit);
        let waits = state.begin_to_wait();
        drop(state);
        if waits {
            self.shared.crew.wait(Arc::clone(&self.shared));
        }
    }

    /// No further piece comes; `reply` learns the outcome on a worker thread.
    pub fn finish(&self, reply: C::Reply) {
        // What is owed at the end is consumed at once, and is little.
        self.shared.pay(self.shared.budget.nothing());
        let mut state = self.shared.state.lock();
        state.ended = true;
        let grant = state.grant.take();
        if let Some(error) = state.refused.take() {
            drop(state);
            C::refuse(error, reply);
        } else if !state.dead {
            state.reply = Some(reply);
            let waits = state.begin_to_wait();
            drop(state);
            if waits {
                self.shared.crew.wait(Arc::clone(&self.shared));
            }
        }
        // Outside the lock: giving back may resume another stream.
        drop(grant);
    }

    /// Forgets the body: nothing is stored. Without effect after `finish`.
    pub fn abort(&self) {
        let (resume, dropped) = {
            let mut state = self.shared.state.lock();
            if state.ended {
                return;
            }
            state.ended = true;
            state.waiting_bytes = 0;
            state.unpaid = None;
            (state.resume.take(), (state.consumer.take(), std::mem::take(&mut state.pieces), state.grant.take()))
        };
        drop(dropped);
        if let Some(resume) = resume {
            resume();
        }
    }
}

impl<C: Consumer> Drop for BodyStream<C> {
    fn drop(&mut self) {
        self.abort();
    }
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
    /// True when the stream has not been with the crew, and is from now on.
    fn begin_to_wait(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }
}

impl<C: Consumer> Shared<C> {
    /// Hands what was owed to the crew, under `permit`.
    fn pay(self: &Arc<Self>, permit: Permit) {
        let mut state = self.state.lock();
        let Some(read) = state.unpaid.take() else { return };
        if state.ended || state.refused.is_some() {
            return drop(state);
        }
        state.waiting_bytes += permit.bytes();
        state.pieces.push_back(Piece { content: Content::Read(read), permit });
        let waits = state.begin_to_wait();
        drop(state);
        if waits {
            self.crew.wait(Arc::clone(self));
        }
    }

    /// Keeps `permit` for the next push, unless the stream ended meanwhile.
    fn keep_grant(&self, permit: Permit) {
        let mut state = self.state.lock();
        if state.ended {
            drop(state);
            drop(permit);
        } else {
            state.grant = Some(permit);
        }
    }

    /// Bytes that may come in one piece or read, as far as the stream knows.
    fn room(&self, state: &State<C>) -> u64 {
        // No more than will be lent: a sender that stalls holds up nobody with what it does not use.
        let left = self.announced.map_or(u64::MAX, |whole| whole.saturating_sub(state.received));
        left.min(state.read_size)
    }

    /// Puts `bytes` behind what waits. Only the last buffer has room left, and no more than waits in all.
    fn append(&self, state: &mut State<C>, mut bytes: &[u8], mut permit: Permit) {
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

#[cfg(test)]
mod tests;
