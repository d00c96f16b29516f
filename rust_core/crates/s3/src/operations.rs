//! The operations of the S3 API by name, whether this server has them or not.
//!
//! `resolve` finds the operation of a request. The caller has the table of those that are implemented.

use std::num::NonZeroU8;

use super::errors::{ErrorCode, S3Error};

macro_rules! operations {
    ($($name:ident),+ $(,)?) => {
        /// Every operation that a request can be: those of the API (older names of the same request left out), the
        /// browser form upload, and the extensions: MoveObject, InstantUpload (which needs the permission that
        /// PutObject needs), PutBucketSettings (a change of the bucket's configuration).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Operation { $($name,)+ }

        impl Operation {
            pub const ALL: &'static [Operation] = &[$(Operation::$name,)+];

            /// The number under which the log knows it. It never changes.
            pub fn code(self) -> NonZeroU8 {
                NonZeroU8::MIN.saturating_add(self as u8)
            }

            /// The operation with this code.
            pub fn from_code(code: NonZeroU8) -> Option<Self> {
                Self::ALL.get(usize::from(code.get()) - 1).copied()
            }

            /// Whether it changes anything in the store.
            pub fn changes(self) -> bool {
                !["Get", "Head", "List"].iter().any(|reads| self.name().starts_with(reads))
            }

            /// The name of the API, e.g. `PutObject`.
            pub fn name(self) -> &'static str {
                match self { $(Operation::$name => stringify!($name),)+ }
            }
        }
    };
}

// The order is that of the codes: a new operation stands at the end.
#[rustfmt::skip]
operations! {
    AbortMultipartUpload, CompleteMultipartUpload, CopyObject, CreateBucket, CreateBucketMetadataConfiguration,
    CreateBucketMetadataTableConfiguration, CreateMultipartUpload, CreateSession, DeleteBucket,
    DeleteBucketAnalyticsConfiguration, DeleteBucketCors, DeleteBucketEncryption,
    DeleteBucketIntelligentTieringConfiguration, DeleteBucketInventoryConfiguration, DeleteBucketLifecycle,
    DeleteBucketMetadataConfiguration, DeleteBucketMetadataTableConfiguration,
    DeleteBucketMetricsConfiguration, DeleteBucketOwnershipControls, DeleteBucketPolicy,
    DeleteBucketReplication, DeleteBucketTagging, DeleteBucketWebsite, DeleteObject, DeleteObjectAnnotation,
    DeleteObjectTagging, DeleteObjects, DeletePublicAccessBlock, GetBucketAbac,
    GetBucketAccelerateConfiguration, GetBucketAcl, GetBucketAnalyticsConfiguration, GetBucketCors,
    GetBucketEncryption, GetBucketIntelligentTieringConfiguration, GetBucketInventoryConfiguration,
    GetBucketLifecycleConfiguration, GetBucketLocation, GetBucketLogging, GetBucketMetadataConfiguration,
    GetBucketMetadataTableConfiguration, GetBucketMetricsConfiguration, GetBucketNotificationConfiguration,
    GetBucketOwnershipControls, GetBucketPolicy, GetBucketPolicyStatus, GetBucketReplication,
    GetBucketRequestPayment, GetBucketTagging, GetBucketVersioning, GetBucketWebsite, GetObject, GetObjectAcl,
    GetObjectAnnotation, GetObjectAttributes, GetObjectLegalHold, GetObjectLockConfiguration,
    GetObjectRetention, GetObjectTagging, GetObjectTorrent, GetPublicAccessBlock, HeadBucket, HeadObject,
    InstantUpload, ListBucketAnalyticsConfigurations, ListBucketIntelligentTieringConfigurations,
    ListBucketInventoryConfigurations, ListBucketMetricsConfigurations, ListBuckets, ListMultipartUploads,
    ListObjectAnnotations, ListObjectVersions, ListObjects, ListObjectsV2, ListParts, MoveObject, PostObject,
    PutBucketAbac, PutBucketAccelerateConfiguration, PutBucketAcl, PutBucketAnalyticsConfiguration,
    PutBucketCors, PutBucketEncryption, PutBucketIntelligentTieringConfiguration,
    PutBucketInventoryConfiguration, PutBucketLifecycleConfiguration, PutBucketLogging,
    PutBucketMetricsConfiguration, PutBucketNotificationConfiguration, PutBucketOwnershipControls,
    PutBucketPolicy, PutBucketReplication, PutBucketRequestPayment, PutBucketSettings, PutBucketTagging,
    PutBucketVersioning, PutBucketWebsite, PutObject, PutObjectAcl, PutObjectAnnotation, PutObjectLegalHold,
    PutObjectLockConfiguration, PutObjectRetention, PutObjectTagging, PutPublicAccessBlock, RenameObject,
    RestoreObject, SelectObjectContent, UpdateBucketMetadataAnnotationTableConfiguration,
    UpdateBucketMetadataInventoryTableConfiguration, UpdateBucketMetadataJournalTableConfiguration,
    UpdateObjectEncryption, UploadPart, UploadPartCopy, WriteGetObjectResponse,
}

/// How AWS bills requests: see the prices of Amazon S3, "Requests & data retrievals".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// PUT, COPY, POST and LIST.
    Write,
    /// GET, HEAD, SELECT and all others.
    Read,
    /// DELETE and what aborts an upload.
    Free,
}

impl Operation {
    pub fn class(self) -> RequestClass {
        let name = self.name();
        let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
        match () {
            () if begins(&["Get", "Head", "Select"]) => RequestClass::Read,
            () if begins(&["Delete", "Abort"]) => RequestClass::Free,
            () => RequestClass::Write,
        }
    }

    /// The error for an operation that is not implemented.
    pub fn not_implemented(self) -> S3Error {
        S3Error::with(ErrorCode::NotImplemented, format!("The operation {} is not implemented", self.name()))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the document is a file of the repository")]
mod tests {
    use super::*;

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format.md");

    #[test]
    fn requests_are_billed_as_aws_bills_them() {
        let of = |class| Operation::ALL.iter().filter(move |it| it.class() == class).map(|it| it.name());
        let is = |name: &str, words: &[&str]| words.iter().any(|word| name.starts_with(word));
        assert!(of(RequestClass::Free).all(|name| is(name, &["Delete", "Abort"])));
        assert!(of(RequestClass::Read).all(|name| is(name, &["Get", "Head", "Select"])));
        let writes: Vec<_> = of(RequestClass::Write).collect();
        for name in ["PutObject", "CopyObject", "PostObject", "ListObjectsV2", "ListBuckets", "UploadPart"] {
            assert!(writes.contains(&name), "{name}");
        }
        let all = [RequestClass::Free, RequestClass::Read, RequestClass::Write].map(|class| of(class).count());
        assert_eq!(all.iter().sum::<usize>(), Operation::ALL.len());
    }

    #[test]
    fn the_document_lists_the_codes() {
        let document = std::fs::read_to_string(DOCUMENT).unwrap();
        let (_, section) = document.split_once("### Codes of operations").unwrap();
        let listed: Vec<(u8, &str)> = section
            .lines()
            .skip_while(|line| !line.starts_with("| `"))
            .take_while(|line| line.starts_with("| `"))
            .flat_map(|line| line.trim_matches('|').split('|'))
            .filter_map(|cell| cell.trim().split_once(' '))
            .map(|(code, name)| (code.trim_matches('`').parse().unwrap(), name))
            .collect();
        let codes: Vec<(u8, &str)> = Operation::ALL.iter().map(|it| (it.code().get(), it.name())).collect();
        assert_eq!(listed, codes);
    }
}
