//! The operations that write a configuration document of a bucket, which is stored.

use std::sync::Arc;

use bytes::Bytes;

use crate::admission::request_context::RequestContext;
use crate::buckets::pages::name_of;
use crate::requests::request::{Operation, PendingRequest, Request as _, Step, wrong_outcome};
use crate::requests::response::{HeaderBlock, Response};
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_record::{Bucket, DocumentKind};
use orcas_s3::documents;
use orcas_s3::event_targets::Targets;

pub struct PutConfiguration(Arc<Bucket>);

impl Operation for PutConfiguration {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn take(
        pending: &Arc<PendingRequest<Self>>,
        content: Bytes,
        _digests: &Digests,
        slot: u32,
    ) -> Result<Step, Problem> {
        Ok(pending.on_worker(slot, move |pending| Ok(pending.submit(pending.intent(&content)?, slot))))
    }

    fn answer(pending: &PendingRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        let kind = pending.operation().spec().document;
        let status = if matches!(kind, Some(DocumentKind::Policy | DocumentKind::Tagging)) { 204 } else { 200 };
        Ok(pending.envelope.empty(status, HeaderBlock::new()))
    }
}

impl PendingRequest<PutConfiguration> {
    fn intent(&self, body: &[u8]) -> Result<Intent, Problem> {
        let bucket = &self.input.0;
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
        let targets = Targets { region: &options.region, known: &options.event_targets };
        let stored = || documents::stored(kind, body, name_of(bucket), targets);
        let document = self.read_document(stored)?.into();
        Ok(Intent::PutDocument { bucket: bucket.id, kind, document })
    }
}
