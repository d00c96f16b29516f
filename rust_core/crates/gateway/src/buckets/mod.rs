//! What operations on buckets share: documents, settings, and how lists show buckets.

pub(crate) mod acls;
pub(crate) mod documents;
pub(crate) mod moves;
pub(crate) mod pages;
pub(crate) mod policies;
pub(crate) mod settings;
