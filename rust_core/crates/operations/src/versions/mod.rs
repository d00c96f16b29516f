//! Versioning, Object Lock, and what is kept with a version.

pub mod bucket_versioning;
pub mod object_lock_configuration;
pub mod version_attributes;
