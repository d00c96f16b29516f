//! A request that is done, as it is counted: what `Core.accept` returned for it, and its response.

use std::time::Instant;

use pyo3::prelude::*;

use super::answer::{Facts, Response};
use super::form::Form;
use super::request::Request;
use orcas_gateway::metrics::requests::Finished;
use orcas_gateway::metrics::usage::{Billed, UsageMeter};
use orcas_s3::{ErrorCode, Operation};

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
            return Finished { operation, status, code, time, first_byte: time, received, sent: 0 };
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

    /// How long each stage of a request took that is done.
    pub fn stages(&self, py: Python<'_>, response: Option<&Response>, finished: &Finished) -> Stages {
        let began_and_ended = self.request(py, |request| (request.tally.began, request.tally.ended()));
        let seconds = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => to.saturating_duration_since(from).as_secs_f64(),
            _ => 0.0,
        };
        let (began, ended) = began_and_ended.map_or((None, None), |(began, ended)| (Some(began), ended));
        let ready = response.map(|response| response.facts.ready);
        let (total, receive, execute) =
            (finished.time.as_secs_f64(), seconds(began, ended), seconds(ended.or(began), ready));
        Stages {
            total,
            receive,
            execute,
            send: if ready.is_some() { (total - receive - execute).max(0.0) } else { 0.0 },
        }
    }
}

/// Seconds of a request: all of it, until its body had arrived, until its response was ready, and until that was sent.
#[derive(IntoPyObject)]
pub struct Stages {
    total: f64,
    receive: f64,
    execute: f64,
    send: f64,
}
