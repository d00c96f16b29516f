//! The operations that remove a configuration document of a bucket.

use std::sync::Arc;

use bytes::Bytes;

use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_record::Bucket;
use orcas_requests::request::{Operation, Progress, Request as _, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};

pub struct DeleteConfiguration(Arc<Bucket>);

impl Operation for DeleteConfiguration {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let kind = request.operation().spec().document.ok_or_else(|| request.operation().not_implemented())?;
        let (bucket, document) = (request.input.0.id, Bytes::new());
        Ok(request.submit(Intent::PutDocument { bucket, kind, document }))
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(HeaderBlock::new()))
    }
}
