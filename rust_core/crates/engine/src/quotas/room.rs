//! Refuses uploads that cannot fit before they are written. The committer still decides about every upload: this only
//! saves writing what it would refuse.
//!
//! Invariant: nothing is refused here that a decision at this moment would allow.

use bytes::Bytes;

use super::super::handle::Handle;
use super::changes::Lengths;
use super::published::{OF_BUCKET, OF_OWNER};
use orcas_base::error::Result;
use orcas_catalog::{ListParts, NewerChanges};
use orcas_decide::{Failure, Held, Quota, QuotaOf, Refusal};
use orcas_record::{Bucket, Extent, UploadId, VersionId, Versioning};

/// The addition of an upload.
#[derive(Clone, Debug)]
pub enum Addition {
    /// An object, perhaps in place of another.
    Object(Bytes),
    /// The end of an object.
    End,
    /// A part, perhaps in place of another.
    Part(UploadId, u16),
}

/// A quota, what is held under it, and how it is named.
type Limit = (Quota, Held, [QuotaOf; 2]);

impl Handle {
    /// Refuses what would add `bytes` at least, if that cannot fit whatever else it does. Blocking.
    ///
    /// # Errors
    /// [`Refusal::QuotaExceeded`], or the index cannot be read.
    pub fn check_room(&self, bucket: &Bucket, adds: &Addition, bytes: u64) -> Result<(), Failure> {
        let Some((limits, moment)) = self.exceeded(bucket, adds, bytes) else { return Ok(()) };
        let replaced = self.replaced(bucket, adds)?;
        Ok(self.fits(&limits, moment, adds, bytes, replaced)?)
    }

    /// Checks as `check_room` does, if memory has the answer.
    ///
    /// # Errors
    /// [`Refusal::QuotaExceeded`].
    pub fn try_check_room(&self, bucket: &Bucket, adds: &Addition, bytes: u64) -> Result<(), Refusal> {
        let Some((limits, moment)) = self.exceeded(bucket, adds, bytes) else { return Ok(()) };
        let replaced = match adds {
            Addition::End => None,
            Addition::Object(_) if bucket.versioning == Versioning::Enabled => None,
            Addition::Object(key) if bucket.versioning == Versioning::Unversioned => {
                let Some(found) = self.shared.catalog.try_object(bucket.top(), key) else { return Ok(()) };
                found.map(|found| Lengths::of(&found.object.version).sum())
            }
            Addition::Object(_) | Addition::Part(..) => return Ok(()),
        };
        self.fits(&limits, moment, adds, bytes, replaced)
    }

    /// A refusal counts only if what is held and what is replaced are of one moment. If not, the committer decides.
    pub(crate) fn fits(
        &self,
        limits: &[Limit],
        moment: u64,
        adds: &Addition,
        bytes: u64,
        replaced: Option<u64>,
    ) -> Result<(), Refusal> {
        let version = matches!(adds, Addition::Object(_)) && replaced.is_none();
        let by = Held { bytes: bytes.cast_signed() - replaced.unwrap_or(0).cast_signed(), versions: version.into() };
        let checked = limits.iter().try_for_each(|(quota, held, of)| quota.check(*held, by, *of));
        if self.shared.quotas.published.is_of(moment) { checked } else { Ok(()) }
    }

    /// The limits of this bucket that `bytes` and a version more might exceed, and the moment at which they did.
    pub(crate) fn exceeded(&self, bucket: &Bucket, adds: &Addition, bytes: u64) -> Option<(Vec<Limit>, u64)> {
        if matches!(adds, Addition::End) && bucket.versioning == Versioning::Suspended {
            // The null version that it replaces need not be the one that it extends.
            return None;
        }
        let (usage, moment) = self.shared.quotas.published.latest()?;
        let of_bucket = usage.bucket(bucket.id).map(|held| (self.quota(bucket.id), held, OF_BUCKET));
        let quota_of_owner = self.shared.quotas.owners.read().get(&bucket.owner).copied();
        let of_owner = quota_of_owner.zip(usage.owner(&bucket.owner)).map(|(quota, held)| (quota, held, OF_OWNER));
        let limits: Vec<Limit> = of_bucket.into_iter().chain(of_owner).collect();
        let most = Held { bytes: bytes.cast_signed(), versions: 1 };
        limits.iter().any(|(quota, held, of)| quota.check(*held, most, *of).is_err()).then_some((limits, moment))
    }

    /// Bytes of what goes when this is added: of the top layer, since what lower layers have stays. Blocking.
    fn replaced(&self, bucket: &Bucket, adds: &Addition) -> Result<Option<u64>> {
        Ok(match adds {
            Addition::End => None,
            Addition::Object(_) if bucket.versioning == Versioning::Enabled => None,
            Addition::Object(key) => {
                let found =
                    self.shared.catalog.version_below(bucket.top(), key, VersionId::Null, NewerChanges::default())?;
                found.map(|found| Lengths::of(&found.object.version).sum())
            }
            Addition::Part(upload, number) => {
                let list = ListParts { upload: *upload, after: number.saturating_sub(1), max_parts: 1 };
                let found = self.list_parts(list)?.entries.into_iter().find(|part| part.number == *number);
                found.map(|part| part.manifest.iter().map(Extent::length).sum())
            }
        })
    }
}
