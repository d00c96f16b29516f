//! The annotation that a request writes or removes: its version, its name, and the condition on the object. A missing
//! bucket is noticed first, as in every other operation on objects.

use bytes::Bytes;

use crate::resources::conditions::precondition;
use crate::resources::versions::VersionAddress;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_decide::{Annotate, AnnotationChange, Intent};
use orcas_s3::annotations::{check_name, name_in, object_condition};
use orcas_s3::conditions::WriteCondition;

pub struct AnnotationAddress {
    pub version: VersionAddress,
    pub name: Bytes,
    condition: WriteCondition,
}

impl AnnotationAddress {
    pub fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let version = VersionAddress::parse(context)?;
        let name = name_in(&context.query);
        check_name(name)?;
        let condition = object_condition(context.headers())?;
        Ok(Self { version, name: Bytes::copy_from_slice(name), condition })
    }

    pub fn intent(&self, change: AnnotationChange) -> Intent {
        Intent::Annotate(Box::new(Annotate {
            bucket: self.version.bucket.id,
            key: self.version.key.clone(),
            version: self.version.version_id(),
            name: self.name.clone(),
            if_match: precondition(&self.condition).if_match,
            change,
        }))
    }
}
