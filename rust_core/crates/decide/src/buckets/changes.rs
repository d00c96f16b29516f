//! Changes of the settings, the versioning and the Object Lock of a bucket: which ones are allowed.

use std::sync::Arc;

use crate::buckets::creation::live_bucket;
use crate::buckets::snapshots;
use crate::decision::{Context, Decision};
use crate::intent::BucketChange;
use crate::outcome::{Failure, Outcome, Refusal};
use crate::view::View;
use orcas_record::{Bucket, BucketId, DocumentKind, Record, Versioning};

pub(crate) fn update(
    view: &dyn View,
    context: &Context,
    bucket: BucketId,
    change: BucketChange,
) -> Result<Decision, Failure> {
    let mut bucket = Bucket::clone(&*live_bucket(view, bucket)?);
    match change {
        BucketChange::Settings(change) => bucket.settings = change.applied_to(bucket.settings),
        BucketChange::Versioning(versioning) => {
            check_versioning(&bucket, versioning)?;
            if versioning == Versioning::Suspended && replicates(view, bucket.id) {
                let reason = "A replication configuration is present on this bucket, so the versioning state cannot be \
                              changed.";
                return Err(Refusal::InvalidBucketState { reason }.into());
            }
            let is_first = bucket.versioning == Versioning::Unversioned;
            bucket.versioning = versioning;
            if is_first && !bucket.layers.is_empty() {
                return snapshots::begin_histories(view, context, &bucket);
            }
        }
        BucketChange::ObjectLock(_) if bucket.versioning != Versioning::Enabled => {
            let reason = "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration";
            return Err(Refusal::InvalidBucketState { reason }.into());
        }
        BucketChange::ObjectLock(lock) => bucket.object_lock = Some(lock),
    }
    let outcome = Outcome::Bucket(Arc::new(bucket.clone()));
    Ok(Decision { outcome, records: vec![Record::UpdateBucket(bucket)] })
}

fn replicates(view: &dyn View, bucket: BucketId) -> bool {
    view.document(bucket, DocumentKind::Replication).is_some_and(|document| !document.is_empty())
}

/// Versions that exist stay what they are, so no bucket becomes unversioned again. Locked ones need versioning, so it
/// is not suspended where Object Lock is enabled.
fn check_versioning(bucket: &Bucket, versioning: Versioning) -> Result<(), Refusal> {
    let reason = match versioning {
        Versioning::Suspended if bucket.object_lock.is_some() => {
            "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed."
        }
        Versioning::Unversioned => "Versioning can be suspended, but not removed.",
        Versioning::Enabled | Versioning::Suspended => return Ok(()),
    };
    Err(Refusal::InvalidBucketState { reason })
}
