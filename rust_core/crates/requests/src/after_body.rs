//! Requests whose body says what conditions of policies ask about, or what needs an action of its own: the tags of an
//! object or a new bucket, a retention, a legal hold, a region. They are authorized by their head as far as that says
//! anything, and once more with their body before anything is stored.

use std::sync::{Arc, OnceLock};

use orcas_admission::access_control::AccessControl;
use orcas_admission::circumstances::KeptCircumstances;
use orcas_admission::decision_log::LoggedDecisions;
use orcas_admission::request_context::{RequestContext, Sender};
use orcas_admission::senders::identities::Requester;
use orcas_bodies::problem::Problem;
use orcas_http::{Headers, RequestHead};
use orcas_s3::Target;
use orcas_s3::support::Understood;
use orcas_sigv4::PayloadMode;

/// Headers that a body stands for, by names in lower case.
pub type AskedByBody = Vec<(&'static str, Vec<u8>)>;

/// The parts of the head that are kept until the body was read.
pub struct AfterBody {
    kept: KeptCircumstances,
    target: Target,
}

impl AfterBody {
    /// The parts of the head to keep; `None` where the head says everything, and for root, who may do everything.
    pub fn of(context: &RequestContext<'_>) -> Option<Box<Self>> {
        let asks = context.operation.body_asks() && !context.requester.is_root;
        asks.then(|| Box::new(Self { kept: KeptCircumstances::of(context), target: context.target.clone() }))
    }

    /// Authorizes the request with what its body asks for. `judged` is set if it is refused by access decisions. `None`: only
    /// a worker can tell.
    pub fn authorize_with_body(
        &self,
        access: &AccessControl,
        understood: &Understood,
        requester: &Arc<Requester>,
        asked: &AskedByBody,
        judged: &OnceLock<Box<LoggedDecisions>>,
    ) -> Option<Result<(), Problem>> {
        let KeptCircumstances { ingress, how, operation, headers: _, query } = &self.kept;
        let headers = self.kept.with_body(asked);
        let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let head = RequestHead { method: b"", path: b"", query: b"", headers: Headers::new(&list) };
        let sender = Sender { requester: Arc::clone(requester), how: *how, payload: &PayloadMode::Unsigned };
        let asked = (*operation, &self.target, query.clone());
        let mut context = RequestContext::new(access, ingress, head, sender, asked, understood);
        context.is_body_read = true;
        let identities = access.identities();
        let authorized = context.authorize_request(&identities);
        if context.is_postponed.get() {
            return None;
        }
        Some(authorized.inspect_err(|_| {
            if let Some(made) = context.decisions.take(requester) {
                judged.get_or_init(|| Box::new(made));
            }
        }))
    }
}
