//! The configuration documents of all buckets, in memory as part of the bucket table. The engine does not know what
//! they say: whoever reads one keeps its parsed form with it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use orcas_base::sync::atomic::{AtomicU64, Ordering};
use orcas_record::{BucketId, DocumentKind};

/// A document of a bucket. Empty bytes: it was removed.
pub struct Document {
    pub bytes: Bytes,
    parsed: OnceLock<Option<Arc<dyn Any + Send + Sync>>>,
}

impl Document {
    /// The result of `parse` for the bytes, which is kept, if they could be parsed. `parse` belongs to the kind of the
    /// document: `None` for a result of another type.
    pub fn parsed<T: Send + Sync + 'static>(&self, parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<Arc<T>> {
        let parsed = self.parsed.get_or_init(|| Some(Arc::new(parse(&self.bytes)?)));
        Arc::clone(parsed.as_ref()?).downcast().ok()
    }
}

#[derive(Clone, Default)]
pub struct Documents {
    by_bucket: BTreeMap<(BucketId, DocumentKind), Arc<Document>>,
    /// Bytes of all.
    len: usize,
    /// Documents of each kind that are not empty, by its code.
    in_use: [usize; DocumentKind::ALL.len() + 1],
}

impl Documents {
    pub fn get(&self, bucket: BucketId, kind: DocumentKind) -> Option<&Arc<Document>> {
        self.by_bucket.get(&(bucket, kind))
    }

    /// Bytes of all of them.
    pub fn total_len(&self) -> usize {
        self.len
    }

    /// Buckets that have a document of this kind which is not empty.
    pub fn in_use(&self, kind: DocumentKind) -> usize {
        self.in_use[usize::from(kind.code())]
    }

    pub fn put(&mut self, bucket: BucketId, kind: DocumentKind, bytes: Bytes) {
        self.len += bytes.len();
        self.in_use[usize::from(kind.code())] += usize::from(!bytes.is_empty());
        let document = Arc::new(Document { bytes, parsed: OnceLock::new() });
        let former = self.by_bucket.insert((bucket, kind), document);
        self.uncount(kind, former);
    }

    fn uncount(&mut self, kind: DocumentKind, former: Option<Arc<Document>>) {
        if let Some(former) = former {
            self.len -= former.bytes.len();
            self.in_use[usize::from(kind.code())] -= usize::from(!former.bytes.is_empty());
        }
    }

    /// Gives `heir` the documents of the buckets that `is_gone`: for a deliberate defect.
    pub fn inherit(&mut self, heir: BucketId, is_gone: impl Fn(BucketId) -> bool) {
        let left = std::mem::take(&mut self.by_bucket).into_iter();
        self.by_bucket = left.map(|((of, kind), held)| ((if is_gone(of) { heir } else { of }, kind), held)).collect();
    }

    pub fn has(&self, bucket: BucketId) -> bool {
        DocumentKind::ALL.iter().any(|kind| self.by_bucket.contains_key(&(bucket, *kind)))
    }

    pub fn remove(&mut self, bucket: BucketId) {
        for kind in DocumentKind::ALL {
            let former = self.by_bucket.remove(&(bucket, kind));
            self.uncount(kind, former);
        }
    }
}

/// The kinds of which any bucket has a document that is not empty, as published. Asked without a lock.
#[derive(Default)]
pub struct KindsInUse(AtomicU64);

impl KindsInUse {
    pub fn of(documents: &Documents) -> Self {
        let kinds = Self::default();
        kinds.show(documents);
        kinds
    }

    pub fn show(&self, documents: &Documents) {
        let bit = |kind: &DocumentKind| u64::from(documents.in_use(*kind) > 0) << kind.code();
        self.0.store(DocumentKind::ALL.iter().map(bit).sum(), Ordering::Relaxed);
    }

    #[inline]
    pub fn has(&self, kind: DocumentKind) -> bool {
        self.0.load(Ordering::Relaxed) >> kind.code() & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_counted_and_go_with_their_bucket() {
        let (mine, other) = (BucketId(1), BucketId(2));
        let mut documents = Documents::default();
        documents.put(mine, DocumentKind::Cors, "12345".into());
        documents.put(mine, DocumentKind::Cors, "123".into());
        documents.put(mine, DocumentKind::Tagging, Bytes::new());
        documents.put(other, DocumentKind::Cors, "1".into());
        assert_eq!(documents.total_len(), 4);
        assert!(documents.get(mine, DocumentKind::Tagging).is_some_and(|document| document.bytes.is_empty()));
        assert!(documents.get(mine, DocumentKind::Accelerate).is_none());
        documents.remove(mine);
        assert_eq!((documents.total_len(), documents.has(mine), documents.has(other)), (1, false, true));
    }

    #[test]
    fn buckets_are_counted_whose_document_is_not_empty() {
        for kind in DocumentKind::ALL {
            let mut documents = Documents::default();
            let mut put = |bucket, text: &'static str| {
                documents.put(BucketId(bucket), kind, text.into());
                documents.in_use(kind)
            };
            assert_eq!((put(1, "a"), put(1, "b"), put(2, "a"), put(1, ""), put(1, "")), (1, 1, 2, 1, 1));
            for other in DocumentKind::ALL.into_iter().filter(|other| *other != kind) {
                assert_eq!(documents.in_use(other), 0);
            }
            documents.remove(BucketId(2));
            assert_eq!(documents.in_use(kind), 0);
        }
    }

    #[test]
    fn a_document_is_parsed_once() {
        let mut documents = Documents::default();
        documents.put(BucketId(1), DocumentKind::Cors, "17".into());
        let document = documents.get(BucketId(1), DocumentKind::Cors).unwrap();
        assert_eq!(document.parsed(|bytes| Some(bytes.len())).as_deref(), Some(&2));
        assert_eq!(document.parsed(|_| Some(99_usize)).as_deref(), Some(&2));
        assert!(document.parsed(|_| Some("of another type")).is_none());
    }
}
