//! RenameObject: an object gets another name within its bucket.

use std::sync::Arc;

use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use crate::sources::{Moving, Source};
use orcas_decide::Outcome;
use orcas_s3::conditions::ReadConditions;

pub struct RenameObject(Moving);

impl Operation for RenameObject {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let (bucket, key) = reading.object()?;
        let source = Source::new(reading, ReadConditions::of_rename_source(reading.headers()))?;
        Moving::to(reading, source, bucket, key).map(Self)
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        Ok(call.submit(call.input.0.intent(&call.lane)?, slot))
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Put(_) = outcome else { return Err(wrong_outcome()) };
        Ok(call.envelope.empty(200, HeaderBlock::new()))
    }
}
