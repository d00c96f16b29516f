//! Storing a large body: it is verified as it arrives, written chunk by chunk, and submitted when it is complete.

use std::sync::Arc;

use bytes::Bytes;

use super::body_md5::BodyMd5;
use super::hashes::Md5Hashing;
use super::intake::{DeclaredBody, Verifier};
use super::part_checksums::PartOf;
use super::prefixes::Prefixes;
use super::problem::Problem;
use super::reply::Reply;
use super::stream::{BodyStream, Consumer};
use orcas_decide::Intent;
use orcas_engine::{BodyWriter, Handle};
use orcas_record::Bucket;

/// Verifies and writes one body. Dropped before `finish`, it leaves nothing stored.
pub struct StoreBody {
    engine: Handle,
    bucket: Arc<Bucket>,
    verifier: Verifier,
    size: u64,
    /// The upload that the body is a part of.
    part: Option<PartOf>,
    /// Opened with the first bytes, on a worker: it may have to create a pack.
    writer: Option<BodyWriter>,
}

pub type UploadStream = BodyStream<StoreBody>;

impl StoreBody {
    /// Stores the body that the request declared.
    pub fn new(
        engine: Handle,
        bucket: Arc<Bucket>,
        declared: &DeclaredBody,
        part: Option<PartOf>,
        prefixes: Arc<Prefixes>,
    ) -> Self {
        let (verifier, size) = (declared.verifier(prefixes), declared.length);
        Self { engine, bucket, verifier, size, part, writer: None }
    }

    /// Prepares for the first bytes.
    fn open(&mut self) -> Result<BodyWriter, Problem> {
        if let Some(algorithm) = self.part.as_ref().map(|part| part.algorithm(&self.engine)).transpose()?.flatten() {
            self.verifier.store(algorithm);
        }
        Ok(self.engine.body_writer(&self.bucket, self.size))
    }

    fn stored(self, reply: &Reply) -> Result<Intent, Problem> {
        let digests = self.verifier.finish()?;
        let writer = self.writer.ok_or_else(|| Problem::internal("a streamed body was empty"))?;
        let body = writer.finish()?;
        reply.request().stored(self.size, &digests, body)
    }
}

impl Consumer for StoreBody {
    type Error = Problem;
    type Reply = Reply;

    fn consume(&mut self, piece: &Bytes, batched: bool) -> Result<(), Problem> {
        if self.writer.is_none() {
            self.writer = Some(self.open()?);
        }
        let Some(writer) = &mut self.writer else { return Err(Problem::internal("a body has no writer")) };
        let md5 = if batched { Md5Hashing::Deferred } else { Md5Hashing::Immediate };
        self.verifier.push(piece, md5, &mut |content, hashes| writer.write(content, hashes).map_err(Problem::from))
    }

    fn settle(bodies: &mut [&mut Self]) {
        BodyMd5::settle_all(&mut bodies.iter_mut().map(|body| body.verifier.md5()).collect::<Vec<_>>());
    }

    fn finish(self: Box<Self>, reply: Reply) {
        match self.stored(&reply) {
            Ok(intent) => reply.submit(intent),
            Err(problem) => reply.result(Err(problem)),
        }
    }

    fn refuse(problem: Problem, reply: Reply) {
        reply.result(Err(problem));
    }
}
