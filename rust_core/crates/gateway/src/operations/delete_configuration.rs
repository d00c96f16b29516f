//! The operations that remove a configuration document of a bucket.

use std::sync::Arc;

use bytes::Bytes;

use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Request as _, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use orcas_decide::{Intent, Outcome};
use orcas_record::Bucket;

pub struct DeleteConfiguration(Arc<Bucket>);

impl Operation for DeleteConfiguration {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        reading.bucket().map(Self)
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        let kind = call.operation().row().document.ok_or_else(|| call.operation().not_implemented())?;
        let (bucket, document) = (call.input.0.id, Bytes::new());
        Ok(call.submit(Intent::PutDocument { bucket, kind, document }, slot))
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(call.envelope.empty(204, HeaderBlock::new()))
    }
}
