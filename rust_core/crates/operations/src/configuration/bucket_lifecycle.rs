//! GetBucketLifecycleConfiguration and PutBucketLifecycleConfiguration.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::pages::name_of;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_record::{Bucket, DocumentKind};
use orcas_requests::request::{Operation, Progress, Request as _, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::configurations;
use orcas_s3::documents::stored_lifecycle;
use orcas_s3::lifecycle::{Configuration, DEFAULT_SIZE, DefaultSize};
use orcas_s3::support::Understood;

pub struct GetBucketLifecycle(Arc<Bucket>);

impl Operation for GetBucketLifecycle {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    /// Begins on a worker: a document may be long.
    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| {
            let bucket = &request.input.0;
            let document = request.services.engine.document(bucket.id, DocumentKind::Lifecycle);
            let Some(document) = document.filter(|document| !document.bytes.is_empty()) else {
                let document = configurations::absent(request.operation(), name_of(bucket), false)?;
                return Ok(request.envelope.document(200, HeaderBlock::new(), document));
            };
            let unreadable = || Problem::internal("a lifecycle document cannot be read");
            let configuration = Configuration::load(&document.bytes).ok_or_else(unreadable)?;
            Ok(request.envelope.document(200, default_size(configuration.default_size), configuration.shown()))
        })
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

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        request.on_worker(move |request| {
            let document = request.read_document(|| stored_lifecycle(&content, request.input.default_size))?.into();
            let (bucket, kind) = (request.input.bucket.id, DocumentKind::Lifecycle);
            Ok(request.submit(Intent::PutDocument { bucket, kind, document }))
        })
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(default_size(request.input.default_size)))
    }
}

fn default_size(size: DefaultSize) -> HeaderBlock {
    let mut headers = HeaderBlock::new();
    headers.push(DEFAULT_SIZE, size.name().as_bytes());
    headers
}
