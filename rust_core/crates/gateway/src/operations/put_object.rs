//! PutObject.

use std::sync::Arc;

use bytes::Bytes;

use crate::attributes::{check_vouched, sent};
use crate::body_plan::BodyPlan;
use crate::conditions::precondition;
use crate::intake::Digests;
use crate::metadata::stored;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Upload, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use crate::versions::version_name;
use orcas_decide::{self as decide, Body, Intent, Outcome};
use orcas_record::{Attributes, Bucket, ObjectHeaders};
use orcas_s3::Named;
use orcas_s3::conditions::WriteCondition;
use orcas_s3::headers::uploaded;
use orcas_s3::metadata::ObjectHeaders as Sent;
use orcas_s3::support::{OF_AN_OBJECT, Understood};

pub struct PutObject {
    pub(super) bucket: Arc<Bucket>,
    pub(super) key: Bytes,
    pub(super) condition: WriteCondition,
    pub(super) headers: ObjectHeaders,
    pub(super) attributes: Attributes,
}

/// The headers that say what was stored.
pub(super) fn stored_headers(put: &decide::Put) -> HeaderBlock {
    let mut headers = uploaded(&put.etag, put.checksum.as_ref(), false);
    if let Some(version) = put.version_id {
        headers.set_version_id(&version_name(version));
    }
    headers
}

impl Operation for PutObject {
    const UNDERSTOOD: Understood = Understood { attributes: OF_AN_OBJECT, ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let (bucket, key) = reading.object()?;
        let condition = WriteCondition::parse(reading.headers())?;
        reading.check_early(&condition, &bucket, &key)?;
        let headers = stored(Sent::parse(reading.headers())?);
        let attributes = sent(reading.headers())?;
        Ok(Self { bucket, key, condition, headers, attributes })
    }

    fn body(&self, reading: &Reading<'_>) -> Result<BodyPlan, Problem> {
        let plan = reading.content(self.bucket.settings.keep_sha256)?;
        if let BodyPlan::Whole(declared) | BodyPlan::Stream(declared) = &plan {
            check_vouched(&self.attributes, &self.bucket, declared)?;
        }
        Ok(plan)
    }

    fn upload(&self) -> Option<&dyn Upload> {
        Some(self)
    }

    fn named(&self) -> Named<'_> {
        Named { bucket: Some(&self.bucket.name), key: Some(&self.key), upload: None }
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Put(put) = outcome else { return Err(wrong_outcome()) };
        Ok(call.envelope.empty(200, stored_headers(&put)))
    }
}

impl Upload for PutObject {
    fn bucket(&self) -> &Arc<Bucket> {
        &self.bucket
    }

    fn intent(&self, size: u64, digests: &Digests, body: Body) -> Intent {
        let Digests { md5, sha256, stored: checksum, .. } = *digests;
        Intent::PutObject(Box::new(decide::PutObject {
            bucket: self.bucket.id,
            key: self.key.clone(),
            precondition: precondition(&self.condition),
            size,
            md5,
            sha256,
            checksum,
            headers: self.headers.clone(),
            attributes: self.attributes.clone(),
            body,
        }))
    }
}
