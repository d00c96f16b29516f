//! How lifecycle rules are applied: by whoever opens the store.

use std::time::Duration;

use orcas_lifecycle::Rules;

/// How the rules of buckets are applied.
#[derive(Clone, Copy, Debug)]
pub struct LifecycleOptions {
    /// Between the beginnings of two runs; zero for runs on request only.
    pub interval: Duration,
    /// Milliseconds of a day.
    pub day_ms: u64,
    /// Reads the rules of a document. `None`: it has none that can be read.
    pub read: fn(&[u8]) -> Option<Rules>,
}
