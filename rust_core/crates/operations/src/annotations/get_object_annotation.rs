//! GetObjectAnnotation: the text of an annotation is read like a small object.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::encryption::check_readable;
use crate::resources::pages::time;
use crate::resources::versions::VersionAddress;
use orcas_admission::request_context::RequestContext;
use orcas_base::buffers::Buffer;
use orcas_bodies::problem::Problem;
use orcas_catalog::PinnedObject;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response, ResponseBody};
use orcas_s3::annotations::name_in;
use orcas_s3::checksums::wants_checksum;
use orcas_s3::support::Understood;
use orcas_s3::{ErrorCode, Named, S3Error};

pub struct GetObjectAnnotation {
    address: VersionAddress,
    name: Bytes,
    wants_checksum: bool,
    /// The request is signed with version 4.
    is_sigv4: bool,
}

impl Operation for GetObjectAnnotation {
    const UNDERSTOOD: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let address = VersionAddress::parse(context)?;
        let name = Bytes::copy_from_slice(name_in(&context.query));
        let is_sigv4 = context.is_sigv4();
        Ok(Self { address, name, wants_checksum: wants_checksum(context.headers())?, is_sigv4 })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| Self::read_annotation(request))
    }

    fn named(&self) -> Named<'_> {
        self.address.named()
    }
}

impl GetObjectAnnotation {
    fn read_annotation(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let GetObjectAnnotation { address, name, wants_checksum, is_sigv4 } = &request.input;
        address.find(&request.services.engine, &request.envelope, |found| {
            let Some(text) = found.annotation(name) else {
                return Err(S3Error::new(ErrorCode::NoSuchAnnotation).field("AnnotationName", name.to_vec()).into());
            };
            check_readable(&request.services.engine, &found.object.version, None, *is_sigv4)?;
            let version = &text.object.version;
            let mut headers = HeaderBlock::new();
            headers.set_object_headers(&version.etag, version.size, time(version.modified_ms));
            if let Some(shown) = address.shown(&found.object.version) {
                headers.set_object_version_id(&shown);
            }
            if let Some(checksum) = version.checksum.filter(|_| *wants_checksum) {
                headers.set_checksum(&checksum);
                headers.set_checksum_type(checksum.kind());
            }
            Ok(request.envelope.complete(200, headers, ResponseBody::Bytes(Self::content(request, &text)?)))
        })
    }

    /// Blocks.
    fn content(request: &TypedRequest<Self>, text: &PinnedObject) -> Result<Buffer, Problem> {
        let length = text.object.version.size as usize;
        let mut content = request.services.bodies.buffers.take(length);
        content.resize(length, 0);
        let mut reader = request.services.engine.content().reader(text, 0, length as u64 - 1);
        let mut at = 0;
        while at < length {
            match reader.read(&mut content[at..])? {
                0 => return Err(Problem::internal("an annotation is shorter than its record says")),
                read => at += read,
            }
        }
        Ok(content)
    }
}
