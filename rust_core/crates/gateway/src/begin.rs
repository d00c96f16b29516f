//! The begin of a request, whichever front end it has: its head is counted, and becomes a request, a form or a refusal,
//! or is postponed. From here, `admission` verifies and authorizes it, `requests` receives its body and `operations`
//! carry it out. It ends in `finish`.

use std::sync::Arc;

use crate::form::FormHead;
use crate::gateway::Gateway;
use crate::postponed::{Accepted, Postponed};
use crate::refusal::Refusal;
use orcas_admission::ingress::Ingress;
use orcas_base::blocking;
use orcas_http::RequestHead;
use orcas_responses::reply::Responder;

/// The result of the head of a request.
pub enum Begun {
    Accepted(Accepted),
    /// A form, whose fields make the request.
    Form(Box<FormHead>),
    /// A worker has to look at it first.
    Postponed(Arc<Postponed>),
}

impl Gateway {
    /// Takes the head of a request, and counts it: `finish` or `pass_on` has to follow. Does not block.
    pub fn begin(self: &Arc<Self>, head: &RequestHead<'_>, ingress: &Ingress, responder: &Arc<dyn Responder>) -> Begun {
        self.services.metrics.begin();
        let refused = |refusal: Box<Refusal>| refusal.observed(self, head, ingress);
        blocking::without(|| match self.form(head, ingress, responder) {
            Some(form) => form.map_or_else(|refusal| Begun::Accepted(Err(refused(refusal))), Begun::Form),
            None => match self.accept(head, ingress, responder, false) {
                Some(accepted) => Begun::Accepted(accepted.map_err(refused)),
                None => Begun::Postponed(Postponed::of_head(self, responder, head, ingress)),
            },
        })
    }
}
