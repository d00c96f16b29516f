//! The operations that write a configuration which is never stored. They accept a write that changes nothing, and
//! refuse every other.

use std::sync::Arc;

use bytes::Bytes;

use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_requests::request::{Operation, Progress, Request as _, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::configurations::check_unchanged;

pub struct ConfirmConfiguration;

impl Operation for ConfirmConfiguration {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket()?;
        Ok(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| Self::confirm(request, &[]))
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        request.on_worker(move |request| Self::confirm(request, &content))
    }
}

impl ConfirmConfiguration {
    fn confirm(request: &TypedRequest<Self>, body: &[u8]) -> Result<Response, Problem> {
        check_unchanged(request.operation(), body)?;
        Ok(request.succeeded(HeaderBlock::new()))
    }
}
