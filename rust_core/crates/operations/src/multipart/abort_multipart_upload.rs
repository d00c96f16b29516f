//! AbortMultipartUpload. Like S3, it answers once more for an upload that was aborted or completed before: clients abort in
//! their clean-up.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::upload_ids::{named_upload, upload_id};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_decide::{Failure, Intent, Outcome, Refusal};
use orcas_record::{Bucket, UploadId};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::HeaderBlock;
use orcas_s3::Named;

pub struct AbortMultipartUpload {
    bucket: Arc<Bucket>,
    key: Bytes,
    upload: UploadId,
}

impl Operation for AbortMultipartUpload {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        Ok(Self { bucket, key, upload: upload_id(&context.query)? })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let Self { bucket, key, upload } = &request.input;
        let (bucket, key, upload) = (bucket.id, key.clone(), *upload);
        let intent = Intent::AbortUpload { bucket, key, upload, idle_since_ms: None };
        Ok(request.submit_then(intent, |request, decision| {
            let Self { bucket, key, upload } = &request.input;
            let aborted = &request.services.aborted;
            match decision {
                Ok(Outcome::Done) => aborted.keep(bucket.id, key, *upload),
                Ok(_) => return Err(wrong_outcome()),
                Err(Failure::Refused(Refusal::NoSuchUpload)) if aborted.has(bucket.id, key, *upload) => {}
                Err(failure) => return Err(failure.into()),
            }
            Ok(request.succeeded(HeaderBlock::new()).into())
        }))
    }

    fn named(&self) -> Named<'_> {
        named_upload(&self.bucket, &self.key, self.upload)
    }
}
