//! A large body on its way into the store: verified as it comes, written chunk by chunk, submitted when it is whole.

use std::sync::Arc;

use bytes::Bytes;

use super::answer::Answer;
use super::body_md5::BodyMd5;
use super::intake::{Paid, Promise, Verifier};
use super::lane::{Lane, Reply};
use super::problem::Problem;
use super::request::{BodyPlan, Input, Request};
use super::stream::{BodyStream, Consumer};
use orcas_engine::BodyWriter;

/// Verifies and writes one body. Dropped before `finish`, it leaves nothing stored.
pub struct StoreBody {
    request: Arc<Request>,
    verifier: Verifier,
    size: u64,
    /// Opened with the first bytes, on a worker: it may have to create a pack.
    writer: Option<BodyWriter>,
}

pub type UploadStream = BodyStream<StoreBody>;

impl Request {
    /// Begins to take a streamed body in; `None` when the request has no such body. `host` is the client's address.
    pub fn open_body(self: &Arc<Self>, host: &str) -> Option<UploadStream> {
        let BodyPlan::Stream(promise) = &self.body else { return None };
        let consumer = StoreBody::new(Arc::clone(self), promise);
        let Lane { intake, intake_sha256, budget, buffers, .. } = &*self.lane;
        let crew = Arc::clone(if promise.hashes_sha256() { intake_sha256 } else { intake });
        Some(BodyStream::new(crew, budget.client(host), Arc::clone(buffers), promise.wire, consumer))
    }
}

impl StoreBody {
    fn new(request: Arc<Request>, promise: &Promise) -> Self {
        let verifier = promise.verifier(Arc::clone(&request.lane.prefixes));
        Self { request, verifier, size: promise.length, writer: None }
    }

    fn stored(self) -> Result<orcas_decide::Intent, Problem> {
        let digests = self.verifier.finish()?;
        let writer = self.writer.ok_or_else(|| Problem::internal("a streamed body was empty"))?;
        let body = writer.finish()?;
        self.request.stored(self.size, &digests, body)
    }
}

impl Consumer for StoreBody {
    type Error = Problem;
    type Reply = Reply;

    fn consume(&mut self, piece: &Bytes, in_company: bool) -> Result<(), Problem> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            empty => {
                let Input::Upload(upload) = &self.request.input else {
                    return Err(Problem::internal("a streamed body belongs to no upload"));
                };
                empty.insert(self.request.lane.engine.body_writer(&upload.bucket, self.size))
            }
        };
        let md5 = if in_company { Paid::Later } else { Paid::Now };
        self.verifier.push(piece, md5, &mut |content, hashes| writer.write(content, hashes).map_err(Problem::from))
    }

    fn settle(company: &mut [&mut Self]) {
        BodyMd5::settle_all(&mut company.iter_mut().map(|body| body.verifier.md5()).collect::<Vec<_>>());
    }

    fn finish(self: Box<Self>, reply: Reply) {
        match self.stored() {
            Ok(intent) => reply.submit(intent),
            Err(problem) => reply.result(Err(problem)),
        }
    }

    fn refuse(problem: Problem, reply: Reply) {
        let answer: Answer = reply.request().envelope.problem(problem);
        reply.answer(answer);
    }
}
