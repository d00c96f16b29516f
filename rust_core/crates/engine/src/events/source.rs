//! The changes that records make, in their order. Keeps the buckets of clients as they are between two records, because
//! records name them by number and a later one may have removed them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::change::{Change, ChangeKind};
use orcas_base::error::{Error, Result};
use orcas_catalog::BucketTable;
use orcas_checksum::{Etag, Md5Hasher};
use orcas_journal::Place;
use orcas_record::{
    self as record, Bucket, BucketId, BucketRole, Cause, DocumentKind, Record, Version, VersionId, Versioning,
};

/// A version that is this much older than its event is a replica with the time of its source: no event waits for so long.
/// After a crash, events are compared with those before them.
const OLD_MS: u64 = 15 * 60 * 1_000;

#[derive(Default)]
pub(super) struct Source {
    buckets: HashMap<BucketId, Arc<Bucket>>,
    /// The bucket whose objects are written under this id.
    shown: HashMap<BucketId, BucketId>,
    /// The bucket whose amendments are written under this id.
    amended: HashMap<BucketId, BucketId>,
    /// The version that the record before this one removed, if it did.
    removed: Option<Removed>,
}

/// A version whose removal from the top layer of a bucket with amendments was an event.
struct Removed {
    sequence: u64,
    of: (BucketId, Bytes, VersionId),
}

impl Removed {
    /// Whether the record with this sequence came next and is about the same version.
    fn is_before(&self, sequence: u64, of: &(BucketId, Bytes, VersionId)) -> bool {
        self.sequence + 1 == sequence && self.of == *of
    }
}

/// The changes that a record brings.
#[derive(Default)]
pub(super) struct Brought {
    pub changes: Vec<Change>,
    /// The state is another one now.
    pub state: bool,
}

impl Source {
    /// The buckets as they are now.
    pub fn of(table: &BucketTable) -> Self {
        let mut source = Self::default();
        table.all().for_each(|bucket| source.insert(Arc::clone(bucket)));
        source
    }

    /// The buckets as the journal has kept them.
    pub fn restored(states: &[Vec<u8>]) -> Result<Self> {
        let mut source = Self::default();
        for state in states {
            let (kind, payload) = state.split_first().ok_or(Error::Record { reason: "a state has no bytes" })?;
            match record::decode(*kind, &Bytes::copy_from_slice(payload))? {
                Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => drop(source.replace(&bucket)),
                Record::DeleteBucket { bucket } => drop(source.remove(bucket)),
                _ => return Err(Error::Record { reason: "a state is about no bucket" }),
            }
        }
        Ok(source)
    }

    /// The states that `restored` takes.
    pub fn states(&self) -> Vec<Vec<u8>> {
        let encoded = |bucket: &Arc<Bucket>| {
            let mut out = vec![0];
            out[0] = record::encode(&Record::UpdateBucket(Bucket::clone(bucket)), &mut out);
            out
        };
        self.buckets.values().map(encoded).collect()
    }

    /// The next record. `now_ms` is the time of what has none of its own.
    pub fn take(&mut self, sequence: u64, record: &Record, cause: Cause, now_ms: u64) -> Brought {
        let mut made = Making { sequence, cause, now_ms, changes: Vec::new() };
        let mut state = false;
        let removed = self.removed.take();
        match record {
            Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => {
                let (id, created_ms) = (bucket.id, bucket.created_ms);
                let former = self.replace(bucket);
                let now = self.buckets.get(&id);
                state = former.is_some() || now.is_some();
                match (former, now) {
                    (None, Some(bucket)) => made.bucket(ChangeKind::BucketCreated, bucket, created_ms),
                    (Some(bucket), None) => made.bucket(ChangeKind::BucketRemoved, &bucket, now_ms),
                    _ => {}
                }
            }
            Record::DeleteBucket { bucket } => {
                if let Some(bucket) = self.remove(*bucket) {
                    state = true;
                    made.bucket(ChangeKind::BucketRemoved, &bucket, now_ms);
                }
            }
            // What clients see stays as it is.
            Record::PutVersion(_) if cause == Cause::Sealing => {}
            Record::PutVersion(version) => {
                if let Some(bucket) = self.of_amendment(version.bucket) {
                    // What became of a version that a lower layer has.
                    let of = (bucket.id, version.key.clone(), version.version_id);
                    match version.delete_marker {
                        false => made.removed(ChangeKind::Updated, bucket, &version.key, version.version_id),
                        // The same deletion removed the null version of the top layer.
                        true if removed.as_ref().is_some_and(|removed| removed.is_before(sequence, &of)) => {}
                        true => made.removed(ChangeKind::Removed, bucket, &version.key, version.version_id),
                    }
                } else if let Some(bucket) = self.of_object(version.bucket) {
                    match (version.delete_marker, bucket.versioning) {
                        (false, _) => made.stored(ChangeKind::Stored, bucket, version, time_of(version, now_ms)),
                        // It hides the object of a lower layer, which clients see as gone.
                        (true, Versioning::Unversioned) => {
                            made.removed(ChangeKind::Removed, bucket, &version.key, version.version_id);
                        }
                        (true, _) => made.removed(ChangeKind::Marked, bucket, &version.key, version.version_id),
                    }
                }
            }
            Record::CompleteUpload { version, .. } => {
                if let Some(bucket) = self.of_object(version.bucket) {
                    made.stored(ChangeKind::Completed, bucket, version, time_of(version, now_ms));
                }
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                if let Some(bucket) = self.of_object(version.bucket) {
                    // Its time is that of the object, not that of the move.
                    made.stored(ChangeKind::Renamed, bucket, version, now_ms);
                }
                if let Some(bucket) = self.of_object(*from_bucket) {
                    made.removed(ChangeKind::Removed, bucket, from_key, version.version_id);
                }
            }
            Record::DeleteVersion { bucket, key, version_id } => {
                if let Some(bucket) = self.of_object(*bucket) {
                    let amended = bucket.amendments().map(|_| (bucket.id, key.clone(), *version_id));
                    made.removed(ChangeKind::Removed, bucket, key, *version_id);
                    self.removed = amended.map(|of| Removed { sequence, of });
                }
            }
            Record::UpdateVersion { bucket, key, version_id, .. } => {
                if let Some(bucket) = self.of_object(*bucket).or_else(|| self.of_amendment(*bucket)) {
                    made.removed(ChangeKind::Updated, bucket, key, *version_id);
                }
            }
            Record::PutDocument { bucket, kind: DocumentKind::Notification, document } => {
                // Not for a fork, which gets a copy of the document.
                if !document.is_empty()
                    && matches!(cause, Cause::Request(_))
                    && let Some(bucket) = self.buckets.get(bucket)
                {
                    let change = made.change(ChangeKind::Configured, bucket, now_ms);
                    let etag = Etag::simple(Md5Hasher::digest(document));
                    made.push(Change { content: Some((document.len() as u64, etag)), ..change });
                }
            }
            Record::PutDocument { .. }
            | Record::CreatePack { .. }
            | Record::Content { .. }
            | Record::Chunk { .. }
            | Record::Segment { .. }
            | Record::CreateUpload(_)
            | Record::PutPart(_)
            | Record::AbortUpload { .. }
            | Record::RememberUpload { .. }
            | Record::CondemnBlobs { .. }
            | Record::MoveChunks { .. }
            | Record::RetirePack { .. }
            | Record::MoveContents { .. }
            | Record::ReplaceLog { .. } => {}
        }
        Brought { changes: made.changes, state }
    }

    fn of_object(&self, layer: BucketId) -> Option<&Bucket> {
        self.buckets.get(self.shown.get(&layer)?).map(|bucket| &**bucket)
    }

    fn of_amendment(&self, layer: BucketId) -> Option<&Bucket> {
        self.buckets.get(self.amended.get(&layer)?).map(|bucket| &**bucket)
    }

    /// Replaces a bucket, also by one that clients do not see any more. Returns the former one.
    fn replace(&mut self, bucket: &Bucket) -> Option<Arc<Bucket>> {
        let former = self.remove(bucket.id);
        if bucket.role == BucketRole::Bucket {
            self.insert(Arc::new(bucket.clone()));
        }
        former
    }

    fn insert(&mut self, bucket: Arc<Bucket>) {
        self.shown.insert(bucket.top(), bucket.id);
        if let Some(layer) = bucket.amendments() {
            self.amended.insert(layer, bucket.id);
        }
        self.buckets.insert(bucket.id, bucket);
    }

    fn remove(&mut self, id: BucketId) -> Option<Arc<Bucket>> {
        let bucket = self.buckets.remove(&id)?;
        self.shown.remove(&bucket.top());
        if let Some(layer) = bucket.amendments() {
            self.amended.remove(&layer);
        }
        Some(bucket)
    }
}

/// When a version was stored. A replica has the time of its source, so one that is old says nothing about that.
fn time_of(version: &Version, now_ms: u64) -> u64 {
    let is_old = version.modified_ms < now_ms.saturating_sub(OLD_MS);
    if is_old { now_ms } else { version.modified_ms }
}

/// The changes of one record.
struct Making {
    sequence: u64,
    cause: Cause,
    now_ms: u64,
    changes: Vec<Change>,
}

impl Making {
    fn push(&mut self, change: Change) {
        let ordinal = self.changes.len() as u16;
        self.changes.push(Change { place: Place { sequence: self.sequence, ordinal }, ..change });
    }

    fn change(&self, kind: ChangeKind, bucket: &Bucket, time_ms: u64) -> Change {
        Change {
            place: Place::default(),
            time_ms,
            kind,
            cause: self.cause,
            bucket: bucket.id,
            bucket_name: bucket.name.clone(),
            owner: bucket.owner.clone(),
            key: Bytes::new(),
            version: None,
            content: None,
        }
    }

    fn bucket(&mut self, kind: ChangeKind, bucket: &Bucket, time_ms: u64) {
        let change = self.change(kind, bucket, time_ms);
        self.push(change);
    }

    fn stored(&mut self, kind: ChangeKind, bucket: &Bucket, version: &Version, time_ms: u64) {
        let change = self.change(kind, bucket, time_ms);
        let content = Some((version.size, version.etag));
        self.push(Change { key: version.key.clone(), version: shown(bucket, version.version_id), content, ..change });
    }

    fn removed(&mut self, kind: ChangeKind, bucket: &Bucket, key: &Bytes, id: VersionId) {
        let change = self.change(kind, bucket, self.now_ms);
        self.push(Change { key: key.clone(), version: shown(bucket, id), ..change });
    }
}

/// Versions have names only where there is or was versioning.
fn shown(bucket: &Bucket, id: VersionId) -> Option<VersionId> {
    (bucket.versioning != Versioning::Unversioned).then_some(id)
}
