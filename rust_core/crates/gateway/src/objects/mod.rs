//! What operations on objects share: what requests say of an object, and what is stored of that.

pub mod annotation;
pub mod attributes;
pub mod challenge;
pub mod conditions;
pub mod encryption;
pub mod expiration;
pub mod metadata;
pub mod sources;
pub mod upload_ids;
pub mod versions;
