//! A request body on its way in: pieces copied once, processed in order by one worker at a time, with back-pressure.
//!
//! The event loop pushes, a worker of the pool consumes; hashing and disk writes overlap with receiving. Every byte
//! held is covered by a permit of the process-wide budget, taken before the bytes are received. What the bytes mean is
//! the consumer's business.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use super::budget::{Budget, Permit};
use super::pool::Pool;
use crate::buffers::{Buffer, Buffers};

/// What the event loop hands over at most in one piece, bytes: 64 KiB that stop uvicorn's reading plus one read of
/// uvloop. So much budget is taken before each receive.
pub const PIECE_MAX: u64 = 320 * 1024;
/// Bytes of one body that may wait for its worker; bounds what one fast sender takes from the budget.
const STREAM_WINDOW: u64 = 4 * 1024 * 1024;
/// What is received goes behind what waits, into buffers of between these sizes, so that tiny pieces do not cost one
/// each.
const BUFFER_MIN: usize = 1024;
const BUFFER_MAX: usize = 256 * 1024;

/// Bytes that a worker consumes of one body before it looks at others: fast uploads must not keep every worker.
const TURN: u64 = 1024 * 1024;

/// What a worker does with a body. Dropping it unfinished leaves nothing stored.
pub trait Consumer: Send + 'static {
    /// Why a body is refused.
    type Error: Send + 'static;
    /// Whom to tell the end of it.
    type Reply: Send + 'static;

    fn consume(&mut self, piece: &[u8]) -> Result<(), Self::Error>;
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

struct Shared<C: Consumer> {
    /// Bytes of the whole body on the wire, when they were announced.
    announced: Option<u64>,
    pool: Arc<Pool>,
    budget: Arc<Budget>,
    buffers: Arc<Buffers>,
    state: Mutex<State<C>>,
}

struct State<C: Consumer> {
    /// Taken out while a worker runs.
    consumer: Option<Box<C>>,
    pieces: VecDeque<Piece>,
    waiting_bytes: u64,
    received: u64,
    /// Room for the piece to be received next.
    grant: Option<Permit>,
    /// Set while the window is full.
    resume: Option<Resume>,
    running: bool,
    refused: Option<C::Error>,
    reply: Option<C::Reply>,
    /// No more pieces are accepted.
    ended: bool,
    /// The consumer panicked; replies are dropped, which tells their owners.
    dead: bool,
}

struct Piece {
    bytes: Buffer,
    permit: Permit,
}

impl<C: Consumer> BodyStream<C> {
    /// `announced`: bytes of the whole body on the wire, if known.
    pub fn new(
        pool: Arc<Pool>,
        budget: Arc<Budget>,
        buffers: Arc<Buffers>,
        announced: Option<u64>,
        consumer: C,
    ) -> Self {
        let state = State {
            consumer: Some(Box::new(consumer)),
            pieces: VecDeque::new(),
            waiting_bytes: 0,
            received: 0,
            grant: None,
            resume: None,
            running: false,
            refused: None,
            reply: None,
            ended: false,
            dead: false,
        };
        Self { shared: Arc::new(Shared { announced, pool, budget, buffers, state: Mutex::new(state) }) }
    }

    /// Asks for room for one piece of at most `PIECE_MAX` bytes; to be called before each receive.
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
            self.shared.announced.map_or(PIECE_MAX, |whole| whole.saturating_sub(state.received).min(PIECE_MAX))
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

    /// Takes one received piece, under the grant that `admit` got.
    pub fn push(&self, bytes: &[u8]) {
        let Some(mut permit) = self.shared.state.lock().grant.take() else { return };
        if bytes.is_empty() {
            return;
        }
        // Outside the lock: giving back may resume another stream.
        permit.shrink_to(bytes.len() as u64);
        let mut state = self.shared.state.lock();
        if state.refused.is_some() || state.ended {
            return;
        }
        state.waiting_bytes += bytes.len() as u64;
        state.received += bytes.len() as u64;
        self.shared.append(&mut state, bytes, permit);
        self.shared.wake_worker(&mut state);
    }

    /// No further piece comes; `reply` learns the outcome on a worker thread.
    pub fn finish(&self, reply: C::Reply) {
        let mut state = self.shared.state.lock();
        state.ended = true;
        let grant = state.grant.take();
        if let Some(error) = state.refused.take() {
            drop(state);
            C::refuse(error, reply);
        } else if !state.dead {
            state.reply = Some(reply);
            self.shared.wake_worker(&mut state);
            drop(state);
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

/// What a worker found to do next.
enum Step<C: Consumer> {
    Consume(Piece),
    Finish(C::Reply),
    Rest,
}

impl<C: Consumer> Shared<C> {
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

    /// Puts `bytes` behind what waits. Only the last buffer has room left, and no more than waits in all.
    fn append(&self, state: &mut State<C>, mut bytes: &[u8], mut permit: Permit) {
        while !bytes.is_empty() {
            let mut last = match state.pieces.pop_back() {
                Some(last) if last.bytes.len() < last.bytes.capacity() => last,
                full => {
                    state.pieces.extend(full);
                    let room = bytes.len().max(state.waiting_bytes as usize / 2);
                    let buffer = self.buffers.take(room.clamp(BUFFER_MIN, BUFFER_MAX));
                    Piece { bytes: buffer, permit: permit.split(0) }
                }
            };
            let (now, later) = bytes.split_at(bytes.len().min(last.bytes.capacity() - last.bytes.len()));
            last.bytes.extend_from_slice(now);
            last.permit.merge(permit.split(now.len() as u64));
            state.pieces.push_back(last);
            bytes = later;
        }
    }

    fn wake_worker(self: &Arc<Self>, state: &mut State<C>) {
        if !state.running {
            state.running = true;
            let shared = Arc::clone(self);
            self.pool.spawn(move || shared.work());
        }
    }

    /// At most one worker is here for a stream.
    fn work(self: Arc<Self>) {
        let Some(consumer) = self.state.lock().consumer.take() else { return };
        if catch_unwind(AssertUnwindSafe(|| Self::consume(&self, consumer))).is_err() {
            let mut state = self.state.lock();
            state.dead = true;
            state.ended = true;
            let dropped = (std::mem::take(&mut state.pieces), state.grant.take());
            let (reply, resume) = (state.reply.take(), state.resume.take());
            drop(state);
            drop(dropped);
            drop(reply);
            if let Some(resume) = resume {
                resume();
            }
        }
    }

    /// Consumes until nothing waits or its turn is over.
    fn consume(self: &Arc<Self>, mut consumer: Box<C>) {
        let mut consumed = 0;
        loop {
            if consumed >= TURN {
                return self.requeue(consumer);
            }
            let (step, resume) = self.next_step();
            if let Some(resume) = resume {
                resume();
            }
            match step {
                Step::Consume(piece) => {
                    consumed += piece.bytes.len() as u64;
                    let result = consumer.consume(&piece.bytes);
                    drop(piece);
                    if let Err(error) = result {
                        drop(consumer);
                        return self.refuse(error);
                    }
                }
                Step::Finish(reply) => return consumer.finish(reply),
                Step::Rest => {
                    let mut state = self.state.lock();
                    // Something may have come between the two looks; an aborted stream drops its consumer.
                    if state.pieces.is_empty() && state.reply.is_none() {
                        state.running = false;
                        state.consumer = (!state.ended).then_some(consumer);
                        return;
                    }
                }
            }
        }
    }

    /// Lets other work go first; an aborted stream drops its consumer.
    fn requeue(self: &Arc<Self>, consumer: Box<C>) {
        let mut state = self.state.lock();
        if state.ended && state.reply.is_none() {
            return;
        }
        state.consumer = Some(consumer);
        drop(state);
        let shared = Arc::clone(self);
        self.pool.spawn(move || shared.work());
    }

    fn next_step(&self) -> (Step<C>, Option<Resume>) {
        let mut state = self.state.lock();
        let step = match state.pieces.pop_front() {
            Some(piece) => {
                state.waiting_bytes = state.waiting_bytes.saturating_sub(piece.bytes.len() as u64);
                Step::Consume(piece)
            }
            None => state.reply.take().map_or(Step::Rest, Step::Finish),
        };
        let resume = if state.waiting_bytes < STREAM_WINDOW / 2 { state.resume.take() } else { None };
        (step, resume)
    }

    /// Remembers why the body is refused, or tells at once when the end has come already.
    fn refuse(&self, error: C::Error) {
        let mut state = self.state.lock();
        let resume = state.resume.take();
        let dropped = (std::mem::take(&mut state.pieces), state.grant.take());
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
