//! From a request that is done to its line in the access log, and to the log of its bucket.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use super::answer::Response;
use super::finished::Verdict;
use super::head::{byte_pairs, header_objects};
use orcas_gateway::Lane;
use orcas_gateway::access::record::{AccessRecord, Seen};
use orcas_gateway::metrics::requests::Finished;
use orcas_http::{Headers, RequestHead};

/// Whether anybody wants to hear of requests.
pub fn is_wanted(lane: &Lane) -> bool {
    lane.access_lines.is_open() || lane.engine.logs_buckets()
}

/// Adds the line of a request with this scope, as ASGI has it. `root` as of `Core.accept`.
pub fn log(
    py: Python<'_>,
    lane: &Arc<Lane>,
    verdict: &Verdict<'_>,
    response: Option<&Response>,
    finished: &Finished,
    scope: &Bound<'_, PyDict>,
    root: usize,
) -> PyResult<()> {
    let field = |name: &str| scope.get_item(name).map(|found| found.unwrap_or_else(|| py.None().into_bound(py)));
    let method = field("method")?.cast_into::<PyString>()?;
    let path = field("raw_path")?.cast_into::<PyBytes>()?;
    let query = field("query_string")?.cast_into::<PyBytes>()?;
    let objects = header_objects(&field("headers")?.cast_into::<PyList>()?)?;
    let list = byte_pairs(&objects);
    let version = field("http_version")?.extract::<String>().unwrap_or_default();
    // A host and a port, or None.
    let remote = field("client")?.get_item(0).and_then(|host| host.extract::<String>()).unwrap_or_default();
    let head = RequestHead {
        method: method.to_str()?.as_bytes(),
        path: path.as_bytes(),
        query: query.as_bytes(),
        headers: Headers::new(&list),
    };
    let request = verdict.request(py, |request| Arc::clone(&request.inner));
    let request_id = match (&request, response) {
        (_, Some(response)) => String::from_utf8_lossy(&response.facts.request_id).into_owned(),
        (Some(request), None) => request.envelope().request_id().to_owned(),
        (None, None) => String::new(),
    };
    let seen = Seen {
        remote: &remote,
        http_version: &version,
        root,
        request_id: &request_id,
        answered: response.map_or(b"", |response| response.rest.as_bytes(py)),
    };
    let record = AccessRecord::new(lane, &head, request.as_deref(), finished, &seen);
    if lane.access_lines.is_open() {
        lane.access_lines.push(record.json().as_bytes());
    }
    if lane.engine.logs_buckets() {
        lane.log_to_bucket(&record);
    }
    Ok(())
}
