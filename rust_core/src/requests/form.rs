//! Arriving forms as Python objects.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::answer::Response;
use super::postponed::Postponed;
use orcas_gateway::{FormAdmission, FormHead, Gateway, Responder, Tally};

/// A form whose file has not begun.
#[pyclass(frozen, module = "orcas._core")]
pub struct Form {
    gateway: Arc<Gateway>,
    responder: Arc<dyn Responder>,
    /// None once there is an admission. In a box of its own, because Python does not align it.
    head: Mutex<Option<Box<FormHead>>>,
    pub tally: Arc<Tally>,
    /// The request that it has made.
    pub made: Arc<OnceLock<Arc<dyn orcas_gateway::Request>>>,
}

impl Form {
    pub fn new(gateway: Arc<Gateway>, responder: Arc<dyn Responder>, head: Box<FormHead>) -> Self {
        let tally = Arc::clone(head.tally());
        Self { gateway, responder, head: Mutex::new(Some(head)), tally, made: Arc::default() }
    }
}

#[pymethods]
impl Form {
    /// Takes one received piece of the body; `last`: no more follow. Once the file begins or the form is refused:
    /// the request as Postponed, or the Response that refuses it, and how many bytes of the piece come before the file.
    fn push<'py>(&self, py: Python<'py>, piece: &[u8], last: bool) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
        let mut head = self.head.lock();
        let form = head.take().ok_or_else(|| PyRuntimeError::new_err("the fields of the form are read"))?;
        match form.push(&self.gateway, piece, last) {
            Err(form) => {
                *head = Some(form);
                Ok(None)
            }
            Ok(FormAdmission { request: Ok(inner), taken }) => {
                let postponed = Postponed::new(inner, &self.responder, &self.made);
                Ok(Some((Bound::new(py, postponed)?.into_any(), taken)))
            }
            Ok(FormAdmission { request: Err(answer), taken }) => {
                let answer = Response::new(py, &self.responder, *answer)?;
                Ok(Some((Bound::new(py, answer)?.into_any(), taken)))
            }
        }
    }
}
