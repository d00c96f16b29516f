//! The workers that process streamed bodies. A worker processes several bodies in one turn, because some work, such as
//! MD5, costs less for several bodies together.
//!
//! No body waits for others to arrive. A worker takes its share of the bodies that have data waiting, processes a
//! bounded part of each, and then takes the next bodies. A body that is the only one is processed alone.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use super::budget::Permit;
use super::incoming::{Consumer, Incoming, Next};
use super::pool::Pool;

/// Bodies that a worker processes in one turn.
const BODIES_MAX: usize = 16;
/// Bytes of one body that a worker processes in a turn: of each of several bodies, and of a single one.
const BATCH_TURN: u64 = 256 * 1024;
pub(super) const SINGLE_TURN: u64 = 1024 * 1024;

pub struct WorkerGroup<C: Consumer> {
    /// Runs the workers, and what blocks.
    pool: Arc<Pool>,
    workers_max: usize,
    state: Mutex<Waiting<C>>,
}

struct Waiting<C: Consumer> {
    /// Bodies that have work for a worker, each once.
    bodies: VecDeque<Arc<Incoming<C>>>,
    /// Workers that run.
    working: usize,
}

impl<C: Consumer> WorkerGroup<C> {
    /// Workers and the ends of bodies run in `pool`. The ends wait for the disk. A worker runs for as long as there is
    /// work, possibly for ever, so the pool needs more threads than all its groups have workers.
    pub fn new(pool: Arc<Pool>, workers_max: usize) -> Arc<Self> {
        let state = Mutex::new(Waiting { bodies: VecDeque::new(), working: 0 });
        Arc::new(Self { pool, workers_max, state })
    }

    /// Queues a body that has work for a worker. Call it only for a body that is neither queued nor with a worker.
    pub(super) fn wait(self: &Arc<Self>, body: Arc<Incoming<C>>) {
        let mut state = self.state.lock();
        state.bodies.push_back(body);
        if state.working == self.workers_max {
            return;
        }
        state.working += 1;
        drop(state);
        let group = Arc::clone(self);
        if self.pool.try_spawn(Box::new(move || group.work())).is_err() {
            // The pool is closed. If a worker still runs, it finds the waiting bodies; otherwise they are lost.
            let mut state = self.state.lock();
            state.working -= 1;
            let lost = if state.working == 0 { std::mem::take(&mut state.bodies) } else { VecDeque::new() };
            drop(state);
            lost.iter().for_each(|body| body.die());
        }
    }

    fn work(self: &Arc<Self>) {
        while let Some(bodies) = self.next_bodies() {
            // A panic loses the bodies of this turn and no others; the worker goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| self.process(bodies)));
        }
    }

    /// A worker's share of the waiting bodies; `None` if there are none and the worker ends.
    fn next_bodies(&self) -> Option<Vec<Arc<Incoming<C>>>> {
        let mut state = self.state.lock();
        let share = state.bodies.len().div_ceil(state.working).min(BODIES_MAX);
        if share == 0 {
            state.working -= 1;
            return None;
        }
        Some(state.bodies.drain(..share).collect())
    }

    fn process(self: &Arc<Self>, bodies: Vec<Arc<Incoming<C>>>) {
        let batched = bodies.len() > 1;
        let mut members: Vec<Member<C>> = bodies.into_iter().filter_map(Member::new).collect();
        members.iter_mut().for_each(|member| member.consume(batched));
        if batched {
            let mut consumers: Vec<&mut C> = members.iter_mut().filter_map(|m| m.consumer.as_deref_mut()).collect();
            C::settle(&mut consumers);
        }
        members.into_iter().for_each(|member| self.release(member));
    }

    fn release(self: &Arc<Self>, mut member: Member<C>) {
        let Some(consumer) = member.consumer.take() else { return };
        member.held = None;
        match member.body.leave(consumer) {
            Next::Finish(consumer, reply) => {
                if let Err(finish) = self.pool.try_spawn(Box::new(move || consumer.finish(reply))) {
                    // The pool is being closed, and waits for this worker.
                    finish();
                }
            }
            Next::Wait => self.wait(Arc::clone(&member.body)),
            Next::Rest => {}
        }
    }
}

/// A body that a worker is processing. If it is dropped before `release`, the body is lost.
struct Member<C: Consumer> {
    body: Arc<Incoming<C>>,
    consumer: Option<Box<C>>,
    /// The permit for pieces that `settle` has not processed yet.
    held: Option<Permit>,
}

impl<C: Consumer> Member<C> {
    fn new(body: Arc<Incoming<C>>) -> Option<Self> {
        let consumer = Some(body.take_consumer()?);
        Some(Self { body, consumer, held: None })
    }

    /// Processes the pieces that have arrived, up to the end of a turn.
    fn consume(&mut self, batched: bool) {
        let Some(mut consumer) = self.consumer.take() else { return };
        let mut left = if batched { BATCH_TURN } else { SINGLE_TURN };
        while left > 0
            && let Some((piece, permit)) = self.body.take_piece()
        {
            left = left.saturating_sub(piece.len() as u64);
            match catch_unwind(AssertUnwindSafe(|| consumer.consume(&piece, batched))) {
                Ok(Ok(())) if batched => match &mut self.held {
                    Some(held) => held.merge(permit),
                    none => *none = Some(permit),
                },
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    drop((consumer, self.held.take()));
                    return self.body.refuse(error);
                }
                Err(_) => {
                    drop((consumer, self.held.take()));
                    return self.body.die();
                }
            }
        }
        self.consumer = Some(consumer);
    }
}

impl<C: Consumer> Drop for Member<C> {
    fn drop(&mut self) {
        if self.consumer.take().is_some() {
            self.held = None;
            self.body.die();
        }
    }
}
