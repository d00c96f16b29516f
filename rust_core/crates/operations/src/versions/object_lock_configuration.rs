//! GetObjectLockConfiguration and PutObjectLockConfiguration.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::attributes::{shown_default, stored_default};
use crate::resources::pages::name_of;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{BucketChange, Intent, Outcome};
use orcas_record::{Bucket, ObjectLock};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::object_lock::{read_configuration, write_configuration};
use orcas_s3::{ErrorCode, S3Error};

pub struct GetObjectLockConfiguration(Arc<Bucket>);

impl Operation for GetObjectLockConfiguration {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let bucket = &request.input.0;
        let Some(lock) = &bucket.object_lock else {
            let error = S3Error::new(ErrorCode::ObjectLockConfigurationNotFoundError);
            return Err(error.field("BucketName", name_of(bucket)).into());
        };
        let document = write_configuration(lock.default.map(shown_default).as_ref());
        Ok(request.envelope.document(200, HeaderBlock::new(), document).into())
    }
}

pub struct PutObjectLockConfiguration(Arc<Bucket>);

impl Operation for PutObjectLockConfiguration {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        context.bucket().map(Self)
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        let configuration = request.read_document(|| read_configuration(&content))?;
        let change = BucketChange::ObjectLock(ObjectLock { default: configuration.map(stored_default) });
        Ok(request.submit(Intent::UpdateBucket { bucket: request.input.0.id, change }))
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Bucket(_) = outcome else { return Err(wrong_outcome()) };
        Ok(request.succeeded(HeaderBlock::new()))
    }
}
