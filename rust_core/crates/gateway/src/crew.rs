//! The workers that take streamed bodies in: each looks after as many bodies at once as there are for it, so that what
//! costs less for several of them together is done together.
//!
//! Nobody waits for company. A worker takes its share of the bodies that have something for it, a bounded part of each,
//! and then looks again; what came meanwhile is its next company. A body that is alone is treated as if there were no
//! others.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use super::budget::Permit;
use super::incoming::{Consumer, Incoming, Next};
use super::pool::Pool;

/// Bodies that a worker looks after at once.
const COMPANY_MAX: usize = 16;
/// Bytes that a worker consumes of one body before it looks at others: of each in company, and of one that is alone.
const TURN: u64 = 256 * 1024;
pub(super) const LONE_TURN: u64 = 1024 * 1024;

pub struct Crew<C: Consumer> {
    /// Runs the workers, and what blocks.
    pool: Arc<Pool>,
    workers_max: usize,
    state: Mutex<State<C>>,
}

struct State<C: Consumer> {
    /// Bodies that have something for a worker, each once.
    waiting: VecDeque<Arc<Incoming<C>>>,
    working: usize,
}

impl<C: Consumer> Crew<C> {
    /// Workers run in `pool`; so do the ends of bodies, which wait for the disk. A worker may never find an end to its
    /// work: the pool needs more threads than all its crews have workers.
    pub fn new(pool: Arc<Pool>, workers_max: usize) -> Arc<Self> {
        let state = Mutex::new(State { waiting: VecDeque::new(), working: 0 });
        Arc::new(Self { pool, workers_max, state })
    }

    /// `body` has something for a worker. To be called once, until a worker has left it.
    pub(super) fn wait(self: &Arc<Self>, body: Arc<Incoming<C>>) {
        let mut state = self.state.lock();
        state.waiting.push_back(body);
        if state.working == self.workers_max {
            return;
        }
        state.working += 1;
        drop(state);
        let crew = Arc::clone(self);
        if self.pool.try_spawn(Box::new(move || crew.work())).is_err() {
            // Closed. The last who could have worked tells those who wait; another one would find them first.
            let mut state = self.state.lock();
            state.working -= 1;
            let forgotten = if state.working == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
            drop(state);
            forgotten.iter().for_each(|body| body.die());
        }
    }

    fn work(self: &Arc<Self>) {
        while let Some(bodies) = self.company() {
            // What a body or its company does cannot end the worker: those it has then are lost, and only they.
            let _ = catch_unwind(AssertUnwindSafe(|| self.look_after(bodies)));
        }
    }

    /// A worker's share of what waits; `None` when it may go.
    fn company(&self) -> Option<Vec<Arc<Incoming<C>>>> {
        let mut state = self.state.lock();
        let share = state.waiting.len().div_ceil(state.working).min(COMPANY_MAX);
        if share == 0 {
            state.working -= 1;
            return None;
        }
        Some(state.waiting.drain(..share).collect())
    }

    fn look_after(self: &Arc<Self>, bodies: Vec<Arc<Incoming<C>>>) {
        let in_company = bodies.len() > 1;
        let mut members: Vec<Member<C>> = bodies.into_iter().filter_map(Member::new).collect();
        members.iter_mut().for_each(|member| member.consume(in_company));
        if in_company {
            let mut consumers: Vec<&mut C> = members.iter_mut().filter_map(|m| m.consumer.as_deref_mut()).collect();
            C::settle(&mut consumers);
        }
        members.into_iter().for_each(|member| self.part_with(member));
    }

    fn part_with(self: &Arc<Self>, mut member: Member<C>) {
        let Some(consumer) = member.consumer.take() else { return };
        member.held = None;
        match member.body.leave(consumer) {
            Next::Finish(consumer, reply) => {
                if let Err(finish) = self.pool.try_spawn(Box::new(move || consumer.finish(reply))) {
                    // Closed, which waits for this worker.
                    finish();
                }
            }
            Next::Wait => self.wait(Arc::clone(&member.body)),
            Next::Rest => {}
        }
    }
}

/// A body that a worker looks after. Dropped with its consumer, it dies.
struct Member<C: Consumer> {
    body: Arc<Incoming<C>>,
    consumer: Option<Box<C>>,
    /// The share of the budget that covers what is not settled.
    held: Option<Permit>,
}

impl<C: Consumer> Member<C> {
    fn new(body: Arc<Incoming<C>>) -> Option<Self> {
        let consumer = Some(body.take_consumer()?);
        Some(Self { body, consumer, held: None })
    }

    /// Consumes what has come, up to the end of a turn.
    fn consume(&mut self, in_company: bool) {
        let Some(mut consumer) = self.consumer.take() else { return };
        let mut left = if in_company { TURN } else { LONE_TURN };
        while left > 0
            && let Some((piece, permit)) = self.body.take_piece()
        {
            left = left.saturating_sub(piece.len() as u64);
            match catch_unwind(AssertUnwindSafe(|| consumer.consume(&piece, in_company))) {
                Ok(Ok(())) if in_company => match &mut self.held {
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
