//! CopyObject: copies no bytes, unless a checksum has to be computed or the owner differs.

use std::sync::Arc;

use bytes::Bytes;

use crate::resources::attributes::{stored_retention, stored_tags};
use crate::resources::conditions::precondition;
use crate::resources::encryption::{
    Chosen, SentKey, check_readable, chosen_encryption, has_own_encryption, sent_source_key, show_stored,
};
use crate::resources::expiration::{Expiring, show_expiration};
use crate::resources::metadata::stored;
use crate::resources::sources::{Pinned, Source, modified};
use crate::resources::versions::shows_versions;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_checksum::ChecksumAlgorithm;
use orcas_decide::{Copy, CopyAttributes, CopyHeaders, Outcome, SourceKind};
use orcas_engine::{CopyKeys, CopyRequest};
use orcas_http::Headers;
use orcas_record::{Bucket, VersionId};
use orcas_requests::request::{Operation, Progress, TypedRequest, wrong_outcome};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::annotations::copies_annotations;
use orcas_s3::checksums::copy_algorithm;
use orcas_s3::conditions::WriteCondition;
use orcas_s3::metadata::{MetadataDirective, ObjectHeaders as Sent, STORAGE_CLASS, WEBSITE_REDIRECT};
use orcas_s3::object_lock::LockHeaders;
use orcas_s3::support::{OF_A_COPY, Understood};
use orcas_s3::tags::{self, TaggingDirective};
use orcas_s3::versions::version_name;
use orcas_s3::xml::results;
use orcas_s3::{ErrorCode, Named, S3Error};

pub struct CopyObject {
    source: Source,
    bucket: Arc<Bucket>,
    key: Bytes,
    condition: WriteCondition,
    headers: CopyHeaders,
    attributes: CopyAttributes,
    algorithm: Option<ChecksumAlgorithm>,
    chosen: Chosen,
    source_key: Option<SentKey>,
    is_sigv4: bool,
}

impl Operation for CopyObject {
    const IN_PIECES: bool = true;
    /// Only parts can be copied from a range.
    const UNDERSTOOD: Understood =
        Understood { attributes: OF_A_COPY, refused: &["x-amz-copy-source-range"], ..Understood::NOTHING };

    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        let (bucket, key) = context.object()?;
        let sent = context.headers();
        let source = Source::of_copy(context)?;
        let directive = MetadataDirective::parse(sent)?;
        // S3 checks the headers of an object also where the copy keeps those of its source.
        let stored = stored(Sent::parse(sent)?);
        let headers = match directive {
            MetadataDirective::Replace => CopyHeaders::Replace(Box::new(stored)),
            MetadataDirective::Copy => {
                CopyHeaders::Keep { storage_class: stored.storage_class, website_redirect: stored.website_redirect }
            }
        };
        let (algorithm, attributes) = (copy_algorithm(sent)?, copy_attributes(sent)?);
        let itself = source.name.bucket.as_bytes() == bucket.name && source.name.key == key;
        // Where there are versions, a copy of one becomes the newest.
        let restores = source.name.version.is_some() && shows_versions(&bucket);
        let (chosen, source_key) = (chosen_encryption(context, bucket.id)?, sent_source_key(context)?);
        let encryption = chosen.encryption.clone();
        // What a request names counts as a change, also if it is what the object has.
        let changes = || {
            directive == MetadataDirective::Replace
                || [STORAGE_CLASS, WEBSITE_REDIRECT].iter().any(|name| sent.get(name).is_some())
                || algorithm.is_some()
                || chosen.asked
                || has_own_encryption(&context.access.engine, bucket.id)
        };
        if itself && !restores && !changes() {
            let message = "This copy request is illegal because it is trying to copy an object to itself without \
                           changing the object's metadata, storage class, website redirect location or encryption \
                           attributes.";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
        }
        let attributes = CopyAttributes { encryption, acl: context.sent_acl(&bucket)?, ..attributes };
        let (condition, is_sigv4) = (WriteCondition::of_write(sent)?, context.is_sigv4());
        Ok(Self { source, bucket, key, condition, headers, attributes, algorithm, chosen, source_key, is_sigv4 })
    }

    fn named(&self) -> Named<'_> {
        Named { bucket: Some(&self.bucket.name), key: Some(&self.key), upload: None }
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        Ok(request.work_in_pieces(|request| async move { Self::copy(&request).await }))
    }
}

/// The tags of the source stay without the directive REPLACE, and its annotations without EXCLUDE; a lock never goes with
/// a copy.
fn copy_attributes(sent: &Headers<'_>) -> Result<CopyAttributes, S3Error> {
    let lock = LockHeaders::parse(sent)?;
    let tags = stored_tags(tags::of_header(sent)?);
    let tags = (TaggingDirective::parse(sent)? == TaggingDirective::Replace).then_some(tags);
    Ok(CopyAttributes {
        annotations: copies_annotations(sent)?,
        tags,
        retention: lock.retention.map(stored_retention),
        legal_hold: lock.legal_hold,
        encryption: None,
        acl: None,
    })
}

impl CopyObject {
    /// Copies an object, whose digests may have to be computed from the source.
    async fn copy(request: &TypedRequest<Self>) -> Result<Response, Problem> {
        let CopyObject { source, bucket, key, condition, headers, attributes, algorithm, chosen, source_key, .. } =
            &request.input;
        let (from, found) = source.find(&request.services.access)?;
        check_readable(&request.services.engine, &found.object.version, source_key.as_ref(), request.input.is_sigv4)?;
        let Pinned { source: version, shown } = source.pinned(&from, &found);
        let copy = Copy {
            source: version,
            source_conditions: source.decided(SourceKind::Copy),
            bucket: bucket.id,
            key: key.clone(),
            modified_ms: None,
            precondition: precondition(condition),
            headers: headers.clone(),
            attributes: attributes.clone(),
            checksum: None,
        };
        let keys = CopyKeys {
            source: source_key.as_ref().map(|sent| sent.key.clone()),
            copy: chosen.sealing().key,
            named: request.input.is_sigv4,
        };
        let copying = CopyRequest { copy, algorithm: *algorithm, keys, cause: request.cause() };
        let outcome = request.services.engine.copy_object(&copying).await?;
        let Outcome::Put(put) = outcome else { return Err(wrong_outcome()) };
        let document = results::copy_object(&put.etag, modified(&put), put.checksum.as_ref());
        let mut headers = HeaderBlock::new();
        if shows_versions(bucket) {
            headers.set_version_id(&version_name(put.version_id.unwrap_or(VersionId::Null)));
        }
        if let Some(shown) = shown {
            headers.set_copy_source_version_id(&shown);
        }
        show_stored(&request.services, put.encryption.as_ref(), chosen.key.as_ref(), &mut headers);
        show_expiration(&request.services.engine, &mut headers, || {
            let tags = attributes.tags.as_ref().unwrap_or(&found.object.version.attributes.tags);
            Expiring { bucket: bucket.id, key, size: put.size, modified_ms: put.modified_ms, tags }
        });
        Ok(request.envelope.document(200, headers, document))
    }
}
