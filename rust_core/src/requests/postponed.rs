//! Requests that a worker accepts as Python objects.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pyo3::prelude::*;

use super::answer::Response;
use super::request::Request;
use orcas_gateway::{Accepted, Responder, ResponseSummary};

/// A request that a worker accepts, before its body is received.
#[pyclass(frozen, module = "orcas._core")]
pub struct Postponed {
    pub inner: Arc<orcas_gateway::Postponed>,
    responder: Arc<dyn Responder>,
    /// Where the form that it comes from has the request.
    made: Arc<OnceLock<Arc<dyn orcas_gateway::Request>>>,
}

impl Postponed {
    pub fn new(
        inner: Arc<orcas_gateway::Postponed>,
        responder: &Arc<dyn Responder>,
        made: &Arc<OnceLock<Arc<dyn orcas_gateway::Request>>>,
    ) -> Self {
        Self { inner, responder: Arc::clone(responder), made: Arc::clone(made) }
    }
}

#[pymethods]
impl Postponed {
    /// Has a worker accept it. One completion for `slot` follows: None.
    fn begin(&self, slot: u32) {
        self.inner.begin(slot);
    }

    /// After the completion: the Request, or the Response that refuses it.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let accepted = self.inner.take();
        if let Ok(request) = &accepted {
            self.made.get_or_init(|| Arc::clone(request));
        }
        accepted_object(py, &self.responder, accepted, self.inner.began)
    }
}

/// A Request, or the Response that refuses one whose head came at `began`.
pub fn accepted_object<'py>(
    py: Python<'py>,
    responder: &Arc<dyn Responder>,
    accepted: Accepted,
    began: Instant,
) -> PyResult<Bound<'py, PyAny>> {
    match accepted {
        Ok(inner) => Ok(Bound::new(py, Request { inner })?.into_any()),
        Err(refusal) => {
            let summary = ResponseSummary::of_refusal(&refusal, began);
            let mut response = Response::new(py, responder, refusal.answer)?;
            response.summary = summary;
            Ok(Bound::new(py, response)?.into_any())
        }
    }
}
