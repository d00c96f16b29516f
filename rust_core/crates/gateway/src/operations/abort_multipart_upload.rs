//! AbortMultipartUpload.

use std::sync::Arc;

use bytes::Bytes;

use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use crate::upload_ids::named_upload;
use orcas_decide::{Intent, Outcome};
use orcas_record::{Bucket, UploadId};
use orcas_s3::Named;

pub struct AbortMultipartUpload {
    bucket: Arc<Bucket>,
    key: Bytes,
    upload: UploadId,
}

impl Operation for AbortMultipartUpload {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let (bucket, key) = reading.object()?;
        Ok(Self { bucket, key, upload: reading.upload_id()? })
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        let Self { bucket, key, upload } = &call.input;
        let (bucket, key, upload) = (bucket.id, key.clone(), *upload);
        Ok(call.submit(Intent::AbortUpload { bucket, key, upload, idle_since_ms: None }, slot))
    }

    fn named(&self) -> Named<'_> {
        named_upload(&self.bucket, &self.key, self.upload)
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(call.envelope.empty(204, HeaderBlock::new()))
    }
}
