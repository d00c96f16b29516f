//! The state of an arriving body that the event loop and its worker share: waiting pieces with their permits, and how
//! the body ends. Methods that add work return whether the caller has to queue the body in its worker group.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::budget::{Client, Permit};
use orcas_base::buffers::{Buffer, Buffers};
use orcas_base::completions::Resume;

/// Most bytes that the event loop hands over in one piece. So much budget is taken for a piece, and as much may wait in
/// a connection without any.
pub const PIECE_MAX: u64 = 320 * 1024;
/// Bytes of memory that one body may take while it waits for its worker; bounds what one fast sender takes from the budget.
pub(super) const STREAM_WINDOW: u64 = 4 * 1024 * 1024;
/// Received pieces are gathered in buffers of between these sizes, in bytes, so that tiny pieces do not cost a buffer
/// each.
pub(super) const BUFFER_MIN: usize = 1024;
pub(super) const BUFFER_MAX: usize = 256 * 1024;

/// The work of a worker on a body. Dropping it unfinished leaves nothing stored.
pub trait Consumer: Send + 'static {
    /// Why a body is refused.
    type Error: Send + 'static;
    /// Receives the outcome.
    type Reply: Send + 'static;

    /// Processes a piece. If `batched`, work that is cheaper for several bodies together may be left to `settle`.
    fn consume(&mut self, piece: &Bytes, batched: bool) -> Result<(), Self::Error>;
    /// Does the work that `consume` left undone, for all these bodies.
    fn settle(bodies: &mut [&mut Self]);
    /// Called once, after the last piece.
    fn finish(self: Box<Self>, reply: Self::Reply);
    /// Called instead of `finish` when a piece was refused.
    fn refuse(error: Self::Error, reply: Self::Reply);
}

/// A body, as the event loop and a worker share it.
pub(super) struct Incoming<C: Consumer> {
    /// Bytes of the whole body on the wire, when they were announced.
    announced: Option<u64>,
    pub budget: Client,
    pub buffers: Arc<Buffers>,
    pub state: Mutex<BodyState<C>>,
}

pub(super) struct BodyState<C: Consumer> {
    /// Taken out while a worker runs.
    pub consumer: Option<Box<C>>,
    pub pieces: VecDeque<Piece>,
    pub waiting_bytes: u64,
    pub received: u64,
    /// The permit for a piece that has arrived.
    pub grant: Option<Permit>,
    /// Set while the window is full.
    pub resume: Option<Resume>,
    pub running: bool,
    pub refused: Option<C::Error>,
    pub reply: Option<C::Reply>,
    /// No more pieces are accepted.
    pub ended: bool,
    /// The consumer is lost. Replies are dropped, and so report the failure.
    pub dead: bool,
}

pub(super) struct Piece {
    /// Pieces as they came, one after the other.
    pub content: Buffer,
    pub permit: Permit,
}

/// The next step of a body after a worker's turn.
pub(super) enum Next<C: Consumer> {
    /// Everything has arrived.
    Finish(Box<C>, C::Reply),
    /// Pieces wait for the next worker.
    Wait,
    /// There is nothing to do, now or ever.
    Rest,
}

impl<C: Consumer> BodyState<C> {
    /// Marks the body as queued. True if it was not: the caller queues it in its worker group.
    pub fn begin_to_wait(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }
}

impl<C: Consumer> Incoming<C> {
    pub fn new(budget: Client, buffers: Arc<Buffers>, announced: Option<u64>, consumer: C) -> Self {
        let state = BodyState {
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
        Self { announced, budget, buffers, state: Mutex::new(state) }
    }

    /// Keeps `permit` for the next push, unless the stream ended meanwhile.
    pub fn keep_grant(&self, permit: Permit) {
        let mut state = self.state.lock();
        let unused = if state.ended { Some(permit) } else { state.grant.replace(permit) };
        drop(state);
        // Outside the lock: giving back may resume this stream, or another.
        drop(unused);
    }

    /// The most bytes that the next piece may have.
    pub fn room(&self, state: &BodyState<C>) -> u64 {
        // No more than is to come, so that a stalled sender does not hold budget that it does not use.
        let left = self.announced.map_or(u64::MAX, |whole| whole.saturating_sub(state.received));
        left.min(PIECE_MAX)
    }

    /// Appends `bytes` to the waiting pieces. Only the last buffer has free space, at most as much as all bytes waiting.
    pub fn append(&self, state: &mut BodyState<C>, mut bytes: &[u8], mut permit: Permit) {
        while !bytes.is_empty() {
            let (mut buffer, mut held) = match state.pieces.pop_back() {
                Some(Piece { content: last, permit }) if last.len() < last.capacity() => (last, permit),
                full => {
                    state.pieces.extend(full);
                    let room = bytes.len().max(state.waiting_bytes as usize / 2);
                    (self.buffers.take(room.clamp(BUFFER_MIN, BUFFER_MAX)), permit.split(0))
                }
            };
            let (now, later) = bytes.split_at(bytes.len().min(buffer.capacity() - buffer.len()));
            buffer.extend_from_slice(now);
            held.merge(permit.split(now.len() as u64));
            state.pieces.push_back(Piece { content: buffer, permit: held });
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
        Some((piece.content.into(), piece.permit))
    }

    /// Ends the worker's turn. If the body was aborted meanwhile, its consumer is dropped.
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

    /// Ends a body whose consumer is lost or will never run. Its reply is dropped, and so reports the failure.
    pub fn die(&self) {
        let mut state = self.state.lock();
        state.dead = true;
        state.ended = true;
        let dropped = (state.consumer.take(), std::mem::take(&mut state.pieces), state.grant.take());
        let (reply, resume) = (state.reply.take(), state.resume.take());
        drop(state);
        drop(dropped);
        drop(reply);
        if let Some(resume) = resume {
            resume();
        }
    }

    /// Keeps the reason for a refusal until the end of the body, or reports it now if the body has ended.
    pub fn refuse(&self, error: C::Error) {
        let mut state = self.state.lock();
        let resume = state.resume.take();
        let dropped = (std::mem::take(&mut state.pieces), state.grant.take());
        let reply = state.reply.take();
        let refused = match reply {
            Some(reply) => Some((error, reply)),
            None => {
                state.refused = Some(error);
                None
            }
        };
        drop(state);
        drop(dropped);
        if let Some((error, reply)) = refused {
            C::refuse(error, reply);
        }
        if let Some(resume) = resume {
            resume();
        }
    }
}
