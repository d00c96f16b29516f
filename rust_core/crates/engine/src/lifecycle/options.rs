//! How lifecycle rules are applied: by whoever opens the store.

use orcas_lifecycle::Rules;

/// How the rules of buckets are applied.
#[derive(Clone, Copy, Debug)]
pub struct LifecycleOptions {
    /// Milliseconds of a day.
    pub day_ms: u64,
    /// Reads the rules of a document. `None`: it has none that can be read.
    pub read: fn(&[u8]) -> Option<Rules>,
}
