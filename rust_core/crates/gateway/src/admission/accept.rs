//! From a request head to an authenticated, typed request.
//!
//! The signature is verified and the request authorized before anything in the store is looked at. Nothing here waits for
//! the disk, except on a worker.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use crate::admission::bounds::rates::admit;
use crate::admission::decision_log::LoggedDecisions;
use crate::admission::identities::{Identities, Requester};
use crate::admission::ingress::Ingress;
use crate::admission::request_context::{RequestContext, Sender, has_body};
use crate::admission::sessions::token_of;
use crate::gateway::{Gateway, now_ms};
use crate::operations::implemented;
use crate::requests::reply::Responder;
use crate::requests::request::Request;
use crate::requests::response::{CorsLines, Response};
use orcas_bodies::problem::Problem;
use orcas_http::{Headers, RequestHead};
use orcas_s3::resolve::resolve;
use orcas_s3::support::check_supported;
use orcas_s3::target::hosted_bucket;
use orcas_s3::{ErrorCode, Named, Operation, S3Error, Target, query};
use orcas_sigv4::{
    Authenticated, Authentication, Diagnosis, PayloadMode, Requirements, SERVICE, SKEW_MAX_MS, SignatureError,
    VersionTwo, authenticate, claimed_signature, explain,
};

/// The message for writes while a store is open for salvage. The status is not 503, because clients repeat after that.
const SALVAGE: &str = "The store is open for salvage: objects can be read and listed, nothing can be changed.";

/// The SHA-256 of no bytes.
pub(crate) const EMPTY_SHA256: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// The paths of MinIO's admin API, whose clients name no region.
const ADMIN_OF_MINIO: &[u8] = b"/minio/admin/";

/// Why a head was refused, as a ready answer; or the answer to a preflight, which needs no more than its head.
pub type Refused = Box<Response>;

/// What is known of a head by the time at which it is refused.
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
    ) -> Option<Result<Arc<dyn Request>, Refused>> {
        let mount_length = ingress.mount_length;
        let closing = |answer: Response| Box::new(if has_body(&head.headers) { answer.closing() } else { answer });
        if let Some(bucket) = self.website_bucket(head) {
            let accepted = self.accept_page(head, ingress, responder, bucket)?;
            return Some(accepted.map_err(|answer| closing(*answer)));
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
            closing(Response { operation: resolved.operation, judged: resolved.judged, ..answer })
        }))
    }

    /// What the answer to a refused head says about its signature: as S3, what was signed if the signature is wrong; in
    /// development also why it is.
    fn explanation(&self, head: &RequestHead<'_>, code: ErrorCode) -> Option<Diagnosis> {
        if self.options.dev {
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
        let identities = self.signers.identities();
        let requirements = self.requirements(ingress.time_ms);
        let (authenticated, requester) = self.authenticate(&identities, head, &requirements, ingress.client)?;
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
        let target = Target::parse(below(head.path, ingress.mount_length), host, &self.options.domains)?;
        let operation = *resolved.operation.insert(resolve(head.method, &target, &query, &head.headers)?);
        let sender = Sender { requester, how: authenticated.how, payload: &authenticated.payload };
        let mut context =
            RequestContext::new((self, responder), ingress, head, sender, (operation, &target, query), cors);
        let authorized = self.read_authorized(&mut context, &identities, &mut resolved.judged);
        resolved.is_postponed = context.is_postponed.get();
        authorized
    }

    /// `judged` is set if it is refused by access decisions.
    fn read_authorized(
        &self,
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
        let row = implemented(operation).ok_or_else(|| operation.not_implemented())?;
        check_supported(&row.understood, &context.query, context.headers())?;
        self.check_not_salvage(operation)?;
        row.accept(context).map_err(|Problem { error, fault }| {
            // Whoever may not be allowed to do it once the body was read learns nothing about buckets and objects.
            let error = if context.is_deferred { ErrorCode::AccessDenied.into() } else { error };
            let upload = context.query.get("uploadId").map(Cow::Borrowed);
            let named = Named { bucket: target.bucket().map(str::as_bytes), key: target.key(), upload };
            Problem { error: error.about(&named), fault }
        })
    }

    /// Refuses an operation that changes anything while the store is open for salvage.
    pub(crate) fn check_not_salvage(&self, operation: Operation) -> Result<(), S3Error> {
        let refused = self.options.salvage && operation.changes();
        if refused { Err(S3Error::with(ErrorCode::AccessDenied, SALVAGE)) } else { Ok(()) }
    }

    /// Refuses everything of an address that has sent many wrong signatures.
    ///
    /// # Errors
    /// `SlowDown`
    pub fn check_not_locked_out(&self, client: Option<IpAddr>, now_ms: i64) -> Result<(), S3Error> {
        let Some(left_ms) = self.signers.lockouts.left_ms(client, now_ms) else { return Ok(()) };
        let retry_after = u32::try_from(left_ms.unsigned_abs().div_ceil(1000)).ok();
        let private = Some("the address is locked out after many wrong signatures".into());
        Err(S3Error { retry_after, private, ..ErrorCode::SlowDown.into() })
    }

    /// Counts a signature that is wrong, and locks its sender out if there were many.
    pub(crate) fn note_failure(&self, error: &SignatureError, client: Option<IpAddr>, now_ms: i64) {
        if !matches!(error, SignatureError::SignatureDoesNotMatch | SignatureError::InvalidAccessKeyId) {
            return;
        }
        self.count_forgery(client, now_ms);
    }

    /// Counts what its sender has forged: a signature, or a token of another issuer.
    pub fn count_forgery(&self, client: Option<IpAddr>, now_ms: i64) {
        if let (Some(lasts_ms), Some(client)) = (self.signers.lockouts.failed(client, now_ms), client) {
            let seconds = lasts_ms / 1000;
            tracing::warn!(%client, seconds, "An address is locked out after many wrong signatures");
        }
    }

    /// Verifies the signature and finds out whose it is.
    pub(crate) fn authenticate(
        &self,
        identities: &Identities,
        head: &RequestHead<'_>,
        requirements: &Requirements<'_>,
        client: Option<IpAddr>,
    ) -> Result<(Authenticated, Arc<Requester>), Problem> {
        self.check_not_locked_out(client, requirements.now_unix_ms)?;
        if let Some(token) = token_of(head) {
            return self.authenticate_session(identities, head, requirements, client, &token);
        }
        let credential = |key: &str| identities.credential(key);
        let authenticated = authenticate(head, requirements, &self.signers.signing_keys.mine(), &credential)
            .inspect_err(|error| self.note_failure(error, client, requirements.now_unix_ms))?;
        let requester = identities.signer(&authenticated.access_key, requirements.now_unix_ms);
        let requester = Arc::clone(requester.ok_or(ErrorCode::AccessDenied)?);
        Ok((authenticated, requester))
    }

    /// The same with temporary credentials.
    fn authenticate_session(
        &self,
        identities: &Identities,
        head: &RequestHead<'_>,
        requirements: &Requirements<'_>,
        client: Option<IpAddr>,
        token: &[u8],
    ) -> Result<(Authenticated, Arc<Requester>), Problem> {
        let session = identities.session(token, requirements.now_unix_ms)?;
        let requirements = Requirements { session_token: Some(token), ..*requirements };
        let credential = |key: &str| (key == session.access_key).then(|| session.credential.clone());
        let authenticated = authenticate(head, &requirements, &self.signers.signing_keys.mine(), &credential)
            .inspect_err(|error| self.note_failure(error, client, requirements.now_unix_ms))?;
        if authenticated.how == Authentication::Anonymous {
            // A token alone proves nothing.
            return Err(ErrorCode::AccessDenied.into());
        }
        Ok((authenticated, Arc::clone(&session.requester)))
    }

    /// Verifies the signature of a request to the admin API, which only root may send. Unlike S3, it does not need
    /// `x-amz-content-sha256` without a body: curl sends this header since version 8 only.
    pub fn authenticate_root(&self, head: &RequestHead<'_>, client: Option<IpAddr>) -> Result<Authenticated, Problem> {
        let identities = self.signers.identities();
        let body = (!has_body(&head.headers)).then_some(EMPTY_SHA256);
        let may_lack_region = head.path.starts_with(ADMIN_OF_MINIO);
        let requirements = Requirements { body, may_lack_region, ..self.requirements(now_ms()) };
        let (authenticated, requester) = self.authenticate(&identities, head, &requirements, client)?;
        let is_temporary = token_of(head).is_some();
        if requester.is_root && !is_temporary {
            return Ok(authenticated);
        }
        let error = match (requester.is_anonymous(), is_temporary) {
            (true, _) => ErrorCode::AccessDenied.into(),
            (false, true) => {
                S3Error::with(ErrorCode::AccessDenied, "The admin API cannot be used with temporary credentials")
            }
            (false, false) => {
                let message = format!("User: {} is not root, who alone may use the admin API", requester.log_name());
                S3Error::with(ErrorCode::AccessDenied, message)
            }
        };
        Err(error.into())
    }

    /// The access key that has signed a request for a service beside S3. `body`: the SHA-256 of its body, which was
    /// received first: requests of these services do not say it.
    pub fn authenticate_for(
        &self,
        head: &RequestHead<'_>,
        service: &'static str,
        body: [u8; 32],
        client: Option<IpAddr>,
    ) -> Result<String, Problem> {
        let requirements =
            Requirements { region: None, service, body: Some(body), version_two: None, ..self.requirements(now_ms()) };
        let (authenticated, _) = self.authenticate(&self.signers.identities(), head, &requirements, client)?;
        match (authenticated.how, authenticated.payload) {
            (Authentication::Anonymous | Authentication::PresignedVersionTwo, _) => Err(ErrorCode::AccessDenied.into()),
            (Authentication::Header | Authentication::Presigned, PayloadMode::Hash(signed)) if signed == body => {
                Ok(authenticated.access_key)
            }
            (Authentication::Header | Authentication::Presigned, _) => Err(ErrorCode::XAmzContentSHA256Mismatch.into()),
        }
    }

    /// What a signature must fulfil at this time. Clients do not know that a test has set the clock: a presigned URL
    /// expires by it, and a date that is that much off is as good as one that is not.
    pub(crate) fn requirements(&self, now_unix_ms: i64) -> Requirements<'_> {
        let ahead_ms = self.clock_ahead_ms();
        Requirements {
            may_lack_region: false,
            region: self.options.strict_region.then_some(self.options.region.as_str()),
            now_unix_ms: now_unix_ms + ahead_ms,
            skew_max_ms: if self.options.any_date { ANY_SKEW_MS } else { SKEW_MAX_MS + ahead_ms.abs() },
            service: SERVICE,
            body: None,
            presign_max_s: self.options.presign_max_s,
            session_token: None,
            version_two: self.options.presign_v2.then_some(VersionTwo {
                domains: &self.options.domains,
                hosted_bucket,
                is_resource: query::is_resource_parameter,
            }),
        }
    }
}

/// Further apart than any two dates that a request can name, and small enough to be added to.
const ANY_SKEW_MS: i64 = i64::MAX / 4;

/// Whether an error says who claims to have signed the request.
pub(crate) fn names_claim(error: &S3Error) -> bool {
    matches!(error.code, ErrorCode::SignatureDoesNotMatch | ErrorCode::InvalidAccessKeyId)
}

/// Adds what the request claims about its signature.
pub(crate) fn with_claim(error: S3Error, access_key: &[u8], signature: &[u8]) -> S3Error {
    let named = error.code == ErrorCode::SignatureDoesNotMatch;
    let error = error.field("AWSAccessKeyId", access_key);
    if named { error.field("SignatureProvided", signature) } else { error }
}

/// Headers without the prefix `x-amz-` that a presigned address of version 2 signs and carries in its query.
const HOISTED_BY_VERSION_TWO: [&str; 2] = ["content-md5", "content-type"];

/// Bytes of the body that a head announces, as they are sent.
pub(crate) fn announced(headers: &Headers<'_>) -> u64 {
    let length = headers.get("content-length").and_then(|length| std::str::from_utf8(length.trim_ascii()).ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// The part of a path that names bucket and key.
pub(crate) fn below(path: &[u8], mount_length: usize) -> &[u8] {
    path.get(mount_length..).unwrap_or_default()
}
