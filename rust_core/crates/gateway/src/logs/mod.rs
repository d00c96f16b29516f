//! The access log and the logs of buckets: what they say of requests that are done.

pub mod access_log;
pub mod request_log;
