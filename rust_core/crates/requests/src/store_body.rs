//! Storing a large body: it is verified as it arrives, written chunk by chunk, and submitted when it is complete.

use std::sync::Arc;

use bytes::Bytes;

use crate::storage_plan::{PartOf, StoragePlan};
use orcas_bodies::body_md5::BodyMd5;
use orcas_bodies::form_file::{FileBody, FileFrame};
use orcas_bodies::hashes::Md5Hashing;
use orcas_bodies::intake::{DeclaredBody, Verifier};
use orcas_bodies::prefixes::Prefixes;
use orcas_bodies::problem::Problem;
use orcas_bodies::stream::{BodyStream, Consumer};
use orcas_decide::{Body, Intent};
use orcas_engine::{Addition, BodyObserver, BodyWriter, Handle};
use orcas_record::Bucket;
use orcas_responses::reply::Reply;
use orcas_store::Sealing;

/// The destination of a body.
pub struct Destination {
    pub bucket: Arc<Bucket>,
    pub adds: Addition,
    /// The upload or object that the body becomes a part of, if there is one.
    pub part: Option<PartOf>,
    /// Unless that is up to what it becomes a part of.
    pub sealing: Sealing,
}

/// Verifies and writes one body. Dropped before `finish`, it leaves nothing stored.
pub struct StoreBody {
    engine: Handle,
    destination: Destination,
    verifier: Verifier,
    /// Bytes that `writer` gets.
    size: u64,
    /// Known with the first bytes.
    storage_plan: Option<StoragePlan>,
    /// Opened with the first bytes, on a worker: it may have to create a pack.
    writer: Option<BodyWriter>,
    /// If the body is a form. Its file goes to `writer` as far as its length is known.
    file: Option<Box<FileBody>>,
}

pub type UploadStream = BodyStream<StoreBody>;

impl StoreBody {
    /// Stores the body that the request declared, or the file in it.
    pub fn new(
        engine: Handle,
        destination: Destination,
        declared: &DeclaredBody,
        prefixes: Arc<Prefixes>,
        frame: Option<&FileFrame>,
    ) -> Self {
        let size = frame.map_or(declared.length, FileFrame::sure);
        let file = frame.map(|frame| Box::new(frame.open()));
        Self {
            engine,
            destination,
            verifier: declared.verifier(prefixes),
            size,
            storage_plan: None,
            writer: None,
            file,
        }
    }

    /// Prepares for the first bytes.
    fn open(&mut self) -> Result<BodyWriter, Problem> {
        if let Some(algorithm) = self.storage_plan()?.algorithm {
            self.verifier.store(algorithm);
        }
        let Destination { bucket, adds, .. } = &self.destination;
        self.engine.check_room(bucket, adds, self.size)?;
        self.body_writer(self.size)
    }

    /// May block the first time.
    fn storage_plan(&mut self) -> Result<&StoragePlan, Problem> {
        let storage_plan = match self.storage_plan.take() {
            Some(known) => known,
            None => {
                let Destination { part, sealing, .. } = &self.destination;
                StoragePlan::of(&self.engine, part.as_ref(), sealing.clone(), Some(self.verifier.declared()))?
            }
        };
        Ok(self.storage_plan.insert(storage_plan))
    }

    fn body_writer(&mut self, length: u64) -> Result<BodyWriter, Problem> {
        let sealing = self.storage_plan()?.sealing.clone();
        Ok(self.engine.content().body_writer(&self.destination.bucket, &sealing, length)?)
    }

    fn write(&mut self, piece: &Bytes, md5: Md5Hashing) -> Result<(), Problem> {
        if self.writer.is_none() {
            self.writer = Some(self.open()?);
        }
        let Some(writer) = &mut self.writer else { return Err(Problem::internal("a body has no writer")) };
        self.verifier.push(piece, md5, &mut |content, hashes| writer.write(content, hashes).map_err(Problem::from))
    }

    fn stored(mut self, reply: &Reply) -> Result<Intent, Problem> {
        if let Some(file) = self.file.take() {
            return self.stored_file(*file, reply);
        }
        let digests = self.verifier.finish()?;
        let writer = self.writer.ok_or_else(|| Problem::internal("a streamed body was empty"))?;
        let body = writer.finish()?;
        let storage_plan = self.storage_plan.unwrap_or_default();
        reply.request().stored(self.size, &storage_plan.storable(digests), body, &storage_plan.sealing)
    }

    /// Writes the end of a file, whose length is known now.
    fn stored_file(mut self, file: FileBody, reply: &Reply) -> Result<Intent, Problem> {
        let (size, rest) = file.finish()?;
        self.verifier.set_length(size);
        let continues = self.writer.is_some() && !rest.is_empty();
        let mut last = continues.then(|| self.body_writer(rest.len() as u64)).transpose()?;
        self.verifier.push(&rest, Md5Hashing::Immediate, &mut |content, hashes| match &mut last {
            Some(writer) => writer.write(content, hashes).map_err(Problem::from),
            None => {
                hashes.bytes(content);
                Ok(())
            }
        })?;
        let storage_plan = self.storage_plan()?.clone();
        let digests = self.verifier.finish()?;
        let body = match (self.writer, last) {
            (None, _) => match storage_plan.sealing.encryption {
                None => self.engine.content().small_body(&self.destination.bucket, rest),
                Some(_) => self.engine.content().sealed_body(&self.destination.bucket, &storage_plan.sealing, &rest)?,
            },
            (Some(writer), None) => writer.finish()?,
            (Some(writer), Some(last)) => joined(writer.finish()?, last.finish()?)?,
        };
        reply.request().stored(size, &storage_plan.storable(digests), body, &storage_plan.sealing)
    }
}

impl Consumer for StoreBody {
    type Error = Problem;
    type Reply = Reply;

    fn consume(&mut self, piece: &Bytes, batched: bool) -> Result<(), Problem> {
        let md5 = if batched { Md5Hashing::Deferred } else { Md5Hashing::Immediate };
        let Some(mut file) = self.file.take() else { return self.write(piece, md5) };
        let taken = file.push(piece, &mut |content| self.write(content, md5));
        self.file = Some(file);
        taken
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

/// Two bodies in chunks as one.
fn joined(first: Body, last: Body) -> Result<Body, Problem> {
    match (first, last) {
        (Body::Chunks(mut chunks), Body::Chunks(more)) => {
            chunks.extend(more);
            Ok(Body::Chunks(chunks))
        }
        _ => Err(Problem::internal("a written body is not in chunks")),
    }
}
