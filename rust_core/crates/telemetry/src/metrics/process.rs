//! Numbers on the page of metrics that come from elsewhere: connections, the keyring, deliveries, the process.

use std::sync::Arc;

use super::tasks::TaskNumbers;
use orcas_metrics::Histogram;

/// The numbers that only the owner of the connections and of the keyring knows.
#[derive(Clone, Debug, Default)]
pub struct ProcessMetrics {
    pub version: String,
    pub connections: u64,
    /// When the certificate in use expires, in seconds since 1970, and whether the files of another cannot be used.
    pub certificate: Option<(f64, bool)>,
    /// Error codes with which connections were ended, and how often.
    pub refusals: Vec<(String, u64)>,
    /// Most buckets that are shown by name.
    pub buckets_max: usize,
    /// Spans of traces that were sent, and that were dropped.
    pub spans: (u64, u64),
    /// Requests that were not traced because there were too many: of verified senders, and of others.
    pub declined: (u64, u64),
    /// Lookups of data keys that found one, that did not, and keys at hand.
    pub data_keys: (u64, u64, u64),
    /// Lookups of keys of blobs, likewise.
    pub blob_keys: (u64, u64, u64),
    /// Times of keys by operation; empty without a keyring.
    pub key_times: Vec<(&'static str, Arc<Histogram>)>,
    pub targets: Vec<TargetState>,
    pub tasks: Vec<TaskNumbers>,
    pub process: Process,
}

/// The process as its operating system counts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Since 1970.
    pub start_sec: f64,
    pub cpu_sec: f64,
    /// `None` where it cannot be told.
    pub resident_bytes: Option<u64>,
}

/// A target of events, as its deliveries are known to the process.
#[derive(Clone, Debug, Default)]
pub struct TargetState {
    pub name: String,
    /// The id of the place behind everything that it has. `None` before the first look at the journal.
    pub after: Option<String>,
    /// No event that it lacks is older, in milliseconds since 1970.
    pub since_ms: u64,
    /// Attempts that it accepted, that are to be repeated, and that were the last for their event.
    pub ok: u64,
    pub retried: u64,
    pub dead: u64,
    /// Dead letters that wait.
    pub waiting: u64,
    /// How often events were gone before they were read.
    pub gaps: u64,
}
