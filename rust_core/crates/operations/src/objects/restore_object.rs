//! RestoreObject. Objects of archived classes are stored like all others, so they count as restored.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::versions::VersionAddress;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::restore::{Tier, check_request, check_restorable};
use orcas_s3::support::Understood;
use orcas_s3::{Named, S3Error};

pub struct RestoreObject(VersionAddress);

impl Operation for RestoreObject {
    const UNDERSTOOD: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        VersionAddress::parse(context).map(Self)
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        let tier = request.read_document(|| check_request(&content))?;
        request.on_worker(move |request| Self::restore(request, tier))
    }

    fn named(&self) -> Named<'_> {
        self.0.named()
    }

    fn detailed(&self, error: S3Error) -> S3Error {
        self.0.detailed(error)
    }
}

impl RestoreObject {
    fn restore(request: &TypedRequest<Self>, tier: Tier) -> Result<Response, Problem> {
        request.input.0.find(&request.services.engine, &request.envelope, |found| {
            check_restorable(found.object.version.headers.storage_class.as_deref(), tier)?;
            Ok(request.succeeded(HeaderBlock::new()))
        })
    }
}
