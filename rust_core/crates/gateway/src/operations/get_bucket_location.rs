//! GetBucketLocation.

use std::sync::Arc;

use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step};
use crate::response::HeaderBlock;
use orcas_record::Bucket;
use orcas_s3::xml::results::location_constraint;

pub struct GetBucketLocation(Arc<Bucket>);

impl Operation for GetBucketLocation {
    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        reading.bucket().map(Self)
    }

    fn begin(call: &Arc<Call<Self>>, _slot: u32) -> Result<Step, Problem> {
        let document = location_constraint(call.lane.location_of(&call.input.0));
        Ok(call.envelope.document(200, HeaderBlock::new(), document).into())
    }
}
