//! What each operation needs permission for: the IAM actions of its requests, and what each is about. Data only, from the
//! Service Authorization Reference, <https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html>.
//!
//! The extensions and RenameObject, which AWS has in directory buckets only, are composed of the actions of S3: MoveObject
//! and RenameObject read and delete one object and write another. Actions that a single header needs, such as
//! `s3:PutObjectTagging` for `x-amz-tagging`, are not listed.

use super::operations::Operation;

/// What an action is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The buckets of the sender.
    Service,
    Bucket,
    Object,
    /// The object that a copy or a move begins with. Its name is in a header.
    Source,
    /// Objects of the bucket whose keys are in the body.
    Entries,
}

/// An action, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    pub subject: Subject,
    /// The action; after it the one that takes its place if the request names a version.
    actions: &'static [&'static str],
}

impl Permission {
    /// `versioned`: the request names a version of the subject.
    pub fn action(&self, versioned: bool) -> &'static str {
        if versioned { self.actions[self.actions.len() - 1] } else { self.actions[0] }
    }
}

macro_rules! permissions {
    ($($operation:ident: $($subject:ident $action:literal $(or $versioned:literal)?),+;)+) => {
        impl Operation {
            /// All of them are needed; there is at least one.
            pub fn permissions(self) -> &'static [Permission] {
                match self {
                    $(Self::$operation => &[
                        $(Permission { subject: Subject::$subject, actions: &[$action $(, $versioned)?] }),+
                    ],)+
                }
            }
        }
    };
}

permissions! {
    AbortMultipartUpload: Object "s3:AbortMultipartUpload";
    CompleteMultipartUpload: Object "s3:PutObject";
    CopyObject: Object "s3:PutObject", Source "s3:GetObject" or "s3:GetObjectVersion";
    CreateBucket: Bucket "s3:CreateBucket";
    CreateBucketMetadataConfiguration: Bucket "s3:CreateBucketMetadataTableConfiguration";
    CreateBucketMetadataTableConfiguration: Bucket "s3:CreateBucketMetadataTableConfiguration";
    CreateMultipartUpload: Object "s3:PutObject";
    CreateSession: Bucket "s3express:CreateSession";
    DeleteBucket: Bucket "s3:DeleteBucket";
    DeleteBucketAnalyticsConfiguration: Bucket "s3:PutAnalyticsConfiguration";
    DeleteBucketCors: Bucket "s3:PutBucketCORS";
    DeleteBucketEncryption: Bucket "s3:PutEncryptionConfiguration";
    DeleteBucketIntelligentTieringConfiguration: Bucket "s3:PutIntelligentTieringConfiguration";
    DeleteBucketInventoryConfiguration: Bucket "s3:PutInventoryConfiguration";
    DeleteBucketLifecycle: Bucket "s3:PutLifecycleConfiguration";
    DeleteBucketMetadataConfiguration: Bucket "s3:DeleteBucketMetadataTableConfiguration";
    DeleteBucketMetadataTableConfiguration: Bucket "s3:DeleteBucketMetadataTableConfiguration";
    DeleteBucketMetricsConfiguration: Bucket "s3:PutMetricsConfiguration";
    DeleteBucketOwnershipControls: Bucket "s3:PutBucketOwnershipControls";
    DeleteBucketPolicy: Bucket "s3:DeleteBucketPolicy";
    DeleteBucketReplication: Bucket "s3:PutReplicationConfiguration";
    DeleteBucketTagging: Bucket "s3:PutBucketTagging";
    DeleteBucketWebsite: Bucket "s3:DeleteBucketWebsite";
    DeleteObject: Object "s3:DeleteObject" or "s3:DeleteObjectVersion";
    DeleteObjectAnnotation: Object "s3:DeleteObjectAnnotation";
    DeleteObjectTagging: Object "s3:DeleteObjectTagging" or "s3:DeleteObjectVersionTagging";
    DeleteObjects: Entries "s3:DeleteObject" or "s3:DeleteObjectVersion";
    DeletePublicAccessBlock: Bucket "s3:PutBucketPublicAccessBlock";
    GetBucketAbac: Bucket "s3:GetBucketAbac";
    GetBucketAccelerateConfiguration: Bucket "s3:GetAccelerateConfiguration";
    GetBucketAcl: Bucket "s3:GetBucketAcl";
    GetBucketAnalyticsConfiguration: Bucket "s3:GetAnalyticsConfiguration";
    GetBucketCors: Bucket "s3:GetBucketCORS";
    GetBucketEncryption: Bucket "s3:GetEncryptionConfiguration";
    GetBucketIntelligentTieringConfiguration: Bucket "s3:GetIntelligentTieringConfiguration";
    GetBucketInventoryConfiguration: Bucket "s3:GetInventoryConfiguration";
    GetBucketLifecycleConfiguration: Bucket "s3:GetLifecycleConfiguration";
    GetBucketLocation: Bucket "s3:GetBucketLocation";
    GetBucketLogging: Bucket "s3:GetBucketLogging";
    GetBucketMetadataConfiguration: Bucket "s3:GetBucketMetadataTableConfiguration";
    GetBucketMetadataTableConfiguration: Bucket "s3:GetBucketMetadataTableConfiguration";
    GetBucketMetricsConfiguration: Bucket "s3:GetMetricsConfiguration";
    GetBucketNotificationConfiguration: Bucket "s3:GetBucketNotification";
    GetBucketOwnershipControls: Bucket "s3:GetBucketOwnershipControls";
    GetBucketPolicy: Bucket "s3:GetBucketPolicy";
    GetBucketPolicyStatus: Bucket "s3:GetBucketPolicyStatus";
    GetBucketReplication: Bucket "s3:GetReplicationConfiguration";
    GetBucketRequestPayment: Bucket "s3:GetBucketRequestPayment";
    GetBucketTagging: Bucket "s3:GetBucketTagging";
    GetBucketVersioning: Bucket "s3:GetBucketVersioning";
    GetBucketWebsite: Bucket "s3:GetBucketWebsite";
    GetObject: Object "s3:GetObject" or "s3:GetObjectVersion";
    GetObjectAcl: Object "s3:GetObjectAcl" or "s3:GetObjectVersionAcl";
    GetObjectAnnotation: Object "s3:GetObjectAnnotation";
    GetObjectAttributes: Object "s3:GetObject" or "s3:GetObjectVersion",
        Object "s3:GetObjectAttributes" or "s3:GetObjectVersionAttributes";
    GetObjectLegalHold: Object "s3:GetObjectLegalHold";
    GetObjectLockConfiguration: Bucket "s3:GetBucketObjectLockConfiguration";
    GetObjectRetention: Object "s3:GetObjectRetention";
    GetObjectTagging: Object "s3:GetObjectTagging" or "s3:GetObjectVersionTagging";
    GetObjectTorrent: Object "s3:GetObjectTorrent" or "s3:GetObjectVersionTorrent";
    GetPublicAccessBlock: Bucket "s3:GetBucketPublicAccessBlock";
    HeadBucket: Bucket "s3:ListBucket";
    HeadObject: Object "s3:GetObject" or "s3:GetObjectVersion";
    InstantUpload: Object "s3:PutObject";
    ListBucketAnalyticsConfigurations: Bucket "s3:GetAnalyticsConfiguration";
    ListBucketIntelligentTieringConfigurations: Bucket "s3:GetIntelligentTieringConfiguration";
    ListBucketInventoryConfigurations: Bucket "s3:GetInventoryConfiguration";
    ListBucketMetricsConfigurations: Bucket "s3:GetMetricsConfiguration";
    ListBuckets: Service "s3:ListAllMyBuckets";
    ListMultipartUploads: Bucket "s3:ListBucketMultipartUploads";
    ListObjectAnnotations: Object "s3:ListObjectAnnotations";
    ListObjectVersions: Bucket "s3:ListBucketVersions";
    ListObjects: Bucket "s3:ListBucket";
    ListObjectsV2: Bucket "s3:ListBucket";
    ListParts: Object "s3:ListMultipartUploadParts";
    MoveObject: Object "s3:PutObject", Source "s3:GetObject" or "s3:GetObjectVersion",
        Source "s3:DeleteObject" or "s3:DeleteObjectVersion";
    PostObject: Object "s3:PutObject";
    PutBucketAbac: Bucket "s3:PutBucketAbac";
    PutBucketAccelerateConfiguration: Bucket "s3:PutAccelerateConfiguration";
    PutBucketAcl: Bucket "s3:PutBucketAcl";
    PutBucketAnalyticsConfiguration: Bucket "s3:PutAnalyticsConfiguration";
    PutBucketCors: Bucket "s3:PutBucketCORS";
    PutBucketEncryption: Bucket "s3:PutEncryptionConfiguration";
    PutBucketIntelligentTieringConfiguration: Bucket "s3:PutIntelligentTieringConfiguration";
    PutBucketInventoryConfiguration: Bucket "s3:PutInventoryConfiguration";
    PutBucketLifecycleConfiguration: Bucket "s3:PutLifecycleConfiguration";
    PutBucketLogging: Bucket "s3:PutBucketLogging";
    PutBucketMetricsConfiguration: Bucket "s3:PutMetricsConfiguration";
    PutBucketNotificationConfiguration: Bucket "s3:PutBucketNotification";
    PutBucketOwnershipControls: Bucket "s3:PutBucketOwnershipControls";
    PutBucketPolicy: Bucket "s3:PutBucketPolicy";
    PutBucketReplication: Bucket "s3:PutReplicationConfiguration";
    PutBucketRequestPayment: Bucket "s3:PutBucketRequestPayment";
    PutBucketSettings: Bucket "orcas:PutBucketSettings";
    PutBucketTagging: Bucket "s3:PutBucketTagging";
    PutBucketVersioning: Bucket "s3:PutBucketVersioning";
    PutBucketWebsite: Bucket "s3:PutBucketWebsite";
    PutObject: Object "s3:PutObject";
    PutObjectAcl: Object "s3:PutObjectAcl" or "s3:PutObjectVersionAcl";
    PutObjectAnnotation: Object "s3:PutObjectAnnotation";
    PutObjectLegalHold: Object "s3:PutObjectLegalHold";
    PutObjectLockConfiguration: Bucket "s3:PutBucketObjectLockConfiguration";
    PutObjectRetention: Object "s3:PutObjectRetention";
    PutObjectTagging: Object "s3:PutObjectTagging" or "s3:PutObjectVersionTagging";
    PutPublicAccessBlock: Bucket "s3:PutBucketPublicAccessBlock";
    RenameObject: Object "s3:PutObject", Source "s3:GetObject", Source "s3:DeleteObject";
    RestoreObject: Object "s3:RestoreObject";
    SelectObjectContent: Object "s3:GetObject";
    UpdateBucketMetadataAnnotationTableConfiguration: Bucket "s3:UpdateBucketMetadataAnnotationTableConfiguration";
    UpdateBucketMetadataInventoryTableConfiguration: Bucket "s3:UpdateBucketMetadataInventoryTableConfiguration";
    UpdateBucketMetadataJournalTableConfiguration: Bucket "s3:UpdateBucketMetadataJournalTableConfiguration";
    UpdateObjectEncryption: Object "s3:UpdateObjectEncryption";
    UploadPart: Object "s3:PutObject";
    UploadPartCopy: Object "s3:PutObject", Source "s3:GetObject" or "s3:GetObjectVersion";
    WriteGetObjectResponse: Service "s3-object-lambda:WriteGetObjectResponse";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::{Level, ROUTES};

    /// From the service model that boto3 has, `documentation` of each operation, and the user guide's table of required
    /// permissions: an operation, the actions without and with a version, and what they are about.
    const REFERENCE: &str = include_str!("testdata/permissions.tsv");

    #[test]
    fn every_operation_needs_what_the_reference_says() {
        let shown = |operation: &Operation| {
            let permissions = operation.permissions();
            let of = |versioned| permissions.iter().map(|it| it.action(versioned)).collect::<Vec<_>>().join(" ");
            let subjects = permissions.iter().map(|it| format!("{:?}", it.subject)).collect::<Vec<_>>().join(" ");
            format!("{}\t{}\t{}\t{subjects}", operation.name(), of(false), of(true))
        };
        let table: Vec<String> = Operation::ALL.iter().map(shown).collect();
        assert_eq!(table, REFERENCE.lines().collect::<Vec<_>>());
    }

    #[test]
    fn actions_are_about_what_the_address_names() {
        for route in ROUTES {
            for permission in route.operation.permissions() {
                let fits = match permission.subject {
                    Subject::Bucket | Subject::Entries => route.level == Level::Bucket,
                    Subject::Object | Subject::Source => route.level == Level::Object,
                    Subject::Service => false,
                };
                assert!(fits, "{:?} {permission:?}", route.operation);
            }
        }
    }
}
