//! DeleteObjectAnnotation.

use std::sync::Arc;

use crate::resources::annotation::AnnotationAddress;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_decide::{AnnotationChange, Outcome};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::object_lock::bypasses_governance;
use orcas_s3::support::{OF_AN_ANNOTATION_REMOVAL, Understood};
use orcas_s3::versions::version_name;
use orcas_s3::{Named, S3Error};

pub struct DeleteObjectAnnotation {
    annotation: AnnotationAddress,
    /// `x-amz-bypass-governance-retention`
    bypass: bool,
}

impl Operation for DeleteObjectAnnotation {
    const UNDERSTOOD: Understood =
        Understood { version_id: true, attributes: OF_AN_ANNOTATION_REMOVAL, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let annotation = AnnotationAddress::parse(context)?;
        let bypass = bypasses_governance(context.headers(), annotation.version.bucket.object_lock.is_some())?;
        Ok(Self { annotation, bypass })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let Self { annotation, bypass } = &request.input;
        Ok(request.submit(annotation.intent(AnnotationChange::Delete { bypass: *bypass })))
    }

    fn named(&self) -> Named<'_> {
        self.annotation.version.named()
    }

    fn detailed(&self, error: S3Error) -> S3Error {
        self.annotation.version.detailed(error)
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Updated(version) = outcome else { return Err(wrong_outcome()) };
        let mut headers = HeaderBlock::new();
        if let Some(version) = version {
            headers.set_object_version_id(&version_name(version));
        }
        Ok(request.succeeded(headers))
    }
}
