//! The sub-resources of the S3 API: which operation a query name means, by level and method.
//!
//! Data only, from the published service model and for the extensions `instant` and `orcas-settings`. A row that needs
//! a further parameter stands before the row that does not.

use super::operations::Operation::{self, *};
use Level::{Bucket, Object};
use Method::{Delete, Get, Post, Put};

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

/// What a sub-resource belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Bucket,
    Object,
}

/// One row: `name` in the query at `level` with `method`, and `needs` if given, is `operation`.
pub struct Route {
    pub name: &'static str,
    pub level: Level,
    pub method: Method,
    pub needs: Option<&'static str>,
    pub operation: Operation,
}

const fn route(
    name: &'static str,
    level: Level,
    method: Method,
    needs: Option<&'static str>,
    operation: Operation,
) -> Route {
    Route { name, level, method, needs, operation }
}

#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    route("abac", Bucket, Get, None, GetBucketAbac),
    route("abac", Bucket, Put, None, PutBucketAbac),
    route("accelerate", Bucket, Get, None, GetBucketAccelerateConfiguration),
    route("accelerate", Bucket, Put, None, PutBucketAccelerateConfiguration),
    route("acl", Bucket, Get, None, GetBucketAcl),
    route("acl", Bucket, Put, None, PutBucketAcl),
    route("acl", Object, Get, None, GetObjectAcl),
    route("acl", Object, Put, None, PutObjectAcl),
    route("analytics", Bucket, Delete, Some("id"), DeleteBucketAnalyticsConfiguration),
    route("analytics", Bucket, Get, Some("id"), GetBucketAnalyticsConfiguration),
    route("analytics", Bucket, Get, None, ListBucketAnalyticsConfigurations),
    route("analytics", Bucket, Put, Some("id"), PutBucketAnalyticsConfiguration),
    route("annotation", Object, Delete, Some("annotationName"), DeleteObjectAnnotation),
    route("annotation", Object, Get, Some("annotationName"), GetObjectAnnotation),
    route("annotation", Object, Get, None, ListObjectAnnotations),
    route("annotation", Object, Put, Some("annotationName"), PutObjectAnnotation),
    route("attributes", Object, Get, None, GetObjectAttributes),
    route("cors", Bucket, Delete, None, DeleteBucketCors),
    route("cors", Bucket, Get, None, GetBucketCors),
    route("cors", Bucket, Put, None, PutBucketCors),
    route("delete", Bucket, Post, None, DeleteObjects),
    route("encryption", Bucket, Delete, None, DeleteBucketEncryption),
    route("encryption", Bucket, Get, None, GetBucketEncryption),
    route("encryption", Bucket, Put, None, PutBucketEncryption),
    route("encryption", Object, Put, None, UpdateObjectEncryption),
    route("instant", Object, Post, None, InstantUpload),
    route("intelligent-tiering", Bucket, Delete, Some("id"), DeleteBucketIntelligentTieringConfiguration),
    route("intelligent-tiering", Bucket, Get, Some("id"), GetBucketIntelligentTieringConfiguration),
    route("intelligent-tiering", Bucket, Get, None, ListBucketIntelligentTieringConfigurations),
    route("intelligent-tiering", Bucket, Put, Some("id"), PutBucketIntelligentTieringConfiguration),
    route("inventory", Bucket, Delete, Some("id"), DeleteBucketInventoryConfiguration),
    route("inventory", Bucket, Get, Some("id"), GetBucketInventoryConfiguration),
    route("inventory", Bucket, Get, None, ListBucketInventoryConfigurations),
    route("inventory", Bucket, Put, Some("id"), PutBucketInventoryConfiguration),
    route("legal-hold", Object, Get, None, GetObjectLegalHold),
    route("legal-hold", Object, Put, None, PutObjectLegalHold),
    route("lifecycle", Bucket, Delete, None, DeleteBucketLifecycle),
    route("lifecycle", Bucket, Get, None, GetBucketLifecycleConfiguration),
    route("lifecycle", Bucket, Put, None, PutBucketLifecycleConfiguration),
    route("location", Bucket, Get, None, GetBucketLocation),
    route("logging", Bucket, Get, None, GetBucketLogging),
    route("logging", Bucket, Put, None, PutBucketLogging),
    route("metadataAnnotationTable", Bucket, Put, None, UpdateBucketMetadataAnnotationTableConfiguration),
    route("metadataConfiguration", Bucket, Delete, None, DeleteBucketMetadataConfiguration),
    route("metadataConfiguration", Bucket, Get, None, GetBucketMetadataConfiguration),
    route("metadataConfiguration", Bucket, Post, None, CreateBucketMetadataConfiguration),
    route("metadataInventoryTable", Bucket, Put, None, UpdateBucketMetadataInventoryTableConfiguration),
    route("metadataJournalTable", Bucket, Put, None, UpdateBucketMetadataJournalTableConfiguration),
    route("metadataTable", Bucket, Delete, None, DeleteBucketMetadataTableConfiguration),
    route("metadataTable", Bucket, Get, None, GetBucketMetadataTableConfiguration),
    route("metadataTable", Bucket, Post, None, CreateBucketMetadataTableConfiguration),
    route("metrics", Bucket, Delete, Some("id"), DeleteBucketMetricsConfiguration),
    route("metrics", Bucket, Get, Some("id"), GetBucketMetricsConfiguration),
    route("metrics", Bucket, Get, None, ListBucketMetricsConfigurations),
    route("metrics", Bucket, Put, Some("id"), PutBucketMetricsConfiguration),
    route("notification", Bucket, Get, None, GetBucketNotificationConfiguration),
    route("notification", Bucket, Put, None, PutBucketNotificationConfiguration),
    route("object-lock", Bucket, Get, None, GetObjectLockConfiguration),
    route("object-lock", Bucket, Put, None, PutObjectLockConfiguration),
    route("orcas-settings", Bucket, Put, None, PutBucketSettings),
    route("ownershipControls", Bucket, Delete, None, DeleteBucketOwnershipControls),
    route("ownershipControls", Bucket, Get, None, GetBucketOwnershipControls),
    route("ownershipControls", Bucket, Put, None, PutBucketOwnershipControls),
    route("policy", Bucket, Delete, None, DeleteBucketPolicy),
    route("policy", Bucket, Get, None, GetBucketPolicy),
    route("policy", Bucket, Put, None, PutBucketPolicy),
    route("policyStatus", Bucket, Get, None, GetBucketPolicyStatus),
    route("publicAccessBlock", Bucket, Delete, None, DeletePublicAccessBlock),
    route("publicAccessBlock", Bucket, Get, None, GetPublicAccessBlock),
    route("publicAccessBlock", Bucket, Put, None, PutPublicAccessBlock),
    route("renameObject", Object, Put, None, RenameObject),
    route("replication", Bucket, Delete, None, DeleteBucketReplication),
    route("replication", Bucket, Get, None, GetBucketReplication),
    route("replication", Bucket, Put, None, PutBucketReplication),
    route("requestPayment", Bucket, Get, None, GetBucketRequestPayment),
    route("requestPayment", Bucket, Put, None, PutBucketRequestPayment),
    route("restore", Object, Post, None, RestoreObject),
    route("retention", Object, Get, None, GetObjectRetention),
    route("retention", Object, Put, None, PutObjectRetention),
    route("select", Object, Post, None, SelectObjectContent),
    route("session", Bucket, Get, None, CreateSession),
    route("tagging", Bucket, Delete, None, DeleteBucketTagging),
    route("tagging", Bucket, Get, None, GetBucketTagging),
    route("tagging", Bucket, Put, None, PutBucketTagging),
    route("tagging", Object, Delete, None, DeleteObjectTagging),
    route("tagging", Object, Get, None, GetObjectTagging),
    route("tagging", Object, Put, None, PutObjectTagging),
    route("torrent", Object, Get, None, GetObjectTorrent),
    route("uploads", Bucket, Get, None, ListMultipartUploads),
    route("uploads", Object, Post, None, CreateMultipartUpload),
    route("versioning", Bucket, Get, None, GetBucketVersioning),
    route("versioning", Bucket, Put, None, PutBucketVersioning),
    route("versions", Bucket, Get, None, ListObjectVersions),
    route("website", Bucket, Delete, None, DeleteBucketWebsite),
    route("website", Bucket, Get, None, GetBucketWebsite),
    route("website", Bucket, Put, None, PutBucketWebsite),
];
