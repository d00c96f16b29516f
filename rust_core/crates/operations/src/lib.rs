//! The operations of S3: each has a file, which parses, performs and answers its requests, and a row in the table.
//!
//! Whoever asks for one was found out and allowed to before. Must not know front ends, and nothing of requests but what
//! `Operation` says.
#![forbid(unsafe_code)]

mod annotations;
mod buckets;
mod configuration;
mod listing;
mod multipart;
mod objects;
mod resources;
mod table;
mod versions;

pub use objects::post_object::PostObject;
pub use objects::read_page::ReadPage;
pub use table::{Handler, implemented};
