//! The files of an index and the connections to them: pages with checksums, the write-ahead log, the pool of readers,
//! and the settings and tables that a database begins with. Nothing here knows what rows mean.

pub(crate) mod checkpoint;
mod database;
pub(crate) mod frames;
mod layout;
pub(crate) mod pages;
mod pool;
pub(crate) mod schema;

pub(crate) use database::{Backing, Database};
pub(crate) use layout::PAGE;
pub use layout::PAGE_BYTES;
pub use pool::Connections;
pub(crate) use pool::{Pool, Pooled};
