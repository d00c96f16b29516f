//! Bodies in and out, below the requests that they belong to.
//!
//! Request bodies arrive through `stream` or whole, and `intake` checks what their heads declared. Both take their
//! memory from `budget`, and their workers from `pool`. Large response bodies are read through `download`. What goes
//! wrong with a body is a `Problem`. Must not know operations, answers, Python or sockets.
#![forbid(unsafe_code)]

pub mod body_md5;
pub mod budget;
pub mod download;
pub mod form_file;
pub mod hashes;
mod incoming;
pub mod incomplete;
pub mod intake;
pub mod pool;
pub mod prefixes;
pub mod problem;
pub mod stream;
pub mod worker_group;
