//! The page of all metrics, and the table of them, for Python.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::store::Opened;
use orcas_metrics::Format;
use orcas_seal::CacheCounts;
use orcas_telemetry::metrics::families;
use orcas_telemetry::metrics::process::{Process, ProcessMetrics, TargetState};
use orcas_telemetry::metrics::tasks::TaskNumbers;
use orcas_telemetry::metrics::values;

/// What Python knows of the numbers.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Surroundings {
    version: String,
    connections: u64,
    /// When it expires, and whether the files of another cannot be used.
    certificate: Option<(f64, bool)>,
    refusals: Vec<(String, u64)>,
    buckets_max: usize,
    /// Sent and dropped.
    spans: (u64, u64),
    targets: Vec<TargetCounts>,
    tasks: Vec<Task>,
    /// When it started and its processor time, in seconds, and its memory in bytes.
    process: (f64, f64, Option<u64>),
}

/// What was delivered to a target, and what was not.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TargetCounts {
    name: String,
    after: Option<String>,
    since_ms: u64,
    ok: u64,
    retried: u64,
    dead: u64,
    waiting: u64,
    gaps: u64,
}

impl From<TargetCounts> for TargetState {
    fn from(counts: TargetCounts) -> Self {
        let TargetCounts { name, after, since_ms, ok, retried, dead, waiting, gaps } = counts;
        Self { name, after, since_ms, ok, retried, dead, waiting, gaps }
    }
}

/// A periodic task, as [`TaskNumbers`].
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Task {
    name: String,
    succeeded: u64,
    failed: u64,
    running: bool,
    interval: Option<f64>,
    succeeded_at: f64,
    duration: Option<f64>,
    due_at: Option<f64>,
}

impl From<Task> for TaskNumbers {
    fn from(task: Task) -> Self {
        let Task { name, succeeded, failed, running, interval, succeeded_at, duration, due_at } = task;
        Self { name, succeeded, failed, running, interval, succeeded_at, duration, due_at }
    }
}

impl Surroundings {
    /// `declined` are requests that were not traced.
    pub fn with(self, keyring: &Opened, declined: (u64, u64)) -> ProcessMetrics {
        let numbers = |counts: CacheCounts| (counts.hits, counts.misses, counts.entries as u64);
        let (data_keys, blob_keys, key_times) = match keyring {
            Opened::Open(keyring) => {
                let times = keyring.times();
                let times = [("derive", &times.derived), ("unwrap", &times.unwrapped)];
                let times = times.map(|(operation, times)| (operation, Arc::clone(times))).to_vec();
                (numbers(keyring.counts()), numbers(keyring.blob_counts()), times)
            }
            Opened::Absent | Opened::Closed(_) => ((0, 0, 0), (0, 0, 0), Vec::new()),
        };
        let Self { version, connections, certificate, refusals, buckets_max, spans, targets, tasks, process } = self;
        let (start_sec, cpu_sec, resident_bytes) = process;
        let process = Process { start_sec, cpu_sec, resident_bytes };
        let targets = targets.into_iter().map(TargetState::from).collect();
        let tasks = tasks.into_iter().map(TaskNumbers::from).collect();
        ProcessMetrics {
            version,
            connections,
            certificate,
            refusals,
            buckets_max,
            spans,
            declined,
            data_keys,
            blob_keys,
            key_times,
            targets,
            tasks,
            process,
        }
    }
}

pub fn format_of(openmetrics: bool) -> Format {
    if openmetrics { Format::OpenMetrics } else { Format::Text }
}

/// Metric, label and values of each label whose values are fixed.
pub fn label_values() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    values::of_labels().into_iter().map(|(family, label, values)| (family.name, label, values)).collect()
}

/// Name, kind, unit, labels and meaning of each metric.
pub fn table() -> Vec<(&'static str, &'static str, &'static str, Vec<&'static str>, &'static str)> {
    let row = |family: &&orcas_metrics::Family| {
        (family.name, family.kind.name(), family.unit, family.labels.to_vec(), family.help)
    };
    families::ALL.iter().map(row).collect()
}
