//! The operations that are implemented. Each has a file, which parses, performs and answers its requests, and a row in
//! the table below. Any other operation is answered with `NotImplemented`.
//!
//! Operations that share all of their code share a file. Code that several operations need is outside this folder.

mod abort_multipart_upload;
mod complete_multipart_upload;
mod copy_object;
mod create_bucket;
mod create_multipart_upload;
mod delete_bucket;
mod delete_object;
mod delete_objects;
mod get_bucket_location;
mod get_object;
mod head_bucket;
mod instant_upload;
mod list_buckets;
mod list_multipart_uploads;
mod list_objects;
mod list_parts;
mod move_object;
mod put_bucket_settings;
mod put_object;
mod rename_object;
mod upload_part;
mod upload_part_copy;

use std::sync::Arc;

use super::problem::Problem;
use super::reading::Reading;
use super::request::{Call, Operation, Request};
use orcas_s3::Operation as Name;
use orcas_s3::support::Understood;

/// What is needed to parse the requests of an operation.
#[derive(Clone, Copy)]
pub struct Row {
    name: Name,
    pub understood: Understood,
    pub accept: fn(&Reading<'_>) -> Result<Arc<dyn Request>, Problem>,
}

const fn row<O: Operation>(name: Name) -> Row {
    Row { name, understood: O::UNDERSTOOD, accept: Call::<O>::accept }
}

const ROWS: &[Row] = &[
    row::<abort_multipart_upload::AbortMultipartUpload>(Name::AbortMultipartUpload),
    row::<complete_multipart_upload::CompleteMultipartUpload>(Name::CompleteMultipartUpload),
    row::<copy_object::CopyObject>(Name::CopyObject),
    row::<create_bucket::CreateBucket>(Name::CreateBucket),
    row::<create_multipart_upload::CreateMultipartUpload>(Name::CreateMultipartUpload),
    row::<delete_bucket::DeleteBucket>(Name::DeleteBucket),
    row::<delete_object::DeleteObject>(Name::DeleteObject),
    row::<delete_objects::DeleteObjects>(Name::DeleteObjects),
    row::<get_bucket_location::GetBucketLocation>(Name::GetBucketLocation),
    row::<get_object::GetObject>(Name::GetObject),
    row::<get_object::GetObject>(Name::HeadObject),
    row::<head_bucket::HeadBucket>(Name::HeadBucket),
    row::<instant_upload::InstantUpload>(Name::InstantUpload),
    row::<list_buckets::ListBuckets>(Name::ListBuckets),
    row::<list_multipart_uploads::ListMultipartUploads>(Name::ListMultipartUploads),
    row::<list_objects::ListObjects>(Name::ListObjects),
    row::<list_objects::ListObjectsV2>(Name::ListObjectsV2),
    row::<list_parts::ListParts>(Name::ListParts),
    row::<move_object::MoveObject>(Name::MoveObject),
    row::<put_bucket_settings::PutBucketSettings>(Name::PutBucketSettings),
    row::<put_object::PutObject>(Name::PutObject),
    row::<rename_object::RenameObject>(Name::RenameObject),
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
        assert!(implemented(Name::PutObject).is_some() && implemented(Name::PostObject).is_none());
    }

    #[test]
    fn reads_of_objects_and_single_deletions_take_a_version() {
        let takes: Vec<&str> = ROWS.iter().filter(|row| row.understood.version_id).map(|row| row.name.name()).collect();
        assert_eq!(takes, ["DeleteObject", "GetObject", "HeadObject"]);
    }
}
