//! Answers as Python objects: header names and frequent values are made once, everything else is copied.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::transfer::answer::{Answer, AnswerBody, HeaderList};
use crate::transfer::download;
use crate::transfer::{Event, Lane};

/// A whole response, ready for ASGI.
#[pyclass(frozen, module = "orcas._core")]
pub struct Response {
    #[pyo3(get)]
    status: u16,
    #[pyo3(get)]
    headers: Py<PyList>,
    #[pyo3(get)]
    body: Py<PyBytes>,
    #[pyo3(get)]
    download: Option<Py<Download>>,
    #[pyo3(get)]
    fault: Option<String>,
}

/// Header names that Rust knows as constants, by address, so that each becomes a Python object once.
#[derive(Default)]
pub struct Names {
    known: Mutex<HashMap<(usize, usize), Py<PyBytes>>>,
}

impl Names {
    fn list<'py>(&self, py: Python<'py>, headers: &HeaderList) -> PyResult<Bound<'py, PyList>> {
        let mut known = self.known.lock();
        let list = PyList::empty(py);
        for (name, value) in headers {
            let name = match name {
                Cow::Borrowed(name) => {
                    let address = (name.as_ptr() as usize, name.len());
                    known.entry(address).or_insert_with(|| PyBytes::new(py, name).unbind()).clone_ref(py).into_bound(py)
                }
                Cow::Owned(name) => PyBytes::new(py, name),
            };
            list.append(PyTuple::new(py, [name, PyBytes::new(py, value)])?)?;
        }
        Ok(list)
    }
}

impl Response {
    pub fn new(py: Python<'_>, lane: &Arc<Lane>, names: &Names, answer: Answer) -> PyResult<Self> {
        let headers = names.list(py, &answer.headers)?.unbind();
        let (body, download) = match answer.body {
            AnswerBody::Empty => (PyBytes::new(py, b""), None),
            AnswerBody::Bytes(bytes) => (PyBytes::new(py, &bytes), None),
            AnswerBody::Pieces(pieces) => {
                let download = Download { pieces, lane: Arc::clone(lane) };
                (PyBytes::new(py, b""), Some(Py::new(py, download)?))
            }
        };
        Ok(Self { status: answer.status, headers, body: body.unbind(), download, fault: answer.fault })
    }
}

/// A large body on its way out.
#[pyclass(frozen, module = "orcas._core")]
pub struct Download {
    pieces: Arc<download::Download>,
    lane: Arc<Lane>,
}

#[pymethods]
impl Download {
    #[getter]
    fn length(&self) -> u64 {
        self.pieces.length()
    }

    /// The next piece, or None: then one completion for `slot` brings it.
    fn next<'py>(&self, py: Python<'py>, slot: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
        let lane = Arc::clone(&self.lane);
        let piece = self.pieces.next(Box::new(move |piece| lane.complete(slot, Event::Piece(piece))));
        piece.map(|piece| piece_object(py, piece)).transpose()
    }
}

/// A piece as bytes, or the reason for the log why there is none as text.
pub fn piece_object(
    py: Python<'_>,
    piece: Result<Vec<u8>, crate::transfer::problem::Problem>,
) -> PyResult<Bound<'_, PyAny>> {
    match piece {
        Ok(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        Err(problem) => {
            let reason = problem.fault.unwrap_or_else(|| problem.error.to_string());
            Ok(reason.into_pyobject(py)?.into_any())
        }
    }
}
