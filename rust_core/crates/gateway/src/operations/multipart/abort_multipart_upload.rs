//! AbortMultipartUpload.

use std::sync::Arc;

use bytes::Bytes;

use crate::admission::request_context::RequestContext;
use crate::objects::upload_ids::named_upload;
use crate::requests::request::{Operation, PendingRequest, Step, wrong_outcome};
use crate::requests::response::{HeaderBlock, Response};
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_record::{Bucket, UploadId};
use orcas_s3::Named;

pub struct AbortMultipartUpload {
    bucket: Arc<Bucket>,
    key: Bytes,
    upload: UploadId,
}

impl Operation for AbortMultipartUpload {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        Ok(Self { bucket, key, upload: context.upload_id()? })
    }

    fn begin(pending: &Arc<PendingRequest<Self>>, slot: u32) -> Result<Step, Problem> {
        let Self { bucket, key, upload } = &pending.input;
        let (bucket, key, upload) = (bucket.id, key.clone(), *upload);
        Ok(pending.submit(Intent::AbortUpload { bucket, key, upload, idle_since_ms: None }, slot))
    }

    fn named(&self) -> Named<'_> {
        named_upload(&self.bucket, &self.key, self.upload)
    }

    fn answer(pending: &PendingRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(pending.envelope.empty(204, HeaderBlock::new()))
    }
}
