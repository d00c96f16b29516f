//! Responses as Python objects.
//!
//! The fields of a response are Python objects, so that reading one is a member access and not a call.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyList};

use super::piece;
use orcas_bodies::download;
use orcas_gateway::{Completion, Delivery, Responder, ResponseBody, ResponseSummary};
use orcas_http::hex;

/// A whole response, ready to be sent.
#[pyclass(frozen, module = "orcas._core")]
pub struct Response {
    #[pyo3(get)]
    status: Py<PyInt>,
    #[pyo3(get)]
    headers: Py<PyList>,
    #[pyo3(get)]
    body: Py<PyBytes>,
    #[pyo3(get)]
    closes: Py<PyBool>,
    #[pyo3(get)]
    download: Py<PyAny>,
    #[pyo3(get)]
    error: Py<PyAny>,
    /// The object that was asked for does not exist, and was not deleted.
    #[pyo3(get)]
    lacks_object: bool,
    pub summary: ResponseSummary,
}

impl Response {
    pub fn new(py: Python<'_>, responder: &Arc<dyn Responder>, answer: orcas_gateway::Response) -> PyResult<Self> {
        let pair = |(name, value): (&str, &[u8])| (PyBytes::new(py, name.as_bytes()), PyBytes::new(py, value));
        let headers = PyList::new(py, answer.headers.iter().map(pair).collect::<Vec<_>>())?.unbind();
        let (summary, lacks_object) = (ResponseSummary::of(&answer), answer.lacks_object());
        let (body, download) = match answer.body {
            ResponseBody::Empty => (PyBytes::new(py, b""), py.None()),
            ResponseBody::Bytes(body) => (PyBytes::new(py, &body), py.None()),
            ResponseBody::Pieces(pieces) => {
                let (responder, delivery) = (Arc::clone(responder), summary.delivery.clone());
                (PyBytes::new(py, b""), Py::new(py, Download { pieces, responder, delivery })?.into_any())
            }
        };
        let status = answer.status.into_pyobject(py)?.unbind();
        let closes = PyBool::new(py, answer.closes).to_owned().unbind();
        let error = match answer.error {
            None => py.None(),
            Some(note) => Py::new(py, ErrorNote { inner: *note })?.into_any(),
        };
        Ok(Self { status, headers, body: body.unbind(), closes, download, error, lacks_object, summary })
    }
}

#[pymethods]
impl Response {
    /// The id of the trace in hexadecimal digits, if this refuses a head that is traced.
    #[getter]
    fn trace_id(&self) -> Option<String> {
        self.summary.trace.as_ref().map(|trace| hex(&trace.trace_id))
    }
}

/// What the log says about an error.
#[pyclass(frozen, module = "orcas._core")]
pub struct ErrorNote {
    pub inner: orcas_gateway::ErrorNote,
}

#[pymethods]
impl ErrorNote {
    #[getter]
    fn request_id(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.inner.request_id)
    }

    #[getter]
    fn code(&self) -> &'static str {
        self.inner.code.as_str()
    }

    #[getter]
    fn cause(&self) -> &str {
        &self.inner.cause
    }

    #[getter]
    fn likely_cause(&self) -> Option<&str> {
        self.inner.likely_cause.as_deref()
    }

    #[getter]
    fn at_fault(&self) -> bool {
        self.inner.at_fault
    }
}

/// A large body that is being sent.
#[pyclass(frozen, module = "orcas._core")]
pub struct Download {
    pieces: Arc<download::Download>,
    responder: Arc<dyn Responder>,
    delivery: Option<Arc<Delivery>>,
}

#[pymethods]
impl Download {
    #[getter]
    fn length(&self) -> u64 {
        self.pieces.length()
    }

    /// `count` bytes were handed to the socket.
    fn sent(&self, count: u64) {
        if let Some(delivery) = &self.delivery {
            delivery.add(count);
        }
    }

    /// The next piece, or None: then one completion for `slot` brings it.
    fn next<'py>(&self, py: Python<'py>, slot: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
        let responder = Arc::clone(&self.responder);
        let piece = self.pieces.next(Box::new(move |piece| responder.complete(slot, Completion::Piece(piece))));
        piece.map(|piece| piece_object(py, piece)).transpose()
    }
}

/// A view of a piece; or, as text for the log, the reason why there is none.
pub fn piece_object(
    py: Python<'_>,
    piece: Result<orcas_base::buffers::Buffer, orcas_bodies::problem::Problem>,
) -> PyResult<Bound<'_, PyAny>> {
    match piece {
        Ok(bytes) => Ok(piece::view(py, bytes)?.into_any()),
        Err(problem) => {
            let reason = problem.fault.unwrap_or_else(|| problem.error.to_string());
            Ok(reason.into_pyobject(py)?.into_any())
        }
    }
}
