//! Object Lock and versioning in a rewritten log. They fail closed: a version that a lost record may have locked gets a
//! legal hold, and a bucket that has versions or locks keeps them even if the record that enabled them is lost.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::super::collect::Collector;
use super::super::manifests::each_version;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_index::Index;
use orcas_record::{
    self as record, Attributes, Bucket, BucketId, BucketRole, ObjectLock, Record, Sequence, Version, VersionId,
    Versioning,
};

pub struct Locks {
    buckets: BTreeMap<BucketId, Bucket>,
    /// Buckets that are not what their own records say.
    changed: BTreeSet<BucketId>,
    /// Versions of earlier records may have been locked by a record that is lost.
    lost: Sequence,
    /// Versions that got a legal hold.
    held: BTreeMap<BucketId, u64>,
    /// Buckets and layers that have objects.
    filled: BTreeSet<BucketId>,
}

impl Locks {
    /// `index` is one that was built of what the log still says; `lost` is the last record that is lost and may have
    /// locked a version, or 0.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn learn(index: &Index, collector: &Collector<'_>, lost: Sequence) -> Result<Self> {
        let mut buckets = BTreeMap::new();
        for stored in index.read()?.buckets()? {
            if let Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) =
                record::decode(stored.kind, &stored.record)?
            {
                buckets.insert(bucket.id, bucket);
            }
        }
        let (changed, held, filled) = Default::default();
        let mut locks = Self { buckets, changed, lost, held, filled };
        each_version(index, &|| collector.go_on(), &mut |_, version| {
            if let Ok(version) = version {
                locks.see(&version);
            }
            Ok(())
        })?;
        Ok(locks)
    }

    fn see(&mut self, version: &Version) {
        if !version.delete_marker {
            self.filled.insert(version.bucket);
        }
        // A delete marker between layers is no sign of versioning.
        let Some(bucket) = self.buckets.get_mut(&version.bucket).filter(|bucket| bucket.role == BucketRole::Bucket)
        else {
            return;
        };
        let locked = version.attributes.retention.is_some() || version.attributes.legal_hold.is_some();
        let versioned = locked || version.delete_marker || version.version_id != VersionId::Null;
        if versioned && bucket.versioning == Versioning::Unversioned {
            bucket.versioning = Versioning::Enabled;
            self.changed.insert(bucket.id);
        }
        if locked && bucket.object_lock.is_none() {
            bucket.versioning = Versioning::Enabled;
            bucket.object_lock = Some(ObjectLock::default());
            self.changed.insert(bucket.id);
        }
    }

    /// Whether the bucket is a layer, in which a missing object would show an older one below.
    pub fn is_layer(&self, bucket: BucketId) -> bool {
        self.buckets.get(&bucket).is_some_and(|bucket| bucket.role == BucketRole::Layer)
    }

    pub fn has_objects(&self, bucket: BucketId) -> bool {
        self.filled.contains(&bucket)
    }

    pub fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.values()
    }

    pub fn bucket(&self, id: BucketId) -> Option<&Bucket> {
        self.buckets.get(&id)
    }

    pub fn set_layers(&mut self, id: BucketId, layers: Vec<BucketId>) {
        if let Some(bucket) = self.buckets.get_mut(&id) {
            bucket.layers = layers;
            self.changed.insert(id);
        }
    }

    /// The records that make buckets what their versions need.
    pub fn of_buckets(&self) -> impl Iterator<Item = Record> {
        self.changed.iter().filter_map(|id| self.buckets.get(id)).cloned().map(Record::UpdateBucket)
    }

    /// The record that locks the version brought by `sequence`, if a lost record may have done so.
    pub fn hold(&mut self, sequence: Sequence, version: &Version) -> Option<Record> {
        let lock = self.buckets.get(&version.bucket).and_then(|bucket| bucket.object_lock);
        let held = version.delete_marker || version.attributes.legal_hold == Some(true);
        if lock.is_none() || held || sequence >= self.lost || planted::is(Bug::RepairWithoutHolds) {
            return None;
        }
        *self.held.entry(version.bucket).or_default() += 1;
        let attributes = Attributes { legal_hold: Some(true), ..version.attributes.clone() };
        Some(with_attributes_of(sequence, &Version { attributes, ..version.clone() }))
    }

    /// The names of buckets, and how many of their versions got a legal hold.
    pub fn held(&self) -> Vec<(String, u64)> {
        let name = |id: &BucketId| {
            let bucket = self.buckets.get(id);
            bucket.map_or_else(String::new, |bucket| String::from_utf8_lossy(&bucket.name).into_owned())
        };
        self.held.iter().map(|(id, count)| (name(id), *count)).collect()
    }
}

/// The record that gives the version brought by `sequence` the attributes that `version` has.
pub fn with_attributes_of(sequence: Sequence, version: &Version) -> Record {
    Record::UpdateVersion {
        bucket: version.bucket,
        key: Bytes::copy_from_slice(&version.key),
        version_id: version.version_id,
        version: sequence,
        attributes: version.attributes.clone(),
    }
}
