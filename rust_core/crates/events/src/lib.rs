//! Events of buckets and objects: their names, which of them somebody asks for, their JSON, and streams of them.
//!
//! Pure. Knows no log, no clock, no documents and no connections.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html>
#![forbid(unsafe_code)]

mod event;
mod filter;
pub mod json;
mod names;
#[cfg(test)]
mod samples;
pub mod sse;

pub use event::{Bucket, Event, FailedCopy, Object, Place};
pub use filter::Filter;
pub use names::{EventName, EventNames};
