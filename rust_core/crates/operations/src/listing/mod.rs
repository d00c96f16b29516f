//! Lists of objects and of their versions.

pub mod list_object_versions;
pub mod list_objects;
