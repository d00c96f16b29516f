//! Which stored object an instant upload can be made of.

use std::sync::Arc;

use bytes::Bytes;

use crate::Catalog;
use crate::objects::PinnedObject;
use orcas_base::error::Result;
use orcas_record::{Bucket, BucketId, BucketRole, INSTANT_SIZE_MIN, RefLevel};
use orcas_store::version_of;

/// Versions with the same SHA-256 that are looked at: any that is current will do.
const CANDIDATES_MAX: usize = 64;

/// A current object of `owner` with `size` bytes of this SHA-256, in a bucket that shares what it holds. `level` is that
/// of buckets that have none of their own. Blocking.
///
/// # Errors
/// When the index cannot be read.
pub fn instant_source(
    catalog: &Catalog,
    level: RefLevel,
    owner: &Bytes,
    sha256: &[u8; 32],
    size: u64,
) -> Result<Option<PinnedObject>> {
    if size < INSTANT_SIZE_MIN {
        return Ok(None);
    }
    let offers = |bucket: &&Arc<Bucket>| {
        let holds_objects = matches!(bucket.role, BucketRole::Bucket | BucketRole::Layer);
        holds_objects && bucket.owner == *owner && bucket.settings.ref_level.unwrap_or(level) != RefLevel::Off
    };
    let is_wanted = |found: &PinnedObject| {
        let version = &found.object.version;
        version.sha256.as_ref() == Some(sha256) && version.size == size
    };
    // What was found at this place may have been replaced since.
    let at = |bucket: BucketId, key: &Bytes| -> Result<Option<PinnedObject>> {
        let bucket = catalog.buckets.load().by_id(bucket).filter(offers).cloned();
        let found = bucket.map_or(Ok(None), |bucket| catalog.object_in(&bucket, key))?;
        Ok(found.filter(is_wanted))
    };
    // The overlay first: what it loses meanwhile is in the index by then.
    let recent = catalog.overlay.read().with_sha256(sha256).map(|(bucket, key)| (bucket, key.clone()));
    if let Some((bucket, key)) = recent
        && let Some(found) = at(bucket, &key)?
    {
        return Ok(Some(found));
    }
    for stored in &catalog.index.read()?.versions_by_sha256(sha256, CANDIDATES_MAX)? {
        let version = version_of(stored)?;
        if let Some(found) = at(version.bucket, &version.key)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
