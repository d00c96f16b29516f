//! DeleteBucket.

use std::sync::Arc;

use crate::resources::versions::shows_versions;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_record::Bucket;
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::{ErrorCode, Named, S3Error};

pub struct DeleteBucket(Arc<Bucket>);

impl Operation for DeleteBucket {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        Ok(request.submit(Intent::DeleteBucket { bucket: request.input.0.id }))
    }

    fn named(&self) -> Named<'_> {
        Named { bucket: Some(&self.0.name), ..Named::default() }
    }

    fn detailed(&self, error: S3Error) -> S3Error {
        if error.code == ErrorCode::BucketNotEmpty && shows_versions(&self.0) {
            let message = "The bucket you tried to delete is not empty. You must delete all versions in the bucket.";
            return S3Error { message: message.into(), ..error };
        }
        error
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(HeaderBlock::new()))
    }
}
