//! All buckets and their documents, in memory. The table is replaced as a whole when a bucket is created, changed or
//! deleted, so readers never wait.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::documents::Documents;
use orcas_base::planted::{self, Bug};
use orcas_record::{Bucket, BucketId, Record};

#[derive(Clone, Default)]
pub(super) struct BucketTable {
    by_id: HashMap<BucketId, Arc<Bucket>>,
    by_name: BTreeMap<Bytes, Arc<Bucket>>,
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
                if let Some(bucket) = self.by_id.remove(bucket) {
                    self.by_name.remove(&bucket.name);
                }
                if self.documents.has(*bucket) && !planted::is(Bug::DocumentsInherited) {
                    Arc::make_mut(&mut self.documents).remove(*bucket);
                }
            }
            Record::PutDocument { bucket, kind, document } => {
                Arc::make_mut(&mut self.documents).put(*bucket, *kind, document.clone());
            }
            _ => {}
        }
    }

    pub fn insert(&mut self, bucket: Arc<Bucket>) {
        self.by_name.insert(bucket.name.clone(), Arc::clone(&bucket));
        self.by_id.insert(bucket.id, bucket);
    }

    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    pub fn by_id(&self, id: BucketId) -> Option<&Arc<Bucket>> {
        self.by_id.get(&id)
    }

    pub fn by_name(&self, name: &[u8]) -> Option<&Arc<Bucket>> {
        self.by_name.get(name)
    }

    /// In byte order of the names.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Bucket>> {
        self.by_name.values()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}
