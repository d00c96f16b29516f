//! DeleteObjects: valid entries go to the engine, and the others are reported one by one, as on S3.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::body_plan::BodyPlan;
use crate::conditions::of_deletion;
use crate::intake::{DeclaredBody, Digests};
use crate::problem::{Problem, refused};
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use crate::versions::{version_id, version_name};
use orcas_decide::{DeleteEntry, Intent, Outcome};
use orcas_record::{Bucket, VersionId};
use orcas_s3::object_lock::bypasses_governance;
use orcas_s3::support::{OF_A_LOCK, Understood};
use orcas_s3::target::checked_key;
use orcas_s3::versions::VersionName;
use orcas_s3::xml::requests::DeleteRequest;
use orcas_s3::xml::results::DeleteResult;
use orcas_s3::{ErrorCode, S3Error};

pub struct DeleteObjects {
    bucket: Arc<Bucket>,
    /// `x-amz-bypass-governance-retention`
    bypass: bool,
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
    const UNDERSTOOD: Understood = Understood { attributes: OF_A_LOCK, ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let bypass = bypasses_governance(reading.headers())?;
        Ok(Self { bucket: reading.bucket()?, bypass, plan: OnceLock::new() })
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
            let refused = match (checked_key(entry.key.clone()), version_of(entry.version_id.as_deref())) {
                (Ok(_), Ok(version)) => {
                    let key = Bytes::copy_from_slice(&entry.key);
                    let precondition = of_deletion(&entry.condition);
                    entries.push(DeleteEntry { key, version, precondition, bypass: call.input.bypass });
                    None
                }
                (Err(error), _) | (_, Err(error)) => Some(error),
            };
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
            let deleted = match &entry.refused {
                Some(error) => Err(error.clone()),
                None => match results.next() {
                    Some(Ok(deleted)) => Ok(deleted),
                    Some(Err(refusal)) => Err(refused(refusal)),
                    None => Err(ErrorCode::InternalError.into()),
                },
            };
            match deleted {
                Ok(deleted) => {
                    let marker = deleted.version_id.filter(|_| deleted.delete_marker).map(version_name);
                    document.deleted(&entry.key, version, marker.as_ref());
                }
                Err(error) => document.failed(&entry.key, version, &error),
            }
        }
        Ok(call.envelope.document(200, HeaderBlock::new(), document.end()))
    }
}

/// The version that an entry names. One that was never given out does not exist.
fn version_of(text: Option<&[u8]>) -> Result<Option<VersionId>, S3Error> {
    let Some(text) = text else { return Ok(None) };
    let name = VersionName::parse("VersionId", text).map_err(|_| S3Error::new(ErrorCode::NoSuchVersion))?;
    Ok(Some(version_id(name)))
}
