//! Lookups in buckets that have several layers: the newest layer that has a key decides, or with versioning, the newest
//! version that the layers show. A bucket without layers needs one lookup, under its own id.
//!
//! A layer is emptied only after the change that took the last name from it was published. So a reader that finds the
//! same stack after reading as before has seen no gap. A merge applies what an upper layer says of a version to a lower
//! one: a reader that has seen both layers, the lower one first, reads again if a merge came between.

use std::sync::Arc;

use bytes::Bytes;

use super::Catalog;
use super::cache::LocatedObject;
use super::hidden::pass_all;
use super::objects::PinnedObject;
use super::passing::pass_published;
use super::pause::PauseGuard;
use super::recent::key_changes::NewerChanges;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_decide::{Layers, find_newest, find_version};
use orcas_record::{Bucket, BucketId, BucketRole, LayerKind, Object, Sequence, VersionId, Versioning};

/// Attempts to read the layers of a bucket between two parts of merges.
const PATIENT_ATTEMPTS: usize = 4;

impl Catalog {
    /// The object of a bucket, if memory has the answer; `None` when only [`Catalog::object_in`] can tell.
    pub fn try_object_in(&self, bucket: &Bucket, key: &Bytes) -> Option<Option<PinnedObject>> {
        let found = self.try_object(bucket.top(), key);
        // What the top layer lacks, one below may have.
        if bucket.layers.is_empty() { found } else { found.filter(Option::is_some) }
    }

    /// The object of a bucket. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn object_in(&self, bucket: &Bucket, key: &Bytes) -> Result<Option<PinnedObject>> {
        if bucket.layers.is_empty() { self.object(bucket.id, key) } else { self.find_in(bucket.id, key) }
    }

    /// As [`Catalog::version_with`], in all layers of a bucket. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn version_in(&self, bucket: &Bucket, key: &Bytes, id: VersionId) -> Result<Option<PinnedObject>> {
        if bucket.layers.is_empty() {
            return self.version_with(bucket.id, key, id);
        }
        self.find_with(bucket.id, &|bucket| match (bucket.versioning, id) {
            (Versioning::Unversioned, VersionId::Null) => self.lookup_in(&bucket.layers, key),
            (Versioning::Unversioned, VersionId::Named(_)) => Ok(None),
            (Versioning::Enabled | Versioning::Suspended, _) => find_version(self, &bucket.layers, key, id),
        })
    }

    /// As [`Catalog::newest_marker`], in all layers of a bucket with versioning. Blocking.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn newest_marker_in(&self, bucket: &Bucket, key: &Bytes) -> Result<Option<PinnedObject>> {
        if bucket.layers.is_empty() {
            return self.newest_marker(bucket.id, key);
        }
        let newest = self.find_with(bucket.id, &|bucket| find_newest(self, &bucket.layers, key))?;
        Ok(newest.filter(|newest| newest.object.version.delete_marker))
    }
}

impl Layers for Catalog {
    type Found = LocatedObject;

    fn object(found: &LocatedObject) -> &Object {
        &found.object
    }

    fn kind(&self, layer: BucketId) -> LayerKind {
        self.buckets.load().by_id(layer).map_or(LayerKind::History, |layer| layer.layer_kind())
    }

    fn version(&self, layer: BucketId, key: &[u8], id: VersionId) -> Result<Option<LocatedObject>> {
        self.version_below(layer, key, id, NewerChanges::default())
    }

    fn newest(&self, layer: BucketId, key: &[u8], before: Sequence) -> Result<Option<LocatedObject>> {
        if before == Sequence::MAX
            && let Some(located) = self.lookup_layer(layer, &Bytes::copy_from_slice(key))?
        {
            return Ok(Some(located));
        }
        self.newest_below(layer, key, before, NewerChanges::default())
    }

    fn pass_hidden(&self, above: &[BucketId], layer: BucketId, key: &[u8], hidden: Sequence) -> Result<Sequence> {
        pass_all(|| pass_published(self, above, layer, key, hidden))
    }
}

impl Catalog {
    /// The bucket of clients with this id, as it is now.
    pub fn present_bucket(&self, id: BucketId) -> Option<Arc<Bucket>> {
        self.buckets.load().by_id(id).filter(|bucket| bucket.role == BucketRole::Bucket).cloned()
    }

    /// Whether the bucket still has the layers that `bucket` says.
    pub fn is_present(&self, bucket: &Bucket) -> bool {
        self.present_bucket(bucket.id).is_some_and(|present| present.layers == bucket.layers)
    }

    /// The object of a bucket that has layers.
    pub fn find_in(&self, id: BucketId, key: &Bytes) -> Result<Option<PinnedObject>> {
        self.find_with(id, &|bucket| self.lookup_shown(bucket, key))
    }

    /// The object that a bucket with layers shows, by a lookup in its present layers.
    pub fn find_with(
        &self,
        id: BucketId,
        lookup: &dyn Fn(&Bucket) -> Result<Option<LocatedObject>>,
    ) -> Result<Option<PinnedObject>> {
        let pin = self.epochs.pin();
        let (mut attempt, mut pause) = (0, None);
        while let Some(bucket) = self.present_bucket(id) {
            if bucket.amendments().is_some() {
                self.hold_merges(attempt, &mut pause);
                attempt += 1;
            }
            let merges = self.merges_seen(&bucket);
            let located = lookup(&bucket)?;
            if self.is_present(&bucket) && self.merges_seen(&bucket) == merges {
                return Ok(located.map(|located| PinnedObject::of(located, pin)));
            }
        }
        Ok(None)
    }

    /// To be called before each attempt to read all layers of a bucket. What takes longer than one part of a merge would
    /// never be done while many follow, so merges wait for it in the end.
    pub fn hold_merges(&self, attempt: usize, pause: &mut Option<PauseGuard>) {
        if attempt >= PATIENT_ATTEMPTS && pause.is_none() {
            *pause = Some(self.reclaim_pause.begin());
        }
    }

    /// The number of merges so far, which must stay the same while all layers of a bucket are read.
    fn merges_seen(&self, bucket: &Bucket) -> Option<u64> {
        bucket.amendments().map(|_| self.overlay.read().merges())
    }

    /// The current version of a key in a bucket that has layers, as the index and the overlay have it.
    pub fn lookup_shown(&self, bucket: &Bucket, key: &Bytes) -> Result<Option<LocatedObject>> {
        if bucket.amendments().is_none() {
            return self.lookup_in(&bucket.layers, key);
        }
        let newest = find_newest(self, &bucket.layers, key)?;
        Ok(newest.filter(|newest| !newest.object.version.delete_marker))
    }

    /// The object that these layers show, as the index and the overlay have it. Only for layers without versioning.
    pub fn lookup_in(&self, layers: &[BucketId], key: &Bytes) -> Result<Option<LocatedObject>> {
        for layer in layers {
            if let Some(located) = self.lookup_layer(*layer, key)? {
                return Ok(Some(located));
            }
            let newest = self.newest_below(*layer, key, Sequence::MAX, NewerChanges::default())?;
            let Some(newest) = newest else { continue };
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
