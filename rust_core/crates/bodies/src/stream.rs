//! An arriving request body, processed in order by one worker at a time, with back-pressure.
//!
//! The event loop passes bytes on, either as pieces, which are copied, or by reading the socket into memory that is lent
//! here. A worker of the group processes them, so hashing and disk writes overlap with receiving. All bytes held here
//! have a permit of the process-wide budget, taken when they have arrived, except for one short read. So a stalled
//! sender holds nothing. Only the consumer knows what the bytes mean.

use std::sync::Arc;

use bytes::Bytes;

use super::budget::{Client, Permit};
use super::incoming::{BUFFER_MAX, BodyState, Content, Incoming, Piece, STREAM_WINDOW};
pub use super::incoming::{Consumer, PIECE_MAX};
use super::worker_group::WorkerGroup;
use orcas_base::buffers::{Buffers, Room};
use orcas_base::completions::Resume;

/// The least memory that is lent for a read, unless less is to come.
const READ_MIN: usize = 16 * 1024;
/// Bytes lent while the budget is exhausted: as much as a connection may hold without a permit in any case.
const UNCOVERED_MAX: usize = 64 * 1024;

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
    group: Arc<WorkerGroup<C>>,
}

impl<C: Consumer> BodyStream<C> {
    /// `announced`: bytes of the whole body on the wire, if known.
    pub fn new(
        group: Arc<WorkerGroup<C>>,
        budget: Client,
        buffers: Arc<Buffers>,
        announced: Option<u64>,
        consumer: C,
    ) -> Self {
        Self { incoming: Arc::new(Incoming::new(budget, buffers, announced, consumer)), group }
    }

    /// Asks for a permit for a piece that has arrived, of at most `PIECE_MAX` bytes. Call it before `push`.
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
        let length = {
            let mut state = self.incoming.state.lock();
            if state.refused.is_some() || state.ended {
                return Flow::Stop;
            }
            if state.waiting_bytes >= STREAM_WINDOW {
                state.resume = Some(resume);
                return Flow::Wait;
            }
            match &state.uncovered {
                Some(read) => read.len() as u64,
                None => return Flow::More,
            }
        };
        let (incoming, group) = (Arc::clone(&self.incoming), Arc::clone(&self.group));
        let granted = move |permit| {
            if incoming.cover(permit) {
                group.wait(incoming);
            }
            resume();
        };
        match self.incoming.budget.take_or_wait(length, granted) {
            Some(permit) => {
                self.cover(permit);
                Flow::More
            }
            None => Flow::Wait,
        }
    }

    /// Takes one received piece, under the permit that `admit` got.
    pub fn push(&self, bytes: &[u8]) {
        self.take_in(bytes.len(), bytes.len(), |incoming, state, permit| incoming.append(state, bytes, permit));
    }

    /// Memory for a read of at most `limit` bytes; `None` if nothing can be read. Call it when the socket is readable. If
    /// the body is refused meanwhile, `fill` discards what was read.
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
                None => wanted.min(UNCOVERED_MAX as u64),
            },
        } as usize;
        Some(Room::new(self.incoming.buffers.take(size), size))
    }

    /// Takes what was read into lent memory of `lent` bytes. True: read on; false: ask `ready` when.
    pub fn fill(&self, read: Bytes, lent: usize) -> bool {
        let count = read.len();
        let granted = self.incoming.state.lock().grant.is_some();
        // Too few bytes to keep so much memory while they wait.
        let sparse = count < lent / 2;
        if !granted {
            self.hold(if sparse { self.incoming.buffers.copy(&read) } else { read });
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

    /// Returns the permit of a read that brought nothing.
    pub fn rest(&self) {
        let grant = self.incoming.state.lock().grant.take();
        // Outside the lock: giving back may resume another stream.
        drop(grant);
    }

    /// Holds what was read without a permit.
    fn hold(&self, read: Bytes) {
        let mut state = self.incoming.state.lock();
        if !read.is_empty() && state.refused.is_none() && !state.ended {
            state.received += read.len() as u64;
            state.uncovered = Some(read);
        }
    }

    /// Queues what `hold` holds, under `permit`.
    fn cover(&self, permit: Permit) {
        if self.incoming.cover(permit) {
            self.group.wait(Arc::clone(&self.incoming));
        }
    }

    /// Lets `keep` store `length` bytes, which occupy `held` bytes of memory, under the permit.
    fn take_in(&self, length: usize, held: usize, keep: impl FnOnce(&Incoming<C>, &mut BodyState<C>, Permit)) {
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
            self.group.wait(Arc::clone(&self.incoming));
        }
    }

    /// Ends the body. `reply` gets the outcome on a worker thread.
    pub fn finish(&self, reply: C::Reply) {
        // What was read without a permit is short and is processed at once.
        self.cover(self.incoming.budget.nothing());
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
                self.group.wait(Arc::clone(&self.incoming));
            }
        }
        // Outside the lock: giving back may resume another stream.
        drop(grant);
    }

    /// Drops the body, so that nothing is stored. Without effect after `finish`.
    pub fn abort(&self) {
        let (resume, dropped) = {
            let mut state = self.incoming.state.lock();
            if state.ended {
                return;
            }
            state.ended = true;
            state.waiting_bytes = 0;
            state.uncovered = None;
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
