//! A request of S3 from its head to its end: whatever becomes of it, it is counted and logged exactly once, when this is
//! dropped, or by the application that it is passed on to.

use std::sync::Arc;
use std::time::Instant;

use crate::connections::conn::Conn;
use crate::context::Shared;
use crate::head::Head;
use crate::origin::Origin;
use orcas_gateway::accounting::traced::{Stages, Traced};
use orcas_gateway::logs::request_log::Logged;
use orcas_gateway::{
    Accepted, Admission, Delivery, Description, Done, ErrorNote, Gateway, LoggedDecisions, Postponed, Request,
    ResponseSummary, Tally,
};
use orcas_http::hex;
use orcas_telemetry::metrics::requests::Finished;
use orcas_telemetry::stopwatch::Step;

/// The result of the head, from the gateway.
pub enum Admitted {
    Request(Arc<dyn Request>),
    /// A form whose fields have made no request yet.
    Form(Arc<Tally>),
    /// Not accepted yet.
    Postponed(Arc<Postponed>),
    /// Refused; this is its answer, too.
    Refused(Box<ResponseSummary>),
}

impl Admitted {
    /// The result of a head that came at `began`.
    pub fn of(accepted: &Accepted, began: Instant) -> Self {
        match accepted {
            Ok(request) => Self::Request(Arc::clone(request)),
            Err(refusal) => Self::Refused(Box::new(ResponseSummary::of_refusal(refusal, began))),
        }
    }

    /// The admission as the gateway knows it.
    fn admission(&self) -> Admission<'_> {
        match self {
            Self::Request(request) => Admission::Request(&**request),
            Self::Form(tally) => Admission::Form(tally),
            Self::Postponed(postponed) => Admission::Postponed(postponed),
            Self::Refused(summary) => Admission::Refusal(summary),
        }
    }
}

pub struct Life {
    shared: Arc<Shared>,
    conn: Arc<Conn>,
    head: Arc<Head>,
    origin: Origin,
    pub admitted: Admitted,
    /// The summary of the answer, unless it is that of a refusal.
    answer: Option<ResponseSummary>,
    /// The access decisions by which its form was refused, if it was.
    pub judged: Option<Arc<LoggedDecisions>>,
    is_answered: bool,
    is_sent: bool,
    is_passed_on: bool,
}

impl Life {
    /// The life of a request with this head and origin.
    pub fn new(
        shared: &Arc<Shared>,
        conn: &Arc<Conn>,
        (head, origin): (&Arc<Head>, Origin),
        admitted: Admitted,
    ) -> Box<Self> {
        let (shared, conn, head) = (Arc::clone(shared), Arc::clone(conn), Arc::clone(head));
        Box::new(Self {
            shared,
            conn,
            head,
            origin,
            admitted,
            answer: None,
            judged: None,
            is_answered: false,
            is_sent: false,
            is_passed_on: false,
        })
    }

    /// The answer that is sent now. `summary`: unless it is that of the refusal.
    pub fn answer(&mut self, summary: Option<ResponseSummary>) {
        (self.answer, self.is_answered) = (summary, true);
    }

    /// The whole answer was handed over to the socket.
    pub fn sent(&mut self) {
        self.is_sent = true;
    }

    /// The application answers the request from its head on.
    pub fn pass_on(mut self) {
        self.is_passed_on = true;
    }

    /// The count of bytes of an answer that is sent in pieces.
    pub fn delivery(&self) -> Option<&Arc<Delivery>> {
        self.summary()?.delivery.as_ref()
    }

    fn summary(&self) -> Option<&ResponseSummary> {
        match (&self.answer, &self.admitted) {
            (Some(summary), _) => Some(summary),
            (None, Admitted::Refused(summary)) if self.is_answered => Some(summary),
            (None, _) => None,
        }
    }

    /// Logs an error, and keeps its cause for whoever watches.
    pub fn report(&self, status: u16, note: &ErrorNote) {
        let pairs = self.head.pairs();
        let head = self.head.as_request(&pairs);
        self.shared.gateway.note_cause(&head, note);
        let asked = self.shared.gateway.describe(&head, 0);
        let operation = asked.operation.map(|operation| operation.name());
        let method = operation.is_none().then(|| self.head.method().as_str());
        let path = asked.bucket.is_none().then(|| self.head.path());
        let (bucket, key, access_key) = (asked.bucket.as_deref(), asked.key.as_deref(), asked.access_key.as_deref());
        let request_id = std::str::from_utf8(&note.request_id).unwrap_or_default();
        let (code, cause, likely_cause) = (note.code.as_str(), note.cause.as_str(), note.likely_cause.as_deref());
        let client = self.origin;
        let trace_id = self.admitted.admission().trace().map(|trace| hex(&trace.trace_id));
        macro_rules! tell {
            ($level:ident, $said:literal) => {
                tracing::$level!(
                    status, code, operation, method, bucket, key, path, %client, access_key, request_id, trace_id,
                    cause, likely_cause, $said
                )
            };
        }
        match (note.at_fault, status) {
            (true, 500) => tell!(error, "Request failed"),
            (true, _) => tell!(warn, "Request failed"),
            (false, _) => tell!(info, "Request refused"),
        }
        if tracing::event_enabled!(tracing::Level::DEBUG)
            && let Some(diagnosis) = self.shared.gateway.diagnose(&head)
        {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            tracing::debug!(
                request_id,
                likely_cause = diagnosis.cause,
                string_to_sign = diagnosis.explanation.as_ref().map(|texts| text(&texts.string_to_sign)),
                canonical_request =
                    diagnosis.explanation.and_then(|texts| texts.canonical_request.as_deref().map(text)),
                "Signature refused"
            );
        }
    }

    fn log(&self, gateway: &Gateway, done: &Done<'_>, finished: &Finished) {
        let remote = self.origin.ip().to_string();
        let logged = Logged { done, finished, remote: &remote };
        if let Some(wanted) = gateway.log_noted(&logged) {
            let pairs = self.head.pairs();
            gateway.log_head(&logged, wanted, &self.head.as_request(&pairs), self.head.version(), 0);
        }
    }

    /// Logs a request that was slow, and hands on one that is traced.
    fn show_stages(&self, gateway: &Gateway, done: &Done<'_>, finished: &Finished) {
        let Some(stages) = gateway.stages(done, finished) else { return };
        let pairs = self.head.pairs();
        let asked = gateway.describe(&self.head.as_request(&pairs), 0);
        if stages.slow {
            self.report_slow(&stages, &asked);
        }
        if stages.trace.is_some() {
            let (method, client) = (self.head.method().as_str().as_bytes(), self.origin.to_string());
            gateway.observation.traced.push(Traced::new(
                stages,
                (asked.operation, asked.bucket, asked.key),
                method,
                Some(client),
            ));
        }
    }

    fn report_slow(&self, stages: &Stages, asked: &Description) {
        let operation = asked.operation.map(|operation| operation.name());
        let took = |step: Step| stages.steps.iter().find(|(_, name, ..)| *name == step.name()).map(|taken| taken.3);
        tracing::warn!(
            operation,
            method = operation.is_none().then(|| self.head.method().as_str()),
            bucket = asked.bucket.as_deref(),
            key = asked.key.as_deref(),
            client = %self.origin,
            trace_id = stages.trace.as_ref().map(|trace| hex(&trace.trace_id)),
            total_sec = stages.total,
            authenticate_sec = stages.authenticate,
            receive_sec = stages.receive,
            execute_sec = stages.execute,
            send_sec = stages.send,
            prepare_sec = took(Step::Prepare),
            queue_sec = took(Step::Queue),
            apply_wait_sec = took(Step::ApplyWait),
            decide_sec = took(Step::Decide),
            append_sec = took(Step::Append),
            sync_sec = took(Step::Sync),
            publish_sec = took(Step::Publish),
            lookup_sec = took(Step::Lookup),
            read_sec = took(Step::Read),
            verify_sec = took(Step::Verify),
            "Slow request"
        );
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let gateway = &self.shared.gateway;
        let admission = self.admitted.admission();
        if self.is_passed_on {
            let pairs = self.head.pairs();
            return gateway.pass_on(admission, &self.head.as_request(&pairs).headers);
        }
        // What was sent of an answer in pieces is known; another was sent whole or not at all.
        let response = self.summary().filter(|summary| self.is_sent || summary.delivery.is_some());
        let refusal = self.conn.refusal().map(|refusal| (refusal.status, refusal.code));
        let done = Done { admission, response, refusal };
        let finished = gateway.finish(&done);
        if gateway.logs_requests() {
            self.log(gateway, &done, &finished);
        }
        self.show_stages(gateway, &done, &finished);
    }
}
