//! MoveObject, an extension: an object gets another name, in its bucket or in another.

use std::sync::Arc;

use crate::conditions::precondition;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::Response;
use crate::sources::{Moving, Source, modified};
use orcas_decide::{Intent, Outcome, SourceKind};
use orcas_s3::conditions::WriteCondition;
use orcas_s3::headers::uploaded;
use orcas_s3::support::Understood;
use orcas_s3::xml::results;

pub struct MoveObject(Moving);

impl Operation for MoveObject {
    /// A move changes nothing of the object but its name.
    const UNDERSTOOD: Understood = Understood {
        refused: &[
            "x-amz-copy-source-range",
            "x-amz-metadata-directive",
            "x-amz-tagging-directive",
            "x-amz-checksum-algorithm",
        ],
        ..Understood::NOTHING
    };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let precondition = precondition(&WriteCondition::parse(reading.headers())?);
        Moving::of(reading, Source::of_copy(reading)?, precondition).map(Self)
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        let moved = call.input.0.decided(&call.lane, SourceKind::Copy)?;
        Ok(call.submit(Intent::MoveObject(moved), slot))
    }

    /// As a copy answers, so that clients can send it as one.
    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Put(put) = outcome else { return Err(wrong_outcome()) };
        let mut headers = uploaded(&put.etag, put.checksum.as_ref(), false);
        headers.set_last_modified(modified(&put));
        let document = results::copy_object(&put.etag, modified(&put), put.checksum.as_ref());
        Ok(call.envelope.document(200, headers, document))
    }
}
