//! The page of all metrics, and the table of them, for Python.

use pyo3::prelude::*;

use super::keyring::Opened;
use orcas_gateway::metrics::families;
use orcas_gateway::metrics::page::Around;
use orcas_gateway::metrics::tasks::TaskNumbers;
use orcas_metrics::Format;

/// What Python knows of the numbers.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Surroundings {
    version: String,
    connections: u64,
    refusals: Vec<(String, u64)>,
    buckets_max: usize,
    /// Sent and dropped.
    spans: (u64, u64),
    tasks: Vec<Task>,
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
    pub fn with(self, keyring: &Opened, declined: (u64, u64)) -> Around {
        let data_keys = match keyring {
            Opened::Open(keyring) => {
                let counts = keyring.counts();
                (counts.hits, counts.misses, counts.entries as u64)
            }
            Opened::Absent | Opened::Closed(_) => (0, 0, 0),
        };
        let Self { version, connections, refusals, buckets_max, spans, tasks } = self;
        let tasks = tasks.into_iter().map(TaskNumbers::from).collect();
        Around { version, connections, refusals, buckets_max, spans, declined, data_keys, tasks }
    }
}

pub fn format_of(openmetrics: bool) -> Format {
    if openmetrics { Format::OpenMetrics } else { Format::Text }
}

/// Name, kind, unit, labels and meaning of each metric.
pub fn table() -> Vec<(&'static str, &'static str, &'static str, Vec<&'static str>, &'static str)> {
    let row = |family: &&orcas_metrics::Family| {
        (family.name, family.kind.name(), family.unit, family.labels.to_vec(), family.help)
    };
    families::ALL.iter().map(row).collect()
}
