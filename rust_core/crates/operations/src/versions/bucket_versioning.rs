//! GetBucketVersioning and PutBucketVersioning.

use std::sync::Arc;

use bytes::Bytes;

use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{BucketChange, Intent, Outcome};
use orcas_record::{Bucket, Versioning};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::xml::versioning::{self, Status};

pub struct GetBucketVersioning(Arc<Bucket>);

impl Operation for GetBucketVersioning {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let status = match request.input.0.versioning {
            Versioning::Unversioned => None,
            Versioning::Enabled => Some(Status::Enabled),
            Versioning::Suspended => Some(Status::Suspended),
        };
        Ok(request.envelope.document(200, HeaderBlock::new(), versioning::write(status)).into())
    }
}

pub struct PutBucketVersioning(Arc<Bucket>);

impl Operation for PutBucketVersioning {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        let versioning = match request.read_document(|| versioning::read(&content))? {
            Status::Enabled => Versioning::Enabled,
            Status::Suspended => Versioning::Suspended,
        };
        let change = BucketChange::Versioning(versioning);
        Ok(request.submit(Intent::UpdateBucket { bucket: request.input.0.id, change }))
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Bucket(_) = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(HeaderBlock::new()))
    }
}
