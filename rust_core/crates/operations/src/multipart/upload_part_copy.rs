//! UploadPartCopy: a part made of bytes that are stored already.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::encryption::{SentKey, check_readable, sent_key, sent_source_key, show_stored};
use crate::resources::sources::{Pinned, Source, modified};
use crate::resources::upload_ids::{named_upload, part_address};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_checksum::Etag;
use orcas_decide::{Outcome, SourceKind};
use orcas_engine::{CopyKeys, CopyPartRequest};
use orcas_record::{Bucket, UploadId};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_requests::storage_plan::{PartOf, StoragePlan};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::Named;
use orcas_s3::range::copy_source_range;
use orcas_s3::support::{OF_A_PART_COPY, Understood};
use orcas_s3::xml::results;

pub struct UploadPartCopy {
    source: Source,
    bucket: Arc<Bucket>,
    key: Bytes,
    upload: UploadId,
    number: u16,
    /// `x-amz-copy-source-range`
    range: Option<Vec<u8>>,
    sent_key: Option<SentKey>,
    source_key: Option<SentKey>,
    is_sigv4: bool,
}

impl Operation for UploadPartCopy {
    const IN_PIECES: bool = true;
    const UNDERSTOOD: Understood = Understood { attributes: OF_A_PART_COPY, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let (number, upload) = part_address(&context.query)?;
        let source = Source::of_copy(context)?;
        let range = context.headers().get("x-amz-copy-source-range").map(<[u8]>::to_vec);
        let (sent_key, source_key) = (sent_key(context)?, sent_source_key(context)?);
        let is_sigv4 = context.is_sigv4();
        Ok(Self { source, bucket, key, upload, number, range, sent_key, source_key, is_sigv4 })
    }

    fn named(&self) -> Named<'_> {
        named_upload(&self.bucket, &self.key, self.upload)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        Ok(request.work_in_pieces(|request| async move { Self::copy_part(&request).await }))
    }
}

impl UploadPartCopy {
    /// Copies a part, whose digests may have to be computed from the source.
    async fn copy_part(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let UploadPartCopy { source, bucket, key, upload, number, range, sent_key, source_key, is_sigv4 } =
            &request.input;
        let (from, found) = source.find(&request.services.access)?;
        check_readable(&request.services.engine, &found.object.version, source_key.as_ref(), *is_sigv4)?;
        let size = found.object.version.size;
        let part = PartOf::Upload { bucket: bucket.id, key: key.clone(), upload: *upload, is_sigv4: *is_sigv4 };
        let own = sent_key.as_ref().map(SentKey::sealing).unwrap_or_default();
        let StoragePlan { sealing, shows_checksum, .. } =
            StoragePlan::of(&request.services.engine, Some(&part), own, None)?;
        let Pinned { source: version, shown } = source.pinned(&from, &found);
        let copying = CopyPartRequest {
            source: version,
            source_conditions: source.decided(SourceKind::Copy),
            range: range.as_ref().map(|value| copy_source_range(value, size)).transpose()?,
            bucket: bucket.id,
            key: key.clone(),
            upload: *upload,
            number: *number,
            keys: CopyKeys {
                source: source_key.as_ref().map(|sent| sent.key.clone()),
                copy: sealing.key,
                named: *is_sigv4,
            },
        };
        let Outcome::Part(put) = request.services.engine.copy_part(&copying).await? else {
            return Err(wrong_outcome());
        };
        let checksum = put.checksum.as_ref().filter(|_| shows_checksum);
        let document = results::copy_part(&Etag::simple(put.etag.md5), modified(&put), checksum);
        let mut headers = HeaderBlock::new();
        if let Some(shown) = shown {
            headers.set_copy_source_version_id(&shown);
        }
        show_stored(&request.services, put.encryption.as_ref(), sent_key.as_ref(), &mut headers);
        Ok(request.envelope.document(200, headers, document))
    }
}
