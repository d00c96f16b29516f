//! DeleteObjectAnnotation.

use std::sync::Arc;

use bytes::Bytes;

use crate::conditions::precondition;
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::{HeaderBlock, Response};
use crate::versions::{VersionAddress, version_name};
use orcas_decide::{Annotate, AnnotationChange, Intent, Outcome};
use orcas_s3::annotations::{check_name, name_in, object_condition};
use orcas_s3::conditions::WriteCondition;
use orcas_s3::object_lock::bypasses_governance;
use orcas_s3::support::{OF_AN_ANNOTATION_REMOVAL, Understood};
use orcas_s3::{Named, S3Error};

pub struct DeleteObjectAnnotation {
    address: VersionAddress,
    name: Bytes,
    condition: WriteCondition,
    /// `x-amz-bypass-governance-retention`
    bypass: bool,
}

impl Operation for DeleteObjectAnnotation {
    const UNDERSTOOD: Understood =
        Understood { version_id: true, attributes: OF_AN_ANNOTATION_REMOVAL, ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let address = VersionAddress::parse(reading)?;
        let bypass = bypasses_governance(reading.headers(), address.bucket.object_lock.is_some())?;
        let name = name_in(&reading.query);
        check_name(name)?;
        let name = Bytes::copy_from_slice(name);
        Ok(Self { address, name, condition: object_condition(reading.headers())?, bypass })
    }

    fn begin(call: &Arc<Call<Self>>, slot: u32) -> Result<Step, Problem> {
        let Self { address, name, condition, bypass } = &call.input;
        let annotate = Annotate {
            bucket: address.bucket.id,
            key: address.key.clone(),
            version: address.version_id(),
            name: name.clone(),
            if_match: precondition(condition).if_match,
            change: AnnotationChange::Delete { bypass: *bypass },
        };
        Ok(call.submit(Intent::Annotate(Box::new(annotate)), slot))
    }

    fn named(&self) -> Named<'_> {
        self.address.named()
    }

    fn detailed(&self, error: S3Error) -> S3Error {
        self.address.detailed(error)
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
