//! Quotas of buckets with versioning and without layers: the model knows what these hold to the byte.

use bytes::Bytes;
use orcas_decide::{Held, Quota, QuotaOf, Refusal};
use orcas_fs_testing::SimRng;
use orcas_record::{BucketId, DocumentKind, Versioning};

use super::{Bucket, Model, Object, Op};

/// A quota that little more than what is there fills, or none any more.
pub fn random(rng: &mut SimRng, id: BucketId, bucket: &Bucket) -> Option<Op> {
    if bucket.versioning == Versioning::Unversioned || bucket.layered {
        return None;
    }
    let held = bucket.held();
    let quota = match rng.below(5) {
        0 => Quota::default(),
        _ => Quota {
            bytes: (rng.below(3) > 0).then(|| held.bytes.cast_unsigned() + rng.below(4_000)),
            versions: (rng.below(3) == 0).then(|| held.versions.cast_unsigned() + rng.below(6)),
        },
    };
    Some(Op::PutDocument { bucket: id, kind: DocumentKind::Quota, document: quota.to_document().into() })
}

/// Whether a quota forbids what `op` made of the model.
pub fn check(before: &Model, after: &Model, op: &Op) -> Result<(), Refusal> {
    if matches!(
        op,
        Op::Delete { .. } | Op::DeleteMany { .. } | Op::DeleteVersion { .. } | Op::Expire { .. } | Op::Abort { .. }
    ) {
        return Ok(());
    }
    for (name, bucket) in after.buckets.iter().filter(|(_, bucket)| !bucket.layered) {
        let Some(quota) = bucket.documents.get(&DocumentKind::Quota).and_then(quota_of) else { continue };
        let Some(former) = before.buckets.get(name).map(Bucket::held) else { continue };
        let now = bucket.held();
        let by = Held { bytes: now.bytes - former.bytes, versions: now.versions - former.versions };
        quota.check(former, by, [QuotaOf::BucketBytes, QuotaOf::BucketVersions])?;
    }
    Ok(())
}

fn quota_of(document: &Bytes) -> Option<Quota> {
    Quota::from_document(document)
}

impl Model {
    /// Whether a bucket with a quota has got layers, in the same round perhaps. What they hold together is not known here.
    pub fn counts_layers(&self) -> bool {
        self.buckets.values().any(|bucket| bucket.layered && bucket.has_quota())
    }
}

impl Bucket {
    pub fn has_quota(&self) -> bool {
        self.documents.get(&DocumentKind::Quota).is_some_and(|document| !document.is_empty())
    }

    fn held(&self) -> Held {
        let annotations =
            |version: &Object| version.annotations.values().map(|(text, _)| text.bytes.len()).sum::<usize>();
        let versions = self.versions.values().flatten().map(|version| version.body.bytes.len() + annotations(version));
        let parts = self.uploads.values().flat_map(|upload| upload.parts.values()).map(|part| part.body.bytes.len());
        let count = self.versions.values().map(Vec::len).sum::<usize>();
        Held { bytes: versions.chain(parts).sum::<usize>() as i64, versions: count as i64 }
    }
}
