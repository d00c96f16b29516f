//! Lookups in buckets that have several layers: the newest layer that has a key decides. A bucket without layers needs
//! one lookup, under its own id.
//!
//! A layer is emptied only after the change that took the last name from it was published. So a reader that finds the
//! same stack after reading as before has seen no gap.

use std::sync::Arc;

use bytes::Bytes;

use super::cache::LocatedObject;
use super::handle::Handle;
use super::key_changes::NewerChanges;
use super::reads::PinnedObject;
use super::state::EngineState;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_record::{Bucket, BucketId, BucketRole, VersionId};

impl Handle {
    /// The object of a bucket, if memory has the answer; `None` when only [`Handle::object_in`] can tell.
    pub fn try_object_in(&self, bucket: &Bucket, key: &Bytes) -> Option<Option<PinnedObject>> {
        let found = self.shared.try_object(bucket.top(), key);
        // What the top layer lacks, one below may have.
        if bucket.layers.is_empty() { found } else { found.filter(Option::is_some) }
    }

    /// The object of a bucket. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn object_in(&self, bucket: &Bucket, key: &Bytes) -> Result<Option<PinnedObject>> {
        if bucket.layers.is_empty() { self.shared.object(bucket.id, key) } else { self.shared.find_in(bucket.id, key) }
    }

    /// As [`Handle::version`], in all layers of a bucket. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn version_in(&self, bucket: &Bucket, key: &Bytes, id: VersionId) -> Result<Option<PinnedObject>> {
        match id {
            _ if bucket.layers.is_empty() => self.version(bucket.id, key, id),
            VersionId::Null => self.shared.find_in(bucket.id, key),
            VersionId::Named(_) => Ok(None),
        }
    }
}

impl EngineState {
    /// The bucket of clients with this id, as it is now.
    pub fn present_bucket(&self, id: BucketId) -> Option<Arc<Bucket>> {
        self.buckets.read().by_id(id).filter(|bucket| bucket.role == BucketRole::Bucket).cloned()
    }

    /// Whether the bucket still has the layers that `bucket` says.
    pub fn is_present(&self, bucket: &Bucket) -> bool {
        self.present_bucket(bucket.id).is_some_and(|present| present.layers == bucket.layers)
    }

    /// The object of a bucket that has layers.
    pub fn find_in(&self, id: BucketId, key: &Bytes) -> Result<Option<PinnedObject>> {
        let pin = self.epochs.pin();
        while let Some(bucket) = self.present_bucket(id) {
            let located = self.lookup_in(bucket.stack(), key)?;
            if self.is_present(&bucket) {
                return Ok(located.map(|located| PinnedObject::of(located, pin)));
            }
        }
        Ok(None)
    }

    /// What these layers show, as the index and the overlay have it.
    pub fn lookup_in(&self, layers: &[BucketId], key: &Bytes) -> Result<Option<LocatedObject>> {
        for layer in layers {
            if let Some(located) = self.lookup_layer(*layer, key)? {
                return Ok(Some(located));
            }
            let Some(newest) = self.newest_below(*layer, key, NewerChanges::default())? else { continue };
            // An object that was put after the lookup.
            if !newest.object.version.delete_marker && !planted::is(Bug::NewerObjectHides) {
                return Ok(Some(newest));
            }
            // A delete marker hides the key in the layers below.
            if !planted::is(Bug::WhiteoutIgnored) {
                return Ok(None);
            }
        }
        Ok(None)
    }
}
