//! A request that is refused by its head or by the fields of its form, and what is known of it.

use std::sync::Arc;

use crate::gateway::Gateway;
use orcas_admission::decision_log::LoggedDecisions;
use orcas_admission::ingress::Ingress;
use orcas_http::RequestHead;
use orcas_responses::response::Response;
use orcas_s3::Operation;
use orcas_telemetry::traces::Trace;

/// Why a request was refused, as a ready answer; or the answer to a preflight, which needs no more than its head.
pub struct Refusal {
    pub answer: Response,
    /// The operation that was asked for, if it was known by then.
    pub operation: Option<Operation>,
    /// The access decisions that refused the request, if the access log wants them.
    pub judged: Option<Arc<LoggedDecisions>>,
    /// If it is traced.
    pub trace: Option<Box<Trace>>,
}

impl Refusal {
    pub fn new(answer: Response) -> Box<Self> {
        Box::new(Self { answer, operation: None, judged: None, trace: None })
    }

    /// As a request with this head, which may be traced.
    pub fn observed(mut self: Box<Self>, gateway: &Gateway, head: &RequestHead<'_>, ingress: &Ingress) -> Box<Self> {
        // The answer to a preflight is no refusal.
        let traced = |_| gateway.services.watch.trace(ingress.began, &head.headers, false);
        self.trace = self.answer.code.and_then(traced);
        self
    }
}
