//! The tables, a file for each idea: which rows a record adds or removes, how they are found, and how columns are
//! encoded. Every function takes a connection, so the writer and the readers use the same ones.

pub(crate) mod blobs;
pub(crate) mod buckets;
mod columns;
pub(crate) mod digests;
pub(crate) mod documents;
pub(crate) mod heads;
pub(crate) mod history;
pub(crate) mod packs;
pub(crate) mod uploads;
pub(crate) mod versions;

pub(crate) use columns::{blob_bytes, loaded_int, present_version, stored, stored_int, with_update};
