//! The actions of S3, and the actions that a statement is about. An action is not the name of an operation: HeadObject needs
//! `s3:GetObject`, and ListObjectsV2 `s3:ListBucket`.
//!
//! Which actions of S3 a statement matches is found out once, when it is read. Actions of other services are compared.

use crate::context::Asked;
use crate::context::Steps;
use crate::pattern::{Case, Pattern, Syntax};
use ResourceType::{Account, Bucket, Object};

/// The kind of resource that an action is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceType {
    Account,
    Bucket,
    Object,
}

/// The actions of S3 in the order of their names.
/// <https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html>
#[rustfmt::skip]
pub const S3_ACTIONS: &[(&str, ResourceType)] = &[
    ("s3:AbortMultipartUpload", Object),
    ("s3:BypassGovernanceRetention", Object),
    ("s3:CreateBucket", Bucket),
    ("s3:CreateBucketMetadataTableConfiguration", Bucket),
    ("s3:DeleteBucket", Bucket),
    ("s3:DeleteBucketMetadataTableConfiguration", Bucket),
    ("s3:DeleteBucketPolicy", Bucket),
    ("s3:DeleteBucketWebsite", Bucket),
    ("s3:DeleteObject", Object),
    ("s3:DeleteObjectAnnotation", Object),
    ("s3:DeleteObjectTagging", Object),
    ("s3:DeleteObjectVersion", Object),
    ("s3:DeleteObjectVersionTagging", Object),
    ("s3:GetAccelerateConfiguration", Bucket),
    ("s3:GetAccountPublicAccessBlock", Account),
    ("s3:GetAnalyticsConfiguration", Bucket),
    ("s3:GetBucketAbac", Bucket),
    ("s3:GetBucketAcl", Bucket),
    ("s3:GetBucketCORS", Bucket),
    ("s3:GetBucketLocation", Bucket),
    ("s3:GetBucketLogging", Bucket),
    ("s3:GetBucketMetadataTableConfiguration", Bucket),
    ("s3:GetBucketNotification", Bucket),
    ("s3:GetBucketObjectLockConfiguration", Bucket),
    ("s3:GetBucketOwnershipControls", Bucket),
    ("s3:GetBucketPolicy", Bucket),
    ("s3:GetBucketPolicyStatus", Bucket),
    ("s3:GetBucketPublicAccessBlock", Bucket),
    ("s3:GetBucketRequestPayment", Bucket),
    ("s3:GetBucketTagging", Bucket),
    ("s3:GetBucketVersioning", Bucket),
    ("s3:GetBucketWebsite", Bucket),
    ("s3:GetEncryptionConfiguration", Bucket),
    ("s3:GetIntelligentTieringConfiguration", Bucket),
    ("s3:GetInventoryConfiguration", Bucket),
    ("s3:GetLifecycleConfiguration", Bucket),
    ("s3:GetMetricsConfiguration", Bucket),
    ("s3:GetObject", Object),
    ("s3:GetObjectAcl", Object),
    ("s3:GetObjectAnnotation", Object),
    ("s3:GetObjectAttributes", Object),
    ("s3:GetObjectLegalHold", Object),
    ("s3:GetObjectRetention", Object),
    ("s3:GetObjectTagging", Object),
    ("s3:GetObjectTorrent", Object),
    ("s3:GetObjectVersion", Object),
    ("s3:GetObjectVersionAcl", Object),
    ("s3:GetObjectVersionAttributes", Object),
    ("s3:GetObjectVersionForReplication", Object),
    ("s3:GetObjectVersionTagging", Object),
    ("s3:GetObjectVersionTorrent", Object),
    ("s3:GetReplicationConfiguration", Bucket),
    ("s3:InitiateReplication", Object),
    ("s3:ListAllMyBuckets", Account),
    ("s3:ListBucket", Bucket),
    ("s3:ListBucketMultipartUploads", Bucket),
    ("s3:ListBucketVersions", Bucket),
    ("s3:ListMultipartUploadParts", Object),
    ("s3:ListObjectAnnotations", Object),
    // Of MinIO.
    ("s3:ListenBucketNotification", Bucket),
    ("s3:ObjectOwnerOverrideToBucketOwner", Object),
    ("s3:PutAccelerateConfiguration", Bucket),
    ("s3:PutAccountPublicAccessBlock", Account),
    ("s3:PutAnalyticsConfiguration", Bucket),
    ("s3:PutBucketAbac", Bucket),
    ("s3:PutBucketAcl", Bucket),
    ("s3:PutBucketCORS", Bucket),
    ("s3:PutBucketLogging", Bucket),
    ("s3:PutBucketNotification", Bucket),
    ("s3:PutBucketObjectLockConfiguration", Bucket),
    ("s3:PutBucketOwnershipControls", Bucket),
    ("s3:PutBucketPolicy", Bucket),
    ("s3:PutBucketPublicAccessBlock", Bucket),
    ("s3:PutBucketRequestPayment", Bucket),
    ("s3:PutBucketTagging", Bucket),
    ("s3:PutBucketVersioning", Bucket),
    ("s3:PutBucketWebsite", Bucket),
    ("s3:PutEncryptionConfiguration", Bucket),
    ("s3:PutIntelligentTieringConfiguration", Bucket),
    ("s3:PutInventoryConfiguration", Bucket),
    ("s3:PutLifecycleConfiguration", Bucket),
    ("s3:PutMetricsConfiguration", Bucket),
    ("s3:PutObject", Object),
    ("s3:PutObjectAcl", Object),
    ("s3:PutObjectAnnotation", Object),
    ("s3:PutObjectLegalHold", Object),
    ("s3:PutObjectRetention", Object),
    ("s3:PutObjectTagging", Object),
    ("s3:PutObjectVersionAcl", Object),
    ("s3:PutObjectVersionTagging", Object),
    ("s3:PutReplicationConfiguration", Bucket),
    ("s3:ReplicateDelete", Object),
    ("s3:ReplicateObject", Object),
    ("s3:ReplicateTags", Object),
    ("s3:RestoreObject", Object),
    ("s3:TagResource", Bucket),
    ("s3:UpdateBucketMetadataAnnotationTableConfiguration", Bucket),
    ("s3:UpdateBucketMetadataInventoryTableConfiguration", Bucket),
    ("s3:UpdateBucketMetadataJournalTableConfiguration", Bucket),
    ("s3:UpdateObjectEncryption", Object),
];

const _: () = assert!(S3_ACTIONS.len() <= u128::BITS as usize, "an action of S3 is a bit of a number");

/// The bit of an action of S3. None for an action of another service, and for one in other case.
pub(crate) fn bit(action: &str) -> u128 {
    S3_ACTIONS.binary_search_by(|(name, _)| (*name).cmp(action)).map_or(0, |place| 1 << place)
}

/// The element Action or NotAction.
#[derive(Debug)]
pub(crate) struct Actions {
    negated: bool,
    texts: Vec<ActionText>,
    /// The actions of S3 that it means.
    pub bits: u128,
}

/// An action as it stands in a statement.
#[derive(Debug)]
pub(crate) struct ActionText {
    pub text: String,
    pattern: Pattern,
    /// The actions of S3 that it matches.
    bits: u128,
}

impl ActionText {
    /// The actions of S3 that it matches.
    pub fn matching(&self) -> impl Iterator<Item = (&'static str, ResourceType)> {
        S3_ACTIONS.iter().enumerate().filter(|(place, _)| self.bits >> place & 1 == 1).map(|(_, action)| *action)
    }
}

impl Actions {
    pub fn new(texts: &[&str], negated: bool) -> Self {
        let (syntax, steps) = (Syntax { wildcards: true, variables: false }, Steps::new(u32::MAX));
        let asked = Asked { context: &(), steps: &steps };
        let read = |text: &&str| {
            // Without variables there is none that cannot be read.
            let pattern = Pattern::parse(text, syntax)?;
            let matches = |name: &str| pattern.matches(name.as_bytes(), Case::Ignored, &asked);
            let each = S3_ACTIONS.iter().enumerate();
            let bits = each.fold(0, |bits, (place, (name, _))| bits | u128::from(matches(name)) << place);
            Some(ActionText { text: (*text).to_owned(), pattern, bits })
        };
        let texts: Vec<ActionText> = texts.iter().filter_map(read).collect();
        let bits = texts.iter().fold(0, |bits, text| bits | text.bits);
        Self { negated, texts, bits: if negated { !bits } else { bits } }
    }

    /// Whether it means an action.
    pub fn names(&self, action: &str, asked: &Asked<'_>) -> bool {
        let mut texts = self.texts.iter();
        texts.any(|text| text.pattern.matches(action.as_bytes(), Case::Ignored, asked)) != self.negated
    }

    pub fn texts(&self) -> impl Iterator<Item = &ActionText> {
        self.texts.iter()
    }

    pub fn are_negated(&self) -> bool {
        self.negated
    }
}
