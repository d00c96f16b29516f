//! MoveObject, an extension: an object gets another name, in its bucket or in another.

use std::sync::Arc;

use crate::resources::conditions::precondition;
use crate::resources::sources::{Moving, Source, modified};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome, SourceKind};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::Response;
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

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let precondition = precondition(&WriteCondition::parse(context.headers())?);
        Moving::of(context, Source::of_copy(context)?, precondition).map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let moved = request.input.0.decided(&request.services.access, SourceKind::Copy)?;
        Ok(request.submit(Intent::MoveObject(moved)))
    }

    /// Answers as a copy does, so that clients can send it as one.
    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Put(put) = outcome else { return Err(wrong_outcome()) };
        let mut headers = uploaded(&put.etag, put.checksum.as_ref(), false);
        headers.set_last_modified(modified(&put));
        let document = results::copy_object(&put.etag, modified(&put), put.checksum.as_ref());
        Ok(request.envelope.document(200, headers, document))
    }
}
