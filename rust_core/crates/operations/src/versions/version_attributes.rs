//! The operations that read or change the tags, the retention or the legal hold of a version. They differ in the
//! document.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::attributes::{shown_retention, stored_retention, stored_tags};
use crate::resources::versions::{VersionAddress, updated};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::intake::Digests;
use orcas_bodies::problem::Problem;
use orcas_decide::{AttributeChange, Intent, Outcome, Refusal, UpdateVersion, check_object_lock};
use orcas_record::Attributes;
use orcas_requests::after_body::AskedByBody;
use orcas_requests::request::{Operation, Progress, Request as _, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::object_lock::{self, bypasses_governance};
use orcas_s3::support::{OF_A_LOCK, Understood};
use orcas_s3::{ErrorCode, Named, Operation as Name, S3Error, tags};

/// GetObjectTagging, GetObjectRetention and GetObjectLegalHold.
pub struct ReadAttribute(VersionAddress);

impl Operation for ReadAttribute {
    const UNDERSTOOD: Understood = Understood { version_id: true, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        VersionAddress::parse(context).map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        request.on_worker(|request| Self::read_attribute(request))
    }
}

impl ReadAttribute {
    fn read_attribute(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let address = &request.input.0;
        let of_lock = request.operation() != Name::GetObjectTagging;
        if of_lock {
            check_object_lock(&address.bucket)?;
        }
        address.find(&request.services.engine, &request.envelope, |found| {
            let version = &found.object.version;
            let document = document(request.operation(), &version.attributes)?;
            let mut headers = HeaderBlock::new();
            if let Some(shown) = address.shown(version) {
                headers.set_version_id(&shown);
            }
            Ok(request.envelope.document(200, headers, document))
        })
    }
}

fn document(operation: Name, attributes: &Attributes) -> Result<Vec<u8>, S3Error> {
    let document = match operation {
        Name::GetObjectTagging => {
            let tags = attributes.tags.iter().map(|(key, value)| (&key[..], &value[..]));
            Some(tags::write_document(tags))
        }
        Name::GetObjectRetention => {
            attributes.retention.map(|retention| object_lock::write_retention(&shown_retention(retention)))
        }
        Name::GetObjectLegalHold => attributes.legal_hold.map(object_lock::write_legal_hold),
        other => return Err(other.not_implemented()),
    };
    document.ok_or_else(|| ErrorCode::NoSuchObjectLockConfiguration.into())
}

/// PutObjectTagging, DeleteObjectTagging, PutObjectRetention and PutObjectLegalHold.
pub struct ChangeAttribute {
    address: VersionAddress,
    /// `x-amz-bypass-governance-retention`
    bypass: bool,
}

impl Operation for ChangeAttribute {
    const UNDERSTOOD: Understood = Understood { version_id: true, attributes: OF_A_LOCK, ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let address = VersionAddress::parse(context)?;
        let bypass = bypasses_governance(context.headers(), address.bucket.object_lock.is_some())?;
        Ok(Self { address, bypass })
    }

    /// DeleteObjectTagging, the one without a body.
    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        Ok(Self::change(request, AttributeChange::Tags(Vec::new())))
    }

    fn asks(request: &TypedRequest<Self>, content: &[u8]) -> Result<AskedByBody, Problem> {
        Ok(match request.operation() {
            Name::PutObjectTagging => vec![(tags::HEADER, tags::header(&tags::read_document(content)?))],
            Name::PutObjectRetention => {
                let retention = object_lock::read_retention(content)?;
                retention.iter().flat_map(object_lock::headers_of_retention).collect()
            }
            Name::PutObjectLegalHold => vec![object_lock::header_of_hold(object_lock::read_legal_hold(content)?)],
            other => return Err(other.not_implemented().into()),
        })
    }

    fn take(request: &Arc<TypedRequest<Self>>, content: Bytes, _digests: &Digests) -> Result<Progress, Problem> {
        let change = match request.operation() {
            Name::PutObjectTagging => {
                AttributeChange::Tags(stored_tags(request.read_document(|| tags::read_document(&content))?))
            }
            Name::PutObjectRetention => {
                let retention = request.read_document(|| object_lock::read_retention(&content))?.map(stored_retention);
                // Like a malformed document, before anybody looks for the key. The time is judged again with the change.
                let ended = |until_ms: u64| {
                    i64::try_from(until_ms).is_ok_and(|until| until <= request.services.access.now_ms())
                };
                if retention.is_some_and(|retention| ended(retention.until_ms)) {
                    return Err(Refusal::RetentionInPast.into());
                }
                AttributeChange::Retention { retention, bypass: request.input.bypass }
            }
            Name::PutObjectLegalHold => {
                AttributeChange::LegalHold(request.read_document(|| object_lock::read_legal_hold(&content))?)
            }
            other => return Err(other.not_implemented().into()),
        };
        Ok(Self::change(request, change))
    }

    fn named(&self) -> Named<'_> {
        self.address.named()
    }

    fn detailed(&self, error: S3Error) -> S3Error {
        self.address.detailed(error)
    }

    fn answer(request: &TypedRequest<Self>, outcome: Outcome) -> Result<Response, Problem> {
        updated(request, outcome)
    }
}

impl ChangeAttribute {
    fn change(request: &Arc<TypedRequest<Self>>, change: AttributeChange) -> Progress {
        let VersionAddress { bucket, key, .. } = &request.input.address;
        let version = request.input.address.version_id();
        let update = UpdateVersion { bucket: bucket.id, key: key.clone(), version, change };
        request.submit(Intent::UpdateVersion(Box::new(update)))
    }
}
