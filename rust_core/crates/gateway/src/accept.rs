//! From a request head to an authenticated, typed request.
//!
//! The signature is verified and the request authorized before anything in the store is looked at. Nothing here waits for
//! the disk, except on a worker.

use std::borrow::Cow;
use std::sync::Arc;

use crate::gateway::Gateway;
use crate::refusal::Refusal;
use orcas_admission::authenticate::{names_claim, with_claim};
use orcas_admission::bounds::rates::admit;
use orcas_admission::decision_log::LoggedDecisions;
use orcas_admission::ingress::Ingress;
use orcas_admission::request_context::{RequestContext, Sender, announced, has_body};
use orcas_admission::senders::identities::Identities;
use orcas_bodies::problem::Problem;
use orcas_http::{Headers, RequestHead};
use orcas_operations::{Handler, implemented};
use orcas_requests::request::{Arrival, Request};
use orcas_responses::reply::Responder;
use orcas_responses::response::{CorsLines, Response};
use orcas_s3::resolve::resolve;
use orcas_s3::support::{Understood, check_supported};
use orcas_s3::{ErrorCode, Named, Operation, S3Error, Target, query};
use orcas_sigv4::{Authentication, Diagnosis, claimed_signature, explain};

/// The parts of a head that are known when it is refused.
#[derive(Default)]
struct Resolved {
    operation: Option<Operation>,
    judged: Option<Arc<LoggedDecisions>>,
    /// An access decision needs what only the index has.
    is_postponed: bool,
}

impl Gateway {
    /// Verifies and types a request. A refusal of a request with a body also ends its connection. `None`: an access decision
    /// needs what only the index has, so the head is to be accepted `again`, on a worker, where there always is a result.
    pub fn accept(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        ingress: &Ingress,
        responder: &Arc<dyn Responder>,
        again: bool,
    ) -> Option<Result<Arc<dyn Request>, Box<Refusal>>> {
        let mount_length = ingress.mount_length;
        let closing = |answer: Response| Refusal::new(if has_body(&head.headers) { answer.closing() } else { answer });
        if let Some(bucket) = self.website_bucket(head) {
            let accepted = self.accept_page(head, ingress, responder, bucket)?;
            return Some(accepted.map_err(closing));
        }
        if head.method == b"OPTIONS" {
            return Some(Err(closing(self.preflight(head, mount_length))));
        }
        let cors = self.cors_lines(head, mount_length);
        let mut resolved = Resolved::default();
        let read = self.read(head, (ingress, responder), &cors, again, &mut resolved);
        if resolved.is_postponed {
            return None;
        }
        Some(read.map_err(|mut problem| {
            let claim = names_claim(&problem.error).then(|| claimed_signature(head)).flatten();
            if let Some((access_key, signature)) = claim {
                problem.error = with_claim(problem.error, access_key.as_bytes(), signature.as_bytes());
            }
            let envelope = self.envelope(head.method, head.path).with_cors(cors.clone());
            let answer = match self.explanation(head, problem.error.code) {
                Some(diagnosis) => envelope.explained(problem, diagnosis),
                None => envelope.problem(problem),
            };
            let mut refusal = closing(answer);
            (refusal.operation, refusal.judged) = (resolved.operation, resolved.judged);
            refusal
        }))
    }

    /// Details on the signature for the answer to a refused head: as in S3, the signed text if the signature is wrong;
    /// in development also the reason.
    fn explanation(&self, head: &RequestHead<'_>, code: ErrorCode) -> Option<Diagnosis> {
        if self.access().options.dev {
            return self.diagnose(head);
        }
        let explanation = (code == ErrorCode::SignatureDoesNotMatch).then(|| explain(head))?;
        explanation.map(|explanation| Diagnosis { cause: None, explanation: Some(explanation) })
    }

    /// `resolved` is set as soon as it is known what is asked for. Limits have counted what is accepted `again`.
    fn read(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        (ingress, responder): (&Ingress, &Arc<dyn Responder>),
        cors: &CorsLines,
        again: bool,
        resolved: &mut Resolved,
    ) -> Result<Arc<dyn Request>, Problem> {
        let access = self.access();
        let identities = access.identities();
        let requirements = access.requirements(ingress.time_ms);
        let (authenticated, requester) = access.authenticate(&identities, head, &requirements, ingress.client)?;
        if let Some(limits) = requester.limits.as_ref().filter(|_| !again) {
            admit(limits, requirements.now_unix_ms, announced(&head.headers))?;
        }
        let query = authenticated.query;
        let hoisted = match authenticated.how {
            Authentication::Presigned => query::hoisted_headers(&query, &head.headers, &[]),
            Authentication::PresignedVersionTwo => {
                query::hoisted_headers(&query, &head.headers, &HOISTED_BY_VERSION_TWO)
            }
            Authentication::Header | Authentication::Anonymous => Vec::new(),
        };
        let list: Vec<(&[u8], &[u8])>;
        let mut head = *head;
        if !hoisted.is_empty() {
            list = head.headers.iter().chain(hoisted.iter().map(|(name, value)| (&name[..], &value[..]))).collect();
            head.headers = Headers::new(&list);
        }
        let host = head.headers.get("host").unwrap_or_default();
        let target = Target::parse(below(head.path, ingress.mount_length), host, &access.options.domains)?;
        let target = requester.resolve(target);
        let operation = *resolved.operation.insert(resolve(head.method, &target, &query, &head.headers)?);
        let sender = Sender { requester, how: authenticated.how, payload: &authenticated.payload };
        let handler = implemented(operation);
        let understood = handler.map_or(&Understood::NOTHING, |handler| &handler.understood);
        let asked = (operation, &target, query);
        let mut context = RequestContext::new(access, ingress, head, sender, asked, understood);
        let arrival = Arrival { services: &self.services, responder, cors };
        let authorized = self.read_authorized((arrival, handler), &mut context, &identities, &mut resolved.judged);
        resolved.is_postponed = context.is_postponed.get();
        authorized
    }

    /// `judged` is set if it is refused by access decisions.
    fn read_authorized(
        &self,
        (arrival, handler): (Arrival<'_>, Option<&Handler>),
        context: &mut RequestContext<'_>,
        identities: &Identities,
        judged: &mut Option<Arc<LoggedDecisions>>,
    ) -> Result<Arc<dyn Request>, Problem> {
        let (operation, target) = (context.operation, context.target);
        // A form is authorized by `FormHead`. One that is not signed in its fields is refused by its operation.
        if operation != Operation::PostObject {
            context.authorize_request(identities).inspect_err(|_| {
                *judged = context.decisions.take(&context.requester).map(Arc::new);
            })?;
        }
        let handler = handler.ok_or_else(|| operation.not_implemented())?;
        check_supported(&handler.understood, &context.query, context.headers())?;
        self.check_changes(operation)?;
        handler.accept(arrival, context).map_err(|Problem { error, fault }| {
            // Whoever may not be allowed to do it once the body was read learns nothing about buckets and objects.
            let error = if context.is_deferred { ErrorCode::AccessDenied.into() } else { error };
            let upload = context.query.get("uploadId").map(Cow::Borrowed);
            let named = Named { bucket: target.bucket().map(str::as_bytes), key: target.key(), upload };
            Problem { error: error.about(&named), fault }
        })
    }

    /// Refuses an operation that changes anything in a store that is open for reading. The status is not 503, because
    /// clients repeat after that.
    pub(crate) fn check_changes(&self, operation: Operation) -> Result<(), S3Error> {
        match self.access().options.read_only {
            Some(why) if operation.changes() => Err(S3Error::with(ErrorCode::AccessDenied, why)),
            _ => Ok(()),
        }
    }
}

/// Headers without the prefix `x-amz-` that a presigned address of version 2 signs and carries in its query.
const HOISTED_BY_VERSION_TWO: [&str; 2] = ["content-md5", "content-type"];

/// The part of a path that names bucket and key.
pub(crate) fn below(path: &[u8], mount_length: usize) -> &[u8] {
    path.get(mount_length..).unwrap_or_default()
}
