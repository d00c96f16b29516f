//! GetBucketLocation.

use std::sync::Arc;

use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_record::Bucket;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::HeaderBlock;
use orcas_s3::xml::results::location_constraint;

pub struct GetBucketLocation(Arc<Bucket>);

impl Operation for GetBucketLocation {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let document = location_constraint(request.services.access.options.location_of(&request.input.0));
        Ok(request.envelope.document(200, HeaderBlock::new(), document).into())
    }
}
