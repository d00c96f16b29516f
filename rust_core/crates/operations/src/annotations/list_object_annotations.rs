//! ListObjectAnnotations, in the order of the names.

use std::sync::Arc;

use crate::resources::pages::{shown_name, time};
use crate::resources::versions::VersionAddress;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_checksum::Etag;
use orcas_record::{Annotation, Annotations};
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::Named;
use orcas_s3::annotations::{AnnotationEntry, list};
use orcas_s3::query::ListAnnotationsQuery;
use orcas_s3::support::Understood;

pub struct ListObjectAnnotations {
    address: VersionAddress,
    query: ListAnnotationsQuery,
}

impl Operation for ListObjectAnnotations {
    const UNDERSTOOD: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self { address: VersionAddress::parse(context)?, query: ListAnnotationsQuery::parse(&context.query)? })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| request.make_list(|| Self::list(request)))
    }

    fn named(&self) -> Named<'_> {
        self.address.named()
    }
}

impl ListObjectAnnotations {
    fn list(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let ListObjectAnnotations { address, query } = &request.input;
        address.find(&request.services.engine, &request.envelope, |found| {
            let version = &found.object.version;
            let mut headers = HeaderBlock::new();
            if let Some(shown) = address.shown(version) {
                headers.set_object_version_id(&shown);
            }
            let (entries, more) = page(&version.attributes.annotations, query);
            let document = list(shown_name(&address.bucket, &request.requester), &address.key, query, &entries, more);
            Ok(request.envelope.document(200, headers, document))
        })
    }
}

/// The entries of a page, and whether more follow.
fn page<'a>(annotations: &'a Annotations, query: &ListAnnotationsQuery) -> (Vec<AnnotationEntry<'a>>, bool) {
    let after = query.continuation.as_ref().map_or(&[][..], |from| &from.after);
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let mut chosen = annotations
        .as_slice()
        .iter()
        .filter(|annotation| annotation.name[..] > *after && annotation.name.starts_with(prefix));
    let entries = chosen.by_ref().take(usize::from(query.max)).map(entry).collect();
    (entries, chosen.next().is_some())
}

fn entry(annotation: &Annotation) -> AnnotationEntry<'_> {
    AnnotationEntry {
        name: &annotation.name,
        modified_ms: time(annotation.modified_ms),
        etag: Etag { md5: annotation.md5, parts: 0 },
        size: annotation.size(),
        algorithm: annotation.checksum.map(|checksum| checksum.algorithm()),
    }
}
