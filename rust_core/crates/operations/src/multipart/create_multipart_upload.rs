//! CreateMultipartUpload.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::attributes::sent_attributes;
use crate::resources::encryption::{Chosen, chosen_encryption, show_stored};
use crate::resources::expiration::show_abort;
use crate::resources::metadata::stored;
use crate::resources::pages::shown_name;
use crate::resources::upload_ids::upload_id_text;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_decide::{Intent, Outcome};
use orcas_record::{Attributes, Bucket, ObjectHeaders};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::checksums::UploadChecksum;
use orcas_s3::metadata::ObjectHeaders as Sent;
use orcas_s3::support::{OF_AN_OBJECT, Understood};
use orcas_s3::xml::results;

pub struct CreateMultipartUpload {
    bucket: Arc<Bucket>,
    key: Bytes,
    headers: ObjectHeaders,
    attributes: Attributes,
    chosen: Chosen,
    checksum: Option<UploadChecksum>,
}

impl CreateMultipartUpload {
    /// May wait for the data key of the owner of the bucket.
    fn create(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let CreateMultipartUpload { bucket, key, headers, attributes, chosen, checksum } = &request.input;
        let headers = request.services.engine.content().sealed_headers(bucket, &chosen.sealing(), headers.clone())?;
        let intent = Intent::CreateUpload {
            bucket: bucket.id,
            key: key.clone(),
            headers: Box::new(headers),
            attributes: attributes.clone(),
            checksum: checksum.map(|chosen| (chosen.algorithm, chosen.kind)),
        };
        Ok(request.submit(intent))
    }
}

impl Operation for CreateMultipartUpload {
    const UNDERSTOOD: Understood = Understood { attributes: OF_AN_OBJECT, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let headers = stored(Sent::parse(context.headers())?);
        let chosen = chosen_encryption(context, bucket.id)?;
        let attributes = Attributes { encryption: chosen.encryption.clone(), ..sent_attributes(context, &bucket)? };
        Ok(Self { bucket, key, headers, attributes, chosen, checksum: UploadChecksum::parse(context.headers())? })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let Self { bucket, headers, chosen, .. } = &request.input;
        let seals = chosen.encryption.is_some() && headers.has_unsealed();
        if seals && !request.services.engine.keys().can_seal_at_once(bucket, &chosen.sealing()) {
            return request.on_worker(Self::create);
        }
        Self::create(request)
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Upload(id) = outcome else { return Err(wrong_outcome()) };
        let Self { bucket, key, chosen: encrypted, checksum, .. } = &request.input;
        let mut headers = HeaderBlock::new();
        if let Some(chosen) = checksum {
            headers.push("x-amz-checksum-algorithm", chosen.algorithm.name().as_bytes());
            headers.push("x-amz-checksum-type", chosen.kind.name().as_bytes());
        }
        show_stored(&request.services, encrypted.encryption.as_ref(), encrypted.key.as_ref(), &mut headers);
        show_abort(&request.services.engine, &mut headers, bucket.id, key, id);
        let document =
            results::initiate_multipart_upload(shown_name(bucket, &request.requester), key, &upload_id_text(id));
        Ok(request.envelope.document(200, headers, document))
    }
}
