//! ListParts: a page read from the engine, on a worker.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::encryption::{SentKey, sent_key};
use crate::resources::expiration::show_abort;
use crate::resources::pages::{owner, shown_name, time};
use crate::resources::upload_ids::{named_upload, parse_upload_id};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_catalog as catalog;
use orcas_checksum::{Etag, ObjectChecksum};
use orcas_record::{Bucket, UploadId};
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_requests::storage_plan::check_upload_key;
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::query::ListPartsQuery;
use orcas_s3::support::{OF_A_PART, Understood};
use orcas_s3::xml::lists::{PartEntry, PartList};
use orcas_s3::{ErrorCode, Named};

pub struct ListParts {
    bucket: Arc<Bucket>,
    key: Bytes,
    upload: UploadId,
    query: ListPartsQuery,
    sent_key: Option<SentKey>,
    is_sigv4: bool,
}

impl Operation for ListParts {
    const UNDERSTOOD: Understood = Understood { attributes: OF_A_PART, reads_clear: true, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let query = ListPartsQuery::parse(&context.query)?;
        let (sent_key, is_sigv4) = (sent_key(context)?, context.is_sigv4());
        Ok(Self { bucket, key, upload: parse_upload_id(&query.upload_id)?, query, sent_key, is_sigv4 })
    }

    fn named(&self) -> Named<'_> {
        named_upload(&self.bucket, &self.key, self.upload)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| request.make_list(|| Self::list_parts(request)))
    }
}

impl ListParts {
    fn list_parts(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let (handle, ListParts { bucket, key, upload: id, query, sent_key, is_sigv4 }) =
            (&request.services.engine, &request.input);
        let upload = handle.upload(bucket.id, key, *id)?.ok_or(ErrorCode::NoSuchUpload)?;
        check_upload_key(handle, &upload, sent_key.as_ref().map(SentKey::sealing), *is_sigv4)?;
        let page = handle.list_parts(catalog::ListParts {
            upload: *id,
            after: query.marker,
            max_parts: usize::from(query.max),
        })?;
        let identities = request.services.access.identities();
        let owned_by = request.services.access.acl_of(bucket, &upload.attributes).owner;
        let owner = owner(&owned_by, &identities);
        let storage_class = upload.headers.storage_class.as_deref();
        let mut document =
            PartList::begin(shown_name(bucket, &request.requester), key, query, &owner, upload.checksum, storage_class);
        for part in &page.entries {
            document.entry(&PartEntry {
                number: part.number,
                modified_ms: time(part.modified_ms),
                etag: Etag::simple(part.md5),
                size: part.size,
                // One that the client did not choose is not shown before the upload is complete.
                checksum: upload.checksum.and(part.checksum).map(ObjectChecksum::full),
            });
        }
        let document = document.end(page.entries.last().map_or(0, |part| part.number), page.truncated);
        let mut headers = HeaderBlock::new();
        show_abort(&request.services.engine, &mut headers, bucket.id, key, *id);
        Ok(request.envelope.document(200, headers, document))
    }
}
