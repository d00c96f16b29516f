//! A request that is done, as it is counted: what `Core.accept` returned for it, and its response.

use std::time::Instant;

use pyo3::prelude::*;

use super::answer::{Facts, Response};
use super::form::Form;
use super::request::Request;
use super::tally::Watch;
use orcas_gateway::lane::now_ms;
use orcas_gateway::metering::{Billed, UsageMeter};
use orcas_http::hex;
use orcas_metrics::Exemplar;
use orcas_s3::{ErrorCode, Operation};
use orcas_telemetry::metrics::requests::{Finished, RequestMetrics};
use orcas_telemetry::stopwatch::{Lap, Step};
use orcas_telemetry::traces::Trace;

/// What `Core.accept` returned for a request.
#[derive(FromPyObject)]
pub enum Verdict<'py> {
    Request(Bound<'py, Request>),
    Form(Bound<'py, Form>),
    /// A refusal.
    Response(Bound<'py, Response>),
}

impl Verdict<'_> {
    /// The request, unless it was refused before there was one.
    pub fn request<R>(&self, py: Python<'_>, read: impl FnOnce(&Request) -> R) -> Option<R> {
        match self {
            Self::Request(request) => Some(read(request.get())),
            Self::Form(form) => form.get().request(py).map(|request| read(request.get())),
            Self::Response(_) => None,
        }
    }

    /// The trace, if it is traced.
    pub fn trace<R>(&self, py: Python<'_>, read: impl Fn(&Trace) -> R) -> Option<R> {
        match self {
            Self::Response(refusal) => refusal.get().facts.trace.as_deref().map(read),
            Self::Request(_) | Self::Form(_) => {
                self.request(py, |request| request.tally.trace.as_deref().map(&read)).flatten()
            }
        }
    }

    /// Counts a request that is done, if requests are counted. One that is traced is shown from now on.
    pub fn count(&self, py: Python<'_>, finished: &Finished, metrics: &RequestMetrics, watch: &Watch) {
        if !watch.counts {
            return;
        }
        metrics.finish(finished);
        if watch.traces.is_some()
            && let Some(trace_id) = self.trace(py, |trace| trace.trace_id)
        {
            metrics.show(finished, Exemplar { trace_id, at_ms: now_ms() });
        }
    }

    /// What is counted of the request, now that it is done. Without a response, the client disconnected, unless the
    /// connection itself answered: then `refusal` is status and code of its answer.
    pub fn finished(&self, py: Python<'_>, response: Option<&Response>, refusal: Option<(u16, &str)>) -> Finished {
        let of_request = |request: &Request| (request.inner.operation(), request.tally.began, request.tally.received());
        let (operation, began, received) = match self.request(py, of_request) {
            Some((operation, began, received)) => (Some(operation), Some(began), received),
            None => match self {
                Self::Form(form) => {
                    let tally = &form.get().tally;
                    (Some(Operation::PostObject), Some(tally.began), tally.received())
                }
                Self::Response(refusal) => (refusal.get().facts.operation, refusal.get().facts.began, 0),
                Self::Request(_) => (None, None, 0),
            },
        };
        let now = Instant::now();
        let began = began.unwrap_or(now);
        let time = now.duration_since(began);
        let refused = refusal.map(|(status, code)| (status, ErrorCode::from_name(code)));
        let untouched = |facts: &&Facts| refused.is_none() || facts.delivery.as_ref().is_some_and(|it| it.sent() > 0);
        let Some(facts) = response.map(|response| &response.facts).filter(untouched) else {
            let (status, code) = refused.map_or((None, None), |(status, code)| (Some(status), code));
            return Finished { operation, status, code, time, first_byte: time, received, sent: 0, broken: false };
        };
        let (sent, first) = match &facts.delivery {
            None => (facts.body, now),
            Some(delivery) => (delivery.sent(), delivery.first().unwrap_or(now)),
        };
        Finished {
            operation,
            status: (sent == facts.body).then_some(facts.status),
            code: facts.code,
            time,
            first_byte: first.duration_since(began),
            received,
            sent,
            broken: facts.delivery.as_ref().is_some_and(|delivery| delivery.is_broken()),
        }
    }

    /// Counts a request that is done for whoever pays for it. One that was refused by its head is nobody's, and for one
    /// that the server failed nobody pays.
    pub fn count_usage(&self, py: Python<'_>, finished: &Finished, meter: &UsageMeter) {
        if finished.status.is_some_and(|status| status >= 500) {
            return;
        }
        self.request(py, |request| {
            let inner = &request.inner;
            meter.count(&Billed {
                principal: inner.principal(),
                bucket: inner.bucket(),
                class: inner.operation().class(),
                received: finished.received,
                sent: finished.sent,
                ended: request.tally.began + finished.time,
            });
        });
    }

    /// How long each stage of a request took that is done, if it was slow or is traced.
    pub fn stages(
        &self,
        py: Python<'_>,
        response: Option<&Response>,
        finished: &Finished,
        watch: &Watch,
    ) -> Option<Stages> {
        let slow = watch.slow.is_some_and(|slow| finished.time >= slow);
        if !slow && watch.traces.is_none() {
            return None;
        }
        let trace = self.trace(py, |trace| TraceIds::from(trace));
        if !slow && trace.is_none() {
            return None;
        }
        let of_request = |request: &Request| {
            let tally = &request.tally;
            let laps = tally.stopwatch.as_ref().map(|stopwatch| stopwatch.laps());
            (Some(tally.began), tally.accepted, tally.ended(), laps.unwrap_or_default())
        };
        let of_refusal = match self {
            Self::Response(refusal) => {
                let facts = &refusal.get().facts;
                (facts.began, Some(facts.ready), None, Vec::new())
            }
            Self::Request(_) | Self::Form(_) => (None, None, None, Vec::new()),
        };
        let (began, accepted, ended, laps) = self.request(py, of_request).unwrap_or(of_refusal);
        let seconds = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => to.saturating_duration_since(from).as_secs_f64(),
            _ => 0.0,
        };
        let ready = response.map(|response| response.facts.ready);
        let in_pieces = response.is_some_and(|response| response.facts.delivery.is_some());
        let step = |lap: Lap| {
            let sends = in_pieces && matches!(lap.step, Step::Read | Step::Verify);
            let stage = if sends { "send" } else { "execute" };
            (stage, lap.step.name(), seconds(began, Some(lap.began)), lap.took.as_secs_f64())
        };
        let (total, authenticate) = (finished.time.as_secs_f64(), seconds(began, accepted));
        let receive = seconds(accepted.or(began), ended);
        let execute = seconds(ended.or(accepted).or(began), ready);
        Some(Stages {
            total,
            authenticate,
            receive,
            execute,
            send: if ready.is_some() { (total - authenticate - receive - execute).max(0.0) } else { 0.0 },
            steps: laps.into_iter().map(step).collect(),
            refused: matches!(self, Self::Response(_)),
            verified: self.request(py, |request| !request.inner.principal().access_key.is_empty()).unwrap_or(false),
            status: finished.status,
            code: finished.code.map(|code| code.as_str()),
            slow,
            trace,
        })
    }
}

/// Seconds of a request: all of it, until its sender was known, its body had arrived, its response was ready, and that was
/// sent. The steps in between: the stage that each belongs to, its name, when it began, and how long it took. Then what
/// became of it.
#[derive(IntoPyObject)]
pub struct Stages {
    total: f64,
    authenticate: f64,
    receive: f64,
    execute: f64,
    send: f64,
    steps: Vec<(&'static str, &'static str, f64, f64)>,
    /// By its head: it has no steps, and of the stages only the first and the last.
    refused: bool,
    /// Somebody has signed it, and it was not refused by its head.
    verified: bool,
    status: Option<u16>,
    code: Option<&'static str>,
    slow: bool,
    trace: Option<TraceIds>,
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
