//! All buckets and their documents, in memory; layers and snapshots are buckets too, which clients cannot name. The
//! table is replaced as a whole when one is created, changed or deleted, so readers never wait.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::documents::Documents;
use orcas_base::planted::{self, Bug};
use orcas_decide::snapshot_name;
use orcas_record::{Bucket, BucketId, BucketRole, Record};

#[derive(Clone, Default)]
pub struct BucketTable {
    by_id: HashMap<BucketId, Arc<Bucket>>,
    /// The buckets of clients, by name.
    by_name: BTreeMap<Bytes, Arc<Bucket>>,
    snapshots: BTreeMap<Bytes, Arc<Bucket>>,
    dropped: BTreeSet<BucketId>,
    /// Shared by the copies of this table: few changes concern them.
    documents: Arc<Documents>,
}

impl BucketTable {
    /// Whether `record` changes this table.
    pub fn concerns(record: &Record) -> bool {
        matches!(
            record,
            Record::CreateBucket(_)
                | Record::UpdateBucket(_)
                | Record::DeleteBucket { .. }
                | Record::PutDocument { .. }
        )
    }

    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => {
                self.insert(Arc::new(bucket.clone()));
                if planted::is(Bug::DocumentsInherited) {
                    Arc::make_mut(&mut self.documents).inherit(bucket.id, |former| !self.by_id.contains_key(&former));
                }
            }
            Record::DeleteBucket { bucket } => {
                self.remove(*bucket);
                if !planted::is(Bug::DocumentsInherited) {
                    self.forget_documents(*bucket);
                }
            }
            Record::PutDocument { bucket, kind, document } => {
                Arc::make_mut(&mut self.documents).put(*bucket, *kind, document.clone());
            }
            _ => {}
        }
    }

    /// Adds a bucket or replaces it, perhaps by one with another role.
    pub fn insert(&mut self, bucket: Arc<Bucket>) {
        self.remove(bucket.id);
        match bucket.role {
            BucketRole::Bucket => drop(self.by_name.insert(bucket.name.clone(), Arc::clone(&bucket))),
            BucketRole::Snapshot => drop(self.snapshots.insert(bucket.name.clone(), Arc::clone(&bucket))),
            BucketRole::Layer | BucketRole::Amendments => self.forget_documents(bucket.id),
            BucketRole::Dropped => {
                self.dropped.insert(bucket.id);
                self.forget_documents(bucket.id);
            }
        }
        self.by_id.insert(bucket.id, bucket);
    }

    fn remove(&mut self, id: BucketId) {
        let Some(bucket) = self.by_id.remove(&id) else { return };
        match bucket.role {
            BucketRole::Bucket => drop(self.by_name.remove(&bucket.name)),
            BucketRole::Snapshot => drop(self.snapshots.remove(&bucket.name)),
            BucketRole::Layer | BucketRole::Amendments => {}
            BucketRole::Dropped => drop(self.dropped.remove(&id)),
        }
    }

    fn forget_documents(&mut self, bucket: BucketId) {
        if self.documents.has(bucket) {
            Arc::make_mut(&mut self.documents).remove(bucket);
        }
    }

    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    pub fn by_id(&self, id: BucketId) -> Option<&Arc<Bucket>> {
        self.by_id.get(&id)
    }

    /// The bucket of clients with this name.
    pub fn by_name(&self, name: &[u8]) -> Option<&Arc<Bucket>> {
        self.by_name.get(name)
    }

    /// The snapshot of the name that [`snapshot_name`] gives.
    pub fn snapshot(&self, name: &[u8]) -> Option<&Arc<Bucket>> {
        self.snapshots.get(name)
    }

    pub fn snapshot_count(&self) -> usize {
        self.snapshots.len()
    }

    /// The snapshots of a bucket, in byte order of their names.
    pub fn snapshots_of(&self, bucket: &[u8]) -> impl Iterator<Item = &Arc<Bucket>> {
        let begin = snapshot_name(bucket, b"");
        let from = self.snapshots.range(begin.clone()..);
        from.take_while(move |(name, _)| name.starts_with(&begin)).map(|(_, snapshot)| snapshot)
    }

    /// Whether a bucket or snapshot other than `by` names the layer.
    pub fn is_named_beside(&self, layer: BucketId, by: BucketId) -> bool {
        self.by_id.values().any(|bucket| bucket.id != by && bucket.layers.contains(&layer))
    }

    /// Whether a layer says what became of versions of other layers, and has none of its own.
    pub fn is_amendments(&self, layer: BucketId) -> bool {
        self.by_id(layer).is_some_and(|layer| layer.role == BucketRole::Amendments)
    }

    /// A layer that is to be removed.
    pub fn dropped(&self) -> Option<BucketId> {
        self.dropped.first().copied()
    }

    pub fn of_any_role(&self) -> impl Iterator<Item = &Arc<Bucket>> {
        self.by_id.values()
    }

    /// The buckets of clients, in byte order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Bucket>> {
        self.by_name.values()
    }

    /// The number of buckets of clients.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }
}
