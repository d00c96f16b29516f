//! What a stopped MinIO left on its drives: buckets, objects with their versions, and their bytes, verified and put
//! together from the drives that are left. Nothing is written, and only `Drives::remove` removes anything.
//!
//! Whatever the drives hold, an answer is right or an error: every shard is compared with its hash before it is used.
#![forbid(unsafe_code)]

mod content;
mod documents;
mod drives;
mod erasure;
mod merge;
mod meta;
mod msgpack;
mod removal;
mod sealed;
#[cfg(test)]
mod tests;
mod walk;

pub use content::{Content, uuid};
pub use documents::documents;
pub use drives::Drives;
pub use merge::Taken;
pub use meta::{Kind, parse};
pub use sealed::MasterKey;
pub use walk::{Found, Walk};
