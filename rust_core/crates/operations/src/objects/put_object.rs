//! PutObject.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::attributes::{check_vouched, sent_attributes};
use crate::resources::conditions::{check_early, precondition};
use crate::resources::encryption::{Chosen, SentKey, asked_encryption, chosen_encryption, show_stored};
use crate::resources::expiration::{Expiring, show_expiration};
use crate::resources::metadata::stored;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{self as decide, Body, Intent, Outcome, Refusal};
use orcas_engine::{Addition, Handle};
use orcas_record::{Attributes, Bucket, ObjectHeaders};
use orcas_requests::body_plan::BodyPlan;
use orcas_requests::request::{Operation, Prepared, TypedRequest, Upload, wrong_outcome};
use orcas_requests::services::Services;
use orcas_requests::storage_plan::PartOf;
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::Named;
use orcas_s3::conditions::WriteCondition;
use orcas_s3::headers::uploaded;
use orcas_s3::metadata::{ObjectHeaders as Sent, write_offset};
use orcas_s3::replicas::{OF_A_PUT, replica_time_ms};
use orcas_s3::support::{OF_AN_OBJECT, Understood};
use orcas_s3::versions::version_name;
use orcas_s3::{ErrorCode, S3Error};
use orcas_store::Sealing;

pub struct PutObject {
    pub(super) bucket: Arc<Bucket>,
    pub(super) key: Bytes,
    pub(super) condition: WriteCondition,
    pub(super) headers: ObjectHeaders,
    /// The attributes without the encryption, which comes with the body.
    pub(super) attributes: Attributes,
    pub(super) chosen: Chosen,
    /// `x-amz-write-offset-bytes`: the body is added at the end of the object, which has this size, in bytes.
    pub(super) offset: Option<u64>,
    /// The time of a replica.
    pub(super) modified_ms: Option<u64>,
    /// The request is signed with version 4.
    pub(super) is_sigv4: bool,
}

/// The headers that say what was stored.
pub(super) fn stored_headers(services: &Services, put: &decide::Put, key: Option<&SentKey>) -> HeaderBlock {
    let mut headers = uploaded(&put.etag, put.checksum.as_ref(), false);
    if let Some(version) = put.version_id {
        headers.set_version_id(&version_name(version));
    }
    show_stored(services, put.encryption.as_ref(), key, &mut headers);
    headers
}

/// Refuses an object append at another place than the end, before its body is sent. The engine checks the offset again.
fn check_offset(context: &RequestContext<'_>, bucket: &Bucket, key: &Bytes, offset: u64) -> Result<(), Problem> {
    let Some(found) = context.access.engine.try_object_in(bucket, key) else { return Ok(()) };
    let size = found.map_or(0, |found| found.object.version.size);
    if offset == size { Ok(()) } else { Err(Refusal::InvalidWriteOffset { size }.into()) }
}

impl PutObject {
    pub(super) fn expiring(&self, put: &decide::Put) -> Expiring<'_> {
        let (bucket, key, tags) = (self.bucket.id, &self.key[..], &self.attributes.tags[..]);
        Expiring { bucket, key, size: put.size, modified_ms: put.modified_ms, tags }
    }
}

impl Operation for PutObject {
    const UNDERSTOOD: Understood = Understood { attributes: OF_AN_OBJECT, extensions: OF_A_PUT, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let condition = WriteCondition::of_write(context.headers())?;
        check_early(&context.access.engine, &condition, &bucket, &key)?;
        let headers = stored(Sent::parse(context.headers())?);
        let attributes = sent_attributes(context, &bucket)?;
        let offset = write_offset(context.headers())?;
        // What is appended to an object is encrypted as the object is; only one that begins has the default of its bucket.
        let chosen = match offset {
            None | Some(0) => chosen_encryption(context, bucket.id)?,
            Some(_) => asked_encryption(context)?,
        };
        if let Some(offset) = offset {
            check_offset(context, &bucket, &key, offset)?;
            if chosen.key.is_some() {
                let message = "What is appended cannot be encrypted with a customer provided key.";
                return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
            }
        }
        let (modified_ms, is_sigv4) = (replica_time_ms(context.headers())?, context.is_sigv4());
        Ok(Self { bucket, key, condition, headers, attributes, chosen, offset, modified_ms, is_sigv4 })
    }

    fn body(&self, context: &RequestContext<'_>) -> Result<BodyPlan, Problem> {
        let plan = BodyPlan::of_content(context, self.bucket.settings.keep_sha256)?;
        if let BodyPlan::Whole(declared) | BodyPlan::Stream(declared) = &plan {
            check_vouched(&self.attributes, &self.bucket, declared)?;
            if self.offset.is_some() && declared.length == 0 {
                let message = "Request body cannot be empty when 'write offset' is specified.";
                return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
            }
        }
        Ok(plan)
    }

    fn upload(&self) -> Option<&dyn Upload> {
        Some(self)
    }

    fn named(&self) -> Named<'_> {
        Named { bucket: Some(&self.bucket.name), key: Some(&self.key), upload: None }
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Put(put) = outcome else { return Err(wrong_outcome()) };
        let mut headers = stored_headers(&request.services, &put, request.input.chosen.key.as_ref());
        if request.input.offset.is_some() {
            headers.push_number("x-amz-object-size", put.size);
        }
        show_expiration(&request.services.engine, &mut headers, || request.input.expiring(&put));
        Ok(request.succeeded(headers))
    }
}

impl Upload for PutObject {
    fn bucket(&self) -> &Arc<Bucket> {
        &self.bucket
    }

    fn intent(&self, engine: &Handle, size: u64, digests: &Digests, body: Body, sealing: &Sealing) -> Prepared {
        let Digests { md5, sha256, stored: checksum, declared } = *digests;
        let put = decide::PutObject {
            bucket: self.bucket.id,
            key: self.key.clone(),
            modified_ms: self.modified_ms,
            precondition: precondition(&self.condition),
            size,
            md5,
            sha256,
            checksum,
            headers: engine.content().sealed_headers(&self.bucket, sealing, self.headers.clone())?,
            attributes: Attributes { encryption: sealing.encryption.clone(), ..self.attributes.clone() },
            body,
        };
        Ok(match self.offset {
            None => Intent::PutObject(Box::new(put)),
            Some(offset) => {
                let declared = declared.map(|checksum| checksum.algorithm());
                let user_metadata = !self.headers.user.is_empty();
                Intent::AppendObject(Box::new(decide::ObjectAppend { put, offset, user_metadata, declared }))
            }
        })
    }

    fn adds(&self) -> Addition {
        self.offset.map_or_else(|| Addition::Object(self.key.clone()), |_| Addition::End)
    }

    fn plain_body(&self, engine: &Handle, content: Bytes) -> Body {
        match self.offset {
            None => engine.content().small_body(&self.bucket, content),
            Some(_) => engine.content().appended_body(&self.bucket, content),
        }
    }

    fn sealing(&self) -> Sealing {
        self.chosen.sealing()
    }

    fn part_of(&self) -> Option<PartOf> {
        self.offset.map(|_| PartOf::Object {
            bucket: Arc::clone(&self.bucket),
            key: self.key.clone(),
            asked: self.chosen.asked,
            is_sigv4: self.is_sigv4,
        })
    }
}
