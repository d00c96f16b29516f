//! GetBucketVersioning and PutBucketVersioning.

use std::sync::Arc;

use bytes::Bytes;

use crate::intake::Digests;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use orcas_decide::{BucketChange, Intent, Outcome};
use orcas_record::{Bucket, Versioning};
use orcas_s3::xml::versioning::{self, Status};

pub struct GetBucketVersioning(Arc<Bucket>);

impl Operation for GetBucketVersioning {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        reading.bucket().map(Self)
    }

    fn begin(call: &Arc<Call<Self>>, _slot: u32) -> Result<Step, Problem> {
        let status = match call.input.0.versioning {
            Versioning::Unversioned => None,
            Versioning::Enabled => Some(Status::Enabled),
            Versioning::Suspended => Some(Status::Suspended),
        };
        Ok(call.envelope.document(200, HeaderBlock::new(), versioning::write(status)).into())
    }
}

pub struct PutBucketVersioning(Arc<Bucket>);

impl Operation for PutBucketVersioning {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        reading.bucket().map(Self)
    }

    fn take(call: &Arc<Call<Self>>, content: Bytes, _digests: &Digests, slot: u32) -> Result<Step, Problem> {
        let versioning = match call.read_document(|| versioning::read(&content))? {
            Status::Enabled => Versioning::Enabled,
            Status::Suspended => Versioning::Suspended,
        };
        let change = BucketChange::Versioning(versioning);
        Ok(call.submit(Intent::UpdateBucket { bucket: call.input.0.id, change }, slot))
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Bucket(_) = outcome else { return Err(wrong_outcome()) };
        Ok(call.envelope.empty(200, HeaderBlock::new()))
    }
}
