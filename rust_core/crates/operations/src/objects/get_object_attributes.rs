//! GetObjectAttributes.

use std::sync::Arc;

use crate::resources::encryption::{SentKey, check_readable, sent_key};
use crate::resources::pages::time;
use crate::resources::versions::VersionAddress;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_record::Version;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::attributes::{AttributesRequest, ObjectAttributes, PartAttributes};
use orcas_s3::support::{OF_A_PART, Understood};

pub struct GetObjectAttributes {
    address: VersionAddress,
    request: AttributesRequest,
    key: Option<SentKey>,
    is_sigv4: bool,
}

impl Operation for GetObjectAttributes {
    const UNDERSTOOD: Understood =
        Understood { version_id: true, attributes: OF_A_PART, reads_clear: true, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self {
            address: VersionAddress::parse(context)?,
            request: AttributesRequest::parse(context.headers())?,
            key: sent_key(context)?,
            is_sigv4: context.is_sigv4(),
        })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| Self::attributes(request))
    }
}

impl GetObjectAttributes {
    fn attributes(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let address = &request.input.address;
        address.find(&request.services.engine, &request.envelope, |found| {
            let version = &found.object.version;
            check_readable(&request.services.engine, version, request.input.key.as_ref(), request.input.is_sigv4)?;
            Ok(Self::attributes_of(request, version))
        })
    }

    fn attributes_of(request: &TypedRequest<Self>, version: &Version) -> Response {
        let GetObjectAttributes { address, request: asked, .. } = &request.input;
        let part = |part: &orcas_record::CompletedPart| PartAttributes {
            number: part.number,
            size: part.size,
            checksum: part.checksum,
        };
        let parts: Vec<PartAttributes> = version.parts.iter().map(part).collect();
        let document = asked.document(&ObjectAttributes {
            etag: version.etag,
            size: version.size,
            checksum: version.checksum,
            storage_class: version.headers.storage_class.as_deref(),
            parts: &parts,
        });
        let mut headers = HeaderBlock::new();
        headers.set_last_modified(time(version.modified_ms));
        if let Some(shown) = address.shown(version) {
            headers.set_version_id(&shown);
        }
        request.envelope.document(200, headers, document)
    }
}
