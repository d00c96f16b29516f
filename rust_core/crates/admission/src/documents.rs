//! The documents of buckets, as access decisions and operations read them.

use std::sync::Arc;

use orcas_engine::Handle;
use orcas_record::BucketId;
use orcas_s3::documents::{BucketDocument, OwnershipControls};

/// The document of a bucket, which is parsed once. `None` if there is none, or as of [`BucketDocument::load`].
pub fn document<T: BucketDocument>(engine: &Handle, bucket: BucketId) -> Option<Arc<T>> {
    engine.document(bucket, T::KIND)?.parsed(T::load)
}

/// Whether the ownership controls of the bucket disable ACLs, as those of a new bucket do.
pub fn disables_acls(engine: &Handle, bucket: BucketId) -> bool {
    document::<OwnershipControls>(engine, bucket).is_none_or(|controls| controls.disable_acls)
}
