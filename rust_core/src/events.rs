//! Streams of events for Python: bytes to be sent, as they come.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::store_error;
use orcas_engine::EventsState;
use orcas_gateway::Listener;

/// One stream of events.
#[pyclass(frozen, module = "orcas._core")]
pub struct EventListener {
    pub inner: Arc<Listener>,
}

#[pymethods]
impl EventListener {
    /// What is new. Empty: nothing. None: `read` tells.
    fn take<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.inner.take().map(|bytes| PyBytes::new(py, &bytes))
    }

    /// What comes next in the journal. Empty: nothing that is wanted so far. None: the stream has ended. Blocks.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let read = py.detach(|| self.inner.read()).map_err(store_error)?;
        Ok(read.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// What is sent when there was nothing else for a while.
    fn heartbeat<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.heartbeat())
    }

    /// One completion for `slot` follows when there is more, or at the next heartbeat. False: there is more now.
    fn wait(&self, slot: u32) -> bool {
        self.inner.wait(slot)
    }

    /// Ends the wait.
    fn wake(&self) {
        self.inner.wake();
    }
}

/// How the journal of events is.
#[derive(IntoPyObject)]
pub struct EventsStats {
    bytes: u64,
    oldest: Option<u64>,
    durable: u64,
    log: u64,
    listeners: usize,
    failed: Option<String>,
}

impl EventsStats {
    pub fn new(state: EventsState, listeners: usize) -> Self {
        let EventsState { bytes, oldest, durable, log, failed } = state;
        let oldest = oldest.map(|place| place.sequence);
        Self { bytes, oldest, durable, log, listeners, failed: failed.map(|reason| reason.to_string()) }
    }
}
