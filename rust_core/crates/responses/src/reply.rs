//! How a request that is not answered at once gets its answer: the `Responder` of its front end, the completions that it
//! takes, and `Reply`, which makes sure that exactly one answer arrives. Knows requests as `InProgress` only.

use std::sync::Arc;

use crate::response::Response;
use orcas_base::buffers::Buffer;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{Body, Failure, Intent, Outcome};
use orcas_store::Sealing;

/// The front end of a request, which takes what the request waits for. It numbers its waits: each ends with one
/// completion for its slot. Called by threads of the engine and by workers, so it must not block.
pub trait Responder: Send + Sync {
    /// As `complete`, when more may follow at once. True if the front end sleeps until `wake` is called, which must not be
    /// left undone.
    #[must_use]
    fn complete_quietly(&self, slot: u32, completion: Completion) -> bool;

    fn wake(&self);

    fn complete(&self, slot: u32, completion: Completion) {
        if self.complete_quietly(slot, completion) {
            self.wake();
        }
    }
}

pub enum Completion {
    /// The engine is done; the front end makes the answer, away from the committing thread.
    Committed(Arc<dyn InProgress>, Result<Outcome, Failure>),
    Answered(Response),
    /// A piece of a download.
    Piece(Result<Buffer, Problem>),
    /// The body has its share of the budget now, or has ended: ask again.
    Resume,
}

/// A request in progress, as the code on other threads knows it.
pub trait InProgress: Send + Sync {
    /// Where its answer goes.
    fn responder(&self) -> &Arc<dyn Responder>;

    /// The slot of its answer.
    fn slot(&self) -> u32;

    /// Sets the slot that the answer is for from now on.
    fn set_slot(&self, slot: u32);

    /// Hands `intent` to the engine; the completion with the answer follows.
    fn submit(self: Arc<Self>, intent: Intent);

    /// The answer to a mutation that the engine has decided.
    fn committed(&self, result: Result<Outcome, Failure>) -> Response;

    /// The intent of an upload whose content is stored, sealed like this. Fails for requests that upload nothing.
    fn stored(&self, size: u64, digests: &Digests, body: Body, sealing: &Sealing) -> Result<Intent, Problem>;

    /// Makes the response ready to be sent. If it leaves a body unread, the connection ends after it.
    fn ready(&self, result: Result<Response, Problem>) -> Response;
}

/// The obligation to answer a request. If it is dropped without an answer, because a worker panicked or the pool is
/// closed, it answers with an internal error.
pub struct Reply<R: InProgress + ?Sized = dyn InProgress> {
    request: Arc<R>,
    kept: bool,
}

impl<R: InProgress + ?Sized> Reply<R> {
    pub fn of(request: Arc<R>) -> Self {
        Self { request, kept: false }
    }

    /// The answer is for this slot.
    pub fn new(request: Arc<R>, slot: u32) -> Self {
        request.set_slot(slot);
        Self::of(request)
    }

    pub fn request(&self) -> &Arc<R> {
        &self.request
    }

    pub fn result(mut self, result: Result<Response, Problem>) {
        self.kept = true;
        self.send(result);
    }

    fn send(&self, result: Result<Response, Problem>) {
        let answer = self.request.ready(result);
        self.request.responder().complete(self.request.slot(), Completion::Answered(answer));
    }

    /// Drops the obligation, because other code answers.
    pub fn leave(mut self) {
        self.kept = true;
    }

    /// Hands `intent` to the engine, which will answer.
    pub fn submit(mut self, intent: Intent) {
        self.kept = true;
        Arc::clone(&self.request).submit(intent);
    }
}

impl<R: InProgress + ?Sized> Drop for Reply<R> {
    fn drop(&mut self) {
        if !self.kept {
            self.send(Err(Problem::internal("a worker ended without an answer")));
        }
    }
}
