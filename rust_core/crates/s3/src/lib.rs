//! The protocol of S3: operations, errors, names, request headers and parameters, response headers, XML documents.
//!
//! Pure: bytes in, typed values or bytes out. Knows nothing of the engine, of I/O or of Python. Every header name,
//! query parameter, limit and message of the S3 API is defined here, once.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod attributes;
pub mod bucket_logging;
pub mod checksums;
pub mod conditions;
pub mod configurations;
pub mod cors;
pub mod documents;
pub mod encoded_words;
pub mod encryption;
pub mod errors;
pub mod event_targets;
pub mod extensions;
pub mod form;
pub mod format;
pub mod header_block;
pub mod headers;
pub mod lifecycle;
pub mod metadata;
pub mod notification;
pub mod object_lock;
pub mod operations;
/// What the benchmarks measure against, so that tests hold the product to the same.
#[cfg(test)]
#[path = "../../../benches/support/plain.rs"]
mod plain;
pub mod query;
pub mod range;
pub mod resolve;
pub mod restore;
pub mod support;
pub mod tags;
pub mod target;
pub mod versions;
pub mod website;
pub mod xml;

pub use errors::{ErrorCode, Named, S3Error};
pub use operations::{Operation, RequestClass};
pub use target::Target;
