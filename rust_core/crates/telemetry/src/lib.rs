//! What operators hear of a server: metrics, the access log, traces and the steps of requests, and what the other crates
//! report.
//!
//! Nothing here waits for whoever listens: what finds no room is dropped and counted. Must not know how requests are
//! performed, Python, or where logs and traces go.
#![forbid(unsafe_code)]

pub mod access_log;
pub mod diagnostics;
pub mod metrics;
pub mod stopwatch;
pub mod traces;
