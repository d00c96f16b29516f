//! Records that are published and not yet in the index: in total (`overlay`), of one key (`key_changes`), and of blobs
//! (`blob_references`).

pub mod blob_references;
pub mod key_changes;
pub mod overlay;
