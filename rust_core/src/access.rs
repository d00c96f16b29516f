//! From a request that is done to its line in the access log, and to the log of its bucket.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::answer::Response;
use super::finished::Verdict;
use super::head::{ScopeHead, client, field};
use super::request::Request as PyRequest;
use orcas_gateway::access_log::{Seen, began_ms};
use orcas_gateway::{Lane, Request};
use orcas_http::{hex, lossy_text};
use orcas_telemetry::access_log::note::{Ended, Note};
use orcas_telemetry::metrics::requests::Finished;

/// Whether anybody wants to hear of requests.
pub fn is_wanted(lane: &Lane) -> bool {
    lane.access_lines.is_open() || lane.engine.logs_buckets()
}

/// A request that is done.
pub struct Done<'a, 'py> {
    pub verdict: &'a Verdict<'py>,
    pub response: Option<&'a Response>,
    pub finished: &'a Finished,
    /// As ASGI has it.
    pub scope: &'a Bound<'py, PyDict>,
    /// As of `Core.accept`.
    pub root: usize,
}

/// Adds the line of a request, and its record if its bucket is logged.
pub fn log(py: Python<'_>, lane: &Arc<Lane>, done: &Done<'_, '_>) -> PyResult<()> {
    let request = done.verdict.request(py, |request: &PyRequest| Arc::clone(&request.inner));
    let trace_id = done.verdict.trace(py, |trace| hex(&trace.trace_id));
    let trace_id = trace_id.as_deref();
    let client = client(done.scope)?;
    let remote = client.as_ref().map(|host| host.to_string_lossy()).unwrap_or_default();
    let request = request.as_deref();
    let id = &*done.request_id(request);
    let note = request.and_then(|request| request.note());
    let (lines, logs) = (lane.access_lines.is_open(), lane.engine.logs_buckets());
    if let Some(note) = note.filter(|_| lines) {
        let finished = done.finished;
        let began_ms = began_ms(finished);
        let ended = Ended { remote: &remote, request_id: id, trace_id, finished, began_ms };
        lane.access_lines.push(|out| note.write_line(&ended, out));
    }
    let bucket = note.and_then(|note: &Note| note.bucket.as_deref());
    let is_logged = logs && bucket.is_none_or(|bucket| lane.is_logged(bucket));
    if is_logged || (lines && note.is_none()) {
        return done.log_head(lane, request, (&remote, id, trace_id), (lines && note.is_none(), is_logged));
    }
    Ok(())
}

impl Done<'_, '_> {
    fn request_id<'a>(&'a self, request: Option<&'a dyn Request>) -> Cow<'a, str> {
        match (request, self.response) {
            (_, Some(response)) => lossy_text(&response.facts.request_id),
            (Some(request), None) => request.envelope().request_id().into(),
            (None, None) => Cow::default(),
        }
    }

    /// Reads the head again, for a request that was refused or has no note. `wanted`: a line, and a record for the bucket.
    fn log_head(
        &self,
        lane: &Arc<Lane>,
        request: Option<&dyn Request>,
        (remote, request_id, trace_id): (&str, &str, Option<&str>),
        (line, record): (bool, bool),
    ) -> PyResult<()> {
        let py = self.scope.py();
        let scope = ScopeHead::of(self.scope)?;
        let pairs = scope.pairs();
        let head = scope.head(&pairs)?;
        let version = field(self.scope, intern!(py, "http_version"))?.extract::<String>().unwrap_or_default();
        let answered = self.response.map_or(&b""[..], |response| response.rest.as_bytes(py));
        let seen = Seen { remote, http_version: &version, root: self.root, request_id, trace_id, answered };
        let made = lane.access_record(&head, request, self.finished, &seen);
        if line {
            lane.access_lines.push(|out| made.write_line(out));
        }
        if record {
            lane.log_to_bucket(&made);
        }
        Ok(())
    }
}
