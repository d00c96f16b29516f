//! A verified request: the operation, its typed input, what its body must be, and how it is carried out.
//!
//! `start` answers at once when nothing can block; otherwise exactly one completion for the slot follows. Each
//! operation's own steps stand in the modules named after its noun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::answer::{Answer, Envelope, HeaderBlock};
use super::buckets::CreateBucket;
use super::budget::Permit;
use super::copies::{CopyObject, MoveObject, UploadPartCopy};
use super::deletes::{DeleteObject, DeleteObjects};
use super::instant::InstantUpload;
use super::intake::{Digests, Promise};
use super::lane::{Commit, Event, Lane, Reply};
use super::listing::{ListBuckets, ListObjects, ListParts, ListUploads};
use super::objects::ReadObject;
use super::problem::Problem;
use super::settings::PutBucketSettings;
use super::uploads::{AbortUpload, CompleteUpload, CreateUpload, Upload};
use orcas_decide::{Failure, Intent, Outcome};
use orcas_engine::Waiter;
use orcas_record::Bucket;
use orcas_s3::Operation;

/// Hashing up to this many bytes happens on the event loop; waking a worker costs about as much.
const INLINE_HASH_MAX: usize = 8 * 1024;

pub struct Request {
    pub lane: Arc<Lane>,
    pub operation: Operation,
    pub envelope: Envelope,
    pub input: Input,
    pub body: BodyPlan,
    /// A body was announced and is not read to its end yet.
    unread: AtomicBool,
    /// Covers a body collected in memory, until the request is done.
    permit: Mutex<Option<Permit>>,
}

/// The typed input of each operation.
pub enum Input {
    ListBuckets(ListBuckets),
    CreateBucket(CreateBucket),
    HeadBucket(Arc<Bucket>),
    DeleteBucket(Arc<Bucket>),
    GetBucketLocation(Arc<Bucket>),
    PutBucketSettings(Box<PutBucketSettings>),
    ListObjects(ListObjects),
    /// GetObject and HeadObject.
    ReadObject(Box<ReadObject>),
    /// PutObject and UploadPart.
    Upload(Box<Upload>),
    InstantUpload(Box<InstantUpload>),
    DeleteObject(DeleteObject),
    DeleteObjects(DeleteObjects),
    CopyObject(Box<CopyObject>),
    /// RenameObject and MoveObject.
    MoveObject(Box<MoveObject>),
    CreateUpload(Box<CreateUpload>),
    UploadPartCopy(Box<UploadPartCopy>),
    CompleteUpload(Box<CompleteUpload>),
    AbortUpload(AbortUpload),
    ListParts(ListParts),
    ListUploads(ListUploads),
}

/// How the body of a request is taken in.
pub enum BodyPlan {
    /// The operation has none; what the client sends nevertheless stays unread.
    None,
    /// Collected in memory: small objects and documents.
    Whole(Box<Promise>),
    /// Checked and stored piece by piece.
    Stream(Box<Promise>),
}

impl BodyPlan {
    /// Bytes on the wire that a collected body may have; 0 for the others.
    pub fn whole_max(&self) -> u64 {
        match self {
            Self::Whole(promise) => promise.wire_max(),
            Self::None | Self::Stream(_) => 0,
        }
    }
}

impl Request {
    pub fn new(
        lane: Arc<Lane>,
        envelope: Envelope,
        (operation, input, body): (Operation, Input, BodyPlan),
        has_body: bool,
    ) -> Arc<Self> {
        let (unread, permit) = (AtomicBool::new(has_body), Mutex::new(None));
        Arc::new(Self { lane, operation, envelope, input, body, unread, permit })
    }

    /// Takes budget for a body to be collected. False: not now, a `Resume` for `slot` follows when it was taken.
    pub fn admit(self: &Arc<Self>, slot: u32) -> bool {
        let request = Arc::clone(self);
        let granted = move |permit| {
            *request.permit.lock() = Some(permit);
            request.lane.complete(slot, Event::Resume);
        };
        match self.lane.budget.take_or_wait(self.body.whole_max(), granted) {
            Some(permit) => {
                *self.permit.lock() = Some(permit);
                true
            }
            None => false,
        }
    }

    /// The body was received to its end.
    pub fn body_read(&self) {
        self.unread.store(false, Ordering::Relaxed);
    }

    /// Fit to be sent. Ends the connection after an answer that leaves a body unread.
    pub fn sealed(&self, answer: Answer) -> Answer {
        let answer = self.envelope.checked(answer);
        if self.unread.load(Ordering::Relaxed) { answer.closing() } else { answer }
    }

    /// Begins the operation with its collected body, which is empty when there is none.
    ///
    /// `Some` is the answer; after `None` one completion for `slot` follows.
    pub fn start(self: &Arc<Self>, body: &[u8], slot: u32) -> Option<Answer> {
        let promise = match &self.body {
            BodyPlan::Whole(promise) => promise,
            BodyPlan::None | BodyPlan::Stream(_) => return self.settle(self.begin(slot)),
        };
        let body = self.lane.buffers.copy(body);
        if body.len() <= INLINE_HASH_MAX {
            return self.settle(self.take(promise, body, slot));
        }
        self.on_worker(slot, |request, slot| match &request.body {
            BodyPlan::Whole(promise) => request.take(promise, body, slot),
            BodyPlan::None | BodyPlan::Stream(_) => request.begin(slot),
        })
    }

    /// What a step came to: an answer, or a promise that one will come.
    fn settle(&self, step: Result<Step, Problem>) -> Option<Answer> {
        let answer = match step {
            Ok(Step::Answer(answer)) => answer,
            Ok(Step::Later) => return None,
            Err(problem) => self.envelope.problem(problem),
        };
        Some(self.sealed(answer))
    }

    /// Runs `job` on a worker, which answers the slot unless the job has arranged for that.
    pub fn on_worker(
        self: &Arc<Self>,
        slot: u32,
        job: impl FnOnce(&Arc<Self>, u32) -> Result<Step, Problem> + Send + 'static,
    ) -> Option<Answer> {
        let reply = Reply::new(Arc::clone(self), slot);
        self.lane.pool.spawn(move || {
            let request = Arc::clone(reply.request());
            match job(&request, slot) {
                Ok(Step::Answer(answer)) => reply.answer(answer),
                Ok(Step::Later) => reply.leave(),
                Err(problem) => reply.result(Err(problem)),
            }
        });
        None
    }

    /// An operation without a body, or whose body does not matter.
    fn begin(self: &Arc<Self>, slot: u32) -> Result<Step, Problem> {
        match &self.input {
            Input::HeadBucket(bucket) => Ok(self.head_bucket(bucket).into()),
            Input::GetBucketLocation(bucket) => Ok(self.bucket_location(bucket).into()),
            Input::ListBuckets(input) => Ok(self.list_buckets(input).into()),
            Input::DeleteBucket(bucket) => self.submit_step(Intent::DeleteBucket { bucket: bucket.id }, slot),
            Input::ReadObject(read) => self.read_object(read, slot),
            Input::DeleteObject(delete) => self.submit_step(delete.intent(), slot),
            Input::CopyObject(_) | Input::UploadPartCopy(_) => {
                Ok(Step::from_worker(self.on_worker(slot, |request, _| request.copy())))
            }
            Input::InstantUpload(_) => {
                Ok(Step::from_worker(self.on_worker(slot, |request, _| request.instant_upload())))
            }
            Input::PutBucketSettings(_) => {
                Ok(Step::from_worker(self.on_worker(slot, |request, _| request.put_bucket_settings())))
            }
            Input::MoveObject(moved) => self.submit_step(moved.intent(&self.lane)?, slot),
            Input::CreateUpload(create) => self.submit_step(create.intent(), slot),
            Input::AbortUpload(abort) => self.submit_step(abort.intent(), slot),
            Input::ListObjects(_) | Input::ListParts(_) | Input::ListUploads(_) => {
                Ok(Step::from_worker(self.on_worker(slot, |request, _| request.list())))
            }
            Input::CreateBucket(_) | Input::Upload(_) | Input::DeleteObjects(_) | Input::CompleteUpload(_) => {
                Err(Problem::internal("an operation with a body was started without one"))
            }
        }
    }

    /// An operation with its collected body, once that is checked.
    fn take(self: &Arc<Self>, promise: &Promise, body: Bytes, slot: u32) -> Result<Step, Problem> {
        let (content, digests) = promise.verify(body, &self.lane.buffers)?;
        match &self.input {
            Input::Upload(upload) => {
                let body = self.lane.engine.small_body(&upload.bucket, content.clone());
                self.submit_step(upload.intent(content.len() as u64, &digests, body), slot)
            }
            Input::CreateBucket(create) => self.submit_step(create.intent(&self.lane, &content)?, slot),
            Input::DeleteObjects(delete) => self.delete_objects(delete, &content, slot),
            Input::CompleteUpload(complete) => self.submit_step(complete.intent(&content)?, slot),
            Input::ListBuckets(_)
            | Input::HeadBucket(_)
            | Input::DeleteBucket(_)
            | Input::GetBucketLocation(_)
            | Input::PutBucketSettings(_)
            | Input::ListObjects(_)
            | Input::ReadObject(_)
            | Input::InstantUpload(_)
            | Input::DeleteObject(_)
            | Input::CopyObject(_)
            | Input::MoveObject(_)
            | Input::CreateUpload(_)
            | Input::UploadPartCopy(_)
            | Input::AbortUpload(_)
            | Input::ListParts(_)
            | Input::ListUploads(_) => Err(Problem::internal("an operation without a body was given one")),
        }
    }

    /// The intent of an upload whose content is stored.
    pub fn stored(&self, size: u64, digests: &Digests, body: orcas_decide::Body) -> Result<Intent, Problem> {
        match &self.input {
            Input::Upload(upload) => Ok(upload.intent(size, digests, body)),
            _ => Err(Problem::internal("a streamed body belongs to no upload")),
        }
    }

    pub fn submit(self: &Arc<Self>, intent: Intent, slot: u32) {
        let waiter = Waiter::new(Arc::new(Commit(Arc::clone(self))), u64::from(slot));
        self.lane.engine.submit(intent, waiter);
    }

    pub fn submit_step(self: &Arc<Self>, intent: Intent, slot: u32) -> Result<Step, Problem> {
        self.submit(intent, slot);
        Ok(Step::Later)
    }

    /// The answer to a mutation that the engine has decided.
    pub fn committed(&self, result: Result<Outcome, Failure>) -> Answer {
        let answer = result.map_err(Problem::from).and_then(|outcome| self.outcome(outcome));
        self.sealed(answer.unwrap_or_else(|problem| self.envelope.problem(problem)))
    }

    pub(super) fn outcome(&self, outcome: Outcome) -> Result<Answer, Problem> {
        match (&self.input, outcome) {
            (Input::CreateBucket(create), Outcome::Bucket(_)) => Ok(create.answer(&self.envelope)),
            (Input::PutBucketSettings(_), Outcome::Bucket(bucket)) => Ok(self.bucket_settings(&bucket)),
            (Input::InstantUpload(_), Outcome::Put(put)) => Ok(self.instant_uploaded(&put)),
            (Input::DeleteBucket(_) | Input::DeleteObject(_) | Input::AbortUpload(_), Outcome::Done) => {
                Ok(self.envelope.empty(204, HeaderBlock::new()))
            }
            (Input::Upload(upload), Outcome::Put(put) | Outcome::Part(put)) => {
                Ok(self.envelope.empty(200, upload.headers(&put)))
            }
            (Input::DeleteObjects(delete), Outcome::Deleted(results)) => Ok(self.deleted(delete, &results)),
            (Input::CopyObject(_), Outcome::Put(put)) => Ok(self.copied(&put)),
            (Input::UploadPartCopy(_), Outcome::Part(put)) => Ok(self.copied_part(&put)),
            (Input::MoveObject(_), Outcome::Put(put)) => Ok(self.moved(&put)),
            (Input::CreateUpload(create), Outcome::Upload(id)) => Ok(self.upload_created(create, id)),
            (Input::CompleteUpload(complete), Outcome::Completed(completed)) => {
                Ok(self.upload_completed(complete, &completed))
            }
            _ => Err(Problem::internal("the engine answered another question")),
        }
    }
}

/// What a step of an operation came to.
pub enum Step {
    Answer(Answer),
    /// A completion for the slot will come.
    Later,
}

impl Step {
    fn from_worker(answer: Option<Answer>) -> Self {
        answer.map_or(Self::Later, Self::Answer)
    }
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}
