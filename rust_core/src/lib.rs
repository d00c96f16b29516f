//! The data path of Orcas.
//!
//! `python` joins everything below it and is the only module that knows Python; `transfer` moves bodies between
//! a request and the `engine`; `engine` joins `log`, `chunks` and `index` and owns the commit order (decide, append,
//! sync, publish, acknowledge, apply), with the locks of `sync`; `s3`, `sigv4`, `record`, `decide`, `checksum`, `block`,
//! `chunker` and `filter` are pure; `buffers` is memory that is used again. `load` asks servers instead of being one.

#[cfg(all(feature = "planted", feature = "python"))]
compile_error!("deliberate defects are never shipped");

pub mod block;
pub mod buffers;
pub mod calendar;
pub mod checksum;
pub mod chunker;
pub mod chunks;
pub mod decide;
pub mod engine;
pub mod error;
pub mod filter;
pub mod fs;
pub mod http;
pub mod index;
pub mod load;
pub mod log;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(not(feature = "planted"))]
mod planted;
#[cfg(feature = "python")]
mod python;
pub mod record;
pub mod s3;
pub mod sigv4;
mod sync;
pub mod transfer;
