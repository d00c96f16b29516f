//! What operations on buckets, objects and versions share: what requests say of them, what is stored of that, and how
//! answers show it.

pub mod annotation;
pub mod attributes;
pub mod conditions;
pub mod encryption;
pub mod expiration;
pub mod metadata;
pub mod pages;
pub mod policies;
pub mod replication;
pub mod settings;
pub mod sources;
pub mod upload_ids;
pub mod versions;
