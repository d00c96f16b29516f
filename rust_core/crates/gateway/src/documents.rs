//! What the documents of a bucket mean for operations on other things.

use super::lane::Lane;
use orcas_record::{BucketId, DocumentKind};

impl Lane {
    /// Whether the ownership controls of the bucket disable ACLs, as those of a new bucket do.
    pub fn disables_acls(&self, bucket: BucketId) -> bool {
        const ENFORCED: &[u8] = b"BucketOwnerEnforced";
        self.engine
            .document(bucket, DocumentKind::OwnershipControls)
            .is_none_or(|document| document.bytes.windows(ENFORCED.len()).any(|text| text == ENFORCED))
    }
}
