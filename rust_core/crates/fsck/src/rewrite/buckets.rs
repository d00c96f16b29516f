//! The buckets that the records of a damaged log tell of: which are gone, and which have to be made up because the
//! record that created them is lost. Layers and snapshots are buckets too.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::stacks::{KnownLayers, Traces, bare_bucket, lost_bucket_name};
use orcas_base::error::{Error, Result};
use orcas_decide::layer_name;
use orcas_record::{Bucket, BucketId, BucketRole, Record, Sequence};

#[derive(Default)]
pub struct KnownBuckets {
    created: BTreeSet<BucketId>,
    /// Buckets that were layers from the start.
    layers: BTreeSet<BucketId>,
    deleted: BTreeSet<BucketId>,
    /// Buckets that a record puts something into or changes.
    used: BTreeSet<BucketId>,
    /// Traces of the versions that were put into the buckets.
    traces: BTreeMap<BucketId, Traces>,
    /// Buckets as the last record shows them, with its sequence.
    last: BTreeMap<BucketId, (Sequence, Bucket)>,
    /// The bucket that had each name last.
    names: BTreeMap<Bytes, BucketId>,
    /// Buckets whose name a later record gives to another one, with the sequence of that: a record that deleted or
    /// renamed them is lost.
    replaced: BTreeMap<BucketId, Sequence>,
    owner: Bytes,
}

/// A record to put in: at this sequence, or at any of a lost record between the two.
pub enum MadeUp {
    At(Sequence, Bucket),
    Between(Sequence, Sequence, Bucket),
}

impl KnownBuckets {
    /// To be called with every record that can be read, in order.
    pub fn see(&mut self, sequence: Sequence, record: &Record) {
        match record {
            Record::CreateBucket(bucket) => {
                self.created.insert(bucket.id);
                if matches!(bucket.role, BucketRole::Layer | BucketRole::Amendments) {
                    self.layers.insert(bucket.id);
                }
                self.see_bucket(sequence, bucket);
            }
            Record::UpdateBucket(bucket) => {
                self.used.insert(bucket.id);
                self.see_bucket(sequence, bucket);
            }
            Record::DeleteBucket { bucket } => {
                self.deleted.insert(*bucket);
                self.free_name(*bucket);
            }
            record => {
                self.used.extend(bucket_of(record));
                if let Record::PutVersion(version)
                | Record::MoveVersion { version, .. }
                | Record::CompleteUpload { version, .. } = record
                {
                    self.traces.entry(version.bucket).or_default().see(version);
                }
            }
        }
    }

    fn see_bucket(&mut self, sequence: Sequence, bucket: &Bucket) {
        self.owner = bucket.owner.clone();
        self.free_name(bucket.id);
        if let Some(other) = self.names.insert(bucket.name.clone(), bucket.id) {
            self.replaced.insert(other, sequence);
        }
        self.last.insert(bucket.id, (sequence, bucket.clone()));
    }

    fn free_name(&mut self, bucket: BucketId) {
        if let Some((_, known)) = self.last.get(&bucket)
            && self.names.get(&known.name) == Some(&bucket)
        {
            self.names.remove(&known.name);
        }
    }

    /// To be called with every bucket that the index has, if there is one, behind all records.
    pub fn see_stored(&mut self, sequence: Sequence, bucket: Bucket) {
        if self.last.get(&bucket.id).is_some_and(|(known, _)| *known >= sequence) {
            return;
        }
        // The record that ended the use of its former name.
        if self.replaced.get(&bucket.id).is_some_and(|replaced| sequence < *replaced) {
            self.replaced.remove(&bucket.id);
        }
        self.last.insert(bucket.id, (sequence, bucket));
    }

    pub fn is_deleted(&self, bucket: BucketId) -> bool {
        self.deleted.contains(&bucket)
    }

    fn there(&self) -> impl Iterator<Item = &Bucket> {
        self.last.values().map(|(_, bucket)| bucket).filter(|bucket| !self.deleted.contains(&bucket.id))
    }

    /// The layers that a bucket or snapshot names.
    fn named(&self) -> BTreeSet<BucketId> {
        self.there().flat_map(|bucket| bucket.layers.iter().copied()).collect()
    }

    /// A layer that no record creates.
    fn lost_layer(&self, id: BucketId) -> Option<Bucket> {
        let buckets = self.there().map(|bucket| (bucket.id, bucket)).collect();
        let known = KnownLayers { buckets, created: &|layer| self.layers.contains(&layer) };
        known.lost_layer(id, self.traces.get(&id).copied().unwrap_or_default())
    }

    /// The records that the log lacks. To be called once, when everything was seen. The names of buckets that nothing
    /// tells are added to `renamed`.
    pub fn made_up(&mut self, renamed: &mut Vec<String>) -> Vec<MadeUp> {
        let mut records = Vec::new();
        let layers = self.named();
        for (id, until) in std::mem::take(&mut self.replaced) {
            let Some((sequence, bucket)) = self.last.get(&id) else { continue };
            if layers.contains(&id) {
                let name = layer_name(&bucket.name, id);
                let bucket = Bucket { name, role: BucketRole::Layer, layers: Vec::new(), ..bucket.clone() };
                records.push(MadeUp::Between(*sequence, until, bucket));
            } else {
                // Only empty buckets are deleted.
                self.deleted.insert(id);
            }
        }
        let wanted: BTreeSet<BucketId> = self.used.iter().chain(&layers).copied().collect();
        for id in wanted.into_iter().filter(|id| !self.created.contains(id) && !self.deleted.contains(id)) {
            let known = self.last.get(&id).map(|(_, bucket)| bucket.clone());
            let bucket = known.or_else(|| self.lost_layer(id)).unwrap_or_else(|| {
                let name = lost_bucket_name(id);
                renamed.push(name.clone());
                bare_bucket(id, name.into(), self.owner.clone(), BucketRole::Bucket)
            });
            // The id of a bucket is the sequence of its record.
            records.push(MadeUp::At(id.0, bucket));
        }
        records
    }
}

/// The last sequence between two that is of a lost record and still free.
///
/// # Errors
/// `Record` if there is none.
pub fn free_between(
    lost: &[(Sequence, Sequence)],
    (after, before): (Sequence, Sequence),
    is_taken: impl Fn(Sequence) -> bool,
) -> Result<Sequence> {
    let ranges = lost.iter().rev().map(|(first, last)| (*first).max(after + 1)..(*last + 1).min(before));
    let found = ranges.flat_map(Iterator::rev).find(|sequence| !is_taken(*sequence));
    found.ok_or(Error::Record { reason: "two buckets have one name, and no lost record can have ended it" })
}

/// The bucket that the record puts something into or changes.
pub fn bucket_of(record: &Record) -> Option<BucketId> {
    match record {
        Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => Some(bucket.id),
        Record::DeleteBucket { bucket } | Record::DeleteVersion { bucket, .. } | Record::PutDocument { bucket, .. } => {
            Some(*bucket)
        }
        Record::PutVersion(version) | Record::MoveVersion { version, .. } | Record::CompleteUpload { version, .. } => {
            Some(version.bucket)
        }
        Record::CreateUpload(upload) => Some(upload.bucket),
        _ => None,
    }
}
