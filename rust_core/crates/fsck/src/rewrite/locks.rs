//! Object Lock and versioning in a rewritten log. They fail closed: a version that a lost record may have locked gets a
//! legal hold, and a bucket that has versions or locks keeps them even if the record that enabled them is lost. What its
//! layers have, a bucket has.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::collect::Collector;
use crate::manifests::each_version;
use crate::stacks::reported_names;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_index::Index;
use orcas_record::{
    self as record, Attributes, Bucket, BucketId, BucketRole, ObjectLock, Record, Sequence, Version, VersionId,
    Versioning,
};

/// The last records that are lost and may have locked a version, or 0.
#[derive(Clone, Copy, Default)]
pub struct LostLocks {
    /// The last lost update of any version.
    pub updates: Sequence,
    /// The last lost amendment of a version in a layer.
    pub amendments: Sequence,
}

pub struct Locks {
    buckets: BTreeMap<BucketId, Bucket>,
    /// Buckets that are not what their own records say.
    changed: BTreeSet<BucketId>,
    /// Versions of earlier records may have been locked by these.
    lost: LostLocks,
    /// Buckets and layers in which somebody locked a version.
    locked: BTreeSet<BucketId>,
    /// Buckets with Object Lock, and their layers.
    lockable: BTreeSet<BucketId>,
    /// Lockable layers that have amendments above them or are amendments.
    amended: BTreeSet<BucketId>,
    /// Versions that got a legal hold.
    held: BTreeMap<BucketId, u64>,
    /// Buckets and layers that have objects.
    filled: BTreeSet<BucketId>,
}

impl Locks {
    /// `index` is one that was built of what the log still says.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn learn(index: &Index, collector: &Collector<'_>, lost: LostLocks) -> Result<Self> {
        let mut buckets = BTreeMap::new();
        for stored in index.read()?.buckets()? {
            if let Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) =
                record::decode(stored.kind, &stored.record)?
            {
                buckets.insert(bucket.id, bucket);
            }
        }
        let (changed, held, filled) = Default::default();
        let (locked, lockable, amended) = Default::default();
        let mut locks = Self { buckets, changed, lost, locked, lockable, amended, held, filled };
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
        let locked = version.attributes.retention.is_some() || version.attributes.legal_hold.is_some();
        if locked {
            self.locked.insert(version.bucket);
        }
        // A delete marker between layers is no sign of versioning.
        let Some(bucket) = self.buckets.get_mut(&version.bucket).filter(|bucket| bucket.role == BucketRole::Bucket)
        else {
            return;
        };
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

    pub fn has_objects(&self, bucket: BucketId) -> bool {
        self.filled.contains(&bucket)
    }

    pub fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.values()
    }

    pub fn bucket(&self, id: BucketId) -> Option<&Bucket> {
        self.buckets.get(&id)
    }

    /// One that was made up, whose record needs no change.
    pub fn insert(&mut self, bucket: Bucket) {
        self.buckets.insert(bucket.id, bucket);
    }

    pub fn set_layers(&mut self, id: BucketId, layers: Vec<BucketId>, versioning: Versioning) {
        if let Some(bucket) = self.buckets.get_mut(&id) {
            (bucket.layers, bucket.versioning) = (layers, versioning);
            self.changed.insert(id);
        }
    }

    /// To be called once all buckets have the layers that they get: a bucket has the locks that its layers have.
    pub fn see_stacks(&mut self) {
        let has_lock = |layer: &BucketId| {
            self.locked.contains(layer) || self.buckets.get(layer).is_some_and(|layer| layer.object_lock.is_some())
        };
        let is_open = |bucket: &&Bucket| bucket.role == BucketRole::Bucket && bucket.object_lock.is_none();
        let open = self.buckets.values().filter(is_open);
        let lacking: Vec<BucketId> =
            open.filter(|bucket| bucket.layers.iter().any(has_lock)).map(|bucket| bucket.id).collect();
        for id in lacking {
            if let Some(bucket) = self.buckets.get_mut(&id) {
                bucket.versioning = Versioning::Enabled;
                bucket.object_lock = Some(ObjectLock::default());
                self.changed.insert(id);
            }
        }
        for bucket in self.buckets.values().filter(|bucket| bucket.object_lock.is_some()) {
            self.lockable.extend(std::iter::once(&bucket.id).chain(&bucket.layers));
            self.amended.extend(bucket.layers.iter().skip(1));
        }
    }

    /// The records that make buckets what their versions need.
    pub fn of_buckets(&self) -> impl Iterator<Item = Record> {
        self.changed.iter().filter_map(|id| self.buckets.get(id)).cloned().map(Record::UpdateBucket)
    }

    /// The record that locks the version brought by `sequence`, if a lost record may have done so.
    pub fn hold(&mut self, sequence: Sequence, version: &Version) -> Option<Record> {
        let held = version.delete_marker || version.attributes.legal_hold == Some(true);
        let updates = if self.lockable.contains(&version.bucket) { self.lost.updates } else { 0 };
        let amendments = if self.amended.contains(&version.bucket) { self.lost.amendments } else { 0 };
        if held || sequence >= updates.max(amendments) || planted::is(Bug::RepairWithoutHolds) {
            return None;
        }
        *self.held.entry(version.bucket).or_default() += 1;
        let attributes = Attributes { legal_hold: Some(true), ..version.attributes.clone() };
        Some(with_attributes_of(sequence, &Version { attributes, ..version.clone() }))
    }

    /// The names of buckets, and how many of their versions got a legal hold.
    pub fn held(&self) -> Vec<(String, u64)> {
        let names = reported_names(self.buckets.values());
        let mut held: BTreeMap<String, u64> = BTreeMap::new();
        for (id, count) in &self.held {
            *held.entry(names.get(id).cloned().unwrap_or_default()).or_default() += count;
        }
        held.into_iter().collect()
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
