//! PutObjectAnnotation. The text is collected in memory, because it must be UTF-8 as a whole.

use std::sync::Arc;

use bytes::Bytes;

use crate::body_plan::BodyPlan;
use crate::conditions::precondition;
use crate::intake::{DeclaredBody, Digests};
use crate::problem::Problem;
use crate::reading::Reading;
use crate::request::{Call, Operation, Step, wrong_outcome};
use crate::response::Response;
use crate::versions::{VersionAddress, version_name};
use orcas_checksum::{Checksum, ObjectChecksum};
use orcas_decide::{Annotate, AnnotationChange, Body, Failure, Intent, Outcome, Refusal};
use orcas_s3::annotations::{TEXT_LEN_MAX, check_name, name_in, object_condition, written};
use orcas_s3::conditions::WriteCondition;
use orcas_s3::headers::uploaded;
use orcas_s3::support::{OF_AN_ANNOTATION, Understood};
use orcas_s3::{ErrorCode, Named, S3Error};

/// Bytes of the longest text in the record of its version: each change of an annotation writes that record anew.
const INLINE_MAX: usize = 64;
/// Times an object is looked up whose encryption keeps changing.
const ATTEMPTS_MAX: usize = 8;

pub struct PutObjectAnnotation {
    address: VersionAddress,
    name: Bytes,
    condition: WriteCondition,
}

impl Operation for PutObjectAnnotation {
    const UNDERSTOOD: Understood = Understood { version_id: true, attributes: OF_AN_ANNOTATION, ..Understood::NOTHING };

    fn parse(reading: &Reading<'_>) -> Result<Self, Problem> {
        let name = name_in(&reading.query);
        check_name(name)?;
        let name = Bytes::copy_from_slice(name);
        let condition = object_condition(reading.headers())?;
        Ok(Self { address: VersionAddress::parse(reading)?, name, condition })
    }

    fn body(&self, reading: &Reading<'_>) -> Result<BodyPlan, Problem> {
        let declared = DeclaredBody::parse(reading.headers(), reading.payload)?;
        let (size, limit) = (declared.length.to_string(), TEXT_LEN_MAX.to_string());
        match declared.length {
            0 => Err(S3Error::new(ErrorCode::EntityTooSmall).field("ProposedSize", size).into()),
            1..=TEXT_LEN_MAX => Ok(BodyPlan::Whole(Box::new(declared))),
            _ => {
                let error = S3Error::new(ErrorCode::EntityTooLarge).field("ProposedSize", size);
                Err(error.field("MaxSizeAllowed", limit).into())
            }
        }
    }

    fn take(call: &Arc<Call<Self>>, content: Bytes, digests: &Digests, slot: u32) -> Result<Step, Problem> {
        if std::str::from_utf8(&content).is_err() {
            return Err(ErrorCode::UnsupportedMediaType.into());
        }
        let engine = &call.lane.engine;
        let (md5, checksum) = (digests.md5, digests.stored);
        if engine.can_seal() {
            // Whether the object is encrypted has to be looked up.
            return Ok(call.later(slot, move |call| call.annotate(content, md5, checksum)));
        }
        let body = call.plain(content);
        Ok(call.submit(call.intent(md5, checksum, body), slot))
    }

    fn named(&self) -> Named<'_> {
        self.address.named()
    }

    fn detailed(&self, error: S3Error) -> S3Error {
        self.address.detailed(error)
    }

    fn answer(call: &Call<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Annotated { version, etag, checksum } = outcome else { return Err(wrong_outcome()) };
        let mut headers = uploaded(&etag, checksum.map(ObjectChecksum::full).as_ref(), false);
        if let Some(version) = version {
            headers.set_object_version_id(&version_name(version));
        }
        Ok(call.envelope.document(200, headers, written(&call.input.address.key, &call.input.name)))
    }
}

impl Call<PutObjectAnnotation> {
    fn plain(&self, content: Bytes) -> Body {
        let (engine, bucket) = (&self.lane.engine, &self.input.address.bucket);
        match content.len() {
            ..=INLINE_MAX => engine.small_body(bucket, content),
            // As for an append: a content, however small.
            _ => engine.appended_body(bucket, content),
        }
    }

    fn intent(&self, md5: [u8; 16], checksum: Option<Checksum>, body: Body) -> Intent {
        let PutObjectAnnotation { address, name, condition } = &self.input;
        Intent::Annotate(Box::new(Annotate {
            bucket: address.bucket.id,
            key: address.key.clone(),
            version: address.version_id(),
            name: name.clone(),
            if_match: precondition(condition).if_match,
            change: AnnotationChange::Put { md5, checksum, body },
        }))
    }

    /// Encrypts the text as its object is. Blocks.
    fn annotate(&self, content: Bytes, md5: [u8; 16], checksum: Option<Checksum>) -> Result<Response, Problem> {
        let (engine, address) = (&self.lane.engine, &self.input.address);
        for _ in 0..ATTEMPTS_MAX {
            let mut differs = false;
            let answer = address.find(&self.lane, &self.envelope, |found| {
                let body = match found.object.version.attributes.encryption {
                    None => self.plain(content.clone()),
                    Some(_) => engine.sealed_body(&address.bucket, &content)?,
                };
                let done = engine.execute_for(self.cause(), self.intent(md5, checksum, body));
                differs = matches!(done, Err(Failure::Refused(Refusal::EncryptionDiffers)));
                PutObjectAnnotation::answer(self, done?)
            });
            if !differs {
                return answer;
            }
        }
        Err(Refusal::EncryptionDiffers.into())
    }
}
