//! What operations on buckets share: documents, settings, and how lists show buckets.

pub mod acls;
pub mod documents;
pub mod moves;
pub mod pages;
pub mod policies;
pub mod settings;
