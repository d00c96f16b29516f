//! DeleteObjectAnnotation.

use std::sync::Arc;

use crate::annotation::AnnotationAddress;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use crate::versions::version_name;
use orcas_decide::{AnnotationChange, Outcome};
use orcas_s3::object_lock::bypasses_governance;
use orcas_s3::support::{OF_AN_ANNOTATION_REMOVAL, Understood};
use orcas_s3::{Named, S3Error};

pub struct DeleteObjectAnnotation {
    annotation: AnnotationAddress,
    /// `x-amz-bypass-governance-retention`
    bypass: bool,
}

impl Operation for DeleteObjectAnnotation {
    const UNDERSTOOD: Understood =
        Understood { version_id: true, attributes: OF_AN_ANNOTATION_REMOVAL, ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let annotation = AnnotationAddress::parse(reading)?;
        let bypass = bypasses_governance(reading.headers(), annotation.version.bucket.object_lock.is_some())?;
        Ok(Self { annotation, bypass })
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        let Self { annotation, bypass } = &call.input;
        Ok(call.submit(annotation.intent(AnnotationChange::Delete { bypass: *bypass }), slot))
    }

    fn named(&self) -> Named<'_> {
        self.annotation.version.named()
    }

    fn detailed(&self, error: S3Error) -> S3Error {
        self.annotation.version.detailed(error)
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Updated(version) = outcome else { return Err(wrong_outcome()) };
        let mut headers = HeaderBlock::new();
        if let Some(version) = version {
            headers.set_object_version_id(&version_name(version));
        }
        Ok(call.envelope.empty(204, headers))
    }
}
