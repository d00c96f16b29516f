//! Access policies as functions: what is wrong with one, and what several allow.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use orcas_access::{PolicyKind, warnings};
use orcas_gateway::compile_policy;

/// Reads a policy. Returns sentences about what it says and probably does not mean.
#[pyfunction]
pub fn check_policy(py: Python<'_>, document: &str, kind: &str, bucket: Option<&str>) -> PyResult<Vec<String>> {
    let unknown = || PyValueError::new_err(format!("{kind} is not a kind of policy"));
    let kind = PolicyKind::parse(kind).ok_or_else(unknown)?;
    let checked = py.detach(|| compile_policy(document, kind, bucket).map(|policy| warnings(&policy)));
    checked.map_err(PyValueError::new_err)
}

#[pyfunction]
pub fn simulate(py: Python<'_>, request: &str) -> PyResult<String> {
    py.detach(|| orcas_access::simulate(request)).map_err(PyValueError::new_err)
}
