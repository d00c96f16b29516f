//! UploadPart.

use std::sync::Arc;

use bytes::Bytes;

use crate::body_plan::BodyPlan;
use crate::encryption::show;
use crate::intake::Digests;
use crate::part_checksums::PartOf;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Upload, wrong_outcome};
use crate::response::Response;
use crate::upload_ids::named_upload;
use orcas_decide::{Body, Intent, Outcome, PutPart};
use orcas_record::{Bucket, UploadId};
use orcas_s3::Named;
use orcas_s3::headers::uploaded;

pub struct UploadPart {
    bucket: Arc<Bucket>,
    key: Bytes,
    upload: UploadId,
    number: u16,
}

impl Operation for UploadPart {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let (bucket, key) = reading.object()?;
        let (number, upload) = reading.part_address()?;
        Ok(Self { bucket, key, upload, number })
    }

    fn body(&self, reading: &Reading<'_>) -> Result<BodyPlan, Problem> {
        reading.content(false)
    }

    fn upload(&self) -> Option<&dyn Upload> {
        Some(self)
    }

    fn named(&self) -> Named<'_> {
        named_upload(&self.bucket, &self.key, self.upload)
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Part(put) = outcome else { return Err(wrong_outcome()) };
        let mut headers = uploaded(&put.etag, put.checksum.as_ref(), true);
        show(put.encryption, &mut headers);
        Ok(call.envelope.empty(200, headers))
    }
}

impl Upload for UploadPart {
    fn bucket(&self) -> &Arc<Bucket> {
        &self.bucket
    }

    fn intent(&self, size: u64, digests: &Digests, body: Body) -> Intent {
        let Digests { md5, declared: checksum, stored: computed, .. } = *digests;
        let Self { upload, number, .. } = *self;
        let (bucket, key) = (self.bucket.id, self.key.clone());
        Intent::PutPart(Box::new(PutPart { bucket, key, upload, number, size, md5, checksum, computed, body }))
    }

    fn part_of(&self) -> Option<PartOf> {
        Some(PartOf::Upload { bucket: self.bucket.id, key: self.key.clone(), upload: self.upload })
    }
}
