//! A closed-loop load on any S3 endpoint over plain HTTP/1.1: each of a number of connections sends its next request as
//! soon as it has the previous response. Every byte of every response is compared with what the object must hold.
//!
//! No request is sent twice and no error is hidden. The crate uses `sigv4` and `http` but not the engine, because it
//! measures other servers in the same way. There is no TLS: its cost in this process would count as the server's.
#![forbid(unsafe_code)]

mod client;
mod histogram;
mod job;
mod objects;
mod pattern;
mod plan;
mod run;
mod tally;
mod tasks;
#[cfg(test)]
mod tests;
mod worker;

pub use histogram::Histogram;
pub use plan::{Operation, Sizes, Target, Workload};
pub use run::{Load, LoadError, Phase, Report};
pub use tally::{Counts, Tally};
