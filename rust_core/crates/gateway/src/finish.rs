//! The end of a request, whichever front end it has: the results of its head and of its answer are counted. Which logs
//! have it, and how long its stages took, is in `accounting`.

use std::sync::Arc;
use std::time::Instant;

use crate::accounting::metering::Billed;
use crate::gateway::Gateway;
use crate::postponed::Postponed;
use crate::refusal::Refusal;
use orcas_admission::bounds::rates::{charge, give_back};
use orcas_admission::decision_log::LoggedDecisions;
use orcas_admission::ingress::now_ms;
use orcas_admission::request_context::announced;
use orcas_http::Headers;
use orcas_metrics::Exemplar;
use orcas_requests::request::Request;
use orcas_requests::tally::{Delivery, Tally};
use orcas_responses::response::{Response, ResponseBody};
use orcas_s3::{ErrorCode, Operation};
use orcas_telemetry::metrics::requests::Finished;
use orcas_telemetry::traces::Trace;

/// The numbers of a response that are counted.
pub struct ResponseSummary {
    pub status: u16,
    pub request_id: [u8; 16],
    pub code: Option<ErrorCode>,
    /// Bytes of the body.
    pub body: u64,
    /// Bytes of the whole object, if it says so.
    pub object_size: Option<u64>,
    /// If the body leaves in pieces.
    pub delivery: Option<Arc<Delivery>>,
    /// The operation that a refused head asked for, and the time at which the head came.
    pub operation: Option<Operation>,
    pub began: Option<Instant>,
    /// The trace of a refused head, if it is traced.
    pub trace: Option<Box<Trace>>,
    /// Access decisions as of the refusal.
    pub judged: Option<Arc<LoggedDecisions>>,
    /// When this response was ready to be sent.
    pub ready: Instant,
}

impl ResponseSummary {
    /// The summary of a response that is ready to be sent.
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
            object_size: answer.headers.object_size(),
            delivery,
            operation: None,
            began: None,
            trace: None,
            judged: None,
            ready: Instant::now(),
        }
    }

    /// The summary of the refusal of a head that came at `began`.
    pub fn of_refusal(refusal: &Refusal, began: Instant) -> Self {
        Self {
            operation: refusal.operation,
            began: Some(began),
            trace: refusal.trace.clone(),
            judged: refusal.judged.clone(),
            ..Self::of(&refusal.answer)
        }
    }
}

/// The result of a head, as the front end keeps it until the request is done.
#[derive(Clone, Copy)]
pub enum Admission<'a> {
    Request(&'a dyn Request),
    /// A form whose fields have made no request.
    Form(&'a Tally),
    /// A request that was not accepted yet.
    Postponed(&'a Postponed),
    Refusal(&'a ResponseSummary),
}

impl<'a> Admission<'a> {
    /// The trace, if it is traced.
    pub fn trace(&self) -> Option<&'a Trace> {
        match self {
            Self::Request(request) => request.tally().trace.as_deref(),
            Self::Form(_) | Self::Postponed(_) => None,
            Self::Refusal(refusal) => refusal.trace.as_deref(),
        }
    }
}

/// A request that is done.
pub struct Done<'a> {
    pub admission: Admission<'a>,
    /// The summary of the response; `None` if the client disconnected.
    pub response: Option<&'a ResponseSummary>,
    /// Status and code of the answer of the connection itself, if it gave one instead.
    pub refusal: Option<(u16, &'a str)>,
}

impl<'a> Done<'a> {
    /// The request, unless it was refused before there was one.
    pub fn request(&self) -> Option<&'a dyn Request> {
        match self.admission {
            Admission::Request(request) => Some(request),
            Admission::Form(_) | Admission::Postponed(_) | Admission::Refusal(_) => None,
        }
    }

    /// Access decisions that are not in the note of the request.
    pub fn judged(&self) -> Option<&'a LoggedDecisions> {
        match self.admission {
            Admission::Request(request) => request.judged(),
            Admission::Form(_) => self.response.and_then(|response| response.judged.as_deref()),
            Admission::Postponed(_) => None,
            Admission::Refusal(refusal) => refusal.judged.as_deref(),
        }
    }

    fn finished(&self) -> Finished {
        let (operation, began, received) = match self.admission {
            Admission::Request(request) => {
                (Some(request.operation()), Some(request.tally().began), request.tally().received())
            }
            Admission::Form(tally) => (Some(Operation::PostObject), Some(tally.began), tally.received()),
            Admission::Postponed(postponed) => (postponed.operation, Some(postponed.began), 0),
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
    /// Counts a request that is done, if requests are counted, and for whoever pays for it. One that is traced is shown from
    /// now on.
    pub fn finish(&self, done: &Done<'_>) -> Finished {
        let finished = done.finished();
        let metrics = &self.services.metrics;
        if self.services.watch.counts {
            metrics.finish(&finished);
            if let Some(trace) = done.admission.trace() {
                metrics.show(&finished, Exemplar { trace_id: trace.trace_id, at_ms: now_ms() });
            }
        }
        if let Some(limits) = done.request().and_then(|request| request.requester().limits.as_deref()) {
            charge(limits, finished.sent);
        }
        // One that was refused by its head is nobody's, and for one that the server failed nobody pays.
        if let Some(request) = done.request().filter(|_| finished.status.is_none_or(|status| status < 500)) {
            self.observation.meter.count(&Billed {
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

    /// Gives up a request with these headers, because another front end begins it anew: it is counted there.
    pub fn pass_on(&self, admission: Admission<'_>, headers: &Headers<'_>) {
        self.services.metrics.pass_on();
        if let Admission::Request(request) = admission
            && let Some(limits) = request.requester().limits.as_deref()
        {
            give_back(limits, announced(headers));
        }
    }
}
