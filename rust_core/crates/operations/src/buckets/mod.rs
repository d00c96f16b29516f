//! Operations on buckets.

pub mod create_bucket;
pub mod delete_bucket;
pub mod get_bucket_location;
pub mod head_bucket;
pub mod list_buckets;
pub mod put_bucket_settings;
