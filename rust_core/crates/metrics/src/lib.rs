//! Counters and histograms that any thread may add to without a lock, and the text in which Prometheus reads them.
//!
//! Adding costs a few instructions and never waits. A reader sees each number as it is at some moment, and not all of
//! the same one; the buckets of a histogram always add up to its count. Must not know what is counted.
#![forbid(unsafe_code)]

mod family;
mod histogram;
mod page;

pub use family::{Family, Kind};
pub use histogram::{Counter, Exemplar, Histogram, Scale};
pub use page::{Format, Page, Samples, Value};
