//! Which stored object an instant upload can be made of.

use std::sync::Arc;

use bytes::Bytes;

use super::Shared;
use super::reads::version_of;
use crate::error::Result;
use crate::record::{Bucket, BucketId, INSTANT_SIZE_MIN, Object, RefLevel};

/// Versions with the same SHA-256 that are looked at: any that is current will do.
const CANDIDATES_MAX: usize = 64;

impl Shared {
    /// A current object of `owner` with `size` bytes of this SHA-256, in a bucket that shares what it holds.
    pub fn instant_source(&self, owner: &Bytes, sha256: &[u8; 32], size: u64) -> Result<Option<Arc<Object>>> {
        if size < INSTANT_SIZE_MIN {
            return Ok(None);
        }
        // The overlay first: what it loses meanwhile is in the index by then.
        let recent = self.overlay.read().with_sha256(sha256).cloned();
        if let Some((bucket, key)) = recent
            && let Some(object) = self.instant_candidate(owner, sha256, size, bucket, &key)?
        {
            return Ok(Some(object));
        }
        let stored = self.index.read()?.versions_by_sha256(sha256, CANDIDATES_MAX)?;
        for stored in &stored {
            let version = version_of(stored)?;
            if let Some(object) = self.instant_candidate(owner, sha256, size, version.bucket, &version.key)? {
                return Ok(Some(object));
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
    ) -> Result<Option<Arc<Object>>> {
        let offers = |bucket: &Arc<Bucket>| bucket.owner == *owner && self.ref_level(bucket) != RefLevel::Off;
        if !self.buckets.read().by_id(bucket).is_some_and(offers) {
            return Ok(None);
        }
        let found = self.object(bucket, key)?.map(|found| found.object);
        Ok(found.filter(|found| found.version.sha256.as_ref() == Some(sha256) && found.version.size == size))
    }
}
