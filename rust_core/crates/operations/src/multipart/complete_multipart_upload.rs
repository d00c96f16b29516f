//! CompleteMultipartUpload: its body lists the parts.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::resources::conditions::precondition;
use crate::resources::encryption::{SentKey, sent_key, show_stored};
use crate::resources::expiration::{Expiring, show_expiration};
use crate::resources::pages::shown_name;
use crate::resources::upload_ids::{named_upload, upload_id};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::{DeclaredBody, Digests};
use orcas_bodies::problem::Problem;
use orcas_checksum::{Checksum, ObjectChecksum};
use orcas_decide::{Complete, CompletePart, Intent, Outcome};
use orcas_http::hex;
use orcas_record::{Bucket, UploadId, VersionId};
use orcas_requests::body_plan::BodyPlan;
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_requests::storage_plan::check_upload_key;
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::checksums::CompleteChecksum;
use orcas_s3::conditions::WriteCondition;
use orcas_s3::extensions::OF_A_COMPLETION;
use orcas_s3::metadata::multipart_object_size;
use orcas_s3::replicas::replica_time_ms;
use orcas_s3::support::{OF_A_PART, Understood};
use orcas_s3::versions::version_name;
use orcas_s3::xml::{requests, results};
use orcas_s3::{ErrorCode, Named, S3Error};

pub struct CompleteMultipartUpload {
    bucket: Arc<Bucket>,
    key: Bytes,
    upload: UploadId,
    condition: WriteCondition,
    checksum: CompleteChecksum,
    /// Bytes of the whole object as the client expects it.
    size: Option<u64>,
    /// The time of a replica.
    modified_ms: Option<u64>,
    /// The address under which the client knows the object.
    location: String,
    /// Numbers and MD5s of the parts, once the list is read.
    listed: OnceLock<Vec<(u16, [u8; 16])>>,
    sent_key: Option<SentKey>,
    is_sigv4: bool,
}

impl Operation for CompleteMultipartUpload {
    const UNDERSTOOD: Understood =
        Understood { attributes: OF_A_PART, extensions: OF_A_COMPLETION, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let headers = context.headers();
        let host = String::from_utf8_lossy(headers.get("host").unwrap_or_default());
        Ok(Self {
            location: format!("{}://{host}{}", context.ingress.scheme(), String::from_utf8_lossy(context.head.path)),
            bucket,
            key,
            upload: upload_id(&context.query)?,
            condition: WriteCondition::of_write(headers)?,
            checksum: CompleteChecksum::parse(headers)?,
            size: multipart_object_size(headers)?,
            modified_ms: replica_time_ms(headers)?,
            listed: OnceLock::new(),
            sent_key: sent_key(context)?,
            is_sigv4: context.is_sigv4(),
        })
    }

    fn body(&self, context: &RequestContext<'_>) -> Result<BodyPlan, Problem> {
        BodyPlan::document(DeclaredBody::of_part_list(context.headers(), context.payload)?)
    }

    fn named(&self) -> Named<'_> {
        named_upload(&self.bucket, &self.key, self.upload)
    }

    /// The entity tag that the list has for the part that the error is about.
    fn detailed(&self, error: S3Error) -> S3Error {
        let number = error.extra.iter().find(|(name, _)| *name == "PartNumber");
        let number = number.and_then(|(_, number)| std::str::from_utf8(number).ok()?.parse::<u16>().ok());
        let listed = self.listed.get().zip(number);
        match listed.and_then(|(parts, number)| parts.iter().find(|(listed, _)| *listed == number)) {
            Some((_, etag)) => error.field("ETag", hex(etag)),
            None => error,
        }
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        let intent = request.read_document(|| request.input.intent(&content))?;
        // Without a keyring, no upload has a key.
        if !request.services.engine.keys().can_seal() {
            return Ok(request.submit(intent));
        }
        request.on_worker(move |request| {
            Self::check_key(request)?;
            Ok(request.submit(intent))
        })
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Completed(completed, encryption) = outcome else { return Err(wrong_outcome()) };
        let Self { bucket, key, location, .. } = &request.input;
        let (etag, checksum) = (&completed.etag, completed.checksum.as_ref());
        let document =
            results::complete_multipart_upload(location, shown_name(bucket, &request.requester), key, etag, checksum);
        let mut headers = HeaderBlock::new();
        if completed.version_id != VersionId::Null {
            headers.set_version_id(&version_name(completed.version_id));
        }
        show_stored(&request.services, encryption.as_ref(), None, &mut headers);
        if request.services.engine.has_lifecycle_rules()
            // In memory, because it was just stored, unless somebody has replaced it already.
            && let Some(Some(found)) = request.services.engine.try_object_in(bucket, key)
            && found.object.version.version_id == completed.version_id
            && found.object.version.etag == completed.etag
        {
            show_expiration(&request.services.engine, &mut headers, || Expiring::of(bucket.id, &found.object.version));
        }
        Ok(request.envelope.document(200, headers, document))
    }
}

impl CompleteMultipartUpload {
    /// Compares the key with that of the parts, which blocks.
    fn check_key(request: &TypedRequest<Self>) -> Result<(), Problem> {
        let (engine, input) = (&request.services.engine, &request.input);
        // One that was completed before is answered as then.
        if let Some(upload) = engine.upload(input.bucket.id, &input.key, input.upload)? {
            check_upload_key(engine, &upload, input.sent_key.as_ref().map(SentKey::sealing), input.is_sigv4)?;
        }
        Ok(())
    }
}

impl CompleteMultipartUpload {
    /// `document` is the list of parts.
    fn intent(&self, document: &[u8]) -> Result<Intent, Problem> {
        let mut parts = Vec::new();
        for part in requests::complete_multipart_upload(document)? {
            let WriteCondition::Matches(etag) = part.etag else { return Err(invalid_part(part.number).into()) };
            if etag.parts != 0 {
                return Err(invalid_part(part.number).into());
            }
            parts.push(CompletePart { number: part.number, md5: etag.md5, checksum: part.checksum });
        }
        let listed = parts.iter().map(|part| (part.number, part.md5)).collect();
        self.listed.set(listed).map_err(|_| Problem::internal("a list of parts was read twice"))?;
        let expected =
            |(checksum, count): (Checksum, Option<u16>)| ObjectChecksum { checksum, parts: count.unwrap_or(0) };
        Ok(Intent::CompleteUpload(Box::new(Complete {
            bucket: self.bucket.id,
            key: self.key.clone(),
            upload: self.upload,
            parts,
            checksum_type: self.checksum.kind,
            checksum: self.checksum.value.map(expected),
            size: self.size,
            modified_ms: self.modified_ms,
            precondition: precondition(&self.condition),
        })))
    }
}

fn invalid_part(number: u16) -> S3Error {
    S3Error::new(ErrorCode::InvalidPart).field("PartNumber", number.to_string())
}
