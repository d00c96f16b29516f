//! A closed-loop load on any S3 endpoint over plain HTTP/1.1: as many connections as asked for, each of which asks again
//! as soon as it was answered, and every byte of every answer compared with what must be there.
//!
//! Nothing is sent twice and no error is hidden. Knows `sigv4` and `http`, and nothing of the engine: it measures other
//! servers in the same way. There is no TLS: its cost on this side would be taken for the server's.
#![forbid(unsafe_code)]

mod connection;
mod histogram;
mod job;
mod page;
mod pattern;
mod plan;
mod poller;
mod requests;
mod response;
mod run;
mod space;
mod tally;
mod tasks;
#[cfg(test)]
mod tests;
mod worker;

pub use histogram::Histogram;
pub use plan::{Operation, Sizes, Target, Workload};
pub use run::{Load, LoadError, Phase, Report};
pub use tally::{Counts, Tally};
