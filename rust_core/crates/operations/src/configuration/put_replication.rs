//! PutBucketReplication.

use std::sync::Arc;

use bytes::Bytes;

use orcas_admission::documents::document;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_record::{Bucket, DocumentKind};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::documents::stored_replication;
use orcas_s3::replication::Replication;
use orcas_s3::{ErrorCode, S3Error};

pub struct PutReplication(Arc<Bucket>);

impl Operation for PutReplication {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        request.on_worker(move |request| Ok(request.submit(Self::intent(request, &content)?)))
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(HeaderBlock::new()))
    }
}

impl PutReplication {
    /// Only root sends what it may read to where its own keys of targets lead. Whoever else may write the configuration
    /// may remove it.
    fn intent(request: &TypedRequest<Self>, body: &[u8]) -> Result<Intent, Problem> {
        let (bucket, engine) = (&request.input.0, &request.services.engine);
        if !request.requester.is_root {
            let message =
                "Rules copy whatever the bucket has with the keys of the server's targets, so only root writes them";
            return Err(S3Error::with(ErrorCode::AccessDenied, message).into());
        }
        if !engine.has_events() {
            let message = "Replication needs the journal of events: ORCAS_EVENTS_ENABLED turns it on";
            return Err(S3Error::with(ErrorCode::NotImplemented, message).into());
        }
        let former = document::<Replication>(engine, bucket.id);
        let read = || stored_replication(body, former.as_deref(), engine.events_now().sequence);
        let (replication, document) = request.read_document(read)?;
        for rule in &replication.rules {
            let (target, _) = rule.place();
            if !request.services.replications.has_target(target) {
                let message =
                    "Destination bucket must exist: `orcas replication target add` adds the target that is named";
                let said = S3Error::with(ErrorCode::InvalidRequest, message);
                return Err(said.field("Target", target).into());
            }
        }
        Ok(Intent::PutDocument { bucket: bucket.id, kind: DocumentKind::Replication, document: document.into() })
    }
}
