//! The stores that keep a shared log: objects in a bucket of S3, or rows in a database that speaks as PostgreSQL does.
//! This crate makes the calls that the state machines of `orcas_shared_log` ask for, tells them the replies, and decides
//! nothing itself. What is asked for has a deadline, what waits is bounded, and no future loses its place when it is
//! dropped: a machine is kept by a task, or by the value whose method began the call. Must not know what a batch means.
#![forbid(unsafe_code)]

mod backoff;
mod error;
mod format;
mod objects;
mod options;
mod owner;
mod reading;
mod rows;
mod store;
mod tls;

pub use error::Error;
pub use options::{Credentials, Options};
pub use owner::Owner;
pub use reading::{Beginning, Follower, Read, Taken, Taking};
pub use store::LogStore;
