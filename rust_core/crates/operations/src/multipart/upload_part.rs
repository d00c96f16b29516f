//! UploadPart.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::encryption::{SentKey, sent_key, show_stored};
use crate::resources::upload_ids::{named_upload, part_address};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{Body, Intent, Outcome, PutPart};
use orcas_engine::{Addition, Handle};
use orcas_record::{Bucket, UploadId};
use orcas_requests::body_plan::BodyPlan;
use orcas_requests::request::{Operation, Prepared, TypedRequest, Upload, wrong_outcome};
use orcas_requests::storage_plan::PartOf;
use orcas_responses::response::Response;
use orcas_s3::Named;
use orcas_s3::headers::uploaded;
use orcas_s3::support::{OF_A_PART, Understood};
use orcas_store::Sealing;

pub struct UploadPart {
    bucket: Arc<Bucket>,
    key: Bytes,
    upload: UploadId,
    number: u16,
    sent_key: Option<SentKey>,
    is_sigv4: bool,
}

impl Operation for UploadPart {
    const UNDERSTOOD: Understood = Understood { attributes: OF_A_PART, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let (number, upload) = part_address(&context.query)?;
        let (sent_key, is_sigv4) = (sent_key(context)?, context.is_sigv4());
        Ok(Self { bucket, key, upload, number, sent_key, is_sigv4 })
    }

    fn body(&self, context: &RequestContext<'_>) -> Result<BodyPlan, Problem> {
        BodyPlan::of_content(context, false)
    }

    fn upload(&self) -> Option<&dyn Upload> {
        Some(self)
    }

    fn named(&self) -> Named<'_> {
        named_upload(&self.bucket, &self.key, self.upload)
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Part(put) = outcome else { return Err(wrong_outcome()) };
        let mut headers = uploaded(&put.etag, put.checksum.as_ref(), true);
        show_stored(&request.services, put.encryption.as_ref(), request.input.sent_key.as_ref(), &mut headers);
        Ok(request.succeeded(headers))
    }
}

impl Upload for UploadPart {
    fn bucket(&self) -> &Arc<Bucket> {
        &self.bucket
    }

    fn intent(&self, _engine: &Handle, size: u64, digests: &Digests, body: Body, _sealing: &Sealing) -> Prepared {
        let Digests { md5, declared: checksum, stored: computed, .. } = *digests;
        let Self { upload, number, .. } = *self;
        let (bucket, key) = (self.bucket.id, self.key.clone());
        let part = PutPart { bucket, key, upload, number, size, md5, checksum, computed, body };
        Ok(Intent::PutPart(Box::new(part)))
    }

    fn adds(&self) -> Addition {
        Addition::Part(self.upload, self.number)
    }

    fn sealing(&self) -> Sealing {
        self.sent_key.as_ref().map(SentKey::sealing).unwrap_or_default()
    }

    fn part_of(&self) -> Option<PartOf> {
        let (bucket, key) = (self.bucket.id, self.key.clone());
        Some(PartOf::Upload { bucket, key, upload: self.upload, is_sigv4: self.is_sigv4 })
    }
}
