//! A request that is done: from its Python objects to what the gateway counts and logs, and back.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::answer::Response;
use super::form::Form;
use super::head::{ScopeHead, address, client, field};
use super::postponed::Postponed;
use super::request::Request;
use orcas_gateway::accounting::traced::{Stages, Traced};
use orcas_gateway::logs::request_log::Logged;
use orcas_gateway::{Admission, Done, Gateway};
use orcas_http::hex;
use orcas_s3::Operation;
use orcas_telemetry::metrics::requests::Finished;
use orcas_telemetry::traces::Trace;

/// What `Core.accept` returned for a request.
#[derive(FromPyObject)]
pub enum PyAdmission<'py> {
    Request(Bound<'py, Request>),
    Form(Bound<'py, Form>),
    /// A refusal.
    Response(Bound<'py, Response>),
    Postponed(Bound<'py, Postponed>),
}

impl PyAdmission<'_> {
    /// As the gateway knows it.
    pub fn inner(&self) -> Admission<'_> {
        match self {
            Self::Request(request) => Admission::Request(&*request.get().inner),
            Self::Form(form) => match form.get().made.get() {
                Some(request) => Admission::Request(&**request),
                None => Admission::Form(&form.get().tally),
            },
            Self::Response(refusal) => Admission::Refusal(&refusal.get().summary),
            Self::Postponed(postponed) => Admission::Postponed(&postponed.get().inner),
        }
    }
}

/// Adds the line of a request, and its record if its bucket is logged.
pub fn log(
    gateway: &Gateway,
    done: &Done<'_>,
    finished: &Finished,
    (scope, mount_length): (&Bound<'_, PyDict>, usize),
) -> PyResult<()> {
    let client = client(scope)?;
    let remote = client.as_ref().map(|host| host.to_string_lossy()).unwrap_or_default();
    let logged = Logged { done, finished, remote: &remote };
    if let Some(wanted) = gateway.log_noted(&logged) {
        let head = ScopeHead::of(scope)?;
        let pairs = head.pairs();
        let version = field(scope, intern!(scope.py(), "http_version"))?.extract::<String>().unwrap_or_default();
        gateway.log_head(&logged, wanted, &head.head(&pairs)?, &version, mount_length);
    }
    Ok(())
}

/// Hands a traced request on to whoever sends its spans.
pub fn hand_on(gateway: &Gateway, stages: Stages, (scope, mount_length): (&Bound<'_, PyDict>, usize)) -> PyResult<()> {
    let head = ScopeHead::of(scope)?;
    let pairs = head.pairs();
    let head = head.head(&pairs)?;
    let asked = gateway.describe(&head, mount_length);
    let asked = (asked.operation, asked.bucket, asked.key);
    gateway.observation.traced.push(Traced::new(stages, asked, head.method, address(scope)?));
    Ok(())
}

/// A traced request, as the gateway has it.
#[derive(IntoPyObject)]
pub struct PyTraced {
    ended_ns: u64,
    spans: u64,
    stages: PyStages,
    operation: Option<&'static str>,
    bucket: Option<String>,
    key: Option<String>,
    method: String,
    client: Option<String>,
}

impl From<Traced> for PyTraced {
    fn from(traced: Traced) -> Self {
        let Traced { ended_ns, stages, operation, bucket, key, method, client } = traced;
        let (spans, stages, operation) = (stages.spans(), (&stages).into(), operation.map(Operation::name));
        Self { ended_ns, spans, stages, operation, bucket, key, method, client }
    }
}

/// As the gateway has them.
#[derive(IntoPyObject)]
pub struct PyStages {
    total: f64,
    authenticate: f64,
    receive: f64,
    execute: f64,
    send: f64,
    steps: Vec<(&'static str, &'static str, f64, f64)>,
    refused: bool,
    verified: bool,
    status: Option<u16>,
    code: Option<&'static str>,
    slow: bool,
    trace: Option<TraceIds>,
}

impl From<&Stages> for PyStages {
    fn from(stages: &Stages) -> Self {
        Self {
            total: stages.total,
            authenticate: stages.authenticate,
            receive: stages.receive,
            execute: stages.execute,
            send: stages.send,
            steps: stages.steps.clone(),
            refused: stages.refused,
            verified: stages.verified,
            status: stages.status,
            code: stages.code.map(|code| code.as_str()),
            slow: stages.slow,
            trace: stages.trace.as_ref().map(TraceIds::from),
        }
    }
}

/// The ids of a traced request, in hexadecimal digits.
#[derive(IntoPyObject)]
struct TraceIds {
    trace_id: String,
    span_id: String,
    parent_id: Option<String>,
}

impl From<&Trace> for TraceIds {
    fn from(trace: &Trace) -> Self {
        let Trace { trace_id, span_id, parent } = trace;
        Self { trace_id: hex(trace_id), span_id: hex(span_id), parent_id: parent.as_ref().map(|parent| hex(parent)) }
    }
}
