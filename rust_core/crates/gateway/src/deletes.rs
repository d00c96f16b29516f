//! DeleteObject and DeleteObjects.

use std::sync::Arc;

use bytes::Bytes;

use super::answer::{Answer, HeaderBlock};
use super::conditions::precondition;
use super::problem::{Problem, refused};
use super::request::{Request, Step};
use orcas_decide::{DeleteEntry, Intent, Refusal};
use orcas_record::Bucket;
use orcas_s3::conditions::WriteCondition;
use orcas_s3::support::check_version_id;
use orcas_s3::target::checked_key;
use orcas_s3::xml::requests::DeleteRequest;
use orcas_s3::xml::results::DeleteResult;
use orcas_s3::{ErrorCode, S3Error};

pub struct DeleteObject {
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    pub condition: WriteCondition,
}

impl DeleteObject {
    pub fn intent(&self) -> Intent {
        Intent::DeleteObject {
            bucket: self.bucket.id,
            key: self.key.clone(),
            precondition: precondition(&self.condition),
        }
    }
}

pub struct DeleteObjects {
    pub bucket: Arc<Bucket>,
    /// Set once the document is read.
    plan: std::sync::OnceLock<Plan>,
}

/// The document's entries; those that never reach the engine carry their error.
struct Plan {
    quiet: bool,
    entries: Vec<Planned>,
}

struct Planned {
    key: Vec<u8>,
    version: Option<Vec<u8>>,
    refused: Option<S3Error>,
}

impl DeleteObjects {
    pub fn new(bucket: Arc<Bucket>) -> Self {
        Self { bucket, plan: std::sync::OnceLock::new() }
    }
}

impl Request {
    /// Reads the document and hands what is sound to the engine; the rest is reported entry by entry, as S3 does.
    pub(super) fn delete_objects(
        self: &Arc<Self>,
        delete: &DeleteObjects,
        document: &[u8],
        slot: u32,
    ) -> Result<Step, Problem> {
        let request = DeleteRequest::parse(document)?;
        let mut entries = Vec::with_capacity(request.entries.len());
        let mut planned = Vec::with_capacity(request.entries.len());
        for entry in request.entries {
            let version = entry.version_id.as_deref().map_or(Ok(()), check_version_id);
            let refused = version.err().or_else(|| checked_key(entry.key.clone()).err());
            if refused.is_none() {
                let precondition = precondition(&entry.condition);
                entries.push(DeleteEntry { key: Bytes::copy_from_slice(&entry.key), precondition });
            }
            planned.push(Planned { key: entry.key, version: entry.version_id, refused });
        }
        if delete.plan.set(Plan { quiet: request.quiet, entries: planned }).is_err() {
            return Err(Problem::internal("a request was started twice"));
        }
        self.submit_step(Intent::DeleteObjects { bucket: delete.bucket.id, entries }, slot)
    }

    /// `results` are those of the entries that reached the engine, in order.
    pub(super) fn deleted(&self, delete: &DeleteObjects, results: &[Result<(), Refusal>]) -> Answer {
        let Some(plan) = delete.plan.get() else {
            return self.envelope.problem(Problem::internal("an answer came before its question"));
        };
        let mut document = DeleteResult::begin(plan.quiet);
        let mut results = results.iter();
        for entry in &plan.entries {
            let version = entry.version.as_deref();
            let error = match &entry.refused {
                Some(error) => Some(error.clone()),
                None => match results.next() {
                    Some(Ok(())) => None,
                    Some(Err(refusal)) => Some(refused(refusal)),
                    None => Some(ErrorCode::InternalError.into()),
                },
            };
            match error {
                None => document.deleted(&entry.key, version),
                Some(error) => document.failed(&entry.key, version, &error),
            }
        }
        self.envelope.document(200, HeaderBlock::new(), document.end())
    }
}
