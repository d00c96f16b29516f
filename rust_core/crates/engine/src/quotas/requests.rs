//! Setting and reading quotas. That of a bucket is one of its documents; those of owners are kept outside the engine.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::super::handle::Handle;
use orcas_decide::{Failure, Intent, Quota};
use orcas_record::{BucketId, DocumentKind};

impl Handle {
    /// The quota of a bucket, from memory; no limits if it has none.
    pub fn quota(&self, bucket: BucketId) -> Quota {
        let document = self.document(bucket, DocumentKind::Quota);
        document.and_then(|document| Quota::from_document(&document.bytes)).unwrap_or_default()
    }

    /// Gives a bucket a quota. It holds for every write that is decided after it. Blocking.
    ///
    /// # Errors
    /// As of [`Handle::execute`].
    pub fn set_quota(&self, bucket: BucketId, quota: Quota) -> Result<(), Failure> {
        let document = Bytes::from(quota.to_document());
        self.execute(Intent::PutDocument { bucket, kind: DocumentKind::Quota, document }).map(drop)
    }

    /// The quotas of owners, in place of those before. They hold for every write that is submitted after this.
    pub fn set_owner_quotas(&self, quotas: HashMap<Bytes, Quota>) {
        *self.shared.quotas.owners.write() = Arc::new(quotas);
    }
}
