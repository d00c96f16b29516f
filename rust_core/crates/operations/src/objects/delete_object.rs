//! DeleteObject.

use std::sync::Arc;

use crate::resources::conditions::of_deletion;
use crate::resources::versions::VersionAddress;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_decide::{Deleted, Intent, Outcome};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::Named;
use orcas_s3::conditions::{DeleteCondition, OF_A_DELETION};
use orcas_s3::object_lock::bypasses_governance;
use orcas_s3::support::{OF_A_LOCK, Understood};
use orcas_s3::versions::version_name;

pub struct DeleteObject {
    address: VersionAddress,
    condition: DeleteCondition,
    /// `x-amz-bypass-governance-retention`
    bypass: bool,
}

impl Operation for DeleteObject {
    const UNDERSTOOD: Understood =
        Understood { version_id: true, attributes: OF_A_LOCK, extensions: OF_A_DELETION, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let address = VersionAddress::parse(context)?;
        let condition = DeleteCondition::parse(context.headers())?;
        let bypass = bypasses_governance(context.headers(), address.bucket.object_lock.is_some())?;
        Ok(Self { address, condition, bypass })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let Self { address, condition, bypass } = &request.input;
        let intent = Intent::DeleteObject {
            bucket: address.bucket.id,
            key: address.key.clone(),
            version: address.version_id(),
            precondition: of_deletion(condition),
            bypass: *bypass,
        };
        Ok(request.submit(intent))
    }

    fn named(&self) -> Named<'_> {
        self.address.named()
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::DeletedOne(Deleted { version_id, delete_marker }) = outcome else { return Err(wrong_outcome()) };
        let mut headers = HeaderBlock::new();
        if let Some(version) = version_id {
            headers.set_version_id(&version_name(version));
        }
        if delete_marker {
            headers.set_delete_marker();
        }
        Ok(request.succeeded(headers))
    }
}
