//! GetBucketLifecycleConfiguration and PutBucketLifecycleConfiguration.

use std::sync::Arc;

use bytes::Bytes;

use crate::admission::request_context::RequestContext;
use crate::buckets::pages::name_of;
use crate::requests::request::{Operation, PendingRequest, Step, wrong_outcome};
use crate::requests::response::{HeaderBlock, Response};
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_record::{Bucket, DocumentKind};
use orcas_s3::documents::stored_lifecycle;
use orcas_s3::lifecycle::{Configuration, DEFAULT_SIZE, DefaultSize};
use orcas_s3::support::Understood;
use orcas_s3::{ErrorCode, S3Error};

pub struct GetBucketLifecycle(Arc<Bucket>);

impl Operation for GetBucketLifecycle {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    /// On a worker: a document may be long.
    fn begin(pending: &Arc<PendingRequest<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(pending.later(slot, |pending| {
            let bucket = &pending.input.0;
            let document = pending.gateway.engine.document(bucket.id, DocumentKind::Lifecycle);
            let Some(document) = document.filter(|document| !document.bytes.is_empty()) else {
                let missing = S3Error::new(ErrorCode::NoSuchLifecycleConfiguration);
                return Err(missing.field("BucketName", name_of(bucket)).into());
            };
            let unreadable = || Problem::internal("a lifecycle document cannot be read");
            let configuration = Configuration::load(&document.bytes).ok_or_else(unreadable)?;
            Ok(pending.envelope.document(200, default_size(configuration.default_size), configuration.shown()))
        }))
    }
}

pub struct PutBucketLifecycle {
    bucket: Arc<Bucket>,
    default_size: DefaultSize,
}

impl Operation for PutBucketLifecycle {
    const UNDERSTOOD: Understood = Understood { attributes: &[DEFAULT_SIZE], ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self { bucket: context.bucket()?, default_size: DefaultSize::of_request(context.headers())? })
    }

    fn take(
        pending: &Arc<PendingRequest<Self>>,
        content: Bytes,
        _digests: &Digests,
        slot: u32,
    ) -> Result<Step, Problem> {
        Ok(pending.on_worker(slot, move |pending| {
            let document = pending.read_document(|| stored_lifecycle(&content, pending.input.default_size))?.into();
            let (bucket, kind) = (pending.input.bucket.id, DocumentKind::Lifecycle);
            Ok(pending.submit(Intent::PutDocument { bucket, kind, document }, slot))
        }))
    }

    fn answer(pending: &PendingRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(pending.envelope.empty(200, default_size(pending.input.default_size)))
    }
}

fn default_size(size: DefaultSize) -> HeaderBlock {
    let mut headers = HeaderBlock::new();
    headers.push(DEFAULT_SIZE, size.name().as_bytes());
    headers
}
