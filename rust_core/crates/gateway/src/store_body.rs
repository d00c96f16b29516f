//! Storing a large body: it is verified as it arrives, written chunk by chunk, and submitted when it is complete.

use std::sync::Arc;

use bytes::Bytes;

use super::body_md5::BodyMd5;
use super::form_file::{FileBody, FileFrame};
use super::hashes::Md5Hashing;
use super::intake::{DeclaredBody, Verifier};
use super::part_checksums::{PartOf, encryption_of};
use super::prefixes::Prefixes;
use super::problem::Problem;
use super::reply::Reply;
use super::stream::{BodyStream, Consumer};
use orcas_decide::{Body, Intent};
use orcas_engine::{BodyObserver, BodyWriter, Handle};
use orcas_record::{Bucket, Encryption};

/// Where a body goes.
pub struct Destination {
    pub bucket: Arc<Bucket>,
    /// What the body becomes a part of.
    pub part: Option<PartOf>,
    /// Unless that is up to what it becomes a part of.
    pub encryption: Option<Encryption>,
}

/// Verifies and writes one body. Dropped before `finish`, it leaves nothing stored.
pub struct StoreBody {
    engine: Handle,
    destination: Destination,
    verifier: Verifier,
    /// Bytes that `writer` gets.
    size: u64,
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
        Self { engine, destination, verifier: declared.verifier(prefixes), size, writer: None, file }
    }

    /// Prepares for the first bytes.
    fn open(&mut self) -> Result<BodyWriter, Problem> {
        if let Some(algorithm) =
            self.destination.part.as_ref().map(|part| part.algorithm(&self.engine)).transpose()?.flatten()
        {
            self.verifier.store(algorithm);
        }
        self.body_writer(self.size)
    }

    fn encryption(&self) -> Result<Option<Encryption>, Problem> {
        let Destination { part, encryption, .. } = &self.destination;
        encryption_of(&self.engine, part.as_ref(), *encryption)
    }

    fn body_writer(&self, length: u64) -> Result<BodyWriter, Problem> {
        let bucket = &self.destination.bucket;
        Ok(match self.encryption()? {
            None => self.engine.body_writer(bucket, length),
            Some(_) => self.engine.sealed_body_writer(bucket, length)?,
        })
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
        reply.request().stored(self.size, &digests, body)
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
        let encryption = self.encryption()?;
        let digests = self.verifier.finish()?;
        let body = match (self.writer, last) {
            (None, _) => match encryption {
                None => self.engine.small_body(&self.destination.bucket, rest),
                Some(_) => self.engine.sealed_body(&self.destination.bucket, &rest)?,
            },
            (Some(writer), None) => writer.finish()?,
            (Some(writer), Some(last)) => joined(writer.finish()?, last.finish()?)?,
        };
        reply.request().stored(size, &digests, body)
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
