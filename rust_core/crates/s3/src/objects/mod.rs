//! What requests say of objects and their versions, in headers and in documents about one object.

pub mod annotations;
pub mod attributes;
pub mod checksums;
pub mod metadata;
pub mod object_lock;
pub mod restore;
pub mod tags;
pub mod versions;
