//! The configurations of buckets: their documents, read, checked and written, and what follows from each for a request or
//! an object.

pub mod acl;
pub mod bucket_logging;
pub mod configurations;
pub mod cors;
pub mod documents;
pub mod event_targets;
pub mod lifecycle;
pub mod notification;
pub mod replication;
pub mod website;
