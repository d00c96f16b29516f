//! Operations on objects.

pub mod copy_object;
pub mod delete_object;
pub mod delete_objects;
pub mod get_object;
pub mod get_object_attributes;
pub mod instant_upload;
pub mod move_object;
pub mod post_object;
pub mod put_object;
pub mod read_page;
pub mod rename_object;
pub mod restore_object;
