//! The operations that write a configuration document of a bucket, which is stored.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::encryption::check_can_encrypt;
use crate::resources::pages::name_of;
use crate::resources::policies::check_policy;
use orcas_admission::documents::disables_acls;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_engine::Handle;
use orcas_record::{Bucket, DocumentKind};
use orcas_requests::request::{Operation, Progress, Request as _, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::bucket_logging::{BucketLogging, invalid_target};
use orcas_s3::event_targets::Targets;
use orcas_s3::support::{OF_A_NOTIFICATION, SKIP_VALIDATION, Understood, skips_validation};
use orcas_s3::{ErrorCode, Operation as Name, S3Error, documents};

pub struct PutConfiguration {
    bucket: Arc<Bucket>,
    /// Notifications may name targets that the server does not have.
    skips_validation: bool,
}

impl Operation for PutConfiguration {
    const UNDERSTOOD: Understood = Understood { attributes: OF_A_NOTIFICATION, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        if context.operation != Name::PutBucketNotificationConfiguration
            && context.headers().get(SKIP_VALIDATION).is_some()
        {
            return Err(S3Error::header_not_implemented(SKIP_VALIDATION.as_bytes()).into());
        }
        Ok(Self { bucket: context.bucket()?, skips_validation: skips_validation(context.headers())? })
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        request.on_worker(move |request| Ok(request.submit(Self::intent(request, &content)?)))
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(HeaderBlock::new()))
    }
}

impl PutConfiguration {
    fn intent(request: &TypedRequest<Self>, body: &[u8]) -> Result<Intent, Problem> {
        let PutConfiguration { bucket, skips_validation } = &request.input;
        let kind = request.operation().spec().document.ok_or_else(|| request.operation().not_implemented())?;
        match kind {
            DocumentKind::Encryption => check_can_encrypt(&request.services.engine)?,
            DocumentKind::OwnershipControls => request.services.access.check_ownership(bucket, body)?,
            DocumentKind::Logging => check_log_target(&request.services.engine, bucket, body)?,
            DocumentKind::Policy => {
                request.read_document(|| check_policy(&request.services.access, &request.requester, bucket, body))?;
                return Ok(Intent::PutDocument { bucket: bucket.id, kind, document: body.to_vec().into() });
            }
            _ => {}
        }
        let options = &request.services.access.options;
        let targets =
            Targets { region: &options.region, known: (!skips_validation).then_some(&*options.event_targets) };
        let stored = || documents::stored(kind, body, name_of(bucket), targets);
        let document = request.read_document(stored)?.into();
        Ok(Intent::PutDocument { bucket: bucket.id, kind, document })
    }
}

/// Checks the target that a logging document of `bucket` names.
///
/// # Errors
/// `InvalidTargetBucketForLogging`; `AccessControlListNotSupported` and `NotImplemented` for grants; those of the
/// document.
fn check_log_target(engine: &Handle, bucket: &Bucket, body: &[u8]) -> Result<(), Problem> {
    let Some(logging) = BucketLogging::parse(body)? else { return Ok(()) };
    let name = &logging.bucket;
    let Some(target) = engine.bucket(name.as_bytes()) else {
        return Err(invalid_target("The target bucket for logging does not exist", name).into());
    };
    if target.owner != bucket.owner {
        let message = "The owner for the bucket to be logged and the target bucket must be the same.";
        return Err(invalid_target(message, name).into());
    }
    if logging.grants {
        let disabled = disables_acls(engine, target.id);
        let code = if disabled { ErrorCode::AccessControlListNotSupported } else { ErrorCode::NotImplemented };
        return Err(S3Error::from(code).into());
    }
    Ok(())
}
