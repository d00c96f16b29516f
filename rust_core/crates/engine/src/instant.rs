//! Which stored object an instant upload can be made of.

use std::sync::Arc;

use bytes::Bytes;

use super::handle::Handle;
use super::state::EngineState;
use orcas_base::error::Result;
use orcas_catalog::PinnedObject;
use orcas_record::{Bucket, BucketId, BucketRole, INSTANT_SIZE_MIN, RefLevel};
use orcas_store::version_of;

/// Versions with the same SHA-256 that are looked at: any that is current will do.
const CANDIDATES_MAX: usize = 64;

impl Handle {
    /// A current object of `owner` with these bytes, to make another of. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn instant_source(&self, owner: &Bytes, sha256: &[u8; 32], size: u64) -> Result<Option<PinnedObject>> {
        self.shared.instant_source(owner, sha256, size)
    }
}

impl EngineState {
    /// A current object of `owner` with `size` bytes of this SHA-256, in a bucket that shares what it holds.
    pub fn instant_source(&self, owner: &Bytes, sha256: &[u8; 32], size: u64) -> Result<Option<PinnedObject>> {
        if size < INSTANT_SIZE_MIN {
            return Ok(None);
        }
        // The overlay first: what it loses meanwhile is in the index by then.
        let recent = self.catalog.overlay.read().with_sha256(sha256).map(|(bucket, key)| (bucket, key.clone()));
        if let Some((bucket, key)) = recent
            && let Some(found) = self.instant_candidate(owner, sha256, size, bucket, &key)?
        {
            return Ok(Some(found));
        }
        let stored = self.catalog.index.read()?.versions_by_sha256(sha256, CANDIDATES_MAX)?;
        for stored in &stored {
            let version = version_of(stored)?;
            if let Some(found) = self.instant_candidate(owner, sha256, size, version.bucket, &version.key)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The object at this place, if it is what is wanted: what was found there may have been replaced since.
    fn instant_candidate(
        &self,
        owner: &Bytes,
        sha256: &[u8; 32],
        size: u64,
        bucket: BucketId,
        key: &Bytes,
    ) -> Result<Option<PinnedObject>> {
        let offers = |bucket: &&Arc<Bucket>| {
            let holds_objects = matches!(bucket.role, BucketRole::Bucket | BucketRole::Layer);
            holds_objects && bucket.owner == *owner && self.ref_level(bucket) != RefLevel::Off
        };
        let Some(bucket) = self.catalog.buckets.read().by_id(bucket).filter(offers).cloned() else { return Ok(None) };
        let wanted = |found: &PinnedObject| {
            let version = &found.object.version;
            version.sha256.as_ref() == Some(sha256) && version.size == size
        };
        let found = if bucket.layers.is_empty() {
            self.catalog.object(bucket.id, key)?
        } else {
            self.catalog.find_in(bucket.id, key)?
        };
        Ok(found.filter(wanted))
    }
}
