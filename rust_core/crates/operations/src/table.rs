//! The table of the operations that are implemented. Any other is answered with `NotImplemented`.
//!
//! Operations that share all of their code share a file.

use std::sync::Arc;

use crate::annotations::{
    delete_object_annotation, get_object_annotation, list_object_annotations, put_object_annotation,
};
use crate::buckets::{
    create_bucket, delete_bucket, get_bucket_location, head_bucket, list_buckets, put_bucket_settings,
};
use crate::configuration::{
    acls, bucket_lifecycle, confirm_configuration, delete_configuration, put_configuration, put_replication,
    read_configuration,
};
use crate::listing::{list_object_versions, list_objects};
use crate::multipart::{
    abort_multipart_upload, complete_multipart_upload, create_multipart_upload, list_multipart_uploads, list_parts,
    upload_part, upload_part_copy,
};
use crate::objects::{
    copy_object, delete_object, delete_objects, get_object, get_object_attributes, instant_upload, move_object,
    post_object, put_object, rename_object, restore_object,
};
use crate::versions::{bucket_versioning, object_lock_configuration, version_attributes};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_requests::request::{Arrival, Operation, Request, TypedRequest};
use orcas_s3::Operation as Name;
use orcas_s3::support::Understood;

type Accept = fn(Arrival<'_>, &RequestContext<'_>) -> Result<Arc<dyn Request>, Problem>;

/// The functions and facts for the requests of an operation.
#[derive(Clone, Copy)]
pub struct Handler {
    name: Name,
    pub understood: Understood,
    accept: Accept,
}

impl Handler {
    /// Reads a request whose sender is known.
    pub fn accept(&self, arrival: Arrival<'_>, context: &RequestContext<'_>) -> Result<Arc<dyn Request>, Problem> {
        (self.accept)(arrival, context)
    }
}

const fn handler<O: Operation>(name: Name) -> Handler {
    Handler { name, understood: O::UNDERSTOOD, accept: TypedRequest::<O>::accept }
}

const HANDLERS: &[Handler] = &[
    handler::<abort_multipart_upload::AbortMultipartUpload>(Name::AbortMultipartUpload),
    handler::<complete_multipart_upload::CompleteMultipartUpload>(Name::CompleteMultipartUpload),
    handler::<copy_object::CopyObject>(Name::CopyObject),
    handler::<create_bucket::CreateBucket>(Name::CreateBucket),
    handler::<create_multipart_upload::CreateMultipartUpload>(Name::CreateMultipartUpload),
    handler::<delete_bucket::DeleteBucket>(Name::DeleteBucket),
    handler::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketAnalyticsConfiguration),
    handler::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketCors),
    handler::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketEncryption),
    handler::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketIntelligentTieringConfiguration),
    handler::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketInventoryConfiguration),
    handler::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketLifecycle),
    handler::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketMetadataConfiguration),
    handler::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketMetadataTableConfiguration),
    handler::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketMetricsConfiguration),
    handler::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketOwnershipControls),
    handler::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketPolicy),
    handler::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketReplication),
    handler::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketTagging),
    handler::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketWebsite),
    handler::<delete_object::DeleteObject>(Name::DeleteObject),
    handler::<delete_object_annotation::DeleteObjectAnnotation>(Name::DeleteObjectAnnotation),
    handler::<version_attributes::ChangeAttribute>(Name::DeleteObjectTagging),
    handler::<delete_objects::DeleteObjects>(Name::DeleteObjects),
    handler::<delete_configuration::DeleteConfiguration>(Name::DeletePublicAccessBlock),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketAbac),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketAccelerateConfiguration),
    handler::<acls::GetBucketAcl>(Name::GetBucketAcl),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketAnalyticsConfiguration),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketCors),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketEncryption),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketIntelligentTieringConfiguration),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketInventoryConfiguration),
    handler::<bucket_lifecycle::GetBucketLifecycle>(Name::GetBucketLifecycleConfiguration),
    handler::<get_bucket_location::GetBucketLocation>(Name::GetBucketLocation),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketLogging),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketMetadataConfiguration),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketMetadataTableConfiguration),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketMetricsConfiguration),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketNotificationConfiguration),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketOwnershipControls),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketPolicy),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketPolicyStatus),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketReplication),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketRequestPayment),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketTagging),
    handler::<bucket_versioning::GetBucketVersioning>(Name::GetBucketVersioning),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetBucketWebsite),
    handler::<get_object::GetObject>(Name::GetObject),
    handler::<acls::GetObjectAcl>(Name::GetObjectAcl),
    handler::<get_object_annotation::GetObjectAnnotation>(Name::GetObjectAnnotation),
    handler::<get_object_attributes::GetObjectAttributes>(Name::GetObjectAttributes),
    handler::<version_attributes::ReadAttribute>(Name::GetObjectLegalHold),
    handler::<object_lock_configuration::GetObjectLockConfiguration>(Name::GetObjectLockConfiguration),
    handler::<version_attributes::ReadAttribute>(Name::GetObjectRetention),
    handler::<version_attributes::ReadAttribute>(Name::GetObjectTagging),
    handler::<read_configuration::ReadBucketConfiguration>(Name::GetPublicAccessBlock),
    handler::<head_bucket::HeadBucket>(Name::HeadBucket),
    handler::<get_object::GetObject>(Name::HeadObject),
    handler::<instant_upload::InstantUpload>(Name::InstantUpload),
    handler::<read_configuration::ReadBucketConfiguration>(Name::ListBucketAnalyticsConfigurations),
    handler::<read_configuration::ReadBucketConfiguration>(Name::ListBucketIntelligentTieringConfigurations),
    handler::<read_configuration::ReadBucketConfiguration>(Name::ListBucketInventoryConfigurations),
    handler::<read_configuration::ReadBucketConfiguration>(Name::ListBucketMetricsConfigurations),
    handler::<list_buckets::ListBuckets>(Name::ListBuckets),
    handler::<list_multipart_uploads::ListMultipartUploads>(Name::ListMultipartUploads),
    handler::<list_object_annotations::ListObjectAnnotations>(Name::ListObjectAnnotations),
    handler::<list_object_versions::ListObjectVersions>(Name::ListObjectVersions),
    handler::<list_objects::ListObjects>(Name::ListObjects),
    handler::<list_objects::ListObjectsV2>(Name::ListObjectsV2),
    handler::<list_parts::ListParts>(Name::ListParts),
    handler::<move_object::MoveObject>(Name::MoveObject),
    handler::<post_object::PostObject>(Name::PostObject),
    handler::<confirm_configuration::ConfirmConfiguration>(Name::PutBucketAbac),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketAccelerateConfiguration),
    handler::<acls::PutBucketAcl>(Name::PutBucketAcl),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketCors),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketEncryption),
    handler::<bucket_lifecycle::PutBucketLifecycle>(Name::PutBucketLifecycleConfiguration),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketLogging),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketNotificationConfiguration),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketOwnershipControls),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketPolicy),
    handler::<put_replication::PutReplication>(Name::PutBucketReplication),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketRequestPayment),
    handler::<put_bucket_settings::PutBucketSettings>(Name::PutBucketSettings),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketTagging),
    handler::<bucket_versioning::PutBucketVersioning>(Name::PutBucketVersioning),
    handler::<put_configuration::PutConfiguration>(Name::PutBucketWebsite),
    handler::<put_object::PutObject>(Name::PutObject),
    handler::<acls::PutObjectAcl>(Name::PutObjectAcl),
    handler::<put_object_annotation::PutObjectAnnotation>(Name::PutObjectAnnotation),
    handler::<version_attributes::ChangeAttribute>(Name::PutObjectLegalHold),
    handler::<object_lock_configuration::PutObjectLockConfiguration>(Name::PutObjectLockConfiguration),
    handler::<version_attributes::ChangeAttribute>(Name::PutObjectRetention),
    handler::<version_attributes::ChangeAttribute>(Name::PutObjectTagging),
    handler::<put_configuration::PutConfiguration>(Name::PutPublicAccessBlock),
    handler::<rename_object::RenameObject>(Name::RenameObject),
    handler::<restore_object::RestoreObject>(Name::RestoreObject),
    handler::<upload_part::UploadPart>(Name::UploadPart),
    handler::<upload_part_copy::UploadPartCopy>(Name::UploadPartCopy),
];

/// The rows by the number of their operation.
static TABLE: [Option<Handler>; Name::ALL.len()] = {
    let mut table = [None; Name::ALL.len()];
    let mut next = 0;
    while next < HANDLERS.len() {
        let row = HANDLERS[next];
        assert!(table[row.name as usize].is_none(), "an operation has two rows");
        table[row.name as usize] = Some(row);
        next += 1;
    }
    table
};

/// The row of an operation; `None` if it is not implemented.
pub fn implemented(name: Name) -> Option<&'static Handler> {
    TABLE[name as usize].as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_access::{ResourceType, S3_ACTIONS};
    use orcas_s3::operations::Subject;
    use orcas_s3::stored_headers::actions_of;

    #[test]
    fn every_row_is_found_under_its_name_and_nothing_else_is() {
        for name in Name::ALL {
            let expected = HANDLERS.iter().any(|row| row.name == *name);
            assert_eq!(implemented(*name).map(|row| row.name), expected.then_some(*name));
        }
        assert!(implemented(Name::PutObject).is_some() && implemented(Name::SelectObjectContent).is_none());
    }

    /// Headers that only some operations take, and that need no action of their own: what they ask for, everybody may who
    /// may do the operation, as on S3.
    const FREE: [&str; 23] = [
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-server-side-encryption-context",
        "x-amz-server-side-encryption-bucket-key-enabled",
        "x-amz-server-side-encryption-customer-algorithm",
        "x-amz-server-side-encryption-customer-key",
        "x-amz-server-side-encryption-customer-key-md5",
        "x-amz-copy-source-server-side-encryption-customer-algorithm",
        "x-amz-copy-source-server-side-encryption-customer-key",
        "x-amz-copy-source-server-side-encryption-customer-key-md5",
        "x-amz-storage-class",
        "x-amz-website-redirect-location",
        "x-amz-object-annotation-directive",
        "x-amz-object-if-match",
        "x-amz-if-match-last-modified-time",
        "x-amz-if-match-size",
        "x-amz-transition-default-minimum-object-size",
        "x-amz-skip-destination-validation",
        "x-amz-write-offset-bytes",
        "x-amz-orcas-instant-size",
        "x-amz-orcas-instant-sha256",
        "x-amz-orcas-instant-challenge",
        "x-amz-orcas-instant-answer",
    ];

    #[test]
    fn every_header_has_an_action_or_is_known_to_need_none() {
        for Handler { name, understood, .. } in HANDLERS {
            let of_bucket = name.spec().permissions[0].subject == Subject::Bucket;
            for header in understood.attributes.iter().chain(understood.extensions) {
                let actions = actions_of(header.as_bytes(), of_bucket);
                assert_ne!(!actions.is_empty(), FREE.contains(header), "{header} of {name:?}: is an action needed?");
                for action in actions.iter().filter(|action| action.starts_with("s3:")) {
                    let kind = if of_bucket { ResourceType::Bucket } else { ResourceType::Object };
                    assert!(S3_ACTIONS.contains(&(action, kind)), "{action}");
                }
            }
        }
    }

    #[test]
    fn policies_can_name_every_action_that_an_operation_needs() {
        for name in Name::ALL {
            for permission in name.spec().permissions {
                let kind = match permission.subject {
                    Subject::Service => ResourceType::Account,
                    Subject::Bucket => ResourceType::Bucket,
                    Subject::Object | Subject::Source | Subject::Entries => ResourceType::Object,
                };
                let actions = [permission.action(false), permission.action(true)];
                for action in actions.into_iter().filter(|action| action.starts_with("s3:")) {
                    let known = S3_ACTIONS.iter().find(|(known, _)| *known == action);
                    assert_eq!(known, Some(&(action, kind)), "{}", name.name());
                }
            }
        }
    }

    #[test]
    fn what_is_about_one_object_and_overwrites_nothing_takes_a_version() {
        let takes: Vec<&str> =
            HANDLERS.iter().filter(|row| row.understood.version_id).map(|row| row.name.name()).collect();
        assert_eq!(
            takes,
            [
                "DeleteObject",
                "DeleteObjectAnnotation",
                "DeleteObjectTagging",
                "GetObject",
                "GetObjectAcl",
                "GetObjectAnnotation",
                "GetObjectAttributes",
                "GetObjectLegalHold",
                "GetObjectRetention",
                "GetObjectTagging",
                "HeadObject",
                "ListObjectAnnotations",
                "PutObjectAcl",
                "PutObjectAnnotation",
                "PutObjectLegalHold",
                "PutObjectRetention",
                "PutObjectTagging",
                "RestoreObject",
            ]
        );
    }
}
