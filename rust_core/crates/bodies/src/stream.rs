//! An arriving request body, processed in order by one worker at a time, with back-pressure.
//!
//! The event loop passes pieces on, which are copied. A worker of the group processes them, so hashing and disk writes
//! overlap with receiving. All bytes held here have a permit of the process-wide budget, taken when they have arrived. So a
//! stalled sender holds nothing. Only the consumer knows what the bytes mean.

use std::sync::Arc;

use super::budget::Client;
pub use super::incoming::{Consumer, PIECE_MAX};
use super::incoming::{Incoming, STREAM_WINDOW};
use super::worker_group::WorkerGroup;
use orcas_base::buffers::Buffers;
use orcas_base::completions::Resume;

/// The next step of the sender of pieces.
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

    /// Takes one received piece, under the permit that `admit` got.
    pub fn push(&self, bytes: &[u8]) {
        let Some(mut permit) = self.incoming.state.lock().grant.take() else { return };
        if bytes.is_empty() {
            return;
        }
        // Outside the lock: giving back may resume another stream.
        permit.shrink_to(bytes.len() as u64);
        let mut state = self.incoming.state.lock();
        if state.refused.is_some() || state.ended {
            return;
        }
        state.waiting_bytes += permit.bytes();
        state.received += bytes.len() as u64;
        self.incoming.append(&mut state, bytes, permit);
        let waits = state.begin_to_wait();
        drop(state);
        if waits {
            self.group.wait(Arc::clone(&self.incoming));
        }
    }

    /// Ends the body. `reply` gets the outcome on a worker thread.
    pub fn finish(&self, reply: C::Reply) {
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
