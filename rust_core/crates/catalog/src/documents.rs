//! The configuration documents of all buckets, in memory as part of the bucket table. The engine does not know what
//! they say: whoever reads one keeps its parsed form with it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use orcas_record::{BucketId, DocumentKind};

/// One document. Empty: it was removed.
pub struct Document {
    pub bytes: Bytes,
    parsed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Document {
    /// What `parse` made of the bytes the first time. `parse` belongs to the kind of the document: `None` for a result
    /// of another type.
    pub fn parsed<T: Send + Sync + 'static>(&self, parse: impl FnOnce(&[u8]) -> T) -> Option<Arc<T>> {
        let parsed = self.parsed.get_or_init(|| Arc::new(parse(&self.bytes)));
        Arc::clone(parsed).downcast().ok()
    }
}

#[derive(Clone, Default)]
pub struct Documents {
    by_bucket: BTreeMap<(BucketId, DocumentKind), Arc<Document>>,
    /// Bytes of all.
    len: usize,
    /// Buckets with a lifecycle document that is not empty.
    lifecycles: usize,
    /// Buckets with default encryption.
    encryptions: usize,
    /// Buckets with a logging document that is not empty.
    logged: usize,
    /// Buckets with a quota.
    limited: usize,
}

impl Documents {
    pub fn get(&self, bucket: BucketId, kind: DocumentKind) -> Option<&Arc<Document>> {
        self.by_bucket.get(&(bucket, kind))
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Buckets with a lifecycle document.
    pub fn lifecycles(&self) -> usize {
        self.lifecycles
    }

    /// Buckets with default encryption.
    pub fn encryptions(&self) -> usize {
        self.encryptions
    }

    /// Whether any bucket has a quota.
    pub fn limits(&self) -> bool {
        self.limited > 0
    }

    /// Whether any bucket has a logging document.
    pub fn logs(&self) -> bool {
        self.logged > 0
    }

    pub fn put(&mut self, bucket: BucketId, kind: DocumentKind, bytes: Bytes) {
        self.len += bytes.len();
        self.lifecycles += usize::from(kind == DocumentKind::Lifecycle && !bytes.is_empty());
        self.encryptions += usize::from(kind == DocumentKind::Encryption && !bytes.is_empty());
        self.logged += usize::from(kind == DocumentKind::Logging && !bytes.is_empty());
        self.limited += usize::from(kind == DocumentKind::Quota && !bytes.is_empty());
        let document = Arc::new(Document { bytes, parsed: OnceLock::new() });
        let former = self.by_bucket.insert((bucket, kind), document);
        self.uncount(kind, former);
    }

    fn uncount(&mut self, kind: DocumentKind, former: Option<Arc<Document>>) {
        if let Some(former) = former {
            self.len -= former.bytes.len();
            self.lifecycles -= usize::from(kind == DocumentKind::Lifecycle && !former.bytes.is_empty());
            self.encryptions -= usize::from(kind == DocumentKind::Encryption && !former.bytes.is_empty());
            self.logged -= usize::from(kind == DocumentKind::Logging && !former.bytes.is_empty());
            self.limited -= usize::from(kind == DocumentKind::Quota && !former.bytes.is_empty());
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
        assert_eq!(documents.len(), 4);
        assert!(documents.get(mine, DocumentKind::Tagging).is_some_and(|document| document.bytes.is_empty()));
        assert!(documents.get(mine, DocumentKind::Accelerate).is_none());
        documents.remove(mine);
        assert_eq!((documents.len(), documents.has(mine), documents.has(other)), (1, false, true));
    }

    #[test]
    fn buckets_with_default_encryption_are_counted() {
        let mut documents = Documents::default();
        let mut put = |bucket, text: &'static str| {
            documents.put(BucketId(bucket), DocumentKind::Encryption, text.into());
            documents.encryptions()
        };
        assert_eq!((put(1, "a"), put(1, "b"), put(2, "a"), put(1, "")), (1, 1, 2, 1));
        documents.remove(BucketId(2));
        assert_eq!(documents.encryptions(), 0);
    }

    #[test]
    fn buckets_with_a_lifecycle_are_counted() {
        let mut documents = Documents::default();
        let mut put = |bucket, text: &'static str| {
            documents.put(BucketId(bucket), DocumentKind::Lifecycle, text.into());
            documents.lifecycles()
        };
        assert_eq!((put(1, "a"), put(1, "b"), put(2, "a"), put(1, ""), put(1, "")), (1, 1, 2, 1, 1));
        documents.put(BucketId(3), DocumentKind::Cors, "a".into());
        documents.remove(BucketId(2));
        assert_eq!(documents.lifecycles(), 0);
    }

    #[test]
    fn logged_buckets_are_counted() {
        let mut documents = Documents::default();
        let mut put = |bucket, text: &'static str| {
            documents.put(BucketId(bucket), DocumentKind::Logging, text.into());
            documents.logs()
        };
        assert_eq!((put(1, ""), put(1, "a"), put(2, "b"), put(1, "")), (false, true, true, true));
        documents.remove(BucketId(2));
        assert!(!documents.logs());
    }

    #[test]
    fn a_document_is_parsed_once() {
        let mut documents = Documents::default();
        documents.put(BucketId(1), DocumentKind::Cors, "17".into());
        let document = documents.get(BucketId(1), DocumentKind::Cors).unwrap();
        assert_eq!(document.parsed(<[u8]>::len).as_deref(), Some(&2));
        assert_eq!(document.parsed(|_| 99_usize).as_deref(), Some(&2));
        assert!(document.parsed(|_| "of another type").is_none());
    }
}
