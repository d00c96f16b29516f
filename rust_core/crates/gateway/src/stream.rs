//! A request body on its way in, processed in order by one worker at a time, with back-pressure.
//!
//! The event loop brings bytes, either as pieces, which are copied, or by having the socket read into memory that it
//! borrows here. A worker of the crew consumes them; hashing and disk writes overlap with receiving. Bytes held here are
//! covered by a permit of the process-wide budget, taken when they have come: a sender that stalls holds nothing. Only
//! one short read may be held without one. What the bytes mean is the consumer's business.

use std::sync::Arc;

use bytes::Bytes;

use super::budget::{Client, Permit};
use super::crew::Crew;
use super::incoming::{BUFFER_MAX, Content, Incoming, Piece, STREAM_WINDOW, State};
pub use super::incoming::{Consumer, PIECE_MAX, Resume};
use orcas_base::buffers::{Buffers, Room};

/// The least memory that is lent for a read, unless less is to come.
const READ_MIN: usize = 16 * 1024;
/// What is lent when the budget has nothing: as much as a connection may hold without it in any case.
const UNPAID_MAX: usize = 64 * 1024;

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

pub struct BodyStream<C: Consumer> {
    incoming: Arc<Incoming<C>>,
    crew: Arc<Crew<C>>,
}

impl<C: Consumer> BodyStream<C> {
    /// `announced`: bytes of the whole body on the wire, if known.
    pub fn new(crew: Arc<Crew<C>>, budget: Client, buffers: Arc<Buffers>, announced: Option<u64>, consumer: C) -> Self {
        Self { incoming: Arc::new(Incoming::new(budget, buffers, announced, consumer)), crew }
    }

    /// Asks for room for a piece that has come, at most `PIECE_MAX` bytes; to be called before it is pushed.
    pub fn admit(&self, resume: Resume) -> Flow {
        let room = {
            let mut state = self.incoming.state.lock();
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
            self.incoming.room(&state)
        };
        let incoming = Arc::clone(&self.incoming);
        let granted = move |permit| {
            incoming.keep_grant(permit);
            resume();
        };
        match self.incoming.budget.take_or_wait(room, granted) {
            Some(permit) => {
                self.incoming.keep_grant(permit);
                Flow::More
            }
            None => Flow::Wait,
        }
    }

    /// Asks whether the socket may be read on, before the first read and after `fill` said no.
    pub fn ready(&self, resume: Resume) -> Flow {
        let owed = {
            let mut state = self.incoming.state.lock();
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
        let (incoming, crew) = (Arc::clone(&self.incoming), Arc::clone(&self.crew));
        let granted = move |permit| {
            if incoming.pay(permit) {
                crew.wait(incoming);
            }
            resume();
        };
        match self.incoming.budget.take_or_wait(owed, granted) {
            Some(permit) => {
                self.pay(permit);
                Flow::More
            }
            None => Flow::Wait,
        }
    }

    /// Takes one received piece, under the grant that `admit` got.
    pub fn push(&self, bytes: &[u8]) {
        self.take_in(bytes.len(), bytes.len(), |incoming, state, permit| incoming.append(state, bytes, permit));
    }

    /// Memory for a read of at most `limit` bytes, when there is something to read; `None` for a read of nothing. What is
    /// read of a body that was refused since then is forgotten by `fill`.
    pub fn lend(&self, limit: u64) -> Option<Room> {
        let (wanted, granted) = {
            let state = self.incoming.state.lock();
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
            None => match self.incoming.budget.try_take(wanted) {
                Some(permit) => {
                    self.incoming.keep_grant(permit);
                    wanted
                }
                None => wanted.min(UNPAID_MAX as u64),
            },
        } as usize;
        Some(Room::new(self.incoming.buffers.take(size), size))
    }

    /// Takes what was read into memory lent for `lent` bytes. True: the socket may be read on, else `ready` says when.
    pub fn fill(&self, read: Bytes, lent: usize) -> bool {
        let count = read.len();
        let granted = self.incoming.state.lock().grant.is_some();
        // Not worth so much memory for as long as it waits.
        let sparse = count < lent / 2;
        if !granted {
            self.owe(if sparse { self.incoming.buffers.copy(&read) } else { read });
        } else if sparse {
            self.push(&read);
        } else {
            self.take_in(count, lent, |_, state, permit| {
                state.pieces.push_back(Piece { content: Content::Read(read), permit });
            });
        }
        let mut state = self.incoming.state.lock();
        let expected = if count == lent { 2 * count } else { count.next_power_of_two() };
        state.read_size = expected.clamp(READ_MIN, BUFFER_MAX) as u64;
        granted && state.refused.is_none() && !state.ended && state.waiting_bytes < STREAM_WINDOW
    }

    /// Gives back what a read was granted that brought nothing.
    pub fn rest(&self) {
        let grant = self.incoming.state.lock().grant.take();
        // Outside the lock: giving back may resume another stream.
        drop(grant);
    }

    /// Holds what was read without a grant.
    fn owe(&self, read: Bytes) {
        let mut state = self.incoming.state.lock();
        if !read.is_empty() && state.refused.is_none() && !state.ended {
            state.received += read.len() as u64;
            state.unpaid = Some(read);
        }
    }

    /// Hands what was owed to the crew, under `permit`.
    fn pay(&self, permit: Permit) {
        if self.incoming.pay(permit) {
            self.crew.wait(Arc::clone(&self.incoming));
        }
    }

    /// Puts `length` bytes, which hold on to `held` bytes of memory, where `keep` puts them, under the grant.
    fn take_in(&self, length: usize, held: usize, keep: impl FnOnce(&Incoming<C>, &mut State<C>, Permit)) {
        let Some(mut permit) = self.incoming.state.lock().grant.take() else { return };
        if length == 0 {
            return;
        }
        // Outside the lock: giving back may resume another stream.
        permit.shrink_to(held as u64);
        let mut state = self.incoming.state.lock();
        if state.refused.is_some() || state.ended {
            return;
        }
        state.waiting_bytes += permit.bytes();
        state.received += length as u64;
        keep(&self.incoming, &mut state, permit);
        let waits = state.begin_to_wait();
        drop(state);
        if waits {
            self.crew.wait(Arc::clone(&self.incoming));
        }
    }

    /// No further piece comes; `reply` learns the outcome on a worker thread.
    pub fn finish(&self, reply: C::Reply) {
        // What is owed at the end is consumed at once, and is little.
        self.pay(self.incoming.budget.nothing());
        let mut state = self.incoming.state.lock();
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
                self.crew.wait(Arc::clone(&self.incoming));
            }
        }
        // Outside the lock: giving back may resume another stream.
        drop(grant);
    }

    /// Forgets the body: nothing is stored. Without effect after `finish`.
    pub fn abort(&self) {
        let (resume, dropped) = {
            let mut state = self.incoming.state.lock();
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

#[cfg(test)]
mod tests;
