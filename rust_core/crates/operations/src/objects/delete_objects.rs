//! DeleteObjects: valid entries go to the engine, and the others are reported one by one, as on S3.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::resources::conditions::of_deletion;
use orcas_admission::access_decision::{Question, Resource, ResourceFacts};
use orcas_admission::circumstances::KeptCircumstances;
use orcas_admission::decision_log::DecisionLog;
use orcas_admission::request_context::RequestContext;
use orcas_admission::senders::identities::Identities;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::{Problem, refused};
use orcas_decide::{DeleteEntry, Intent, Outcome};
use orcas_record::{Bucket, VersionId};
use orcas_requests::request::{Operation, Progress, Request as _, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::object_lock::asks_to_bypass;
use orcas_s3::support::{OF_A_LOCK, Understood};
use orcas_s3::target::checked_key;
use orcas_s3::versions::{VersionName, version_id, version_name};
use orcas_s3::xml::requests::{self, DeleteRequest};
use orcas_s3::xml::results::DeleteResult;
use orcas_s3::{ErrorCode, S3Error};

/// Entries of somebody who is not root that are decided on the listener's thread, which serves others as well: policies may
/// make each take some milliseconds (`REQUEST_STEPS_MAX`).
const INLINE_ENTRIES_MAX: usize = 2;

pub struct DeleteObjects {
    name: String,
    /// The bucket and `x-amz-bypass-governance-retention`. An error only counts once something may be deleted: who may
    /// delete nothing learns nothing about the bucket.
    checked: Result<(Arc<Bucket>, bool), Problem>,
    /// Circumstances for the access decisions on each entry. Root needs none.
    asked: Option<Box<KeptCircumstances>>,
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

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let checked = context.bucket().and_then(|bucket| Ok((bucket, asks_to_bypass(context.headers())?)));
        let asked = (!context.requester.is_root).then(|| Box::new(KeptCircumstances::of(context)));
        Ok(Self { name: context.bucket_name()?.to_owned(), checked, asked, plan: OnceLock::new() })
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, digests: &Digests) -> Result<Progress, Problem> {
        let document = request.read_document(|| DeleteRequest::parse(&content))?;
        let identities = request.services.access.identities();
        let decisions = DecisionLog::default();
        let is_long = request.input.asked.is_some() && document.entries.len() > INLINE_ENTRIES_MAX;
        let denied: Option<Vec<_>> = match is_long && !request.services.pool.runs_this_thread() {
            true => None,
            false => {
                document.entries.iter().map(|entry| Self::denied(request, &identities, entry, &decisions)).collect()
            }
        };
        let Some(denied) = denied else {
            let digests = *digests;
            return request.on_worker(move |request| Self::take(request, content, &digests));
        };
        if let Some(judged) = decisions.take(&request.requester) {
            request.judged.get_or_init(|| Box::new(judged));
        }
        let bypass = match &request.input.checked {
            Ok((_, bypass)) => *bypass,
            Err(problem) if denied.contains(&None) => return Err(problem.clone()),
            Err(_) => false,
        };
        let mut entries = Vec::with_capacity(document.entries.len());
        let mut planned = Vec::with_capacity(document.entries.len());
        for (entry, denied) in document.entries.into_iter().zip(denied) {
            let version = version_of(entry.version_id.as_deref());
            let refused = match (denied, checked_key(entry.key.clone()), version) {
                (None, Ok(_), Ok(version)) => {
                    let key = Bytes::copy_from_slice(&entry.key);
                    let precondition = of_deletion(&entry.condition);
                    entries.push(DeleteEntry { key, version, precondition, bypass });
                    None
                }
                (Some(error), ..) | (_, Err(error), _) | (_, _, Err(error)) => Some(error),
            };
            planned.push(Planned { key: entry.key, version: entry.version_id, refused });
        }
        if request.input.plan.set(Plan { quiet: document.quiet, entries: planned }).is_err() {
            return Err(Problem::internal("a request was started twice"));
        }
        match &request.input.checked {
            Ok((bucket, _)) if !entries.is_empty() => {
                Ok(request.submit(Intent::DeleteObjects { bucket: bucket.id, entries }))
            }
            _ => Ok(Self::answer(request, Outcome::Deleted(Vec::new()))?.into()),
        }
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        // Of the entries that reached the engine, in order.
        let Outcome::Deleted(results) = outcome else { return Err(wrong_outcome()) };
        let plan = request.input.plan.get();
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
        Ok(request.envelope.document(200, HeaderBlock::new(), document.end()))
    }
}

impl DeleteObjects {
    /// Why the sender may not delete what the entry names, if so. `None`: only a worker can tell.
    fn denied(
        request: &TypedRequest<Self>,
        identities: &Identities,
        entry: &requests::DeleteEntry,
        decisions: &DecisionLog,
    ) -> Option<Option<S3Error>> {
        let Some(asked) = request.input.asked.as_deref() else { return Some(None) };
        let version = entry.version_id.as_deref().map(String::from_utf8_lossy);
        let resource = Resource::Object { bucket: &request.input.name, key: &entry.key };
        asked.with(&request.services.access, version.as_deref(), Some(decisions), |circumstances| {
            let permissions = request.operation().spec().permissions.iter();
            let of_row = permissions.map(|permission| permission.action(version.is_some()));
            // What cannot be read as a bypass is refused once something may be deleted.
            let takes = |header: &[u8]| DeleteObjects::UNDERSTOOD.takes(header);
            let mut actions = of_row.chain(request.operation().actions_of_headers(circumstances.headers, takes));
            let denied = actions.find_map(|action| {
                let question =
                    Question { requester: &request.requester, action, resource, facts: ResourceFacts::UNKNOWN };
                request.services.access.authorize_action(identities, &question, circumstances).err()
            });
            (!circumstances.is_postponed.get()).then_some(denied)
        })
    }
}

/// The version that an entry names. One that was never given out does not exist.
fn version_of(text: Option<&[u8]>) -> Result<Option<VersionId>, S3Error> {
    let Some(text) = text else { return Ok(None) };
    let name = VersionName::parse("VersionId", text).map_err(|_| S3Error::new(ErrorCode::NoSuchVersion))?;
    Ok(Some(version_id(name)))
}
