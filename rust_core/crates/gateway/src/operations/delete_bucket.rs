//! DeleteBucket.

use std::sync::Arc;

use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use orcas_decide::{Intent, Outcome};
use orcas_record::Bucket;
use orcas_s3::Named;

pub struct DeleteBucket(Arc<Bucket>);

impl Operation for DeleteBucket {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        reading.bucket().map(Self)
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(call.submit(Intent::DeleteBucket { bucket: call.input.0.id }, slot))
    }

    fn named(&self) -> Named<'_> {
        Named { bucket: Some(&self.0.name), ..Named::default() }
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(call.envelope.empty(204, HeaderBlock::new()))
    }
}
