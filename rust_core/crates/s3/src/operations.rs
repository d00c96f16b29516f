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
    /// GET, HEAD and SELECT.
    Read,
    /// DELETE and what aborts an upload.
    Free,
}

impl Operation {
    #[rustfmt::skip]
    pub fn class(self) -> RequestClass {
        use Operation::*;
        match self {
            AbortMultipartUpload | DeleteBucket | DeleteBucketAnalyticsConfiguration | DeleteBucketCors
            | DeleteBucketEncryption | DeleteBucketIntelligentTieringConfiguration
            | DeleteBucketInventoryConfiguration | DeleteBucketLifecycle | DeleteBucketMetadataConfiguration
            | DeleteBucketMetadataTableConfiguration | DeleteBucketMetricsConfiguration
            | DeleteBucketOwnershipControls | DeleteBucketPolicy | DeleteBucketReplication | DeleteBucketTagging
            | DeleteBucketWebsite | DeleteObject | DeleteObjectAnnotation | DeleteObjectTagging | DeleteObjects
            | DeletePublicAccessBlock => RequestClass::Free,
            CreateSession | GetBucketAbac | GetBucketAccelerateConfiguration | GetBucketAcl
            | GetBucketAnalyticsConfiguration | GetBucketCors | GetBucketEncryption
            | GetBucketIntelligentTieringConfiguration | GetBucketInventoryConfiguration
            | GetBucketLifecycleConfiguration | GetBucketLocation | GetBucketLogging
            | GetBucketMetadataConfiguration | GetBucketMetadataTableConfiguration | GetBucketMetricsConfiguration
            | GetBucketNotificationConfiguration | GetBucketOwnershipControls | GetBucketPolicy
            | GetBucketPolicyStatus | GetBucketReplication | GetBucketRequestPayment | GetBucketTagging
            | GetBucketVersioning | GetBucketWebsite | GetObject | GetObjectAcl | GetObjectAnnotation
            | GetObjectAttributes | GetObjectLegalHold | GetObjectLockConfiguration | GetObjectRetention
            | GetObjectTagging | GetObjectTorrent | GetPublicAccessBlock | HeadBucket | HeadObject
            | SelectObjectContent => RequestClass::Read,
            CompleteMultipartUpload | CopyObject | CreateBucket | CreateBucketMetadataConfiguration
            | CreateBucketMetadataTableConfiguration | CreateMultipartUpload | InstantUpload
            | ListBucketAnalyticsConfigurations | ListBucketIntelligentTieringConfigurations
            | ListBucketInventoryConfigurations | ListBucketMetricsConfigurations | ListBuckets
            | ListMultipartUploads | ListObjectAnnotations | ListObjectVersions | ListObjects | ListObjectsV2
            | ListParts | MoveObject | PostObject | PutBucketAbac | PutBucketAccelerateConfiguration | PutBucketAcl
            | PutBucketAnalyticsConfiguration | PutBucketCors | PutBucketEncryption
            | PutBucketIntelligentTieringConfiguration | PutBucketInventoryConfiguration
            | PutBucketLifecycleConfiguration | PutBucketLogging | PutBucketMetricsConfiguration
            | PutBucketNotificationConfiguration | PutBucketOwnershipControls | PutBucketPolicy
            | PutBucketReplication | PutBucketRequestPayment | PutBucketSettings | PutBucketTagging
            | PutBucketVersioning | PutBucketWebsite | PutObject | PutObjectAcl | PutObjectAnnotation
            | PutObjectLegalHold | PutObjectLockConfiguration | PutObjectRetention | PutObjectTagging
            | PutPublicAccessBlock | RenameObject | RestoreObject
            | UpdateBucketMetadataAnnotationTableConfiguration | UpdateBucketMetadataInventoryTableConfiguration
            | UpdateBucketMetadataJournalTableConfiguration | UpdateObjectEncryption | UploadPart | UploadPartCopy
            | WriteGetObjectResponse => RequestClass::Write,
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

    /// Names say the class, by the method of the request, except for these.
    #[rustfmt::skip]
    const BILLED_OTHERWISE: [(&str, RequestClass); 21] = [
        ("AbortMultipartUpload", RequestClass::Free), ("CompleteMultipartUpload", RequestClass::Write),
        ("CopyObject", RequestClass::Write), ("CreateBucket", RequestClass::Write),
        ("CreateBucketMetadataConfiguration", RequestClass::Write),
        ("CreateBucketMetadataTableConfiguration", RequestClass::Write),
        ("CreateMultipartUpload", RequestClass::Write), ("CreateSession", RequestClass::Read),
        ("InstantUpload", RequestClass::Write), ("MoveObject", RequestClass::Write),
        ("PostObject", RequestClass::Write), ("RenameObject", RequestClass::Write),
        ("RestoreObject", RequestClass::Write), ("SelectObjectContent", RequestClass::Read),
        ("UpdateBucketMetadataAnnotationTableConfiguration", RequestClass::Write),
        ("UpdateBucketMetadataInventoryTableConfiguration", RequestClass::Write),
        ("UpdateBucketMetadataJournalTableConfiguration", RequestClass::Write),
        ("UpdateObjectEncryption", RequestClass::Write), ("UploadPart", RequestClass::Write),
        ("UploadPartCopy", RequestClass::Write), ("WriteGetObjectResponse", RequestClass::Write),
    ];

    #[test]
    fn requests_are_billed_as_aws_bills_them() {
        let by_method = [
            ("Put", RequestClass::Write),
            ("List", RequestClass::Write),
            ("Get", RequestClass::Read),
            ("Head", RequestClass::Read),
            ("Delete", RequestClass::Free),
        ];
        let expected = |name: &str| {
            let otherwise = BILLED_OTHERWISE.iter().find(|(other, _)| *other == name);
            let class = otherwise.or_else(|| by_method.iter().find(|(method, _)| name.starts_with(method)));
            class.map(|(_, class)| *class)
        };
        for operation in Operation::ALL {
            assert_eq!(Some(operation.class()), expected(operation.name()), "{}", operation.name());
        }
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
