//! How a request that is not answered at once gets its answer: the events of the event loop's queue, and `Reply`, which
//! makes sure that exactly one arrives. Knows requests as `Pending` only.

use std::sync::Arc;

use super::intake::Digests;
use super::problem::Problem;
use super::response::Response;
use super::treatment::Treatment;
use orcas_base::buffers::Buffer;
use orcas_decide::{Body, Failure, Intent, Outcome};

/// An event in the queue of the event loop, for the slot of a request.
pub struct Completion {
    pub slot: u32,
    pub event: Event,
}

pub enum Event {
    /// The engine is done; the answer is made on the loop, away from the committing thread.
    Committed(Arc<dyn Pending>, Result<Outcome, Failure>),
    Answered(Response),
    /// A piece of a download.
    Piece(Result<Buffer, Problem>),
    /// The body has its share of the budget now, or has ended: ask again.
    Resume,
}

/// A request in progress, as the code on other threads knows it.
pub trait Pending: Send + Sync {
    /// Puts `event` into the queue of the event loop.
    fn complete(&self, slot: u32, event: Event);

    /// Hands `intent` to the engine; one completion for `slot` follows.
    fn submit(self: Arc<Self>, intent: Intent, slot: u32);

    /// The answer to a mutation that the engine has decided.
    fn committed(&self, result: Result<Outcome, Failure>) -> Response;

    /// The intent of an upload whose content is stored. Fails for requests that upload nothing.
    fn stored(&self, size: u64, digests: &Digests, body: Body, treatment: Treatment) -> Result<Intent, Problem>;

    /// Makes the response ready to be sent. If it leaves a body unread, the connection ends after it.
    fn sealed(&self, result: Result<Response, Problem>) -> Response;
}

/// The obligation to answer one slot. If it is dropped without an answer, because a worker panicked or the pool is
/// closed, it answers with an internal error.
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

    pub fn result(mut self, result: Result<Response, Problem>) {
        self.kept = true;
        self.send(result);
    }

    fn send(&self, result: Result<Response, Problem>) {
        self.request.complete(self.slot, Event::Answered(self.request.sealed(result)));
    }

    /// Drops the obligation, because other code answers.
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
            self.send(Err(Problem::internal("a worker ended without an answer")));
        }
    }
}
