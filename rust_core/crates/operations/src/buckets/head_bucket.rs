//! HeadBucket: the region of a bucket and its own settings.

use std::sync::Arc;

use crate::resources::pages::name_of;
use crate::resources::settings::show;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_record::Bucket;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::HeaderBlock;
use orcas_s3::headers::bucket_arn;

pub struct HeadBucket(Arc<Bucket>);

impl Operation for HeadBucket {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let bucket = &request.input.0;
        let mut headers = HeaderBlock::new();
        headers.push("x-amz-bucket-region", request.services.access.options.region_of(bucket).as_bytes());
        headers.push("x-amz-bucket-arn", bucket_arn(name_of(bucket)).as_bytes());
        headers.push("x-amz-access-point-alias", b"false");
        headers.push("content-type", b"application/xml");
        show(&bucket.settings, &mut headers);
        Ok(request.succeeded(headers).into())
    }
}
