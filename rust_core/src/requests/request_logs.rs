//! The logs of requests on their way out: lines of the access log, objects for buckets that are logged, and traces.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::done::PyTraced;
use orcas_gateway::Gateway;
use orcas_telemetry::access_log::batches::Due;

#[pyclass(frozen, module = "orcas._core")]
pub struct RequestLogs {
    gateway: Arc<Gateway>,
    /// The lines that were taken last: memory for the next.
    taken: Mutex<Vec<u8>>,
}

impl RequestLogs {
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway, taken: Mutex::default() }
    }
}

/// Source, bucket, key and content.
type DueLog<'py> = (String, String, String, Bound<'py, PyBytes>);

#[pymethods]
impl RequestLogs {
    /// Keeps lines of the access log for `take_access_lines` from now on, or no longer.
    fn log_access(&self, enabled: bool) {
        if enabled {
            self.gateway.observation.access_lines.open()
        } else {
            self.gateway.observation.access_lines.close()
        }
    }

    /// Waits for lines of the access log, and up to `gather` seconds for more. Empty after `log_access(False)`. Blocks.
    fn take_access_lines<'py>(&self, py: Python<'py>, gather: f64) -> Bound<'py, PyBytes> {
        let gather = Duration::try_from_secs_f64(gather).unwrap_or_default();
        let mut lines = std::mem::take(&mut *self.taken.lock());
        py.detach(|| self.gateway.observation.access_lines.take(gather, &mut lines));
        let taken = PyBytes::new(py, &lines);
        *self.taken.lock() = lines;
        taken
    }

    /// Records of requests to buckets that are logged, as objects: those that have waited for `age` seconds, or have
    /// `size` bytes. Source, bucket, key and content of each.
    fn due_logs<'py>(&self, py: Python<'py>, age: f64, size: usize) -> Vec<DueLog<'py>> {
        let age = Duration::try_from_secs_f64(age).unwrap_or_default();
        let due = self.gateway.observation.due_logs(Due { age, size });
        due.into_iter().map(|log| (log.source, log.bucket, log.key, PyBytes::new(py, &log.content))).collect()
    }

    /// Counts records that could not be stored.
    fn drop_due_logs(&self, records: u64) {
        self.gateway.observation.deliveries.add_dropped(records);
    }

    /// Keeps why requests are refused, for so many seconds from now on.
    fn watch_causes(&self, seconds: f64) {
        self.gateway.observation.causes.watch(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    }

    /// Why the newest refusals were, and what most likely caused them, by the id of the request.
    fn causes(&self) -> HashMap<String, (String, Option<String>)> {
        let newest = self.gateway.observation.causes.newest().into_iter();
        let text = |id: [u8; 16]| String::from_utf8_lossy(&id).into_owned();
        newest.map(|note| (text(note.request_id), (note.cause, note.likely_cause))).collect()
    }

    /// Waits for traced requests that are done, and up to `gather` seconds for a whole batch. None of them after
    /// `end_traced`, once all are taken. Blocks.
    fn take_traced(&self, py: Python<'_>, gather: f64) -> Vec<PyTraced> {
        let gather = Duration::try_from_secs_f64(gather).unwrap_or_default();
        py.detach(|| self.gateway.observation.traced.take(gather)).into_iter().map(PyTraced::from).collect()
    }

    /// Frees who waits in `take_traced`.
    fn end_traced(&self) {
        self.gateway.observation.traced.end();
    }

    /// Spans of requests that were dropped because too many waited.
    fn dropped_spans(&self) -> u64 {
        self.gateway.observation.traced.dropped()
    }

    /// Counts lines of the access log that could not be written.
    fn drop_access_lines(&self, lines: u64) {
        self.gateway.observation.access_lines.add_dropped(lines);
    }
}
