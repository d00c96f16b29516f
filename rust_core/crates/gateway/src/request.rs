//! A verified request: the input of its operation, what its body must be, and how it is carried out.
//!
//! `Operation` is what the files in `operations` implement; `Request` is what a server sees of a request, whatever its
//! operation. `start` answers at once when nothing can block; otherwise exactly one completion for the slot follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::answer::{Answer, Envelope};
use super::body_plan::BodyPlan;
use super::budget::Permit;
use super::intake::{Digests, Promise};
use super::lane::Lane;
use super::problem::Problem;
use super::reading::Reading;
use super::reply::{Completion, Event, Pending, Reply};
use super::store_body::{StoreBody, UploadStream};
use super::stream::BodyStream;
use orcas_decide::{Body, Failure, Intent, Outcome};
use orcas_engine::{CompletionSink, Waiter};
use orcas_record::Bucket;
use orcas_s3::Operation as Name;
use orcas_s3::support::Understood;

/// Hashing up to this many bytes happens on the event loop; waking a worker costs about as much.
const INLINE_HASH_MAX: usize = 8 * 1024;

/// What one operation does with its requests. The type that implements it is the input of one of them.
pub trait Operation: Sized + Send + Sync + 'static {
    /// What its requests may ask for and those of other operations may not.
    const UNDERSTOOD: Understood = Understood::NOTHING;

    /// Reads the input from the head.
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem>;

    /// What its body must be.
    fn body(&self, _reading: &Reading<'_>) -> Result<BodyPlan, Problem> {
        Ok(BodyPlan::None)
    }

    /// Begins an operation without a body. On the event loop: does not block.
    fn begin(_call: &Arc<Call<Self>>, _slot: u32) -> Result<Step, Problem> {
        Err(Problem::internal("an operation with a body was started without one"))
    }

    /// Begins an operation with its collected body, once that is checked. Does not block. What uploads do needs no
    /// implementation of its own.
    fn take(call: &Arc<Call<Self>>, content: Bytes, digests: &Digests, slot: u32) -> Result<Step, Problem> {
        match call.input.upload() {
            Some(upload) => {
                let size = content.len() as u64;
                let body = call.lane.engine.small_body(upload.bucket(), content);
                Ok(call.submit(upload.intent(size, digests, body), slot))
            }
            None => Err(Problem::internal("an operation without a body was given one")),
        }
    }

    /// The answer to what the engine has decided.
    fn answer(_call: &Call<Self>, _outcome: Outcome) -> Result<Answer, Problem> {
        Err(another_question())
    }

    /// Itself, if its body becomes content of the store.
    fn upload(&self) -> Option<&dyn Upload> {
        None
    }
}

/// An operation whose body becomes content of the store.
pub trait Upload {
    fn bucket(&self) -> &Arc<Bucket>;

    /// `size` in bytes.
    fn intent(&self, size: u64, digests: &Digests, body: Body) -> Intent;
}

/// The engine's outcome is none of the operation that was submitted.
pub fn another_question() -> Problem {
    Problem::internal("the engine answered another question")
}

/// What a step of an operation came to.
pub enum Step {
    Answer(Answer),
    /// A completion for the slot will come.
    Later,
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// What a server sees of a request.
pub trait Request: Pending {
    fn operation(&self) -> Name;

    fn envelope(&self) -> &Envelope;

    fn body(&self) -> &BodyPlan;

    /// Takes budget for a body to be collected. False: not now, a `Resume` for `slot` follows when it was taken.
    fn admit(self: Arc<Self>, slot: u32) -> bool;

    /// The body was received to its end.
    fn body_read(&self);

    /// Begins to take a streamed body in; `None` when the request has no such body. `host` is the client's address.
    fn open_body(&self, host: &str) -> Option<UploadStream>;

    /// Begins the operation with its collected body, which is empty when there is none.
    ///
    /// `Some` is the answer; after `None` one completion for `slot` follows.
    fn start(self: Arc<Self>, body: &[u8], slot: u32) -> Option<Answer>;
}

/// One request of an operation.
pub struct Call<O> {
    pub lane: Arc<Lane>,
    pub envelope: Envelope,
    pub input: O,
    name: Name,
    body: BodyPlan,
    /// A body was announced and is not read to its end yet.
    unread: AtomicBool,
    /// Covers a body collected in memory, until the request is done.
    permit: Mutex<Option<Permit>>,
}

impl<O: Operation> Call<O> {
    /// Reads a request whose sender is known.
    pub fn accept(reading: &Reading<'_>) -> Result<Arc<dyn Request>, Problem> {
        let input = O::parse(reading)?;
        let body = input.body(reading)?;
        Ok(Arc::new(Self {
            lane: Arc::clone(reading.lane),
            envelope: reading.lane.envelope(reading.head.method, reading.head.path),
            input,
            name: reading.operation,
            body,
            unread: AtomicBool::new(reading.has_body),
            permit: Mutex::new(None),
        }))
    }

    /// Hands `intent` to the engine, which will answer.
    pub fn submit(self: &Arc<Self>, intent: Intent, slot: u32) -> Step {
        let waiter = Waiter::new(Arc::new(Commit(Arc::clone(self))), u64::from(slot));
        self.lane.engine.submit(intent, waiter);
        Step::Later
    }

    /// Runs `job`, which may block, on a worker, which answers the slot.
    pub fn later(
        self: &Arc<Self>,
        slot: u32,
        job: impl FnOnce(&Self) -> Result<Answer, Problem> + Send + 'static,
    ) -> Step {
        self.on_worker(slot, |call| job(call).map(Step::Answer))
    }

    /// Runs `job` on a worker, which answers the slot unless the job has arranged for that.
    fn on_worker(
        self: &Arc<Self>,
        slot: u32,
        job: impl FnOnce(&Arc<Self>) -> Result<Step, Problem> + Send + 'static,
    ) -> Step {
        let reply = Reply::new(Arc::clone(self), slot);
        self.lane.pool.spawn(move || match job(reply.request()) {
            Ok(Step::Answer(answer)) => reply.result(Ok(answer)),
            Ok(Step::Later) => reply.leave(),
            Err(problem) => reply.result(Err(problem)),
        });
        Step::Later
    }

    fn take(self: &Arc<Self>, promise: &Promise, body: Bytes, slot: u32) -> Result<Step, Problem> {
        let (content, digests) = promise.verify(body, &self.lane.buffers)?;
        O::take(self, content, &digests, slot)
    }
}

impl<O: Operation> Request for Call<O> {
    fn operation(&self) -> Name {
        self.name
    }

    fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    fn body(&self) -> &BodyPlan {
        &self.body
    }

    fn admit(self: Arc<Self>, slot: u32) -> bool {
        let request = Arc::clone(&self);
        let granted = move |permit| {
            *request.permit.lock() = Some(permit);
            request.complete(slot, Event::Resume);
        };
        match self.lane.budget.take_or_wait(self.body.whole_max(), granted) {
            Some(permit) => {
                *self.permit.lock() = Some(permit);
                true
            }
            None => false,
        }
    }

    fn body_read(&self) {
        self.unread.store(false, Ordering::Relaxed);
    }

    fn open_body(&self, host: &str) -> Option<UploadStream> {
        let (BodyPlan::Stream(promise), Some(upload)) = (&self.body, self.input.upload()) else { return None };
        let Lane { engine, intake, intake_sha256, budget, buffers, prefixes, .. } = &*self.lane;
        let consumer = StoreBody::new(engine.clone(), Arc::clone(upload.bucket()), promise, Arc::clone(prefixes));
        let crew = Arc::clone(if promise.hashes_sha256() { intake_sha256 } else { intake });
        Some(BodyStream::new(crew, budget.client(host), Arc::clone(buffers), promise.wire, consumer))
    }

    fn start(self: Arc<Self>, body: &[u8], slot: u32) -> Option<Answer> {
        let step = match &self.body {
            BodyPlan::Whole(promise) => {
                let body = self.lane.buffers.copy(body);
                if body.len() <= INLINE_HASH_MAX {
                    self.take(promise, body, slot)
                } else {
                    Ok(self.on_worker(slot, move |call| match &call.body {
                        BodyPlan::Whole(promise) => call.take(promise, body, slot),
                        BodyPlan::None | BodyPlan::Stream(_) => O::begin(call, slot),
                    }))
                }
            }
            BodyPlan::None | BodyPlan::Stream(_) => O::begin(&self, slot),
        };
        match step {
            Ok(Step::Answer(answer)) => Some(self.sealed(Ok(answer))),
            Ok(Step::Later) => None,
            Err(problem) => Some(self.sealed(Err(problem))),
        }
    }
}

impl<O: Operation> Pending for Call<O> {
    fn complete(&self, slot: u32, event: Event) {
        self.lane.complete(slot, event);
    }

    fn submit(self: Arc<Self>, intent: Intent, slot: u32) {
        Self::submit(&self, intent, slot);
    }

    fn committed(&self, result: Result<Outcome, Failure>) -> Answer {
        self.sealed(result.map_err(Problem::from).and_then(|outcome| O::answer(self, outcome)))
    }

    fn stored(&self, size: u64, digests: &Digests, body: Body) -> Result<Intent, Problem> {
        let upload = self.input.upload();
        let upload = upload.ok_or_else(|| Problem::internal("a streamed body belongs to no upload"))?;
        Ok(upload.intent(size, digests, body))
    }

    fn sealed(&self, result: Result<Answer, Problem>) -> Answer {
        let answer = result.unwrap_or_else(|problem| self.envelope.problem(problem));
        let answer = self.envelope.checked(answer);
        if self.unread.load(Ordering::Relaxed) { answer.closing() } else { answer }
    }
}

/// Brings the engine's verdict on a request back to the loop.
struct Commit<O>(Arc<Call<O>>);

impl<O: Operation> CompletionSink for Commit<O> {
    fn complete(&self, token: u64, result: Result<Outcome, Failure>) {
        if self.complete_quietly(token, result) {
            self.wake();
        }
    }

    fn complete_quietly(&self, token: u64, result: Result<Outcome, Failure>) -> bool {
        let slot = u32::try_from(token).unwrap_or(u32::MAX);
        let request: Arc<Call<O>> = Arc::clone(&self.0);
        self.0.lane.completions.push_quietly(Completion { slot, event: Event::Committed(request, result) })
    }

    fn wake(&self) {
        self.0.lane.completions.wake();
    }
}
