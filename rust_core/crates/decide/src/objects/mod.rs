//! Objects, versions and uploads: what is written, copied, moved and deleted, and what forbids it.

pub(crate) mod annotations;
pub(crate) mod appends;
pub(crate) mod attributes;
pub(crate) mod conditions;
pub(crate) mod copies;
pub(crate) mod deletions;
pub(crate) mod locks;
pub(crate) mod manifest;
pub(crate) mod moves;
pub(crate) mod uploads;
pub(crate) mod versions;
pub(crate) mod writes;
