//! DeleteObjects: valid entries go to the engine, and the others are reported one by one, as on S3.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::body_plan::BodyPlan;
use crate::conditions::precondition;
use crate::intake::{DeclaredBody, Digests};
use crate::problem::{Problem, refused};
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use orcas_decide::{DeleteEntry, Intent, Outcome};
use orcas_record::Bucket;
use orcas_s3::target::{check_version_id, checked_key};
use orcas_s3::xml::requests::DeleteRequest;
use orcas_s3::xml::results::DeleteResult;
use orcas_s3::{ErrorCode, S3Error};

pub struct DeleteObjects {
    bucket: Arc<Bucket>,
    /// Set once the document is read.
    plan: OnceLock<Plan>,
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

impl Operation for DeleteObjects {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        Ok(Self { bucket: reading.bucket()?, plan: OnceLock::new() })
    }

    fn body(&self, reading: &Reading<'_>) -> Result<BodyPlan, Problem> {
        let declared = DeclaredBody::of_document(reading.headers(), reading.payload)?;
        let vouched = declared.has_integrity_header();
        let plan = BodyPlan::document(declared)?;
        if !vouched {
            let message = "Missing required header for this request: Content-MD5 or x-amz-checksum-";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
        }
        Ok(plan)
    }

    fn take(call: &Arc<Call<Self>>, content: Bytes, _digests: &Digests, slot: u32) -> Result<Step, Problem> {
        let request = DeleteRequest::parse(&content)?;
        let mut entries = Vec::with_capacity(request.entries.len());
        let mut planned = Vec::with_capacity(request.entries.len());
        for entry in request.entries {
            let version = entry.version_id.as_deref().map_or(Ok(()), check_version_id);
            let refused = version.err().or_else(|| checked_key(entry.key.clone()).err());
            if refused.is_none() {
                let precondition = precondition(&entry.condition);
                let key = Bytes::copy_from_slice(&entry.key);
                entries.push(DeleteEntry { key, version: None, precondition, bypass: false });
            }
            planned.push(Planned { key: entry.key, version: entry.version_id, refused });
        }
        if call.input.plan.set(Plan { quiet: request.quiet, entries: planned }).is_err() {
            return Err(Problem::internal("a request was started twice"));
        }
        Ok(call.submit(Intent::DeleteObjects { bucket: call.input.bucket.id, entries }, slot))
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        // Of the entries that reached the engine, in order.
        let Outcome::Deleted(results) = outcome else { return Err(wrong_outcome()) };
        let plan = call.input.plan.get();
        let plan = plan.ok_or_else(|| Problem::internal("an outcome arrived before the document was parsed"))?;
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
        Ok(call.envelope.document(200, HeaderBlock::new(), document.end()))
    }
}
