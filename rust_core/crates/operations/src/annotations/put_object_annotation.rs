//! PutObjectAnnotation. The text is collected in memory, because it must be UTF-8 as a whole.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::annotation::AnnotationAddress;
use crate::resources::encryption::check_readable;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::{DeclaredBody, Digests};
use orcas_bodies::problem::Problem;
use orcas_checksum::{Checksum, ObjectChecksum};
use orcas_decide::{AnnotationChange, Body, Failure, Outcome, Refusal};
use orcas_record::Encryption;
use orcas_requests::body_plan::BodyPlan;
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::Response;
use orcas_s3::annotations::{TEXT_LEN_MAX, written};
use orcas_s3::headers::uploaded;
use orcas_s3::support::{OF_AN_ANNOTATION, Understood};
use orcas_s3::versions::version_name;
use orcas_s3::{ErrorCode, Named, S3Error};
use orcas_store::Sealing;

/// Bytes of the longest text in the record of its version: each change of an annotation writes that record anew.
const INLINE_MAX: usize = 64;
/// Times an object is looked up whose encryption keeps changing.
const ATTEMPTS_MAX: usize = 8;

/// An annotation's text, its MD5 and its checksum.
type Text = (Bytes, [u8; 16], Option<Checksum>);

pub struct PutObjectAnnotation {
    annotation: AnnotationAddress,
    /// The request is signed with version 4.
    is_sigv4: bool,
}

impl Operation for PutObjectAnnotation {
    const UNDERSTOOD: Understood = Understood { version_id: true, attributes: OF_AN_ANNOTATION, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self { annotation: AnnotationAddress::parse(context)?, is_sigv4: context.is_sigv4() })
    }

    fn body(&self, context: &RequestContext<'_>) -> Result<BodyPlan, Problem> {
        let declared = DeclaredBody::parse(context.headers(), context.payload)?;
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

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, digests: &Digests) -> Result<Progress, Problem> {
        if std::str::from_utf8(&content).is_err() {
            return Err(ErrorCode::UnsupportedMediaType.into());
        }
        let engine = &request.services.engine;
        let (md5, checksum) = (digests.md5, digests.stored);
        if engine.keys().can_seal() {
            // Whether the object is encrypted has to be looked up.
            return request.on_worker(move |request| Self::annotate(request, (content, md5, checksum), ATTEMPTS_MAX));
        }
        let change =
            AnnotationChange::Put { md5, checksum, body: Box::new(Self::plain(request, content)), encryption: None };
        Ok(request.submit(request.input.annotation.intent(change)))
    }

    fn named(&self) -> Named<'_> {
        self.annotation.version.named()
    }

    fn detailed(&self, error: S3Error) -> S3Error {
        self.annotation.version.detailed(error)
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Annotated { version, etag, checksum } = outcome else { return Err(wrong_outcome()) };
        let mut headers = uploaded(&etag, checksum.map(ObjectChecksum::full).as_ref(), false);
        if let Some(version) = version {
            headers.set_object_version_id(&version_name(version));
        }
        let annotation = &request.input.annotation;
        Ok(request.envelope.document(200, headers, written(&annotation.version.key, &annotation.name)))
    }
}

impl PutObjectAnnotation {
    fn plain(request: &TypedRequest<Self>, content: Bytes) -> Body {
        let (engine, bucket) = (&request.services.engine, &request.input.annotation.version.bucket);
        match content.len() {
            ..=INLINE_MAX => engine.content().small_body(bucket, content),
            // As for an append: a content, however small.
            _ => engine.content().appended_body(bucket, content),
        }
    }

    /// Encrypts the text as its object is, which has to be looked up: blocks. At most so many times.
    fn annotate(request: &Arc<TypedRequest<Self>>, text: Text, attempts: usize) -> Result<Progress, Problem> {
        let (engine, annotation) = (&request.services.engine, &request.input.annotation);
        annotation.version.find(&request.services.engine, &request.envelope, |found| {
            let encryption = found.object.version.attributes.encryption.clone();
            if let Some(Encryption::Customer(_)) = encryption {
                let message = "An object that is encrypted with a customer provided key takes no annotations.";
                return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
            }
            check_readable(&request.services.engine, &found.object.version, None, request.input.is_sigv4)?;
            let (content, md5, checksum) = &text;
            let md5 = engine.keys().hidden_md5(encryption.as_ref())?.unwrap_or(*md5);
            let sealing = Sealing::from(encryption.clone());
            let body = match encryption {
                None => Self::plain(request, content.clone()),
                Some(_) => engine.content().sealed_body(&annotation.version.bucket, &sealing, content)?,
            };
            let change = AnnotationChange::Put { md5, checksum: *checksum, body: Box::new(body), encryption };
            Ok(request.submit_then(annotation.intent(change), move |request, decision| match decision {
                Err(Failure::Refused(Refusal::EncryptionDiffers)) if attempts > 1 => {
                    Self::annotate(request, text, attempts - 1)
                }
                decision => PutObjectAnnotation::answer(request, decision?).map(Progress::from),
            }))
        })
    }
}
