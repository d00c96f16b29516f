//! Versions: the id that a new one gets, how one is found by its name, and changes of its attributes.

use std::sync::Arc;

use crate::buckets::creation::live_bucket;
use crate::buckets::layers;
use crate::decision::{Context, Decision};
use crate::objects::attributes::{AttributeChange, UpdateVersion};
use crate::objects::locks;
use crate::outcome::{Failure, Outcome, Refusal};
use crate::view::View;
use orcas_base::planted::{self, Bug};
use orcas_record::{Bucket, Object, Record, Sequence, Version, VersionId, Versioning};

/// The id of the version that the record with this sequence brings to `bucket`.
pub(crate) fn new_id(bucket: &Bucket, context: &Context, sequence: Sequence) -> VersionId {
    match bucket.versioning {
        Versioning::Enabled => context.version_id(sequence),
        Versioning::Unversioned | Versioning::Suspended => VersionId::Null,
    }
}

/// `id` for an answer, which names versions only where there is or was versioning.
pub(crate) fn shown(bucket: &Bucket, id: VersionId) -> Option<VersionId> {
    (bucket.versioning != Versioning::Unversioned).then_some(id)
}

/// The version with this id, or the current one; never a delete marker.
///
/// # Errors
/// [`Refusal::NoSuchKey`], [`Refusal::NoSuchVersion`], [`Refusal::DeleteMarker`].
pub(crate) fn named(
    view: &dyn View,
    bucket: &Bucket,
    key: &[u8],
    id: Option<VersionId>,
) -> Result<Arc<Object>, Failure> {
    let found = match id {
        None => layers::object(view, bucket, key)?.ok_or(Refusal::NoSuchKey)?,
        Some(id) => layers::version(view, bucket, key, id)?.ok_or(Refusal::NoSuchVersion)?,
    };
    if found.version.delete_marker { Err(Refusal::DeleteMarker.into()) } else { Ok(found) }
}

pub(crate) fn update(view: &dyn View, context: &Context, update: UpdateVersion) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, update.bucket)?;
    if matches!(update.change, AttributeChange::Retention { .. } | AttributeChange::LegalHold(_)) {
        locks::check_object_lock(&bucket)?;
    }
    let found = named_for_change(view, &bucket, &update.key, update.version)?;
    let mut attributes = found.version.attributes.clone();
    match update.change {
        AttributeChange::Tags(tags) => attributes.tags = tags,
        AttributeChange::LegalHold(on) => attributes.legal_hold = Some(on),
        AttributeChange::Acl { was, acl } => {
            if attributes.acl != was {
                return Err(Refusal::SourceChanged.into());
            }
            attributes.acl = acl;
        }
        AttributeChange::Retention { retention, bypass } => {
            locks::check_retention(attributes.retention, retention, bypass, context.now_ms)?;
            attributes.retention = retention;
        }
    }
    let outcome = Outcome::Updated(shown(&bucket, found.version.version_id));
    if attributes == found.version.attributes {
        return Ok(Decision::without_records(outcome));
    }
    if planted::is(Bug::AttributesAsPut) && found.version.bucket == bucket.top() {
        let version = Version { attributes, modified_ms: context.now_ms, ..found.version.clone() };
        return Ok(Decision { outcome, records: vec![Record::PutVersion(version)] });
    }
    Ok(Decision { outcome, records: vec![layers::changed(&bucket, &found, attributes)] })
}

/// As [`named`]. Unlike a read, a change says that there is a delete marker.
pub(crate) fn named_for_change(
    view: &dyn View,
    bucket: &Bucket,
    key: &[u8],
    id: Option<VersionId>,
) -> Result<Arc<Object>, Failure> {
    match named(view, bucket, key, id) {
        Err(Failure::Refused(Refusal::NoSuchKey)) if id.is_none() && layers::newest(view, bucket, key)?.is_some() => {
            Err(Refusal::DeleteMarker.into())
        }
        found => found,
    }
}
