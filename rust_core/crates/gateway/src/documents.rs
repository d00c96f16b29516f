//! Which operations concern which document of a bucket, and what documents mean for other operations.

use super::lane::Lane;
use orcas_record::{BucketId, DocumentKind};
use orcas_s3::Operation;

/// The document that an operation reads, writes or removes.
pub fn kind_of(operation: Operation) -> Option<DocumentKind> {
    Some(match operation {
        Operation::GetBucketAccelerateConfiguration | Operation::PutBucketAccelerateConfiguration => {
            DocumentKind::Accelerate
        }
        Operation::GetBucketCors | Operation::PutBucketCors | Operation::DeleteBucketCors => DocumentKind::Cors,
        Operation::GetBucketEncryption | Operation::PutBucketEncryption | Operation::DeleteBucketEncryption => {
            DocumentKind::Encryption
        }
        Operation::GetBucketLifecycleConfiguration
        | Operation::PutBucketLifecycleConfiguration
        | Operation::DeleteBucketLifecycle => DocumentKind::Lifecycle,
        Operation::GetBucketLogging | Operation::PutBucketLogging => DocumentKind::Logging,
        Operation::GetBucketOwnershipControls
        | Operation::PutBucketOwnershipControls
        | Operation::DeleteBucketOwnershipControls => DocumentKind::OwnershipControls,
        Operation::GetBucketRequestPayment | Operation::PutBucketRequestPayment => DocumentKind::RequestPayment,
        Operation::GetBucketTagging | Operation::PutBucketTagging | Operation::DeleteBucketTagging => {
            DocumentKind::Tagging
        }
        Operation::GetPublicAccessBlock | Operation::PutPublicAccessBlock | Operation::DeletePublicAccessBlock => {
            DocumentKind::PublicAccessBlock
        }
        Operation::GetBucketNotificationConfiguration | Operation::PutBucketNotificationConfiguration => {
            DocumentKind::Notification
        }
        Operation::GetBucketWebsite | Operation::PutBucketWebsite | Operation::DeleteBucketWebsite => {
            DocumentKind::Website
        }
        _ => return None,
    })
}

impl Lane {
    /// Whether the ownership controls of the bucket disable ACLs, as those of a new bucket do.
    pub fn disables_acls(&self, bucket: BucketId) -> bool {
        const ENFORCED: &[u8] = b"BucketOwnerEnforced";
        self.engine
            .document(bucket, DocumentKind::OwnershipControls)
            .is_none_or(|document| document.bytes.windows(ENFORCED.len()).any(|text| text == ENFORCED))
    }
}
