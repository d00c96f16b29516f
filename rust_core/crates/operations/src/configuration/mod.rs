//! Operations on the documents of buckets.

pub mod acls;
pub mod bucket_lifecycle;
pub mod confirm_configuration;
pub mod delete_configuration;
pub mod put_configuration;
pub mod put_replication;
pub mod read_configuration;
