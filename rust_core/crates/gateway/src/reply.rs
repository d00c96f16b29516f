//! How a request that is not answered at once gets its answer: what the event loop finds in its queue, and the promise
//! to put something there. Knows requests as `Pending` only.

use std::sync::Arc;

use super::answer::Answer;
use super::intake::Digests;
use super::problem::Problem;
use orcas_base::buffers::Buffer;
use orcas_decide::{Body, Failure, Intent, Outcome};

/// What the event loop finds in the queue, for the slot it gave.
pub struct Completion {
    pub slot: u32,
    pub event: Event,
}

pub enum Event {
    /// The engine is done; the answer is made on the loop, away from the committing thread.
    Committed(Arc<dyn Pending>, Result<Outcome, Failure>),
    Answered(Answer),
    /// A piece of a download.
    Piece(Result<Buffer, Problem>),
    /// There is room for the body now, or it is over: ask again.
    Resume,
}

/// A request under way, as those know it who do a part of it elsewhere.
pub trait Pending: Send + Sync {
    /// Puts `event` into the queue of the event loop.
    fn complete(&self, slot: u32, event: Event);

    /// Hands `intent` to the engine; one completion for `slot` follows.
    fn submit(self: Arc<Self>, intent: Intent, slot: u32);

    /// The answer to a mutation that the engine has decided.
    fn committed(&self, result: Result<Outcome, Failure>) -> Answer;

    /// The intent of an upload whose content is stored. Fails for requests that upload nothing.
    fn stored(&self, size: u64, digests: &Digests, body: Body) -> Result<Intent, Problem>;

    /// Fit to be sent. Ends the connection after an answer that leaves a body unread.
    fn sealed(&self, result: Result<Answer, Problem>) -> Answer;
}

/// A promise to answer one slot. Dropped unkept (a worker panicked or the pool is closed), it answers for itself.
pub struct Reply<R: Pending + ?Sized = dyn Pending> {
    request: Arc<R>,
    slot: u32,
    kept: bool,
}

impl<R: Pending + ?Sized> Reply<R> {
    pub fn new(request: Arc<R>, slot: u32) -> Self {
        Self { request, slot, kept: false }
    }

    pub fn request(&self) -> &Arc<R> {
        &self.request
    }

    pub fn result(mut self, result: Result<Answer, Problem>) {
        self.kept = true;
        self.send(result);
    }

    fn send(&self, result: Result<Answer, Problem>) {
        self.request.complete(self.slot, Event::Answered(self.request.sealed(result)));
    }

    /// Somebody else has promised to answer.
    pub fn leave(mut self) {
        self.kept = true;
    }

    /// Hands `intent` to the engine, which will answer.
    pub fn submit(mut self, intent: Intent) {
        self.kept = true;
        Arc::clone(&self.request).submit(intent, self.slot);
    }
}

impl<R: Pending + ?Sized> Drop for Reply<R> {
    fn drop(&mut self) {
        if !self.kept {
            self.send(Err(Problem::internal("a worker ended before it had an answer")));
        }
    }
}
