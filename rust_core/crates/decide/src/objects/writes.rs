//! Objects: put, copy and move, with the preconditions of each.

use std::sync::Arc;

use crate::buckets::creation::live_bucket;
use crate::buckets::layers::{self, delete_marker};
use crate::decision::{Context, Decision};
use crate::intent::{Copy, CopyHeaders, Move, PutObject, RequestToken, Source};
use crate::limits::PUT_SIZE_MAX;
use crate::objects::conditions::{EtagMatch, Precondition, SourceConditions, SourceKind, StateConditions};
use crate::objects::locks;
use crate::objects::manifest::Draft;
use crate::objects::versions;
use crate::outcome::{Failure, Outcome, Put, Refusal};
use crate::view::View;
use orcas_base::error::Error;
use orcas_checksum::{Etag, ObjectChecksum};
use orcas_record::{
    Attributes, Bucket, BucketId, BucketRole, Encryption, Object, ObjectHeaders, Record, Version, VersionId, Versioning,
};

pub(crate) fn put(view: &dyn View, context: &Context, put: PutObject) -> Result<Decision, Failure> {
    put_with(view, context, Draft::new(context.next_sequence), put)
}

/// Stores a version whose attributes name what is in the draft already.
pub(crate) fn put_with(
    view: &dyn View,
    context: &Context,
    mut draft: Draft,
    put: PutObject,
) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, put.bucket)?;
    check_precondition(view, &bucket, &put.key, &put.precondition)?;
    locks::check_new(&bucket, &put.attributes, context.now_ms)?;
    let manifest = draft.store(view, put.body, put.attributes.encryption.as_ref())?;
    check_headers(&put.headers, put.attributes.encryption.as_ref())?;
    let checksum = Encryption::storable(put.attributes.encryption.as_ref(), put.checksum);
    let version = Version {
        bucket: bucket.top(),
        key: put.key,
        version_id: VersionId::Null,
        delete_marker: false,
        modified_ms: context.time_of(put.modified_ms),
        size: put.size,
        etag: Etag { md5: put.md5, parts: 0 },
        sha256: put.sha256,
        checksum: checksum.map(ObjectChecksum::full),
        headers: put.headers,
        attributes: put.attributes,
        parts: Vec::new(),
        manifest,
    };
    Ok(put_version(context, &bucket, draft, version))
}

/// Refuses new headers that are not sealed as their object says.
pub(crate) fn check_headers(headers: &ObjectHeaders, encryption: Option<&Encryption>) -> Result<(), Error> {
    if headers.fit(encryption) {
        return Ok(());
    }
    Err(Error::Record { reason: "headers are not sealed as their object is" })
}

/// Closes a draft with the record that makes `version` the object. Gives it its id and the default retention.
pub(crate) fn put_version(context: &Context, bucket: &Bucket, mut draft: Draft, mut version: Version) -> Decision {
    version.version_id = versions::new_id(bucket, context, draft.next_sequence());
    locks::apply_default(bucket, &mut version.attributes, context.now_ms);
    let mut answer = answer(0, &version);
    // S3 says nothing of a null version that a write makes.
    answer.version_id = Some(version.version_id).filter(|id| *id != VersionId::Null);
    answer.sequence = draft.push(Record::PutVersion(version));
    Decision { outcome: Outcome::Put(answer), records: draft.into_records() }
}

pub(crate) fn answer(sequence: u64, version: &Version) -> Put {
    Put {
        sequence,
        etag: version.etag,
        modified_ms: version.modified_ms,
        size: version.size,
        checksum: version.checksum,
        version_id: None,
        encryption: version.attributes.encryption.clone(),
    }
}

/// The blobs are shared with the source: no bytes are read or written. The copy keeps the ETag and the checksum of its
/// source, also one that was uploaded in parts. One that was appended to counts as one part in its copy, as in S3.
pub(crate) fn copy(view: &dyn View, context: &Context, copy: Copy) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, copy.bucket)?;
    let source = source(view, &copy.source, &copy.source_conditions)?;
    check_copy_size(&source.version)?;
    check_precondition(view, &bucket, &copy.key, &copy.precondition)?;
    let attributes = copy.attributes.apply_to(&source.version.attributes, context.now_ms);
    locks::check_new(&bucket, &attributes, context.now_ms)?;
    if !Encryption::shares(attributes.encryption.as_ref(), source.version.attributes.encryption.as_ref()) {
        // Its bytes have to be stored again, which whoever asks did not know.
        return Err(Refusal::SourceChanged.into());
    }
    if matches!(&copy.headers, CopyHeaders::Replace(headers) if !headers.fit(attributes.encryption.as_ref())) {
        // The source was not encrypted when the headers were prepared. Those that are kept stay as they are.
        return Err(Refusal::SourceChanged.into());
    }
    let source_etag = source.version.etag;
    let parts = if source.version.parts.is_empty() { source_etag.parts.min(1) } else { source_etag.parts };
    let mut version = Version {
        bucket: bucket.top(),
        key: copy.key,
        version_id: VersionId::Null,
        modified_ms: context.time_of(copy.modified_ms),
        etag: Etag { parts, ..source_etag },
        headers: copy.headers.apply_to(&source.version.headers),
        attributes,
        ..source.version.clone()
    };
    if let Some((sequence, checksum)) = copy.checksum {
        if sequence != source.sequence {
            return Err(Refusal::SourceChanged.into());
        }
        let whole = Some(ObjectChecksum::full(checksum));
        version.checksum = Encryption::storable(version.attributes.encryption.as_ref(), whole);
        version.parts.iter_mut().for_each(|part| part.checksum = None);
    }
    Ok(put_version(context, &bucket, Draft::new(context.next_sequence), version))
}

/// Everything but the name stays, also the time of the last modification (RenameObject, Amazon S3 API reference).
///
/// Only between buckets that never had versioning, as S3 has RenameObject only in buckets that cannot have it: a
/// version that is moved away would leave a history without it, and one that is locked must stay.
///
/// An object that a lower layer shows stays there: its new name is a copy, and a delete marker hides the old one.
pub(crate) fn move_object(view: &dyn View, context: &Context, moved: Move) -> Result<Decision, Failure> {
    let [from, bucket] = never_versioned(view, moved.from_bucket, moved.bucket)?;
    let source = source(view, &(moved.from_bucket, moved.from_key.clone(), None), &moved.from_conditions)?;
    if moved.from_bucket == moved.bucket && moved.from_key == moved.key {
        return Err(Refusal::InvalidRequest { reason: "The object has this name already: give it another one." }.into());
    }
    // Owners share no content.
    if from.owner != bucket.owner {
        return Err(
            Refusal::InvalidRequest { reason: "An object can be moved only between buckets of one owner." }.into()
        );
    }
    check_precondition(view, &bucket, &moved.key, &moved.precondition)?;
    let attributes = moved_attributes(&source.version, moved.from_bucket == moved.bucket);
    let version = Version {
        bucket: bucket.top(),
        key: moved.key,
        version_id: VersionId::Null,
        attributes,
        ..source.version.clone()
    };
    let mut put = answer(0, &version);
    let records = if layers::is_below(view, &from, &moved.from_key)? {
        let marker = delete_marker(from.top(), moved.from_key, VersionId::Null, context.now_ms);
        vec![Record::PutVersion(version), Record::PutVersion(marker)]
    } else {
        vec![Record::MoveVersion { from_bucket: from.top(), from_key: moved.from_key, version }]
    };
    // The sequence of a move is known to the committer alone; nobody names a moved version by it before it is found.
    put.sequence = source.sequence;
    Ok(Decision { outcome: Outcome::Put(put), records })
}

/// The attributes of a moved object. Its access control list does not go with it into another bucket, which may block what
/// the list gives, or have no lists.
pub(crate) fn moved_attributes(version: &Version, stays_in_bucket: bool) -> Attributes {
    let attributes = version.attributes.clone();
    Attributes { acl: attributes.acl.clone().filter(|_| stays_in_bucket), ..attributes }
}

/// The source and the destination of a move, unless one of them has or had versioning. That a bucket is gone counts
/// first.
pub(crate) fn never_versioned(view: &dyn View, from: BucketId, to: BucketId) -> Result<[Arc<Bucket>; 2], Failure> {
    let buckets = [live_bucket(view, from)?, live_bucket(view, to)?];
    if buckets.iter().all(|bucket| bucket.versioning == Versioning::Unversioned) {
        return Ok(buckets);
    }
    let reason = "Objects can be renamed and moved only in buckets that never had versioning.";
    Err(Refusal::InvalidBucketState { reason }.into())
}

/// A move that was carried out under the same token is not repeated.
pub(crate) fn move_once(
    view: &dyn View,
    context: &Context,
    moved: Move,
    token: &RequestToken,
) -> Result<Decision, Failure> {
    match view.request_of(&token.token) {
        None => move_object(view, context, moved),
        Some(request) if request == token.request => Ok(Decision::without_records(Outcome::Done)),
        Some(_) => Err(Refusal::TokenReused.into()),
    }
}

/// The source of a copy or move, if it exists and its conditions are met.
pub(crate) fn source(
    view: &dyn View,
    (bucket, key, version): &Source,
    conditions: &SourceConditions,
) -> Result<Arc<Object>, Failure> {
    let bucket = match conditions.kind {
        SourceKind::Copy | SourceKind::Rename => live_bucket(view, *bucket)?,
        // What a layer holds is content of its owner.
        SourceKind::Found => {
            let bucket = view.bucket(*bucket).filter(|bucket| bucket.role != BucketRole::Snapshot);
            bucket.ok_or(Refusal::NoSuchBucket)?
        }
    };
    let object = versions::named(view, &bucket, key, *version)?;
    check_source(&object.version, conditions)?;
    Ok(object)
}

fn check_copy_size(version: &Version) -> Result<(), Refusal> {
    if version.size <= PUT_SIZE_MAX {
        return Ok(());
    }
    Err(Refusal::InvalidRequest {
        reason: "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120",
    })
}

/// Whether the whole of `version` may be copied in one request.
///
/// # Errors
/// The rule of S3 that forbids it.
pub fn check_copy(version: &Version, conditions: &SourceConditions) -> Result<(), Refusal> {
    check_source(version, conditions)?;
    check_copy_size(version)
}

/// Whether a copy may read `version`.
///
/// `If-Match` true wins over `If-Unmodified-Since` false, and `If-None-Match` false over `If-Modified-Since` true
/// (CopyObject, Amazon S3 API reference). Times are compared in whole seconds, as HTTP dates carry them.
///
/// # Errors
/// [`Refusal::PreconditionFailed`] with the header that failed, [`Refusal::Withheld`].
pub fn check_source(version: &Version, conditions: &SourceConditions) -> Result<(), Refusal> {
    conditions.withheld.check(&version.attributes)?;
    let failed = |condition| Err(Refusal::PreconditionFailed { condition });
    let [if_match, if_unmodified_since, if_none_match, if_modified_since] = names(conditions.kind);
    let modified_s = version.modified_ms / 1000;
    match &conditions.if_match {
        Some(wanted) if !wanted.matches(&version.etag) => return failed(if_match),
        Some(_) => {}
        None => {
            if conditions.if_unmodified_since_ms.is_some_and(|since_ms| modified_s > since_ms / 1000) {
                return failed(if_unmodified_since);
            }
        }
    }
    match &conditions.if_none_match {
        Some(unwanted) if unwanted.matches(&version.etag) => failed(if_none_match),
        Some(_) => Ok(()),
        None if conditions.if_modified_since_ms.is_some_and(|since_ms| modified_s <= since_ms / 1000) => {
            failed(if_modified_since)
        }
        None => Ok(()),
    }
}

/// The headers of `If-Match`, `If-Unmodified-Since`, `If-None-Match` and `If-Modified-Since` on a source.
fn names(kind: SourceKind) -> [&'static str; 4] {
    match kind {
        SourceKind::Copy | SourceKind::Found => [
            "x-amz-copy-source-If-Match",
            "x-amz-copy-source-If-Unmodified-Since",
            "x-amz-copy-source-If-None-Match",
            "x-amz-copy-source-If-Modified-Since",
        ],
        SourceKind::Rename => [
            "x-amz-rename-source-If-Match",
            "x-amz-rename-source-If-Unmodified-Since",
            "x-amz-rename-source-If-None-Match",
            "x-amz-rename-source-If-Modified-Since",
        ],
    }
}

/// Looks the object up only when a precondition asks for it.
pub(crate) fn check_precondition(
    view: &dyn View,
    bucket: &Bucket,
    key: &[u8],
    precondition: &Precondition,
) -> Result<(), Failure> {
    if precondition.is_none() {
        return Ok(());
    }
    let current = layers::object(view, bucket, key)?;
    evaluate(current.as_deref(), precondition)?;
    Ok(())
}

pub(crate) fn evaluate(current: Option<&Object>, precondition: &Precondition) -> Result<(), Refusal> {
    if let Some(wanted) = &precondition.if_match {
        // A missing object answers 404, not 412 (PutObject, Amazon S3 user guide, conditional writes).
        let current = current.ok_or(Refusal::NoSuchKey)?;
        if !EtagMatch::matches(wanted, &current.version.etag) {
            return Err(Refusal::PreconditionFailed { condition: "If-Match" });
        }
    }
    if precondition.if_none_match_any && current.is_some() {
        return Err(Refusal::PreconditionFailed { condition: "If-None-Match" });
    }
    match &precondition.state {
        Some(conditions) => evaluate_state(current, precondition, conditions),
        None => Ok(()),
    }
}

/// Of what is not there, only `If-Modified-Since` does not hold (DeleteObject and RenameObject, Amazon S3 API reference).
fn evaluate_state(
    current: Option<&Object>,
    precondition: &Precondition,
    conditions: &StateConditions,
) -> Result<(), Refusal> {
    let failed = |condition| Err(Refusal::PreconditionFailed { condition });
    let StateConditions { modified_s, size, if_modified_since_s, if_unmodified_since_s } = conditions;
    let Some(Object { version, .. }) = current else {
        let holds = if_modified_since_s.is_none() || precondition.if_none_match_any;
        return if holds { Ok(()) } else { failed("If-Modified-Since") };
    };
    let modified_at_s = version.modified_ms / 1000;
    if modified_s.is_some_and(|wanted| wanted != modified_at_s) {
        return failed("x-amz-if-match-last-modified-time");
    }
    if size.is_some_and(|wanted| wanted != version.size) {
        return failed("x-amz-if-match-size");
    }
    // An entity tag wins over a time, as on a source.
    if precondition.if_match.is_none() && if_unmodified_since_s.is_some_and(|since| modified_at_s > since) {
        return failed("If-Unmodified-Since");
    }
    if if_modified_since_s.is_some_and(|since| modified_at_s <= since) {
        return failed("If-Modified-Since");
    }
    Ok(())
}
