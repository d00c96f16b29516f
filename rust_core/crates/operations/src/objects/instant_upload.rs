//! InstantUpload, an extension: an object made of bytes that the bucket's owner has stored already, named by their
//! SHA-256. The client proves that it has them by answering a challenge; the server copies no bytes.
//!
//! Only within one owner's scope and for whom its policies allow `orcas:InstantUpload`, so that nobody else learns what is
//! stored. If the request is valid but cannot be served
//! this way, the answer is `send`, and the client uploads the content as usual.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::attributes::sent_attributes;
use crate::resources::conditions::{check_early, precondition};
use crate::resources::encryption::{chosen_encryption, show_stored};
use crate::resources::metadata::stored;
use orcas_admission::ingress::now_ms;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::refuse_body;
use orcas_bodies::problem::Problem;
use orcas_catalog::PinnedObject;
use orcas_checksum::{Checksum, ChecksumAlgorithm};
use orcas_decide::{
    Copy, CopyAttributes, CopyHeaders, Failure, Intent, Outcome, Refusal, SourceConditions, SourceKind,
};
use orcas_engine::Handle;
use orcas_http::{Headers, hex, parse_hex};
use orcas_record::{Attributes, Bucket, Encryption, Object, ObjectHeaders, RefLevel, Version};
use orcas_requests::challenge::{Challenge, Claim, Rejected};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_requests::services::Services;
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::conditions::WriteCondition;
use orcas_s3::extensions::{
    INSTANT_ANSWER, INSTANT_CHALLENGE, INSTANT_SHA256, INSTANT_SIZE, OF_AN_INSTANT_UPLOAD, single,
};
use orcas_s3::headers::uploaded;
use orcas_s3::metadata::{ObjectHeaders as Sent, UPLOAD_LEN_MAX};
use orcas_s3::replicas::replica_time_ms;
use orcas_s3::support::{OF_AN_OBJECT, Understood};
use orcas_s3::versions::version_name;
use orcas_s3::xml::results;
use orcas_s3::{ErrorCode, S3Error};
use orcas_store::Sealing;

/// The action of whoever may learn that its account has stored the content it names, in any bucket. It is decided before
/// anything is looked up, so neither the answer nor its time tells others.
const FIND_CONTENT: &str = "orcas:InstantUpload";

/// Times another source is looked for when one goes away while it is copied.
const ATTEMPTS_MAX: usize = 4;

pub struct InstantUpload {
    bucket: Arc<Bucket>,
    key: Bytes,
    condition: WriteCondition,
    headers: ObjectHeaders,
    attributes: Attributes,
    /// The caller's account owns the bucket, and the caller may ask what that account has stored.
    may_ask: bool,
    /// Bytes.
    size: u64,
    sha256: [u8; 32],
    /// The time of a replica.
    modified_ms: Option<u64>,
    proof: Option<Proof>,
}

/// An answered challenge, as sent.
struct Proof {
    token: Vec<u8>,
    answer: Vec<u8>,
}

impl Operation for InstantUpload {
    const UNDERSTOOD: Understood =
        Understood { extensions: OF_AN_INSTANT_UPLOAD, attributes: OF_AN_OBJECT, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let upload = Self::read(context, bucket, key)?;
        check_early(&context.access.engine, &upload.condition, &upload.bucket, &upload.key)?;
        Ok(upload)
    }

    /// Begins on a worker: what is stored has to be looked up and read.
    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(move |request| match &request.input.proof {
            _ if !request.input.offered(&request.services) => Ok(Self::send(request).into()),
            Some(proof) => Self::prove(request, proof),
            None => Self::challenge(request).map(Progress::from),
        })
    }

    /// Answers as PutObject does.
    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        let Outcome::Put(put) = outcome else { return Err(wrong_outcome()) };
        let mut headers = uploaded(&put.etag, put.checksum.as_ref(), false);
        if let Some(version) = put.version_id {
            headers.set_version_id(&version_name(version));
        }
        show_stored(&request.services, put.encryption.as_ref(), None, &mut headers);
        Ok(request.succeeded(headers))
    }
}

impl InstantUpload {
    fn read(context: &RequestContext<'_>, bucket: Arc<Bucket>, key: Bytes) -> Result<Self, Problem> {
        let (headers, caller) = (context.headers(), &context.requester.owner);
        refuse_body(headers, "An instant upload has no body")?;
        refuse_digests(headers)?;
        let proof = match (single(headers, INSTANT_CHALLENGE)?, single(headers, INSTANT_ANSWER)?) {
            (Some(token), Some(answer)) => Some(Proof { token: token.to_vec(), answer: answer.to_vec() }),
            (None, None) => None,
            _ => {
                let message = "The challenge and its answer must be sent together";
                return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
            }
        };
        let encryption = chosen_encryption(context, bucket.id)?.encryption;
        Ok(Self {
            attributes: Attributes { encryption, ..sent_attributes(context, &bucket)? },
            may_ask: bucket.owner == caller.as_bytes() && context.is_allowed(FIND_CONTENT),
            bucket,
            key,
            condition: WriteCondition::of_write(headers)?,
            headers: stored(Sent::parse(headers)?),
            size: size(headers)?,
            sha256: sha256(headers)?,
            modified_ms: replica_time_ms(headers)?,
            proof,
        })
    }

    /// Whether content of earlier uploads may stand for this one.
    fn offered(&self, services: &Services) -> bool {
        self.may_ask
            && services.access.options.instant_upload_enabled
            && self.bucket.settings.ref_level != Some(RefLevel::Off)
    }

    fn source(&self, engine: &Handle) -> Result<Option<PinnedObject>, Problem> {
        let source = engine.instant_source(&self.bucket.owner, &self.sha256, self.size)?;
        let is_it = |found: &PinnedObject| {
            let version = &found.object.version;
            // What is to be encrypted is not made of what is not, or not with that key.
            let encrypted = match &self.attributes.encryption {
                None => true,
                asked => Encryption::shares(asked.as_ref(), version.attributes.encryption.as_ref()),
            };
            encrypted && version.size == self.size && version.sha256 == Some(self.sha256)
        };
        Ok(source.filter(is_it))
    }

    fn claim(&self) -> Claim<'_> {
        Claim {
            owner: &self.bucket.owner,
            bucket: self.bucket.id,
            key: &self.key,
            size: self.size,
            sha256: &self.sha256,
        }
    }

    fn copy_attributes(&self, encryption: Option<Encryption>) -> CopyAttributes {
        let Attributes { tags, retention, legal_hold, acl, .. } = self.attributes.clone();
        CopyAttributes { annotations: false, tags: Some(tags), retention, legal_hold, encryption, acl }
    }

    fn copy(&self, engine: &Handle, source: &Object) -> Result<Intent, Problem> {
        // Its content is encrypted as it is, whether or not that was asked for.
        let encryption = self.attributes.encryption.clone().or_else(|| source.version.attributes.encryption.clone());
        let sealing = Sealing::from(encryption.clone());
        let headers = engine.content().sealed_headers(&self.bucket, &sealing, self.headers.clone())?;
        let checksum = Checksum::from_bytes(ChecksumAlgorithm::Sha256, &self.sha256);
        Ok(Intent::CopyObject(Box::new(Copy {
            source: (source.version.bucket, source.version.key.clone(), Some(source.version.version_id)),
            source_conditions: SourceConditions { kind: SourceKind::Found, ..SourceConditions::default() },
            bucket: self.bucket.id,
            key: self.key.clone(),
            modified_ms: self.modified_ms,
            precondition: precondition(&self.condition),
            headers: CopyHeaders::Replace(Box::new(headers)),
            attributes: self.copy_attributes(encryption),
            // The sequence ties the source to what was looked up and read.
            checksum: checksum.map(|checksum| (source.sequence, checksum)),
        })))
    }
}

fn size(headers: &Headers<'_>) -> Result<u64, S3Error> {
    let value = single(headers, INSTANT_SIZE)?.ok_or_else(|| missing(INSTANT_SIZE))?;
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    match digits.and_then(|text| text.parse().ok()) {
        Some(size) if size <= UPLOAD_LEN_MAX => Ok(size),
        Some(_) => Err(S3Error::new(ErrorCode::EntityTooLarge).field("ProposedSize", value)),
        None => Err(S3Error::argument("The size is not a number of bytes", INSTANT_SIZE, value)),
    }
}

fn sha256(headers: &Headers<'_>) -> Result<[u8; 32], S3Error> {
    let value = single(headers, INSTANT_SHA256)?.ok_or_else(|| missing(INSTANT_SHA256))?;
    parse_hex(value).ok_or_else(|| S3Error::argument("A SHA-256 has 64 hexadecimal digits", INSTANT_SHA256, value))
}

fn missing(name: &'static str) -> S3Error {
    S3Error::argument("An instant upload needs the size and the SHA-256 of its content", name, b"")
}

/// Refuses digests that would have to be compared with bytes.
fn refuse_digests(headers: &Headers<'_>) -> Result<(), S3Error> {
    let digest = headers.iter().find(|(name, _)| {
        name.starts_with(b"x-amz-checksum-")
            || matches!(*name, b"content-md5" | b"x-amz-sdk-checksum-algorithm" | b"x-amz-trailer")
    });
    match digest {
        Some((name, _)) => {
            let name = String::from_utf8_lossy(name);
            let message = format!("An instant upload names its content by {INSTANT_SHA256}, not by {name}");
            Err(S3Error::with(ErrorCode::InvalidRequest, message))
        }
        None => Ok(()),
    }
}

fn denied(message: &'static str) -> Problem {
    S3Error::with(ErrorCode::AccessDenied, message).into()
}

fn wrong_answer() -> Problem {
    denied("The answer to the challenge is wrong.")
}

impl InstantUpload {
    fn send(request: &TypedRequest<Self>) -> Response {
        request.envelope.document(200, HeaderBlock::new(), results::instant_send())
    }

    fn challenge(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let upload = &request.input;
        if upload.source(&request.services.engine)?.is_none() {
            return Ok(Self::send(request));
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| Problem::internal(error.to_string()))?;
        let challenge = request.services.challenger.issue(&upload.claim(), now_ms(), &random);
        let document = results::instant_challenge(&challenge.token, &hex(&challenge.nonce), &challenge.ranges);
        Ok(request.envelope.document(200, HeaderBlock::new(), document))
    }

    /// Checks the token before anything stored is looked at, then the answer, then submits the copy.
    fn prove(request: &Arc<TypedRequest<Self>>, proof: &Proof) -> Result<Progress, Problem> {
        let challenge = request.services.challenger.open(&proof.token, &request.input.claim(), now_ms());
        let challenge = challenge.map_err(|rejected| match rejected {
            Rejected::Foreign => denied("The challenge was not issued by this server for this upload."),
            Rejected::Expired => denied("The challenge has expired."),
        })?;
        let given = parse_hex(&proof.answer).ok_or_else(wrong_answer)?;
        Self::copy_source(request, (challenge, given), ATTEMPTS_MAX)
    }

    /// Looks for a source that has the answer, at most so many times.
    fn copy_source(
        request: &Arc<TypedRequest<Self>>,
        (challenge, given): (Challenge, [u8; 32]),
        attempts: usize,
    ) -> Result<Progress, Problem> {
        let (engine, upload) = (&request.services.engine, &request.input);
        for left in (0..attempts).rev() {
            let Some(source) = upload.source(engine)? else { break };
            match Self::is_answer(request, &challenge, &source, &given) {
                Ok(true) => {}
                Ok(false) => return Err(wrong_answer()),
                // Its bytes may have gone with it.
                Err(_) if !Self::stands(request, &source.object)? => continue,
                Err(problem) => return Err(problem),
            }
            let copy = upload.copy(engine, &source.object)?;
            return Ok(request.submit_then(copy, move |request, decision| match decision {
                Err(Failure::Refused(Refusal::SourceChanged)) => Self::copy_source(request, (challenge, given), left),
                // Of the source, which has gone, or of the destination?
                Err(Failure::Refused(Refusal::NoSuchKey | Refusal::NoSuchVersion | Refusal::NoSuchBucket))
                    if !Self::stands(request, &source.object)? =>
                {
                    Self::copy_source(request, (challenge, given), left)
                }
                decision => InstantUpload::answer(request, decision?).map(Progress::from),
            }));
        }
        Ok(Self::send(request).into())
    }

    fn is_answer(
        request: &TypedRequest<Self>,
        challenge: &Challenge,
        source: &PinnedObject,
        given: &[u8; 32],
    ) -> Result<bool, Problem> {
        let mut answer = challenge.answer();
        for (first, last) in &challenge.ranges {
            let mut reader = request.services.engine.content().reader(source, *first, *last);
            let mut bytes = vec![0; (last - first + 1) as usize];
            let mut at = 0;
            while at < bytes.len() {
                match reader.read(&mut bytes[at..])? {
                    0 => return Err(Problem::internal("an object is shorter than its record says")),
                    read => at += read,
                }
            }
            answer.update(&bytes);
        }
        Ok(answer.is(given))
    }

    fn stands(request: &TypedRequest<Self>, source: &Object) -> Result<bool, Problem> {
        let Version { bucket, key, version_id, .. } = &source.version;
        let found = request.services.engine.version(*bucket, key, *version_id)?;
        Ok(found.is_some_and(|found| found.object.sequence == source.sequence))
    }
}
