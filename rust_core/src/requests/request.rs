//! Verified requests and arriving bodies as Python objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use orcas_base::completions::Resume;
use orcas_bodies::stream::Flow;
use orcas_gateway::{BodyPlan, Completion, Reply, UploadStream};
use orcas_http::hex;
use orcas_s3::target::{hosted_bucket, hosted_website};

pub const FLOW_MORE: u8 = 0;
pub const FLOW_WAIT: u8 = 1;
pub const FLOW_STOP: u8 = 2;

/// Plans of requests without a collected body.
pub const PLAN_RUN: i64 = 0;
pub const PLAN_STREAM: i64 = -1;
pub const PLAN_IN_PIECES: i64 = -2;

/// Pieces above this many bytes are copied without the GIL.
const COPY_ATTACHED_MAX: usize = 64 * 1024;

/// Whether a Host header names a bucket of one of `domains` or of localhost, or the website of one.
#[pyfunction]
pub fn names_bucket(host: &[u8], domains: Vec<String>, website_host: Option<&str>) -> bool {
    website_host.is_some_and(|website| hosted_website(host, website).is_some())
        || hosted_bucket(host, &domains).is_some()
}

/// A verified, typed request. Python sees only what the dispatcher needs.
#[pyclass(frozen, module = "orcas._core")]
pub struct Request {
    pub inner: Arc<dyn orcas_gateway::Request>,
}

#[pymethods]
impl Request {
    #[getter]
    fn request_id(&self) -> &str {
        self.inner.envelope().request_id()
    }

    /// What the audit log says of it: what it is about, who sent it, and with which access key. `None` unless it changes who
    /// may do what. With temporary credentials, the ARN is that of the session; it is `anonymous` without a signature.
    #[getter]
    fn audited(&self) -> Option<(BTreeMap<&'static str, &str>, &str, Option<&str>)> {
        let audited = self.inner.audited()?;
        let requester = self.inner.requester();
        let about = [
            ("Bucket", Some(&audited.bucket)),
            ("Key", audited.key.as_ref()),
            ("VersionId", audited.version_id.as_ref()),
        ];
        let about = about.into_iter().filter_map(|(name, value)| Some((name, &**value?))).collect();
        let arn = if requester.is_anonymous() { "anonymous" } else { &requester.identity.principal.arn };
        Some((about, arn, Some(&*requester.access_key).filter(|key| !key.is_empty())))
    }

    /// Bucket and key of the object that it reads, if the origin of the bucket may have it.
    #[getter]
    fn pulled(&self) -> Option<(&str, &str)> {
        self.inner.pulled()
    }

    /// The name of the operation.
    #[getter]
    fn operation(&self) -> &'static str {
        self.inner.operation().name()
    }

    /// The id of its trace in hexadecimal digits, if it is traced.
    #[getter]
    pub fn trace_id(&self) -> Option<String> {
        self.inner.tally().trace.as_ref().map(|trace| hex(&trace.trace_id))
    }

    /// Bytes that its body may have on the wire, if it is collected. Otherwise PLAN_RUN; PLAN_STREAM: its body is streamed; or
    /// PLAN_IN_PIECES: it may take many seconds, and ends early if it is abandoned.
    #[getter]
    fn plan(&self) -> i64 {
        match self.inner.body() {
            plan @ BodyPlan::Whole(_) => plan.whole_max() as i64,
            BodyPlan::Stream(_) => PLAN_STREAM,
            BodyPlan::None if self.inner.in_pieces() => PLAN_IN_PIECES,
            BodyPlan::None => PLAN_RUN,
        }
    }

    /// Nobody waits for the answer any more.
    fn abandon(&self) {
        self.inner.abandon();
    }

    /// Takes memory of the budget for a collected body. False: not yet; a completion for `slot` follows then.
    fn admit(&self, slot: u32) -> bool {
        Arc::clone(&self.inner).admit(slot)
    }

    /// The body was received to its end: the connection may go on after the answer.
    fn body_read(&self) {
        self.inner.body_read();
    }

    /// Starts receiving a streamed body from the client at `host`.
    fn open_body(&self, host: &str) -> PyResult<BodySink> {
        let request = Arc::clone(&self.inner);
        let stream = request.open_body(host);
        let stream = stream.ok_or_else(|| PyRuntimeError::new_err("the body of the request is not streamed"))?;
        Ok(BodySink { stream, request })
    }
}

/// An arriving large body. If it is dropped or aborted, nothing of it is stored.
#[pyclass(frozen, module = "orcas._core")]
pub struct BodySink {
    stream: UploadStream,
    request: Arc<dyn orcas_gateway::Request>,
}

#[pymethods]
impl BodySink {
    /// Asks for memory for a piece that has arrived: FLOW_MORE, FLOW_WAIT (a completion for `slot` says when to ask again), or
    /// FLOW_STOP (the body is refused: call `finish`).
    fn admit(&self, slot: u32) -> u8 {
        code(self.stream.admit(self.resume(slot)))
    }

    /// Takes one received piece.
    fn push(&self, py: Python<'_>, piece: &[u8]) {
        self.request.tally().add(piece.len());
        if piece.len() > COPY_ATTACHED_MAX {
            py.detach(|| self.stream.push(piece));
        } else {
            self.stream.push(piece);
        }
    }

    /// No further piece comes; the completion for `slot` brings the answer.
    fn finish(&self, slot: u32) {
        self.request.tally().end();
        self.stream.finish(Reply::new(self.request.clone(), slot));
    }

    /// Drops the body.
    fn abort(&self) {
        self.stream.abort();
    }
}

impl BodySink {
    fn resume(&self, slot: u32) -> Resume {
        let responder = Arc::clone(self.request.responder());
        Box::new(move || responder.complete(slot, Completion::Resume))
    }
}

fn code(flow: Flow) -> u8 {
    match flow {
        Flow::More => FLOW_MORE,
        Flow::Wait => FLOW_WAIT,
        Flow::Stop => FLOW_STOP,
    }
}
