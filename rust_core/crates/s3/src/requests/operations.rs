//! The operations of the S3 API, whether this server has them or not: one row for each, from which everything else
//! follows. The functions that perform them are in a table of the caller.

use std::num::NonZeroU8;

use crate::errors::ErrorCode::{
    self, MetadataConfigurationNotFound, NoSuchBucketPolicy, NoSuchCORSConfiguration, NoSuchConfiguration,
    NoSuchLifecycleConfiguration, NoSuchPublicAccessBlockConfiguration, NoSuchTagSet, NoSuchWebsiteConfiguration,
    OwnershipControlsNotFoundError, ReplicationConfigurationNotFoundError,
    ServerSideEncryptionConfigurationNotFoundError,
};
use crate::errors::S3Error;
use Absent::{Pulled, Refused, Shown};
use RequestBody::{Content, DigestedDocument, Document};
use RequestClass::{Free, Read, Write};
use SourceHeader::{Copied, Moved, Renamed};
use orcas_events::EventName::{
    self, ObjectAclPut, ObjectAnnotationDelete, ObjectAnnotationPut, ObjectCreatedCopy, ObjectCreatedPost,
    ObjectCreatedPut, ObjectRetentionPut, ObjectTaggingDelete, ObjectTaggingPut,
};
use orcas_record::DocumentKind::{
    self, Accelerate, Acl, Cors, Encryption, Lifecycle, Logging, Notification, OwnershipControls, Policy,
    PublicAccessBlock, Replication, RequestPayment, Tagging, Website,
};

/// A row of the table of operations.
pub struct OperationSpec {
    name: &'static str,
    pub method: Method,
    pub address: AddressKind,
    /// The name in the query that means the operation. `resolve` tells those apart that have none.
    pub subresource: Option<&'static str>,
    /// A second name that the query must have. Without it, the request is the operation that needs none.
    pub parameter: Option<&'static str>,
    /// All of them are needed; there is at least one. If one manages permissions, a change is in the audit log.
    pub permissions: &'static [Permission],
    /// How AWS bills it, if not by its method.
    class: Option<RequestClass>,
    /// The kind of body, if the operation has one.
    pub body: Option<RequestBody>,
    /// The document of a bucket that it reads, writes or removes.
    pub document: Option<DocumentKind>,
    /// The answer if the thing that the operation reads or removes does not exist.
    pub absent: Option<Absent>,
    /// The answer instead if it existed and was removed.
    pub removed: Option<ErrorCode>,
    /// The header that names the object that a copy or a move begins with.
    pub source: Option<SourceHeader>,
    /// The status of success, if that does not follow from its method.
    status: Option<u16>,
    /// The event of the change, if what was changed does not say it.
    pub event: Option<EventName>,
    /// The name in the server access logs of buckets, if that is not made of the operation's own.
    pub log: Option<&'static str>,
}

/// The methods that S3 operations use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Delete,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }

    pub fn parse(method: &[u8]) -> Option<Self> {
        match method {
            b"GET" => Some(Self::Get),
            b"HEAD" => Some(Self::Head),
            b"PUT" => Some(Self::Put),
            b"POST" => Some(Self::Post),
            b"DELETE" => Some(Self::Delete),
            _ => None,
        }
    }
}

/// The kind of address of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    Service,
    Bucket,
    Object,
}

/// The subject of an action.
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

/// What is answered if there is none of what is asked for: of configurations, what S3 answers for a new bucket, whose
/// owner alone may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Objects: the origin of the bucket may have it, and it is fetched from there.
    Pulled,
    Refused(ErrorCode),
    /// The document with this root element and this content.
    Shown(&'static str, &'static str),
}

/// A header that names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceHeader {
    /// Headers say which of its parts go with the copy.
    Copied(&'static str),
    /// All of the source moves.
    Moved(&'static str),
    /// All of the source moves, within the bucket.
    Renamed(&'static str),
}

/// A part of the source that a copy or a move hands over beside content and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Tags,
    Annotations,
}

/// An IAM action, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    pub subject: Subject,
    /// The part of the source that the action is for: needed only if the source has it, and it goes with the copy.
    pub part: Option<Part>,
    /// The action; after it the one that takes its place if the request names a version.
    pub(super) actions: &'static [&'static str],
}

impl Permission {
    /// `versioned`: the request names a version of the subject.
    pub fn action(&self, versioned: bool) -> &'static str {
        if versioned { self.actions[self.actions.len() - 1] } else { self.actions[0] }
    }
}

/// Whether an action is about who may do what: AWS's access level of it is "Permissions management". The audit log has every
/// request that needs such an action.
pub(crate) fn manages_permissions(action: &str) -> bool {
    matches!(
        action,
        "s3:BypassGovernanceRetention"
            | "s3:DeleteBucketPolicy"
            | "s3:PutBucketAcl"
            | "s3:PutBucketOwnershipControls"
            | "s3:PutBucketPolicy"
            | "s3:PutBucketPublicAccessBlock"
            | "s3:PutObjectAcl"
            | "s3:PutObjectVersionAcl"
    )
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

/// The kinds of bodies of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    Document,
    /// A document that must come with a digest.
    DigestedDocument,
    /// Bytes that are stored as they are.
    Content,
}

/// The content of lists that have no entries.
const NO_ENTRIES: &str = "<IsTruncated>false</IsTruncated>";
/// ACLs are disabled.
const ENFORCED: &str = "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>";
/// All public access is blocked.
const BLOCKED: &str = "<BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>\
    <BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets>";

macro_rules! part {
    () => {
        None
    };
    ($name:ident) => {
        Some(Part::$name)
    };
}

macro_rules! operations {
    ($(
        $code:literal $name:ident: $method:ident $address:ident $($subresource:literal $(& $parameter:literal)?)?
        => $($subject:ident $action:literal $(or $versioned:literal)? $(of $part:ident)?),+ $({ $($field:ident: $value:expr),+ })?;
    )+) => {
        /// Every operation that a request can be: those of the API (older names of the same request left out), the
        /// browser form upload, and the extensions: MoveObject, InstantUpload (which needs the permission that
        /// PutObject needs), PutBucketSettings (a change of the bucket's configuration).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Operation { $($name,)+ }

        static SPECS: &[OperationSpec] = &[$(OperationSpec {
            $(subresource: Some($subresource), $(parameter: Some($parameter),)?)?
            $($($field: Some($value),)+)?
            ..OperationSpec::new(stringify!($name), Method::$method, AddressKind::$address, &[$(
                Permission {
                    subject: Subject::$subject,
                    part: part!($($part)?),
                    actions: &[$action $(, $versioned)?],
                }
            ),+])
        },)+];

        impl Operation {
            pub const ALL: &'static [Operation] = &[$(Operation::$name,)+];
        }

        /// The sub-resource with this name.
        pub fn subresource(name: &[u8]) -> Option<&'static str> {
            #[expect(unreachable_patterns, reason = "a sub-resource has a row for each method")]
            match std::str::from_utf8(name).ok()? {
                $($($subresource => Some($subresource),)?)+
                _ => None,
            }
        }

        // Codes are those of the order, so that each has one operation and each operation a place in tables.
        const _: () = {
            let (codes, mut place) = ([$($code),+], 0);
            while place < codes.len() {
                assert!(codes[place] == place + 1, "the code of an operation is the number of its row");
                place += 1;
            }
        };
    };
}

// Code and name: method, what the address names, "sub-resource" & "what else the query must have" => what an action is
// about and the IAM action, or the one that takes its place if the request names a version { what else `OperationSpec` has }.
//
// The log knows an operation by its code, which never changes: a new operation gets the next one. Actions are those of
// the Service Authorization Reference:
// <https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html>
//
// Extensions and RenameObject, which AWS has in directory buckets only, are composed of the actions of S3: MoveObject
// and RenameObject read and delete one object and write another. An action `of` a part of the source is needed if the
// source has it and it goes with the copy. What headers need beside these is in
// `stored_headers`. The first action of a row says what those of its headers are about.
operations! {
      1 AbortMultipartUpload: Delete Object => Object "s3:AbortMultipartUpload" { log: "REST.DELETE.UPLOAD" };
      2 CompleteMultipartUpload: Post Object => Object "s3:PutObject" { body: Document, log: "REST.POST.UPLOAD" };
      3 CopyObject: Put Object => Object "s3:PutObject", Source "s3:GetObject" or "s3:GetObjectVersion",
           Source "s3:GetObjectTagging" or "s3:GetObjectVersionTagging" of Tags, Object "s3:PutObjectTagging" of Tags,
           Source "s3:GetObjectAnnotation" of Annotations, Object "s3:PutObjectAnnotation" of Annotations
        { event: ObjectCreatedCopy, log: "REST.COPY.OBJECT", source: Copied("x-amz-copy-source") };
      4 CreateBucket: Put Bucket
        => Bucket "s3:CreateBucket" { body: Document, log: "REST.PUT.BUCKET" };
      5 CreateBucketMetadataConfiguration: Post Bucket "metadataConfiguration"
        => Bucket "s3:CreateBucketMetadataTableConfiguration" { body: Document };
      6 CreateBucketMetadataTableConfiguration: Post Bucket "metadataTable"
        => Bucket "s3:CreateBucketMetadataTableConfiguration" { body: Document };
      7 CreateMultipartUpload: Post Object "uploads"
        => Object "s3:PutObject" { log: "REST.POST.UPLOADS" };
      8 CreateSession: Get Bucket "session" => Bucket "s3express:CreateSession";
      9 DeleteBucket: Delete Bucket => Bucket "s3:DeleteBucket" { log: "REST.DELETE.BUCKET" };
     10 DeleteBucketAnalyticsConfiguration: Delete Bucket "analytics" & "id" => Bucket "s3:PutAnalyticsConfiguration"
        { absent: Refused(NoSuchConfiguration) };
     11 DeleteBucketCors: Delete Bucket "cors" => Bucket "s3:PutBucketCORS" { document: Cors, log: "REST.DELETE.CORS" };
     12 DeleteBucketEncryption: Delete Bucket "encryption"
        => Bucket "s3:PutEncryptionConfiguration" { document: Encryption, log: "REST.DELETE.ENCRYPTION" };
     13 DeleteBucketIntelligentTieringConfiguration: Delete Bucket "intelligent-tiering" & "id"
        => Bucket "s3:PutIntelligentTieringConfiguration" { absent: Refused(NoSuchConfiguration) };
     14 DeleteBucketInventoryConfiguration: Delete Bucket "inventory" & "id" => Bucket "s3:PutInventoryConfiguration"
        { absent: Refused(NoSuchConfiguration) };
     15 DeleteBucketLifecycle: Delete Bucket "lifecycle"
        => Bucket "s3:PutLifecycleConfiguration" { document: Lifecycle, log: "REST.DELETE.LIFECYCLE" };
     16 DeleteBucketMetadataConfiguration: Delete Bucket "metadataConfiguration"
        => Bucket "s3:DeleteBucketMetadataTableConfiguration";
     17 DeleteBucketMetadataTableConfiguration: Delete Bucket "metadataTable"
        => Bucket "s3:DeleteBucketMetadataTableConfiguration";
     18 DeleteBucketMetricsConfiguration: Delete Bucket "metrics" & "id" => Bucket "s3:PutMetricsConfiguration"
        { absent: Refused(NoSuchConfiguration) };
     19 DeleteBucketOwnershipControls: Delete Bucket "ownershipControls"
        => Bucket "s3:PutBucketOwnershipControls" { document: OwnershipControls };
     20 DeleteBucketPolicy: Delete Bucket "policy"
        => Bucket "s3:DeleteBucketPolicy" { document: Policy, log: "REST.DELETE.BUCKETPOLICY" };
     21 DeleteBucketReplication: Delete Bucket "replication" => Bucket "s3:PutReplicationConfiguration"
        { document: Replication };
     22 DeleteBucketTagging: Delete Bucket "tagging"
        => Bucket "s3:PutBucketTagging" { document: Tagging, log: "REST.DELETE.TAGGING" };
     23 DeleteBucketWebsite: Delete Bucket "website"
        => Bucket "s3:DeleteBucketWebsite" { document: Website, log: "REST.DELETE.WEBSITE" };
     24 DeleteObject: Delete Object
        => Object "s3:DeleteObject" or "s3:DeleteObjectVersion" { log: "REST.DELETE.OBJECT" };
     25 DeleteObjectAnnotation: Delete Object "annotation" & "annotationName"
        => Object "s3:DeleteObjectAnnotation" { event: ObjectAnnotationDelete };
     26 DeleteObjectTagging: Delete Object "tagging"
        => Object "s3:DeleteObjectTagging" or "s3:DeleteObjectVersionTagging"
        { event: ObjectTaggingDelete, log: "REST.DELETE.OBJECT_TAGGING" };
     27 DeleteObjects: Post Bucket "delete" => Entries "s3:DeleteObject" or "s3:DeleteObjectVersion"
        { class: Free, body: DigestedDocument, log: "REST.POST.MULTI_OBJECT_DELETE" };
     28 DeletePublicAccessBlock: Delete Bucket "publicAccessBlock"
        => Bucket "s3:PutBucketPublicAccessBlock" { document: PublicAccessBlock };
     29 GetBucketAbac: Get Bucket "abac" => Bucket "s3:GetBucketAbac"
        { absent: Shown("AbacStatus", "<Status>Disabled</Status>") };
     30 GetBucketAccelerateConfiguration: Get Bucket "accelerate"
        => Bucket "s3:GetAccelerateConfiguration"
        { document: Accelerate, absent: Shown("AccelerateConfiguration", "") };
     31 GetBucketAcl: Get Bucket "acl" => Bucket "s3:GetBucketAcl" { document: Acl, log: "REST.GET.ACL" };
     32 GetBucketAnalyticsConfiguration: Get Bucket "analytics" & "id" => Bucket "s3:GetAnalyticsConfiguration"
        { absent: Refused(NoSuchConfiguration) };
     33 GetBucketCors: Get Bucket "cors" => Bucket "s3:GetBucketCORS"
        { document: Cors, log: "REST.GET.CORS", absent: Refused(NoSuchCORSConfiguration) };
     34 GetBucketEncryption: Get Bucket "encryption"
        => Bucket "s3:GetEncryptionConfiguration"
        { document: Encryption, log: "REST.GET.ENCRYPTION",
          absent: Refused(ServerSideEncryptionConfigurationNotFoundError) };
     35 GetBucketIntelligentTieringConfiguration: Get Bucket "intelligent-tiering" & "id"
        => Bucket "s3:GetIntelligentTieringConfiguration" { absent: Refused(NoSuchConfiguration) };
     36 GetBucketInventoryConfiguration: Get Bucket "inventory" & "id" => Bucket "s3:GetInventoryConfiguration"
        { absent: Refused(NoSuchConfiguration) };
     37 GetBucketLifecycleConfiguration: Get Bucket "lifecycle"
        => Bucket "s3:GetLifecycleConfiguration"
        { document: Lifecycle, log: "REST.GET.LIFECYCLE", absent: Refused(NoSuchLifecycleConfiguration) };
     38 GetBucketLocation: Get Bucket "location" => Bucket "s3:GetBucketLocation" { log: "REST.GET.LOCATION" };
     39 GetBucketLogging: Get Bucket "logging"
        => Bucket "s3:GetBucketLogging"
        { document: Logging, log: "REST.GET.LOGGING_STATUS", absent: Shown("BucketLoggingStatus", "") };
     40 GetBucketMetadataConfiguration: Get Bucket "metadataConfiguration"
        => Bucket "s3:GetBucketMetadataTableConfiguration" { absent: Refused(MetadataConfigurationNotFound) };
     41 GetBucketMetadataTableConfiguration: Get Bucket "metadataTable"
        => Bucket "s3:GetBucketMetadataTableConfiguration" { absent: Refused(MetadataConfigurationNotFound) };
     42 GetBucketMetricsConfiguration: Get Bucket "metrics" & "id" => Bucket "s3:GetMetricsConfiguration"
        { absent: Refused(NoSuchConfiguration) };
     43 GetBucketNotificationConfiguration: Get Bucket "notification"
        => Bucket "s3:GetBucketNotification" { document: Notification, absent: Shown("NotificationConfiguration", "") };
     44 GetBucketOwnershipControls: Get Bucket "ownershipControls"
        => Bucket "s3:GetBucketOwnershipControls"
        { document: OwnershipControls, absent: Shown("OwnershipControls", ENFORCED),
          removed: OwnershipControlsNotFoundError };
     45 GetBucketPolicy: Get Bucket "policy"
        => Bucket "s3:GetBucketPolicy"
        { document: Policy, log: "REST.GET.BUCKETPOLICY", absent: Refused(NoSuchBucketPolicy) };
     46 GetBucketPolicyStatus: Get Bucket "policyStatus"
        => Bucket "s3:GetBucketPolicyStatus" { document: Policy, absent: Refused(NoSuchBucketPolicy) };
     47 GetBucketReplication: Get Bucket "replication" => Bucket "s3:GetReplicationConfiguration"
        { document: Replication, absent: Refused(ReplicationConfigurationNotFoundError) };
     48 GetBucketRequestPayment: Get Bucket "requestPayment"
        => Bucket "s3:GetBucketRequestPayment"
        { document: RequestPayment, absent: Shown("RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>") };
     49 GetBucketTagging: Get Bucket "tagging"
        => Bucket "s3:GetBucketTagging" { document: Tagging, log: "REST.GET.TAGGING", absent: Refused(NoSuchTagSet) };
     50 GetBucketVersioning: Get Bucket "versioning" => Bucket "s3:GetBucketVersioning" { log: "REST.GET.VERSIONING" };
     51 GetBucketWebsite: Get Bucket "website"
        => Bucket "s3:GetBucketWebsite"
        { document: Website, log: "REST.GET.WEBSITE", absent: Refused(NoSuchWebsiteConfiguration) };
     52 GetObject: Get Object => Object "s3:GetObject" or "s3:GetObjectVersion"
        { log: "REST.GET.OBJECT", absent: Pulled };
     53 GetObjectAcl: Get Object "acl" => Object "s3:GetObjectAcl" or "s3:GetObjectVersionAcl" { log: "REST.GET.ACL" };
     54 GetObjectAnnotation: Get Object "annotation" & "annotationName" => Object "s3:GetObjectAnnotation";
     55 GetObjectAttributes: Get Object "attributes"
        => Object "s3:GetObject" or "s3:GetObjectVersion",
           Object "s3:GetObjectAttributes" or "s3:GetObjectVersionAttributes";
     56 GetObjectLegalHold: Get Object "legal-hold" => Object "s3:GetObjectLegalHold";
     57 GetObjectLockConfiguration: Get Bucket "object-lock" => Bucket "s3:GetBucketObjectLockConfiguration";
     58 GetObjectRetention: Get Object "retention" => Object "s3:GetObjectRetention";
     59 GetObjectTagging: Get Object "tagging"
        => Object "s3:GetObjectTagging" or "s3:GetObjectVersionTagging" { log: "REST.GET.OBJECT_TAGGING" };
     60 GetObjectTorrent: Get Object "torrent" => Object "s3:GetObjectTorrent" or "s3:GetObjectVersionTorrent";
     61 GetPublicAccessBlock: Get Bucket "publicAccessBlock"
        => Bucket "s3:GetBucketPublicAccessBlock"
        { document: PublicAccessBlock, absent: Shown("PublicAccessBlockConfiguration", BLOCKED),
          removed: NoSuchPublicAccessBlockConfiguration };
     62 HeadBucket: Head Bucket => Bucket "s3:ListBucket" { log: "REST.HEAD.BUCKET" };
     63 HeadObject: Head Object => Object "s3:GetObject" or "s3:GetObjectVersion"
        { log: "REST.HEAD.OBJECT", absent: Pulled };
     64 InstantUpload: Post Object "instant" => Object "s3:PutObject" { event: ObjectCreatedPut };
     65 ListBucketAnalyticsConfigurations: Get Bucket "analytics"
        => Bucket "s3:GetAnalyticsConfiguration"
        { class: Write, absent: Shown("ListBucketAnalyticsConfigurationResult", NO_ENTRIES) };
     66 ListBucketIntelligentTieringConfigurations: Get Bucket "intelligent-tiering"
        => Bucket "s3:GetIntelligentTieringConfiguration"
        { class: Write, absent: Shown("ListBucketIntelligentTieringConfigurationsOutput", NO_ENTRIES) };
     67 ListBucketInventoryConfigurations: Get Bucket "inventory"
        => Bucket "s3:GetInventoryConfiguration"
        { class: Write, absent: Shown("ListInventoryConfigurationsResult", NO_ENTRIES) };
     68 ListBucketMetricsConfigurations: Get Bucket "metrics" => Bucket "s3:GetMetricsConfiguration"
        { class: Write, absent: Shown("ListMetricsConfigurationsResult", NO_ENTRIES) };
     69 ListBuckets: Get Service => Service "s3:ListAllMyBuckets" { class: Write, log: "REST.GET.SERVICE" };
     70 ListMultipartUploads: Get Bucket "uploads"
        => Bucket "s3:ListBucketMultipartUploads" { class: Write, log: "REST.GET.UPLOADS" };
     71 ListObjectAnnotations: Get Object "annotation" => Object "s3:ListObjectAnnotations" { class: Write };
     72 ListObjectVersions: Get Bucket "versions"
        => Bucket "s3:ListBucketVersions" { class: Write, log: "REST.GET.BUCKETVERSIONS" };
     73 ListObjects: Get Bucket => Bucket "s3:ListBucket" { class: Write, log: "REST.GET.BUCKET" };
     74 ListObjectsV2: Get Bucket => Bucket "s3:ListBucket" { class: Write, log: "REST.GET.BUCKET" };
     75 ListParts: Get Object => Object "s3:ListMultipartUploadParts" { class: Write, log: "REST.GET.UPLOAD" };
     76 MoveObject: Put Object
        => Object "s3:PutObject", Source "s3:GetObject" or "s3:GetObjectVersion",
           Source "s3:DeleteObject" or "s3:DeleteObjectVersion",
           Source "s3:GetObjectTagging" or "s3:GetObjectVersionTagging" of Tags, Object "s3:PutObjectTagging" of Tags,
           Source "s3:GetObjectAnnotation" of Annotations, Object "s3:PutObjectAnnotation" of Annotations
        { event: ObjectCreatedCopy, log: "REST.PUT.OBJECT", source: Moved("x-amz-move-source") };
     77 PostObject: Post Bucket
        => Object "s3:PutObject" { body: Content, event: ObjectCreatedPost, log: "REST.POST.OBJECT" };
     78 PutBucketAbac: Put Bucket "abac" => Bucket "s3:PutBucketAbac" { body: Document };
     79 PutBucketAccelerateConfiguration: Put Bucket "accelerate"
        => Bucket "s3:PutAccelerateConfiguration" { body: Document, document: Accelerate };
     80 PutBucketAcl: Put Bucket "acl" => Bucket "s3:PutBucketAcl"
        { body: Document, document: Acl, log: "REST.PUT.ACL" };
     81 PutBucketAnalyticsConfiguration: Put Bucket "analytics" & "id"
        => Bucket "s3:PutAnalyticsConfiguration" { body: Document };
     82 PutBucketCors: Put Bucket "cors"
        => Bucket "s3:PutBucketCORS" { body: DigestedDocument, document: Cors, log: "REST.PUT.CORS" };
     83 PutBucketEncryption: Put Bucket "encryption"
        => Bucket "s3:PutEncryptionConfiguration" { body: Document, document: Encryption, log: "REST.PUT.ENCRYPTION" };
     84 PutBucketIntelligentTieringConfiguration: Put Bucket "intelligent-tiering" & "id"
        => Bucket "s3:PutIntelligentTieringConfiguration" { body: Document };
     85 PutBucketInventoryConfiguration: Put Bucket "inventory" & "id"
        => Bucket "s3:PutInventoryConfiguration" { body: Document };
     86 PutBucketLifecycleConfiguration: Put Bucket "lifecycle" => Bucket "s3:PutLifecycleConfiguration"
        { body: DigestedDocument, document: Lifecycle, log: "REST.PUT.LIFECYCLE" };
     87 PutBucketLogging: Put Bucket "logging"
        => Bucket "s3:PutBucketLogging" { body: Document, document: Logging, log: "REST.PUT.LOGGING_STATUS" };
     88 PutBucketMetricsConfiguration: Put Bucket "metrics" & "id"
        => Bucket "s3:PutMetricsConfiguration" { body: Document };
     89 PutBucketNotificationConfiguration: Put Bucket "notification"
        => Bucket "s3:PutBucketNotification" { body: Document, document: Notification };
     90 PutBucketOwnershipControls: Put Bucket "ownershipControls"
        => Bucket "s3:PutBucketOwnershipControls" { body: Document, document: OwnershipControls };
     91 PutBucketPolicy: Put Bucket "policy"
        => Bucket "s3:PutBucketPolicy" { body: Document, document: Policy, log: "REST.PUT.BUCKETPOLICY", status: 204 };
     92 PutBucketReplication: Put Bucket "replication"
        => Bucket "s3:PutReplicationConfiguration" { body: Document, document: Replication };
     93 PutBucketRequestPayment: Put Bucket "requestPayment"
        => Bucket "s3:PutBucketRequestPayment" { body: Document, document: RequestPayment };
     94 PutBucketSettings: Put Bucket "orcas-settings" => Bucket "orcas:PutBucketSettings";
     95 PutBucketTagging: Put Bucket "tagging"
        => Bucket "s3:PutBucketTagging"
        { body: DigestedDocument, document: Tagging, log: "REST.PUT.TAGGING", status: 204 };
     96 PutBucketVersioning: Put Bucket "versioning"
        => Bucket "s3:PutBucketVersioning" { body: Document, log: "REST.PUT.VERSIONING" };
     97 PutBucketWebsite: Put Bucket "website"
        => Bucket "s3:PutBucketWebsite" { body: Document, document: Website, log: "REST.PUT.WEBSITE" };
     98 PutObject: Put Object
        => Object "s3:PutObject" { body: Content, event: ObjectCreatedPut, log: "REST.PUT.OBJECT" };
     99 PutObjectAcl: Put Object "acl"
        => Object "s3:PutObjectAcl" or "s3:PutObjectVersionAcl"
        { body: Document, event: ObjectAclPut, log: "REST.PUT.ACL" };
    100 PutObjectAnnotation: Put Object "annotation" & "annotationName"
        => Object "s3:PutObjectAnnotation" { body: Content, event: ObjectAnnotationPut };
    101 PutObjectLegalHold: Put Object "legal-hold"
        => Object "s3:PutObjectLegalHold" { body: DigestedDocument, event: ObjectRetentionPut };
    102 PutObjectLockConfiguration: Put Bucket "object-lock"
        => Bucket "s3:PutBucketObjectLockConfiguration" { body: DigestedDocument };
    103 PutObjectRetention: Put Object "retention"
        => Object "s3:PutObjectRetention" { body: DigestedDocument, event: ObjectRetentionPut };
    104 PutObjectTagging: Put Object "tagging" => Object "s3:PutObjectTagging" or "s3:PutObjectVersionTagging"
        { body: Document, event: ObjectTaggingPut, log: "REST.PUT.OBJECT_TAGGING" };
    105 PutPublicAccessBlock: Put Bucket "publicAccessBlock"
        => Bucket "s3:PutBucketPublicAccessBlock" { body: Document, document: PublicAccessBlock };
    106 RenameObject: Put Object "renameObject"
        => Object "s3:PutObject", Source "s3:GetObject", Source "s3:DeleteObject",
           Source "s3:GetObjectTagging" of Tags, Object "s3:PutObjectTagging" of Tags,
           Source "s3:GetObjectAnnotation" of Annotations, Object "s3:PutObjectAnnotation" of Annotations
        { event: ObjectCreatedCopy, log: "REST.PUT.OBJECT", source: Renamed("x-amz-rename-source") };
    107 RestoreObject: Post Object "restore" => Object "s3:RestoreObject" { body: Document, log: "REST.POST.OBJECT" };
    108 SelectObjectContent: Post Object "select" => Object "s3:GetObject" { class: Read, body: Document };
    109 UpdateBucketMetadataAnnotationTableConfiguration: Put Bucket "metadataAnnotationTable"
        => Bucket "s3:UpdateBucketMetadataAnnotationTableConfiguration" { body: Document };
    110 UpdateBucketMetadataInventoryTableConfiguration: Put Bucket "metadataInventoryTable"
        => Bucket "s3:UpdateBucketMetadataInventoryTableConfiguration" { body: Document };
    111 UpdateBucketMetadataJournalTableConfiguration: Put Bucket "metadataJournalTable"
        => Bucket "s3:UpdateBucketMetadataJournalTableConfiguration" { body: Document };
    112 UpdateObjectEncryption: Put Object "encryption" => Object "s3:UpdateObjectEncryption" { body: Document };
    113 UploadPart: Put Object => Object "s3:PutObject" { body: Content, log: "REST.PUT.PART" };
    114 UploadPartCopy: Put Object
        => Object "s3:PutObject", Source "s3:GetObject" or "s3:GetObjectVersion"
        { log: "REST.COPY.PART", source: Copied("x-amz-copy-source") };
    115 WriteGetObjectResponse: Post Service => Service "s3-object-lambda:WriteGetObjectResponse" { body: Content };
}

impl OperationSpec {
    const fn new(name: &'static str, method: Method, address: AddressKind, permissions: &'static [Permission]) -> Self {
        let (subresource, parameter, class, body, document, event, log) = (None, None, None, None, None, None, None);
        let (absent, removed, source, status) = (None, None, None, None);
        Self {
            name,
            method,
            address,
            subresource,
            parameter,
            permissions,
            class,
            body,
            document,
            absent,
            removed,
            source,
            status,
            event,
            log,
        }
    }
}

impl Operation {
    pub fn spec(self) -> &'static OperationSpec {
        &SPECS[self as usize]
    }

    /// The name of the API, e.g. `PutObject`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

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
        !matches!(self.spec().method, Method::Get | Method::Head)
    }

    pub fn class(self) -> RequestClass {
        let OperationSpec { method, class, .. } = self.spec();
        class.unwrap_or(match method {
            Method::Get | Method::Head => Read,
            Method::Put | Method::Post => Write,
            Method::Delete => Free,
        })
    }

    /// The status of its answer when it has done what was asked, if that has no body.
    pub fn status(self) -> u16 {
        let OperationSpec { method, status, .. } = self.spec();
        status.unwrap_or(if *method == Method::Delete { 204 } else { 200 })
    }

    /// The error for an operation that is not implemented.
    pub fn not_implemented(self) -> S3Error {
        S3Error::with(ErrorCode::NotImplemented, format!("The operation {} is not implemented", self.name()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const DOCUMENT: &str = include_str!("../../../../../docs/format.md");
    /// The table made of the service model that boto3 has and its documentation of permissions: name, method, address
    /// and required header of each operation, its actions without and with a version, and what they are about.
    pub const REFERENCE: &str = include_str!("../testdata/operations.tsv");

    #[test]
    fn every_operation_needs_what_the_reference_says() {
        let rows: BTreeMap<&str, &OperationSpec> = SPECS.iter().map(|row| (row.name, row)).collect();
        for line in REFERENCE.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            // Other names are older, or of directory buckets, for a request that has a row.
            let Some(row) = rows.get(fields[0]) else { continue };
            let always = || row.permissions.iter().filter(|it| it.part.is_none());
            let actions = |versioned| always().map(|it| it.action(versioned)).collect::<Vec<_>>().join(" ");
            let subjects = always().map(|it| format!("{:?}", it.subject)).collect::<Vec<_>>().join(" ");
            assert_eq!([&*actions(false), &*actions(true), &*subjects], fields[4..], "{line}");
            assert_eq!(row.method.name(), fields[1], "{line}");
        }
    }

    /// The actions of S3 whose access level is "Permissions management" in the Service Authorization Reference.
    const PERMISSIONS_MANAGEMENT: &str = include_str!("../testdata/permissions_management.txt");

    #[test]
    fn what_manages_permissions_is_what_the_reference_says() {
        let levels: Vec<&str> = PERMISSIONS_MANAGEMENT.lines().collect();
        for row in SPECS {
            for permission in row.permissions {
                for action in permission.actions {
                    assert_eq!(manages_permissions(action), levels.contains(action), "{} {action}", row.name);
                }
            }
        }
    }

    #[test]
    fn actions_are_about_what_the_address_names() {
        for row in SPECS {
            for permission in row.permissions {
                let fits = match permission.subject {
                    Subject::Service => row.address == AddressKind::Service,
                    Subject::Bucket | Subject::Entries => row.address == AddressKind::Bucket,
                    // The key of a form is one of its fields.
                    Subject::Object | Subject::Source => row.address == AddressKind::Object || row.name == "PostObject",
                };
                assert!(fits, "{} {permission:?}", row.name);
            }
        }
    }

    #[test]
    fn a_row_says_where_its_source_is_named_and_what_is_answered_without_a_document() {
        for row in SPECS {
            let reads_a_source = row.permissions.iter().any(|it| it.subject == Subject::Source);
            assert_eq!(row.source.is_some(), reads_a_source, "{}", row.name);
            // Every bucket has an ACL.
            let reads_a_document = row.method == Method::Get && row.document.is_some_and(|it| it != Acl);
            assert!(!reads_a_document || row.absent.is_some(), "{}", row.name);
        }
    }

    #[test]
    fn requests_are_billed_as_aws_bills_them() {
        for operation in Operation::ALL {
            let reads = ["Get", "Head", "CreateSession", "SelectObjectContent"];
            let begins = |starts: &[&str]| starts.iter().any(|start| operation.name().starts_with(start));
            let expected = match () {
                () if begins(&reads) => Read,
                () if begins(&["Delete", "AbortMultipartUpload"]) => Free,
                () => Write,
            };
            assert_eq!(operation.class(), expected, "{operation:?}");
        }
    }

    #[test]
    fn the_document_lists_the_codes() {
        let (_, section) = DOCUMENT.split_once("### Codes of operations").unwrap();
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
