//! Operations on the annotations of objects.

pub mod delete_object_annotation;
pub mod get_object_annotation;
pub mod list_object_annotations;
pub mod put_object_annotation;
