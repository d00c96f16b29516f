//! The operations that are implemented. Each has a file, which parses, performs and answers its requests, and a row in
//! the table below. Any other operation is answered with `NotImplemented`.
//!
//! Operations that share all of their code share a file. Code that several operations need is outside this folder.

mod annotations;
mod buckets;
mod configuration;
mod listing;
mod multipart;
mod objects;
mod versions;

use std::sync::Arc;

use crate::admission::request_context::RequestContext;
use crate::requests::request::{Operation, PendingRequest, Request};
use annotations::{delete_object_annotation, get_object_annotation, list_object_annotations, put_object_annotation};
use buckets::{create_bucket, delete_bucket, get_bucket_location, head_bucket, list_buckets, put_bucket_settings};
use configuration::{
    acls, bucket_lifecycle, confirm_configuration, delete_configuration, put_configuration, read_configuration,
};
use listing::{list_object_versions, list_objects};
use multipart::{
    abort_multipart_upload, complete_multipart_upload, create_multipart_upload, list_multipart_uploads, list_parts,
    upload_part, upload_part_copy,
};
use objects::{
    copy_object, delete_object, delete_objects, get_object, get_object_attributes, instant_upload, move_object,
    put_object, rename_object, restore_object,
};
use orcas_bodies::problem::Problem;
use orcas_s3::Operation as Name;
use orcas_s3::support::Understood;
use versions::{bucket_versioning, object_lock_configuration, version_attributes};

pub use objects::post_object::PostObject;
pub use objects::read_page::ReadPage;

/// What is needed to parse the requests of an operation.
#[derive(Clone, Copy)]
pub struct Row {
    name: Name,
    pub understood: Understood,
    accept: fn(&RequestContext<'_>) -> Result<Arc<dyn Request>, Problem>,
}

impl Row {
    /// Reads a request whose sender is known.
    pub fn accept(&self, context: &RequestContext<'_>) -> Result<Arc<dyn Request>, Problem> {
        (self.accept)(context)
    }
}

const fn row<O: Operation>(name: Name) -> Row {
    Row { name, understood: O::UNDERSTOOD, accept: PendingRequest::<O>::accept }
}

const ROWS: &[Row] = &[
    row::<abort_multipart_upload::AbortMultipartUpload>(Name::AbortMultipartUpload),
    row::<complete_multipart_upload::CompleteMultipartUpload>(Name::CompleteMultipartUpload),
    row::<copy_object::CopyObject>(Name::CopyObject),
    row::<create_bucket::CreateBucket>(Name::CreateBucket),
    row::<create_multipart_upload::CreateMultipartUpload>(Name::CreateMultipartUpload),
    row::<delete_bucket::DeleteBucket>(Name::DeleteBucket),
    row::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketAnalyticsConfiguration),
    row::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketCors),
    row::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketEncryption),
    row::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketIntelligentTieringConfiguration),
    row::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketInventoryConfiguration),
    row::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketLifecycle),
    row::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketMetadataConfiguration),
    row::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketMetadataTableConfiguration),
    row::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketMetricsConfiguration),
    row::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketOwnershipControls),
    row::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketPolicy),
    row::<confirm_configuration::ConfirmConfiguration>(Name::DeleteBucketReplication),
    row::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketTagging),
    row::<delete_configuration::DeleteConfiguration>(Name::DeleteBucketWebsite),
    row::<delete_object::DeleteObject>(Name::DeleteObject),
    row::<delete_object_annotation::DeleteObjectAnnotation>(Name::DeleteObjectAnnotation),
    row::<version_attributes::ChangeAttribute>(Name::DeleteObjectTagging),
    row::<delete_objects::DeleteObjects>(Name::DeleteObjects),
    row::<delete_configuration::DeleteConfiguration>(Name::DeletePublicAccessBlock),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketAbac),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketAccelerateConfiguration),
    row::<acls::GetBucketAcl>(Name::GetBucketAcl),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketAnalyticsConfiguration),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketCors),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketEncryption),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketIntelligentTieringConfiguration),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketInventoryConfiguration),
    row::<bucket_lifecycle::GetBucketLifecycle>(Name::GetBucketLifecycleConfiguration),
    row::<get_bucket_location::GetBucketLocation>(Name::GetBucketLocation),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketLogging),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketMetadataConfiguration),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketMetadataTableConfiguration),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketMetricsConfiguration),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketNotificationConfiguration),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketOwnershipControls),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketPolicy),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketPolicyStatus),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketReplication),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketRequestPayment),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketTagging),
    row::<bucket_versioning::GetBucketVersioning>(Name::GetBucketVersioning),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetBucketWebsite),
    row::<get_object::GetObject>(Name::GetObject),
    row::<acls::GetObjectAcl>(Name::GetObjectAcl),
    row::<get_object_annotation::GetObjectAnnotation>(Name::GetObjectAnnotation),
    row::<get_object_attributes::GetObjectAttributes>(Name::GetObjectAttributes),
    row::<version_attributes::ReadAttribute>(Name::GetObjectLegalHold),
    row::<object_lock_configuration::GetObjectLockConfiguration>(Name::GetObjectLockConfiguration),
    row::<version_attributes::ReadAttribute>(Name::GetObjectRetention),
    row::<version_attributes::ReadAttribute>(Name::GetObjectTagging),
    row::<read_configuration::ReadBucketConfiguration>(Name::GetPublicAccessBlock),
    row::<head_bucket::HeadBucket>(Name::HeadBucket),
    row::<get_object::GetObject>(Name::HeadObject),
    row::<instant_upload::InstantUpload>(Name::InstantUpload),
    row::<read_configuration::ReadBucketConfiguration>(Name::ListBucketAnalyticsConfigurations),
    row::<read_configuration::ReadBucketConfiguration>(Name::ListBucketIntelligentTieringConfigurations),
    row::<read_configuration::ReadBucketConfiguration>(Name::ListBucketInventoryConfigurations),
    row::<read_configuration::ReadBucketConfiguration>(Name::ListBucketMetricsConfigurations),
    row::<list_buckets::ListBuckets>(Name::ListBuckets),
    row::<list_multipart_uploads::ListMultipartUploads>(Name::ListMultipartUploads),
    row::<list_object_annotations::ListObjectAnnotations>(Name::ListObjectAnnotations),
    row::<list_object_versions::ListObjectVersions>(Name::ListObjectVersions),
    row::<list_objects::ListObjects>(Name::ListObjects),
    row::<list_objects::ListObjectsV2>(Name::ListObjectsV2),
    row::<list_parts::ListParts>(Name::ListParts),
    row::<move_object::MoveObject>(Name::MoveObject),
    row::<PostObject>(Name::PostObject),
    row::<confirm_configuration::ConfirmConfiguration>(Name::PutBucketAbac),
    row::<put_configuration::PutConfiguration>(Name::PutBucketAccelerateConfiguration),
    row::<acls::PutBucketAcl>(Name::PutBucketAcl),
    row::<put_configuration::PutConfiguration>(Name::PutBucketCors),
    row::<put_configuration::PutConfiguration>(Name::PutBucketEncryption),
    row::<bucket_lifecycle::PutBucketLifecycle>(Name::PutBucketLifecycleConfiguration),
    row::<put_configuration::PutConfiguration>(Name::PutBucketLogging),
    row::<put_configuration::PutConfiguration>(Name::PutBucketNotificationConfiguration),
    row::<put_configuration::PutConfiguration>(Name::PutBucketOwnershipControls),
    row::<put_configuration::PutConfiguration>(Name::PutBucketPolicy),
    row::<put_configuration::PutConfiguration>(Name::PutBucketRequestPayment),
    row::<put_bucket_settings::PutBucketSettings>(Name::PutBucketSettings),
    row::<put_configuration::PutConfiguration>(Name::PutBucketTagging),
    row::<bucket_versioning::PutBucketVersioning>(Name::PutBucketVersioning),
    row::<put_configuration::PutConfiguration>(Name::PutBucketWebsite),
    row::<put_object::PutObject>(Name::PutObject),
    row::<acls::PutObjectAcl>(Name::PutObjectAcl),
    row::<put_object_annotation::PutObjectAnnotation>(Name::PutObjectAnnotation),
    row::<version_attributes::ChangeAttribute>(Name::PutObjectLegalHold),
    row::<object_lock_configuration::PutObjectLockConfiguration>(Name::PutObjectLockConfiguration),
    row::<version_attributes::ChangeAttribute>(Name::PutObjectRetention),
    row::<version_attributes::ChangeAttribute>(Name::PutObjectTagging),
    row::<put_configuration::PutConfiguration>(Name::PutPublicAccessBlock),
    row::<rename_object::RenameObject>(Name::RenameObject),
    row::<restore_object::RestoreObject>(Name::RestoreObject),
    row::<upload_part::UploadPart>(Name::UploadPart),
    row::<upload_part_copy::UploadPartCopy>(Name::UploadPartCopy),
];

/// The rows by the number of their operation.
static TABLE: [Option<Row>; Name::ALL.len()] = {
    let mut table = [None; Name::ALL.len()];
    let mut next = 0;
    while next < ROWS.len() {
        let row = ROWS[next];
        assert!(table[row.name as usize].is_none(), "an operation has two rows");
        table[row.name as usize] = Some(row);
        next += 1;
    }
    table
};

/// The row of an operation; `None` if it is not implemented.
pub fn implemented(name: Name) -> Option<&'static Row> {
    TABLE[name as usize].as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_under_its_name_and_nothing_else_is() {
        for name in Name::ALL {
            let expected = ROWS.iter().any(|row| row.name == *name);
            assert_eq!(implemented(*name).map(|row| row.name), expected.then_some(*name));
        }
        assert!(implemented(Name::PutObject).is_some() && implemented(Name::SelectObjectContent).is_none());
    }

    #[test]
    fn what_is_about_one_object_and_overwrites_nothing_takes_a_version() {
        let takes: Vec<&str> = ROWS.iter().filter(|row| row.understood.version_id).map(|row| row.name.name()).collect();
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
