//! A verified request: the input of its operation, what its body must be, and how the operation is performed.
//!
//! `Operation` is what the files in `operations` implement; `Request` is what a server sees of a request, whatever its
//! operation. `start` answers at once when nothing can block; otherwise exactly one completion for the slot follows.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::after_body::{AfterBody, AskedByBody};
use crate::bodies::Bodies;
use crate::body_plan::BodyPlan;
use crate::services::Services;
use crate::storage_plan::{PartOf, StoragePlan};
use crate::store_body::{Destination, StoreBody, UploadStream};
use crate::tally::Tally;
use orcas_admission::decision_log::{DecisionLog, LoggedDecisions};
use orcas_admission::missing::MissingCheck;
use orcas_admission::request_context::RequestContext;
use orcas_admission::senders::identities::Requester;
use orcas_base::blocking;
use orcas_bodies::budget::Permit;
use orcas_bodies::form_file::FileFrame;
use orcas_bodies::intake::{DeclaredBody, Digests};
use orcas_bodies::problem::Problem;
use orcas_bodies::stream::BodyStream;
use orcas_decide::{Body, Failure, Intent, Outcome};
use orcas_engine::{Addition, CompletionSink, Handle, RoundTimes, Waiter};
use orcas_record::{Bucket, Cause, RequestCause};
use orcas_responses::reply::{Completion, InProgress, Reply, Responder};
use orcas_responses::response::{CorsLines, Envelope, HeaderBlock, Response};
use orcas_s3::operations::Absent;
use orcas_s3::support::Understood;
use orcas_s3::{Named, Operation as Name, S3Error};
use orcas_store::Sealing;
use orcas_telemetry::access_log::note::Note;

/// Bytes of the largest body that is hashed on the event loop: waking a worker costs about as much time.
const INLINE_HASH_MAX: usize = 8 * 1024;

/// An operation. The type that implements it is the input of one request.
pub trait Operation: Sized + Send + Sync + 'static {
    /// Which headers and parameters its requests may have that other operations refuse.
    const UNDERSTOOD: Understood = Understood::NOTHING;

    /// Whether it may take many seconds, and runs in pieces.
    const IN_PIECES: bool = false;

    /// Whether its errors are pages for a browser.
    const FOR_BROWSERS: bool = false;

    /// Reads the input from the head.
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem>;

    /// The body that the request must have: as the table of operations says, unless it is content.
    fn body(&self, context: &RequestContext<'_>) -> Result<BodyPlan, Problem> {
        BodyPlan::of_operation(context.operation, context.headers(), context.payload)
    }

    /// Begins an operation without a body. On the event loop: does not block.
    fn begin(_request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        Err(Problem::internal("an operation with a body was started without one"))
    }

    /// The headers that its body stands for, in an operation whose body asks for what conditions and actions are about.
    fn asks(_request: &TypedRequest<Self>, _content: &[u8]) -> Result<AskedByBody, Problem> {
        Err(Problem::internal("nobody reads what the body of an operation asks for"))
    }

    /// Begins an operation with its collected body, once that is checked. Does not block. Not for uploads.
    fn take(_request: &Arc<TypedRequest<Self>>, _content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        Err(Problem::internal("an operation without a body got one"))
    }

    /// The response to the outcome of the engine's decision.
    fn answer(_request: &TypedRequest<Self>, _outcome: Outcome) -> Result<Response, Problem> {
        Err(wrong_outcome())
    }

    /// The bucket, key and other names in the errors of this operation.
    fn named(&self) -> Named<'_> {
        Named::default()
    }

    /// Adds to an error what else it has to say. Only its own requests know that.
    fn detailed(&self, error: S3Error) -> S3Error {
        error
    }

    /// The frame of the content in the body, if the body is a form.
    fn frame(&self) -> Option<&FileFrame> {
        None
    }

    /// The operation itself, if its body becomes content of the store.
    fn upload(&self) -> Option<&dyn Upload> {
        None
    }
}

/// The intent that an upload submits to the engine.
pub type Prepared = Result<Intent, Problem>;

/// An operation whose body becomes content of the store.
pub trait Upload {
    fn bucket(&self) -> &Arc<Bucket>;

    /// `body` has `size` bytes and these digests, and is sealed like this.
    fn intent(&self, engine: &Handle, size: u64, digests: &Digests, body: Body, sealing: &Sealing) -> Prepared;

    /// The addition to the store, which quotas count.
    fn adds(&self) -> Addition;

    /// The body, if it was collected in memory and is not sealed.
    fn plain_body(&self, engine: &Handle, content: Bytes) -> Body {
        engine.content().small_body(self.bucket(), content)
    }

    /// How the body is sealed, unless that is up to what it becomes a part of.
    fn sealing(&self) -> Sealing;

    /// Whether taking a small body in may have to wait.
    fn may_wait(&self, engine: &Handle) -> bool {
        if self.part_of().is_some() {
            return true;
        }
        let sealing = self.sealing();
        sealing.encryption.is_some() && !engine.keys().can_seal_at_once(self.bucket(), &sealing)
    }

    /// The upload or object that the body becomes a part of, if there is one.
    fn part_of(&self) -> Option<PartOf> {
        None
    }
}

/// The error for an outcome that belongs to another operation than the one submitted.
pub fn wrong_outcome() -> Problem {
    Problem::internal("the engine returned the outcome of another operation")
}

/// How far an operation has come.
pub enum Progress {
    Response(Response),
    /// The completion with the answer will come.
    Later,
}

impl From<Response> for Progress {
    fn from(answer: Response) -> Self {
        Self::Response(answer)
    }
}

/// A request as a server sees it.
pub trait Request: InProgress {
    fn operation(&self) -> Name;

    fn envelope(&self) -> &Envelope;

    /// The sender of the request.
    fn requester(&self) -> &Arc<Requester>;

    /// The entry for the audit log, if the request changes access rights.
    fn audited(&self) -> Option<&Audited>;

    /// The bucket that it is about, if that exists.
    fn bucket(&self) -> Option<&Arc<Bucket>>;

    /// Bucket and key of the object that it reads, if it is to be fetched from the origin of the bucket where it is absent.
    fn pulled(&self) -> Option<(&str, &str)>;

    /// The note for the access log, if there was one when the request was accepted.
    fn note(&self) -> Option<&Note>;

    /// Access decisions that are not in the note.
    fn judged(&self) -> Option<&LoggedDecisions>;

    fn body(&self) -> &BodyPlan;

    /// Whether it may take many seconds, and ends early if it is abandoned.
    fn in_pieces(&self) -> bool;

    /// Gives the request up: nobody waits for the answer any more.
    fn abandon(&self);

    /// The counts of the request. The front end adds the bytes of a streamed body, and says when that has ended.
    fn tally(&self) -> &Tally;

    /// Takes memory of the budget for a body that is collected. False: not yet; a `Resume` for `slot` follows then.
    fn admit(self: Arc<Self>, slot: u32) -> bool;

    /// The body was received to its end.
    fn body_read(&self);

    /// Starts receiving a streamed body; `None` if the request has no such body. `host` is the client's address.
    fn open_body(&self, host: &str) -> Option<UploadStream>;

    /// Begins the operation with its collected body, which is empty when there is none.
    ///
    /// `Some` is the answer; after `None` one completion for `slot` follows.
    fn start(self: Arc<Self>, body: Bytes, slot: u32) -> Option<Response>;
}

/// The subject of a request that changes access rights.
pub struct Audited {
    pub bucket: String,
    pub key: Option<String>,
    pub version_id: Option<String>,
}

impl Audited {
    fn of(context: &RequestContext<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            bucket: context.target.bucket().unwrap_or_default().to_owned(),
            key: context.target.key().map(text),
            version_id: context.query.get("versionId").map(text),
        }
    }
}

/// The circumstances in which a request arrived.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    pub services: &'a Arc<Services>,
    /// The receiver of the answer.
    pub responder: &'a Arc<dyn Responder>,
    /// Lines about CORS for the answer.
    pub cors: &'a CorsLines,
}

/// A request of an operation.
pub struct TypedRequest<O> {
    pub services: Arc<Services>,
    responder: Arc<dyn Responder>,
    /// The slot under which the front end waits for the answer.
    slot: AtomicU32,
    pub envelope: Envelope,
    pub input: O,
    name: Name,
    pub requester: Arc<Requester>,
    /// The check for the access decision on what the sender may know of what does not exist. Root may know everything,
    /// and pages tell everybody.
    missing: Option<Box<MissingCheck>>,
    note: Option<Box<Note>>,
    audited: Option<Box<Audited>>,
    /// To authorize again with the body.
    after_body: Option<Box<AfterBody>>,
    /// Access decisions that are not in the note, if the access log wants to know.
    pub judged: OnceLock<Box<LoggedDecisions>>,
    bucket: Option<Arc<Bucket>>,
    body: BodyPlan,
    /// A body was announced and is not read to its end yet.
    unread: AtomicBool,
    /// Nobody waits for the answer any more.
    pub(crate) abandoned: AtomicBool,
    /// Covers a body collected in memory, until the request is done.
    permit: Mutex<Option<Permit>>,
    pub tally: Tally,
}

impl<O: Operation> TypedRequest<O> {
    /// Parses the document of a request, and counts how long that took.
    pub fn read_document<T>(&self, parse: impl FnOnce() -> T) -> T {
        self.services.metrics.documents.parsed.timed(parse)
    }

    /// The answer without a body once what was asked for is done.
    pub fn succeeded(&self, headers: HeaderBlock) -> Response {
        self.envelope.empty(self.name.status(), headers)
    }

    /// Makes a page of a list, and counts how long that took.
    pub fn make_list<T>(&self, make: impl FnOnce() -> T) -> T {
        self.services.metrics.documents.written.timed(make)
    }

    /// Reads a request whose sender is known.
    pub fn accept(arrival: Arrival<'_>, context: &RequestContext<'_>) -> Result<Arc<dyn Request>, Problem> {
        Self::of(arrival, context, O::parse(context)?)
    }

    /// A request whose input was read already.
    pub fn of(
        Arrival { services, responder, cors }: Arrival<'_>,
        context: &RequestContext<'_>,
        input: O,
    ) -> Result<Arc<dyn Request>, Problem> {
        let body = input.body(context)?;
        // A small body is written only with the decision that it fits.
        if let (BodyPlan::Stream(declared), Some(upload)) = (&body, input.upload()) {
            let size = input.frame().map_or(declared.length, FileFrame::sure);
            services.engine.try_check_room(upload.bucket(), &upload.adds(), size)?;
        }
        let judged = OnceLock::new();
        // The access log reads the head of a form again, in which there are none.
        if let Some(made) = Some(&context.decisions).filter(|_| context.operation == Name::PostObject) {
            made.take(&context.requester).into_iter().for_each(|made| drop(judged.set(Box::new(made))));
        }
        Ok(Arc::new(Self {
            services: Arc::clone(services),
            responder: Arc::clone(responder),
            slot: AtomicU32::new(0),
            envelope: Envelope {
                for_browsers: O::FOR_BROWSERS,
                ..services.ids.envelope(context.head.method, context.head.path).with_cors(cors.clone())
            },
            input,
            name: context.operation,
            requester: Arc::clone(&context.requester),
            missing: (!context.requester.is_root && !O::FOR_BROWSERS).then(|| Box::new(MissingCheck::of(context))),
            note: context.note(),
            audited: context.is_audited().then(|| Box::new(Audited::of(context))),
            after_body: AfterBody::of(context),
            judged,
            bucket: context.found.get().cloned(),
            body,
            unread: AtomicBool::new(context.has_body),
            abandoned: AtomicBool::new(false),
            permit: Mutex::new(None),
            tally: match context.operation {
                // Its steps are not timed.
                Name::PostObject => Tally::new(context.ingress.began),
                _ => services.watch.tally(context.ingress.began, context.headers(), !context.requester.is_anonymous()),
            },
        }))
    }

    /// Hands `intent` to the engine, which will answer.
    pub fn submit(self: &Arc<Self>, intent: Intent) -> Progress {
        if let Some(stopwatch) = &self.tally.stopwatch {
            stopwatch.submitted();
        }
        self.services.engine.submit(intent, self.cause(), Waiter::new(Arc::new(Commit(Arc::clone(self))), 0));
        Progress::Later
    }

    /// Hands `intent` to the engine, and runs `job`, which may block, with its decision on a worker.
    pub fn submit_then(
        self: &Arc<Self>,
        intent: Intent,
        job: impl FnOnce(&Arc<Self>, Result<Outcome, Failure>) -> Result<Progress, Problem> + Send + 'static,
    ) -> Progress {
        let sink = Continuation { request: Arc::clone(self), job: Mutex::new(Some(job)) };
        self.services.engine.submit(intent, self.cause(), Waiter::new(Arc::new(sink), 0));
        Progress::Later
    }

    /// The cause that the records of this request name.
    pub fn cause(&self) -> Cause {
        Cause::Request(RequestCause {
            operation: self.name.code(),
            request: self.envelope.request_number(),
            principal: self.requester.id,
        })
    }

    /// Goes on with `job`, which may block: at once if a worker runs this already, otherwise on a worker. The
    /// request is answered then, unless the job has arranged for that.
    pub fn on_worker<T: Into<Progress>>(
        self: &Arc<Self>,
        job: impl FnOnce(&Arc<Self>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<Progress, Problem> {
        if self.services.pool.runs_this_thread() {
            return job(self).map(T::into);
        }
        self.queue(|request| job(request).map(T::into));
        Ok(Progress::Later)
    }

    /// Queues `job` for a worker, as of `on_worker`.
    fn queue(self: &Arc<Self>, job: impl FnOnce(&Arc<Self>) -> Result<Progress, Problem> + Send + 'static) {
        let reply = Reply::of(Arc::clone(self));
        let since = self.now_if_timed();
        self.services.pool.spawn(move || {
            let request = reply.request();
            if let (Some(stopwatch), Some(since)) = (&request.tally.stopwatch, since) {
                stopwatch.taken_up(since);
            }
            match job(request) {
                Ok(Progress::Response(answer)) => reply.result(Ok(answer)),
                Ok(Progress::Later) => reply.leave(),
                Err(problem) => reply.result(Err(problem)),
            }
        });
    }

    /// The time, for a step that is timed.
    pub fn now_if_timed(&self) -> Option<Instant> {
        self.tally.stopwatch.as_ref().map(|_| Instant::now())
    }

    fn take(
        self: &Arc<Self>,
        declared: &DeclaredBody,
        body: Bytes,
        storage_plan: StoragePlan,
    ) -> Result<Progress, Problem> {
        let (content, digests) = match self.input.frame() {
            None => declared.verify(body, &self.services.bodies.buffers)?,
            Some(frame) => {
                let content = frame.content(&body)?;
                declared.clone().with_length(content.len() as u64).verify(content, &self.services.bodies.buffers)?
            }
        };
        let Some(upload) = self.input.upload() else {
            return self.once_authorized(content, move |request, content| O::take(request, content, &digests));
        };
        let (engine, size, digests) = (&self.services.engine, content.len() as u64, storage_plan.storable(digests));
        let sealing = storage_plan.sealing;
        let body = match sealing.encryption {
            None => upload.plain_body(engine, content),
            Some(_) => engine.content().sealed_body(upload.bucket(), &sealing, &content)?,
        };
        Ok(self.submit(upload.intent(engine, size, &digests, body, &sealing)?))
    }

    /// Does `work` once what the body asks for, if anything, is authorized. If only a worker can tell, it does both.
    fn once_authorized(
        self: &Arc<Self>,
        content: Bytes,
        work: impl FnOnce(&Arc<Self>, Bytes) -> Result<Progress, Problem> + Send + 'static,
    ) -> Result<Progress, Problem> {
        let Some(after) = &self.after_body else { return work(self, content) };
        let asked = O::asks(self, &content)?;
        let (access, understood) = (&self.services.access, &O::UNDERSTOOD);
        match after.authorize_with_body(access, understood, &self.requester, &asked, &self.judged) {
            Some(authorized) => authorized.and_then(|()| work(self, content)),
            None => self.on_worker(move |request| request.once_authorized(content, work)),
        }
    }

    /// Begins an operation without a body.
    fn begin(self: &Arc<Self>) -> Result<Progress, Problem> {
        self.once_authorized(Bytes::new(), |request, _| O::begin(request))
    }

    /// Takes a body that may be a part of an upload. May block then.
    fn take_part(self: &Arc<Self>, declared: &DeclaredBody, body: Bytes) -> Result<Progress, Problem> {
        let Some(upload) = self.input.upload() else { return self.take(declared, body, StoragePlan::default()) };
        let part = upload.part_of();
        let storage_plan = StoragePlan::of(&self.services.engine, part.as_ref(), upload.sealing(), Some(declared))?;
        match storage_plan.algorithm {
            Some(algorithm) => self.take(&declared.clone().storing(algorithm), body, storage_plan),
            None => self.take(declared, body, storage_plan),
        }
    }
}

impl<O: Operation> Request for TypedRequest<O> {
    fn operation(&self) -> Name {
        self.name
    }

    fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    fn audited(&self) -> Option<&Audited> {
        self.audited.as_deref()
    }

    fn note(&self) -> Option<&Note> {
        self.note.as_deref()
    }

    fn judged(&self) -> Option<&LoggedDecisions> {
        self.judged.get().map(|judged| &**judged)
    }

    fn requester(&self) -> &Arc<Requester> {
        &self.requester
    }

    fn bucket(&self) -> Option<&Arc<Bucket>> {
        self.bucket.as_ref()
    }

    fn pulled(&self) -> Option<(&str, &str)> {
        let Named { bucket, key, .. } = self.input.named();
        let text = |name| std::str::from_utf8(name).ok();
        bucket.and_then(text).zip(key.and_then(text)).filter(|_| self.name.spec().absent == Some(Absent::Pulled))
    }

    fn body(&self) -> &BodyPlan {
        &self.body
    }

    fn in_pieces(&self) -> bool {
        O::IN_PIECES
    }

    fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn admit(self: Arc<Self>, slot: u32) -> bool {
        let request = Arc::clone(&self);
        let granted = move |permit| {
            *request.permit.lock() = Some(permit);
            request.responder.complete(slot, Completion::Resume);
        };
        match self.services.bodies.budget.take_or_wait(self.body.whole_max(), granted) {
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
        let (BodyPlan::Stream(declared), Some(upload)) = (&self.body, self.input.upload()) else { return None };
        let Services { engine, bodies, .. } = &*self.services;
        let Bodies { intake, intake_sha256, budget, buffers, prefixes, .. } = bodies;
        let (bucket, part) = (Arc::clone(upload.bucket()), upload.part_of());
        let (prefixes, frame) = (Arc::clone(prefixes), self.input.frame());
        let into = Destination { bucket, adds: upload.adds(), part, sealing: upload.sealing() };
        let consumer = StoreBody::new(engine.clone(), into, declared, prefixes, frame);
        let group = Arc::clone(if declared.hashes_sha256() { intake_sha256 } else { intake });
        Some(BodyStream::new(group, budget.client(host), Arc::clone(buffers), declared.wire, consumer))
    }

    fn start(self: Arc<Self>, body: Bytes, slot: u32) -> Option<Response> {
        self.set_slot(slot);
        self.tally.add(body.len());
        self.tally.end();
        let step = blocking::without(|| match &self.body {
            BodyPlan::Whole(declared) => {
                let waits = self.input.upload().is_some_and(|upload| upload.may_wait(&self.services.engine));
                if body.len() <= INLINE_HASH_MAX && !waits {
                    self.take_part(declared, body)
                } else {
                    self.on_worker(move |request| match &request.body {
                        BodyPlan::Whole(declared) => request.take_part(declared, body),
                        BodyPlan::None | BodyPlan::Stream(_) => request.begin(),
                    })
                }
            }
            BodyPlan::None | BodyPlan::Stream(_) => self.begin(),
        });
        match step {
            Ok(Progress::Response(answer)) => Some(self.ready(Ok(answer))),
            Ok(Progress::Later) => None,
            Err(problem) => Some(self.ready(Err(problem))),
        }
    }
}

impl<O: Operation> InProgress for TypedRequest<O> {
    fn responder(&self) -> &Arc<dyn Responder> {
        &self.responder
    }

    fn slot(&self) -> u32 {
        self.slot.load(Ordering::Relaxed)
    }

    fn set_slot(&self, slot: u32) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    fn submit(self: Arc<Self>, intent: Intent) {
        Self::submit(&self, intent);
    }

    fn committed(&self, result: Result<Outcome, Failure>) -> Response {
        blocking::without(|| self.ready(result.map_err(Problem::from).and_then(|outcome| O::answer(self, outcome))))
    }

    fn stored(&self, size: u64, digests: &Digests, body: Body, sealing: &Sealing) -> Result<Intent, Problem> {
        let upload = self.input.upload();
        let upload = upload.ok_or_else(|| Problem::internal("a streamed body does not belong to an upload"))?;
        upload.intent(&self.services.engine, size, digests, body, sealing)
    }

    fn ready(&self, result: Result<Response, Problem>) -> Response {
        let answer = result.unwrap_or_else(|Problem { error, fault }| {
            let error = self.input.detailed(error.about(&self.input.named()));
            self.envelope.problem(Problem { error, fault })
        });
        let instead = self.missing.as_deref().and_then(|missing| {
            let decisions = DecisionLog::default();
            let refusal = missing.answer(&self.services.access, &self.requester, answer.code, &decisions);
            if let Some(judged) = decisions.take(&self.requester) {
                self.judged.get_or_init(|| Box::new(judged));
            }
            refusal
        });
        let answer = match instead {
            Some(error) => self.envelope.problem(error.into()),
            None => answer,
        };
        let answer = self.envelope.checked(answer);
        if self.unread.load(Ordering::Relaxed) { answer.closing() } else { answer }
    }
}

/// Sends the engine's decision on a request to its front end.
struct Commit<O>(Arc<TypedRequest<O>>);

impl<O: Operation> CompletionSink for Commit<O> {
    fn complete(&self, _token: u64, result: Result<Outcome, Failure>) {
        if self.push_quietly(result) {
            self.wake();
        }
    }

    fn complete_quietly(&self, _token: u64, result: Result<Outcome, Failure>, round: &RoundTimes) -> bool {
        if let Some(stopwatch) = &self.0.tally.stopwatch {
            stopwatch.committed(round, self.0.services.engine.monotonic());
        }
        self.push_quietly(result)
    }

    fn wake(&self) {
        self.0.responder.wake();
    }
}

impl<O: Operation> Commit<O> {
    /// As `complete_quietly`.
    fn push_quietly(&self, result: Result<Outcome, Failure>) -> bool {
        let request: Arc<TypedRequest<O>> = Arc::clone(&self.0);
        self.0.responder.complete_quietly(self.0.slot(), Completion::Committed(request, result))
    }
}

/// Goes on with a request on a worker, once the engine has decided.
struct Continuation<O, J> {
    request: Arc<TypedRequest<O>>,
    job: Mutex<Option<J>>,
}

impl<O, J> CompletionSink for Continuation<O, J>
where
    O: Operation,
    J: FnOnce(&Arc<TypedRequest<O>>, Result<Outcome, Failure>) -> Result<Progress, Problem> + Send + 'static,
{
    fn complete(&self, _token: u64, result: Result<Outcome, Failure>) {
        let job = self.job.lock().take();
        if let Some(job) = job {
            self.request.queue(|request| job(request, result));
        }
    }
}
