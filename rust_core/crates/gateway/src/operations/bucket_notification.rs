//! PutBucketNotificationConfiguration.

use std::sync::Arc;

use bytes::Bytes;

use crate::body_plan::BodyPlan;
use crate::intake::{DeclaredBody, Digests};
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step};
use crate::response::{HeaderBlock, Response};
use orcas_decide::Intent;
use orcas_record::{Bucket, DocumentKind};
use orcas_s3::notification::{Targets, stored};

pub struct PutBucketNotification(Arc<Bucket>);

impl Operation for PutBucketNotification {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        reading.bucket().map(Self)
    }

    fn body(&self, reading: &Reading<'_>) -> Result<BodyPlan, Problem> {
        BodyPlan::document(DeclaredBody::of_document(reading.headers(), reading.payload)?)
    }

    fn take(call: &Arc<Call<Self>>, content: Bytes, _digests: &Digests, slot: u32) -> Result<Step, Problem> {
        Ok(call.later(slot, move |call| call.store(&content)))
    }
}

impl Call<PutBucketNotification> {
    /// Blocks until the document is durable.
    fn store(&self, body: &[u8]) -> Result<Response, Problem> {
        let options = &self.lane.options;
        let targets = Targets { region: &options.region, names: &options.event_targets };
        let (bucket, document) = (self.input.0.id, stored(body, targets)?.into());
        let kind = DocumentKind::Notification;
        self.lane.engine.execute_for(self.cause(), Intent::PutDocument { bucket, kind, document })?;
        Ok(self.envelope.empty(200, HeaderBlock::new()))
    }
}
