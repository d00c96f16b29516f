//! ListMultipartUploads: a page read from the engine, on a worker.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::pages::{owner, shown_name, time};
use crate::resources::upload_ids::{parse_upload_id, upload_id_text};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_catalog::ListUploads;
use orcas_record::{Bucket, UploadId};
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::S3Error;
use orcas_s3::query::ListUploadsQuery;
use orcas_s3::xml::lists::{UploadEntry, UploadList};

pub struct ListMultipartUploads {
    bucket: Arc<Bucket>,
    query: ListUploadsQuery,
}

impl Operation for ListMultipartUploads {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let bucket = context.bucket()?;
        Ok(Self { bucket, query: ListUploadsQuery::parse(&context.query)? })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| request.make_list(|| Self::list_uploads(request)))
    }
}

fn upload_marker(text: &[u8]) -> Result<UploadId, S3Error> {
    parse_upload_id(text).map_err(|_| S3Error::argument("Invalid uploadId marker", "upload-id-marker", text))
}

impl ListMultipartUploads {
    fn list_uploads(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let ListMultipartUploads { bucket, query } = &request.input;
        let page = request.services.engine.list_uploads(&ListUploads {
            bucket: bucket.id,
            prefix: Bytes::copy_from_slice(&query.keys.prefix),
            delimiter: query.keys.delimiter.as_deref().map(Bytes::copy_from_slice),
            after_key: query.key_marker.as_deref().map(|marker| Bytes::copy_from_slice(query.keys.behind(marker))),
            after_upload: query.upload_id_marker.as_deref().map(upload_marker).transpose()?,
            max_uploads: usize::from(query.keys.max),
        })?;
        let identities = request.services.access.identities();
        let mut document = UploadList::begin(shown_name(bucket, &request.requester), query);
        for upload in &page.entries {
            let id = request.services.access.acl_of(bucket, &upload.attributes).owner;
            document.entry(&UploadEntry {
                key: &upload.key,
                upload_id: &upload_id_text(upload.id),
                initiated_ms: time(upload.initiated_ms),
                checksum: upload.checksum,
                storage_class: upload.headers.storage_class.as_deref(),
                owner: owner(&id, &identities),
            });
        }
        page.prefixes.iter().for_each(|prefix| document.prefix(prefix));
        let last = page.last.as_ref();
        let id = last.and_then(|(_, id)| id.map(upload_id_text)).unwrap_or_default();
        let document = document.end((last.map_or(&[][..], |(key, _)| &key[..]), &id), page.truncated);
        Ok(request.envelope.document(200, HeaderBlock::new(), document))
    }
}
