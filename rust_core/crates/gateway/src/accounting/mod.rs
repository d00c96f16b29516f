//! Requests as they are counted, from their heads to their ends, whichever front end they have.

pub mod access_log;
pub mod metering;
pub mod request_log;
pub mod tally;

use std::sync::Arc;
use std::time::Instant;

use crate::accounting::metering::Billed;
use crate::accounting::tally::{Delivery, Tally};
use crate::admission::accept::Refused;
use crate::admission::bounds::rates::charge;
use crate::admission::decision_log::LoggedDecisions;
use crate::admission::form::FormHead;
use crate::admission::ingress::Ingress;
use crate::gateway::{Gateway, now_ms};
use crate::requests::reply::Responder;
use crate::requests::request::Request;
use crate::requests::response::{Response, ResponseBody};
use orcas_http::RequestHead;
use orcas_metrics::Exemplar;
use orcas_s3::{ErrorCode, Operation};
use orcas_telemetry::metrics::requests::Finished;
use orcas_telemetry::stopwatch::{Lap, Step};
use orcas_telemetry::traces::Trace;

/// What the server makes of the head of a request.
pub enum Begun {
    Request(Arc<dyn Request>),
    /// A form, whose fields make the request.
    Form(Box<FormHead>),
    /// A refusal, and its trace if it is traced.
    Refused(Refused, Option<Box<Trace>>),
}

/// What is counted of a response.
pub struct ResponseSummary {
    pub status: u16,
    pub request_id: [u8; 16],
    pub code: Option<ErrorCode>,
    /// Bytes of the body.
    pub body: u64,
    /// If the body leaves in pieces.
    pub delivery: Option<Arc<Delivery>>,
    /// What a refused head asked for, and when.
    pub operation: Option<Operation>,
    pub began: Option<Instant>,
    /// Of a refused head that is traced.
    pub trace: Option<Box<Trace>>,
    /// As of the response.
    pub judged: Option<Arc<LoggedDecisions>>,
    /// When this response was ready to be sent.
    pub ready: Instant,
}

impl ResponseSummary {
    /// Of a response that is ready to be sent.
    pub fn of(answer: &Response) -> Self {
        let (body, delivery) = match &answer.body {
            ResponseBody::Empty => (0, None),
            ResponseBody::Bytes(body) => (body.len() as u64, None),
            ResponseBody::Pieces(pieces) => (pieces.length(), Some(Arc::new(Delivery::new(pieces.broken())))),
        };
        Self {
            status: answer.status,
            request_id: answer.request_id,
            code: answer.code,
            body,
            delivery,
            operation: answer.operation,
            began: None,
            trace: None,
            judged: answer.judged.clone(),
            ready: Instant::now(),
        }
    }
}

/// What became of a head, as the front end keeps it until the request is done.
#[derive(Clone, Copy)]
pub enum Admission<'a> {
    Request(&'a dyn Request),
    /// A form whose fields have made no request.
    Form(&'a Tally),
    Refusal(&'a ResponseSummary),
}

/// A request that is done.
pub struct Done<'a> {
    pub admission: Admission<'a>,
    /// `None` if the client disconnected.
    pub response: Option<&'a ResponseSummary>,
    /// Status and code of the answer of the connection itself, if it gave one instead.
    pub refusal: Option<(u16, &'a str)>,
}

impl<'a> Done<'a> {
    /// The request, unless it was refused before there was one.
    pub fn request(&self) -> Option<&'a dyn Request> {
        match self.admission {
            Admission::Request(request) => Some(request),
            Admission::Form(_) | Admission::Refusal(_) => None,
        }
    }

    /// Access decisions that are not in the note of the request.
    pub fn judged(&self) -> Option<&'a LoggedDecisions> {
        match self.admission {
            Admission::Request(request) => request.judged(),
            Admission::Form(_) => self.response.and_then(|response| response.judged.as_deref()),
            Admission::Refusal(refusal) => refusal.judged.as_deref(),
        }
    }

    /// The trace, if it is traced.
    pub fn trace(&self) -> Option<&'a Trace> {
        match self.admission {
            Admission::Request(request) => request.tally().trace.as_deref(),
            Admission::Form(_) => None,
            Admission::Refusal(refusal) => refusal.trace.as_deref(),
        }
    }

    fn finished(&self) -> Finished {
        let (operation, began, received) = match self.admission {
            Admission::Request(request) => {
                (Some(request.operation()), Some(request.tally().began), request.tally().received())
            }
            Admission::Form(tally) => (Some(Operation::PostObject), Some(tally.began), tally.received()),
            Admission::Refusal(refusal) => (refusal.operation, refusal.began, 0),
        };
        let now = Instant::now();
        let began = began.unwrap_or(now);
        let time = now.duration_since(began);
        let refused = self.refusal.map(|(status, code)| (status, ErrorCode::from_name(code)));
        let untouched =
            |summary: &&ResponseSummary| refused.is_none() || summary.delivery.as_ref().is_some_and(|it| it.sent() > 0);
        let Some(summary) = self.response.filter(untouched) else {
            let (status, code) = refused.map_or((None, None), |(status, code)| (Some(status), code));
            return Finished { operation, status, code, time, first_byte: time, received, sent: 0, broken: false };
        };
        let (sent, first) = match &summary.delivery {
            None => (summary.body, now),
            Some(delivery) => (delivery.sent(), delivery.first().unwrap_or(now)),
        };
        Finished {
            operation,
            status: (sent == summary.body).then_some(summary.status),
            code: summary.code,
            time,
            first_byte: first.duration_since(began),
            received,
            sent,
            broken: summary.delivery.as_ref().is_some_and(|delivery| delivery.is_broken()),
        }
    }
}

impl Gateway {
    /// Takes the head of a request, and counts it: `finish` has to follow.
    pub fn begin(self: &Arc<Self>, head: &RequestHead<'_>, ingress: &Ingress, responder: &Arc<dyn Responder>) -> Begun {
        self.metrics.begin();
        let begun = match self.form(head, ingress, responder) {
            Some(form) => form.map(Begun::Form),
            None => self.accept(head, ingress, responder).map(Begun::Request),
        };
        begun.unwrap_or_else(|answer| {
            // The answer to a preflight is no refusal.
            let trace = answer.code.and_then(|_| self.watch.trace(ingress.began, &head.headers, false));
            Begun::Refused(answer, trace)
        })
    }

    /// Counts a request that is done, if requests are counted, and for whoever pays for it. One that is traced is shown from
    /// now on.
    pub fn finish(&self, done: &Done<'_>) -> Finished {
        let finished = done.finished();
        if self.watch.counts {
            self.metrics.finish(&finished);
            if let Some(trace) = done.trace() {
                self.metrics.show(&finished, Exemplar { trace_id: trace.trace_id, at_ms: now_ms() });
            }
        }
        if let Some(limits) = done.request().and_then(|request| request.requester().limits.as_deref()) {
            charge(limits, finished.sent);
        }
        // One that was refused by its head is nobody's, and for one that the server failed nobody pays.
        if let Some(request) = done.request().filter(|_| finished.status.is_none_or(|status| status < 500)) {
            self.meter.count(&Billed {
                requester: request.requester(),
                bucket: request.bucket(),
                class: request.operation().class(),
                received: finished.received,
                sent: finished.sent,
                ended: request.tally().began + finished.time,
            });
        }
        finished
    }

    /// How long each stage of a request took that is done, if it was slow or is traced.
    pub fn stages<'a>(&self, done: &Done<'a>, finished: &Finished) -> Option<Stages<'a>> {
        let slow = self.watch.slow.is_some_and(|slow| finished.time >= slow);
        let trace = done.trace();
        if !slow && trace.is_none() {
            return None;
        }
        let (began, accepted, ended, laps) = match done.admission {
            Admission::Request(request) => {
                let tally = request.tally();
                let laps = tally.stopwatch.as_ref().map(|stopwatch| stopwatch.laps());
                (Some(tally.began), tally.accepted, tally.ended(), laps.unwrap_or_default())
            }
            Admission::Form(_) => (None, None, None, Vec::new()),
            Admission::Refusal(refusal) => (refusal.began, Some(refusal.ready), None, Vec::new()),
        };
        let seconds = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => to.saturating_duration_since(from).as_secs_f64(),
            _ => 0.0,
        };
        let ready = done.response.map(|response| response.ready);
        let in_pieces = done.response.is_some_and(|response| response.delivery.is_some());
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
            refused: matches!(done.admission, Admission::Refusal(_)),
            verified: done.request().is_some_and(|request| !request.requester().is_anonymous()),
            status: finished.status,
            code: finished.code,
            slow,
            trace,
        })
    }
}

/// Seconds of a request: all of it, until its sender was known, its body had arrived, its response was ready, and that was
/// sent. The steps in between: the stage that each belongs to, its name, when it began, and how long it took. Then what
/// became of it.
pub struct Stages<'a> {
    pub total: f64,
    pub authenticate: f64,
    pub receive: f64,
    pub execute: f64,
    pub send: f64,
    pub steps: Vec<(&'static str, &'static str, f64, f64)>,
    /// By its head: it has no steps, and of the stages only the first and the last.
    pub refused: bool,
    /// Somebody has signed it, and it was not refused by its head.
    pub verified: bool,
    pub status: Option<u16>,
    pub code: Option<ErrorCode>,
    pub slow: bool,
    pub trace: Option<&'a Trace>,
}
