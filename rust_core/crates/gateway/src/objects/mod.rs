//! What operations on objects share: what requests say of an object, and what is stored of that.

pub(crate) mod annotation;
pub(crate) mod attributes;
pub(crate) mod challenge;
pub(crate) mod conditions;
pub(crate) mod encryption;
pub(crate) mod expiration;
pub(crate) mod metadata;
pub(crate) mod sources;
pub(crate) mod upload_ids;
pub(crate) mod versions;
