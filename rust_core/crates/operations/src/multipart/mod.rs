//! Multipart uploads.

pub mod abort_multipart_upload;
pub mod complete_multipart_upload;
pub mod create_multipart_upload;
pub mod list_multipart_uploads;
pub mod list_parts;
pub mod upload_part;
pub mod upload_part_copy;
