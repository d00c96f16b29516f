//! Incomplete small bodies of an ASGI server as Python objects.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;

use orcas_bodies::incomplete::{self, Counted, Sender};

/// Ends a body by calling Python.
struct Shed(Py<PyAny>);

impl Sender for Shed {
    fn shed(&self) {
        Python::attach(|py| {
            if let Err(error) = self.0.call0(py) {
                error.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}

/// Limits the memory of incomplete small bodies, by ending some of them.
#[pyclass(frozen, module = "orcas._core")]
pub struct IncompleteBodies {
    inner: Arc<incomplete::IncompleteBodies<Shed>>,
}

#[pymethods]
impl IncompleteBodies {
    /// `limit`: bytes of all together.
    #[new]
    fn new(limit: u64) -> Self {
        Self { inner: incomplete::IncompleteBodies::new(limit) }
    }

    /// Bytes of all together.
    #[getter]
    fn total(&self) -> u64 {
        self.inner.total()
    }

    /// A body that nothing has arrived of. `client`: an address, or anything else for one that is not known. `shed` is
    /// called if the body is to end, while one grows.
    fn body(&self, client: &str, shed: Py<PyAny>) -> IncompleteBody {
        // An IPv6 address can name the interface that it is reached by.
        let address = client.split('%').next().and_then(|address| address.parse().ok());
        let counted = self.inner.body(&Arc::new(Shed(shed)), address);
        IncompleteBody { counted: Mutex::new(Some(Arc::new(counted))) }
    }
}

/// A body that counts.
#[pyclass(frozen, module = "orcas._core")]
pub struct IncompleteBody {
    counted: Mutex<Option<Arc<Counted<Shed>>>>,
}

#[pymethods]
impl IncompleteBody {
    /// `count` more bytes have arrived. This may end bodies, this one included.
    fn grow(&self, count: usize) {
        // What ends a body may call `forget` of this one.
        let counted = self.counted.lock().clone();
        if let Some(counted) = counted {
            counted.grow(count);
        }
    }

    /// A body that is complete or was ended does not count any more.
    fn forget(&self) {
        let counted = self.counted.lock().take();
        drop(counted);
    }
}
