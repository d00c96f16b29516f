//! The rules by which the objects of a bucket expire, and when: of each version, the earliest rule that applies to it.
//!
//! Pure: versions and times come in as values. Knows no documents, no log and no clock. A day is as long as the caller
//! says, and begins at a multiple of its length since 1970-01-01, so a day of 86,400 seconds begins at midnight UTC.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html>
#![forbid(unsafe_code)]

mod due;
mod rules;
#[cfg(test)]
mod tests;

pub use due::{Due, EntryFacts, EntryState};
pub use rules::{Expiration, Filter, Noncurrent, Rule, Rules};

/// Milliseconds of a day.
pub const DAY_MS: u64 = 86_400_000;
