//! What the documents of a bucket mean for its requests.

use std::sync::Arc;

use crate::gateway::Gateway;
use orcas_record::BucketId;
use orcas_s3::documents::{BucketDocument, OwnershipControls};

impl Gateway {
    /// The document of a bucket, which is parsed once. `None` if there is none, or as of [`BucketDocument::load`].
    pub fn document<T: BucketDocument>(&self, bucket: BucketId) -> Option<Arc<T>> {
        self.engine.document(bucket, T::KIND)?.parsed(T::load)
    }

    /// Whether the ownership controls of the bucket disable ACLs, as those of a new bucket do.
    pub fn disables_acls(&self, bucket: BucketId) -> bool {
        self.document::<OwnershipControls>(bucket).is_none_or(|controls| controls.disable_acls)
    }
}
