//! Where a request begins, whichever front end it has: its head is counted, and becomes a request, a form or a refusal.
//! From here, `admission` verifies and authorizes it, `requests` receives its body and `operations` carry it out. It ends
//! in `finish`.

use std::sync::Arc;

use crate::admission::accept::Refused;
use crate::admission::form::FormHead;
use crate::admission::ingress::Ingress;
use crate::gateway::Gateway;
use crate::requests::reply::Responder;
use crate::requests::request::Request;
use orcas_http::RequestHead;
use orcas_telemetry::traces::Trace;

/// What the server makes of the head of a request.
pub enum Begun {
    Request(Arc<dyn Request>),
    /// A form, whose fields make the request.
    Form(Box<FormHead>),
    /// A refusal, and its trace if it is traced.
    Refused(Refused, Option<Box<Trace>>),
}

impl Gateway {
    /// Takes the head of a request, and counts it: `finish` or `pass_on` has to follow.
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
}
