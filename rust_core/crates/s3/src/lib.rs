//! The protocol of S3: operations, errors, names, request headers and parameters, response headers, XML documents.
//!
//! Pure: bytes in, typed values or bytes out. Knows nothing of the engine, of I/O or of Python. Every header name,
//! query parameter, limit and message of the S3 API is defined here, once.
#![forbid(unsafe_code)]

mod configuration;
pub mod encoded_words;
pub mod encryption;
pub mod errors;
pub mod form;
mod objects;
/// Plain implementations that the benchmarks compare with, so that tests hold the product to the same results.
#[cfg(test)]
#[path = "../../../benches/support/plain.rs"]
mod plain;
mod requests;
mod responses;
pub mod xml;

pub use configuration::{
    acl, bucket_logging, configurations, cors, documents, event_targets, lifecycle, notification, replication, website,
};
pub use errors::{ErrorCode, Named, S3Error};
pub use objects::{annotations, attributes, checksums, metadata, object_lock, restore, tags, versions};
pub use requests::operations::{self, Operation, RequestClass};
pub use requests::target::{self, Target};
pub use requests::{conditions, extensions, query, range, replicas, resolve, stored_headers, support};
pub use responses::{format, header_block, headers};
