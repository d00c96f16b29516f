//! The operations that write a configuration document of a bucket, which is stored.

use std::sync::Arc;

use bytes::Bytes;

use crate::admission::request_context::RequestContext;
use crate::buckets::pages::name_of;
use crate::requests::request::{Operation, Progress, Request as _, TypedRequest, wrong_outcome};
use crate::requests::response::{HeaderBlock, Response};
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_record::{Bucket, DocumentKind};
use orcas_s3::event_targets::Targets;
use orcas_s3::support::{OF_A_NOTIFICATION, SKIP_VALIDATION, Understood, skips_validation};
use orcas_s3::{Operation as Name, S3Error, documents};

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
        request.on_worker(move |request| Ok(request.submit(request.intent(&content)?)))
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(HeaderBlock::new()))
    }
}

impl TypedRequest<PutConfiguration> {
    fn intent(&self, body: &[u8]) -> Result<Intent, Problem> {
        let PutConfiguration { bucket, skips_validation } = &self.input;
        let kind = self.operation().spec().document.ok_or_else(|| self.operation().not_implemented())?;
        match kind {
            DocumentKind::Encryption => self.gateway.check_can_encrypt()?,
            DocumentKind::OwnershipControls => self.gateway.check_ownership(bucket, body)?,
            DocumentKind::Logging => self.gateway.check_log_target(bucket, body)?,
            DocumentKind::Policy => {
                self.read_document(|| self.gateway.check_policy(&self.requester, bucket, body))?;
                return Ok(Intent::PutDocument { bucket: bucket.id, kind, document: body.to_vec().into() });
            }
            _ => {}
        }
        let options = &self.gateway.options;
        let targets =
            Targets { region: &options.region, known: (!skips_validation).then_some(&*options.event_targets) };
        let stored = || documents::stored(kind, body, name_of(bucket), targets);
        let document = self.read_document(stored)?.into();
        Ok(Intent::PutDocument { bucket: bucket.id, kind, document })
    }
}
