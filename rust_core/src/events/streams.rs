//! Streams of events for Python: bytes to be sent, as they come.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::errors::store_error;
use crate::requests::piece::view;
use orcas_engine::EventsState;
use orcas_event_streams::{Deliveries, Delivery, DeliveryReader, Listener};
use orcas_gateway::{Completion, Listening, Responder};
use orcas_http::lossy_text;

/// The permission of somebody who is not root to listen to a bucket.
#[pyclass(frozen, module = "orcas._core")]
pub struct ListeningPermit {
    pub inner: Listening,
}

#[pymethods]
impl ListeningPermit {
    /// Whether it still holds.
    fn holds(&self) -> bool {
        self.inner.holds()
    }
}

/// One stream of events.
#[pyclass(frozen, module = "orcas._core")]
pub struct EventListener {
    pub inner: Arc<Listener>,
    pub responder: Arc<dyn Responder>,
}

#[pymethods]
impl EventListener {
    /// What is new. Empty: nothing. None: `read` tells.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        self.inner.take().map(|bytes| view(py, bytes)).transpose()
    }

    /// What comes next in the journal. Empty: nothing that is wanted so far. None: the stream has ended. Blocks.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        let read = py.detach(|| self.inner.read()).map_err(store_error)?;
        read.map(|bytes| view(py, bytes)).transpose()
    }

    /// What is sent when there was nothing else for a while.
    fn heartbeat<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.heartbeat())
    }

    /// One completion for `slot` follows when there is more, or when `wake` is called. False: there is more now.
    fn wait(&self, slot: u32) -> bool {
        let responder = Arc::clone(&self.responder);
        self.inner.wait(Box::new(move || responder.complete(slot, Completion::Resume)))
    }

    /// Ends the wait.
    fn wake(&self) {
        self.inner.wake();
    }
}

/// An event for a target.
#[derive(IntoPyObject)]
pub struct EventDelivery<'py> {
    id: String,
    time_ms: u64,
    bucket: String,
    key: String,
    message: Bound<'py, PyBytes>,
    is_test: bool,
}

/// The events for one target, as they come.
#[pyclass(frozen, module = "orcas._core")]
pub struct EventDeliveries {
    reader: Mutex<DeliveryReader>,
}

impl EventDeliveries {
    pub fn new(reader: DeliveryReader) -> Self {
        Self { reader: Mutex::new(reader) }
    }
}

#[pymethods]
impl EventDeliveries {
    /// The place behind everything that was returned. None: the store is closed.
    fn after(&self) -> Option<String> {
        self.reader.lock().after()
    }

    /// The next events, the place behind them, and whether events before them are gone. None: the store is closed. Waits
    /// for so long if there are none.
    fn next<'py>(&self, py: Python<'py>, wait_ms: u64) -> PyResult<Option<(Vec<EventDelivery<'py>>, String, bool)>> {
        let next = py.detach(|| self.reader.lock().next(Duration::from_millis(wait_ms))).map_err(store_error)?;
        Ok(next.map(|Deliveries { found, after, lost }| {
            let found = found.into_iter().map(|delivery| {
                let Delivery { id, time_ms, bucket, key, message, is_test } = delivery;
                let (key, message) = (lossy_text(&key).into_owned(), PyBytes::new(py, &message));
                EventDelivery { id, time_ms, bucket, key, message, is_test }
            });
            (found.collect(), after, lost)
        }))
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
