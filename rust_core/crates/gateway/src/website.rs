//! Requests to website hosts: the bucket that the host names, and whether everybody may read it.
//!
//! These requests are anonymous and read pages of one bucket. Nothing else of the server can be reached there.

use std::cell::Cell;
use std::sync::Arc;

use crate::accept::below;
use crate::gateway::Gateway;
use orcas_admission::ingress::Ingress;
use orcas_admission::request_context::{RequestContext, Sender};
use orcas_bodies::problem::Problem;
use orcas_http::{Query, RequestHead, percent_decode};
use orcas_operations::ReadPage;
use orcas_requests::request::{Arrival, Request, TypedRequest};
use orcas_responses::reply::Responder;
use orcas_responses::response::{Envelope, Response};
use orcas_s3::support::Understood;
use orcas_s3::target::{checked_key, hosted_website};
use orcas_s3::{ErrorCode, Operation, S3Error, Target};
use orcas_sigv4::{Authentication, PayloadMode};

impl Gateway {
    /// The bucket whose website the Host header names. It need not exist, and may be empty.
    pub fn website_bucket(&self, head: &RequestHead<'_>) -> Option<String> {
        let website = self.access().options.website_host.as_deref()?;
        hosted_website(head.headers.get("host").unwrap_or_default(), website)
    }

    /// Types a request for a page of the website of `bucket`. `None` as of `accept`.
    pub fn accept_page(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        ingress: &Ingress,
        responder: &Arc<dyn Responder>,
        bucket: String,
    ) -> Option<Result<Arc<dyn Request>, Response>> {
        let cors = self.cors_lines(head, ingress.mount_length);
        let is_postponed = Cell::new(false);
        let read = || -> Result<Arc<dyn Request>, Problem> {
            let operation = match head.method {
                b"GET" => Operation::GetObject,
                b"HEAD" => Operation::HeadObject,
                method => {
                    let error = S3Error::new(ErrorCode::MethodNotAllowed).field("Method", method);
                    let error = error.field("ResourceType", "OBJECT");
                    return Err(S3Error { allowed: Some("GET, HEAD".into()), ..error }.into());
                }
            };
            let target = page_target(bucket, below(head.path, ingress.mount_length))?;
            let requester = Arc::clone(self.access().identities().requester("").ok_or(ErrorCode::AccessDenied)?);
            let sender = Sender { requester, how: Authentication::Anonymous, payload: &PayloadMode::Unsigned };
            let asked = (operation, &target, Query::default());
            let arrival = Arrival { services: &self.services, responder, cors: &cors };
            let context = RequestContext::new(self.access(), ingress, *head, sender, asked, &Understood::NOTHING);
            let accepted = TypedRequest::<ReadPage>::accept(arrival, &context);
            is_postponed.set(context.is_postponed.get());
            accepted
        };
        let accepted = read();
        if is_postponed.get() {
            return None;
        }
        Some(accepted.map_err(|problem| {
            let envelope = self.envelope(head.method, head.path).with_cors(cors.clone());
            Envelope { for_browsers: true, ..envelope }.problem(problem)
        }))
    }
}

/// The target of a path on the host of a website. `path` is raw and undecoded.
pub(crate) fn page_target(bucket: String, path: &[u8]) -> Result<Target, S3Error> {
    let key = path.strip_prefix(b"/").ok_or(ErrorCode::InvalidURI)?;
    if key.is_empty() {
        return Ok(Target::Bucket(bucket));
    }
    let key = checked_key(percent_decode(key).ok_or(ErrorCode::InvalidURI)?)?;
    Ok(Target::Object { bucket, key, hosted: true })
}
