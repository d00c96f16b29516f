//! Access policies as functions: what is wrong with one, and what several allow. And the identities that have them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use orcas_access::{PolicyKind, warnings};
use orcas_gateway::{IdentityRow, IdentityTables, KeyRow, LimitRow, compile_policy};

/// Accounts, policies, identities, keys and limits.
#[derive(FromPyObject)]
pub struct PyIdentityTables(
    Vec<(String, String, String)>,
    Vec<(String, String)>,
    Vec<IdentityRow>,
    Vec<KeyRow>,
    Vec<LimitRow>,
);

impl From<PyIdentityTables> for IdentityTables {
    fn from(PyIdentityTables(accounts, policies, identities, keys, limits): PyIdentityTables) -> Self {
        Self { accounts, policies, identities, keys, limits }
    }
}

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
