//! DeleteObject.

use std::sync::Arc;

use bytes::Bytes;

use crate::conditions::precondition;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use orcas_decide::{Intent, Outcome};
use orcas_record::Bucket;
use orcas_s3::conditions::WriteCondition;
use orcas_s3::support::Understood;

pub struct DeleteObject {
    bucket: Arc<Bucket>,
    key: Bytes,
    condition: WriteCondition,
}

impl Operation for DeleteObject {
    const UNDERSTOOD: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let (bucket, key) = reading.object()?;
        Ok(Self { bucket, key, condition: WriteCondition::parse(reading.headers())? })
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        let Self { bucket, key, condition } = &call.input;
        let precondition = precondition(condition);
        Ok(call.submit(
            Intent::DeleteObject { bucket: bucket.id, key: key.clone(), precondition, version: None, bypass: false },
            slot,
        ))
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Done = outcome else { return Err(wrong_outcome()) };
        Ok(call.envelope.empty(204, HeaderBlock::new()))
    }
}
