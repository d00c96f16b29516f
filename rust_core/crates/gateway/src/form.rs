//! From a form that arrives to an authenticated, typed request.
//!
//! The head of the request says only that a form follows, and for which bucket. The fields before the file are read into
//! memory. On a worker, their signature is verified and the upload authorized first, then the policy is judged; only after
//! that is the store looked at.

use std::sync::Arc;

use crate::accept::below;
use crate::gateway::Gateway;
use crate::postponed::Postponed;
use crate::refusal::Refusal;
use orcas_admission::bounds::rates::admit;
use orcas_admission::decision_log::LoggedDecisions;
use orcas_admission::ingress::{Ingress, now_ms};
use orcas_admission::request_context::{RequestContext, Sender};
use orcas_bodies::form_file::FileFrame;
use orcas_bodies::problem::Problem;
use orcas_http::{Headers, Query, RequestHead};
use orcas_operations::PostObject;
use orcas_requests::request::{Arrival, Operation as _, Request, TypedRequest};
use orcas_requests::tally::Tally;
use orcas_responses::reply::Responder;
use orcas_responses::response::{Envelope, Response};
use orcas_s3::form::{Boundary, FORM_DATA_LEN_MAX, FieldsReader, FileLimits, Form, Policy, SizeRange, check_form_head};
use orcas_s3::metadata::{BodyLength, UPLOAD_LEN_MAX};
use orcas_s3::resolve::{is_form, resolve};
use orcas_s3::support::check_supported;
use orcas_s3::{ErrorCode, Operation, S3Error, Target, tags};
use orcas_sigv4::{Authentication, Diagnosis, Explanation, PayloadMode, claims_nobody};

/// A form whose file has not begun.
pub struct FormHead {
    fields: FieldsReader,
    address: Address,
    /// The counts of the form, besides the body of a request.
    tally: Arc<Tally>,
}

/// The URL of a form, and its length.
struct Address {
    path: Vec<u8>,
    host: Vec<u8>,
    bucket: String,
    /// Bytes of the body.
    length: u64,
    ingress: Ingress,
    responder: Arc<dyn Responder>,
    envelope: Envelope,
}

/// The request or refusal that follows from the fields of a form.
pub struct FormAdmission {
    pub request: Result<Arc<Postponed>, Box<Response>>,
    /// Bytes of the piece that came last that are no part of the file.
    pub taken: usize,
}

impl Gateway {
    /// The form that follows `head`, whose signature is in the form. `None` for any other request.
    pub fn form(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        ingress: &Ingress,
        responder: &Arc<dyn Responder>,
    ) -> Option<Result<Box<FormHead>, Box<Refusal>>> {
        let mount_length = ingress.mount_length;
        if head.method != b"POST" || !is_form(&head.headers) {
            return None;
        }
        let query = Query::parse(head.query).filter(|query| claims_nobody(&head.headers, query))?;
        if self.website_bucket(head).is_some() {
            return None;
        }
        let host = head.headers.get("host").unwrap_or_default();
        let target = Target::parse(below(head.path, mount_length), host, &self.access().options.domains).ok()?;
        let (Target::Bucket(bucket), Ok(Operation::PostObject)) =
            (&target, resolve(head.method, &target, &query, &head.headers))
        else {
            return None;
        };
        let envelope = self.envelope(head.method, head.path).with_cors(self.cors_lines(head, mount_length));
        let read = || -> Result<(FieldsReader, u64), S3Error> {
            check_form_head(&head.headers)?;
            let boundary = Boundary::parse(head.headers.get("content-type").unwrap_or_default())?;
            let length = BodyLength::parse(&head.headers)?.wire.ok_or(ErrorCode::MissingContentLength)?;
            if length > UPLOAD_LEN_MAX + FORM_DATA_LEN_MAX as u64 {
                let max = UPLOAD_LEN_MAX.to_string();
                let error = S3Error::new(ErrorCode::EntityTooLarge).field("ProposedSize", length.to_string());
                return Err(error.field("MaxSizeAllowed", max));
            }
            Ok((FieldsReader::new(boundary), length))
        };
        Some(match read() {
            Err(error) => Err(Refusal::new(envelope.problem(error.into()).closing())),
            Ok((fields, length)) => {
                let (path, host) = (head.path.to_vec(), host.to_vec());
                let (bucket, ingress, responder) = (bucket.clone(), *ingress, Arc::clone(responder));
                let address = Address { path, host, bucket, length, ingress, responder, envelope };
                let tally = Arc::new(Tally::new(address.ingress.began));
                Ok(Box::new(FormHead { fields, address, tally }))
            }
        })
    }
}

impl FormHead {
    /// The counts of the form, unless it makes a request.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Takes the next bytes of the body; `last`: no more follow. Returns the admission, or the same to be called again.
    pub fn push(
        mut self: Box<Self>,
        gateway: &Arc<Gateway>,
        piece: &[u8],
        last: bool,
    ) -> Result<FormAdmission, Box<Self>> {
        let problem = match self.fields.push(piece) {
            Ok(Some(taken)) => {
                let Self { fields, address, tally } = *self;
                let length = piece.len();
                let request = match fields.finish() {
                    Ok(form) => Ok(address.postponed(gateway, form, tally, (length, taken), last)),
                    Err(error) => {
                        tally.add(length);
                        Err(Box::new(address.refused(error.into(), None, last)))
                    }
                };
                return Ok(FormAdmission { request, taken });
            }
            Ok(None) if !last => {
                self.tally.add(piece.len());
                return Err(self);
            }
            Ok(None) => ErrorCode::MalformedPOSTRequest.into(),
            Err(error) => error.into(),
        };
        self.tally.add(piece.len());
        Ok(FormAdmission { request: Err(Box::new(self.address.refused(problem, None, last))), taken: 0 })
    }
}

impl Address {
    /// The refusal, with the text that was to be signed if the signature is wrong. If it leaves a part of the body unread,
    /// it ends the connection.
    fn refused(&self, problem: Problem, signed: Option<Explanation>, last: bool) -> Response {
        let answer = match signed {
            Some(_) => self.envelope.explained(problem, Diagnosis { cause: None, explanation: signed }),
            None => self.envelope.problem(problem),
        };
        if last { answer } else { answer.closing() }
    }

    /// The request that the fields make. Of the last piece, which has `length` bytes, `taken` belong to them.
    fn postponed(
        self,
        gateway: &Arc<Gateway>,
        form: Form,
        tally: Arc<Tally>,
        (length, taken): (usize, usize),
        last: bool,
    ) -> Arc<Postponed> {
        let (known, responder, envelope) = (Arc::clone(gateway), Arc::clone(&self.responder), self.envelope.clone());
        let asked = (Some(Operation::PostObject), self.ingress.began);
        Postponed::new((gateway, &responder), asked, envelope, move || {
            let mut judged = None;
            let accepted = self.accept(&known, &form, &mut judged).map_err(|problem| {
                let signed = signed_text(&problem, &form);
                let mut refusal = Refusal::new(self.refused(problem, signed, last));
                refusal.judged = judged;
                refusal
            });
            match &accepted {
                // The rest of the body is counted by the request.
                Ok(request) => request.tally().add(tally.received() as usize + taken),
                Err(_) => tally.add(length),
            }
            Some(accepted)
        })
    }

    /// `judged` is set if it is refused by access decisions.
    fn accept(
        &self,
        gateway: &Arc<Gateway>,
        form: &Form,
        judged: &mut Option<Arc<LoggedDecisions>>,
    ) -> Result<Arc<dyn Request>, Problem> {
        let key = form.key()?;
        let access = gateway.access();
        let (identities, time_ms) = (access.identities(), now_ms());
        let (requester, policy) = access.authenticate_form(&identities, form, time_ms, self.ingress.client)?;
        let now_ms = time_ms + access.engine.clock_ahead_ms();
        if let Some(limits) = &requester.limits {
            admit(limits, now_ms, self.length)?;
        }
        // As a signature in an address, of either version.
        let how = match (policy, form.get("x-amz-signature")) {
            (None, _) => Authentication::Anonymous,
            (Some(_), Some(_)) => Authentication::Presigned,
            (Some(_), None) => Authentication::PresignedVersionTwo,
        };
        let target = requester.resolve(Target::Object { bucket: self.bucket.clone(), key, hosted: false });
        let head = RequestHead { method: b"POST", path: &self.path, query: b"", headers: Headers::new(&[]) };
        let sender = Sender { requester, how, payload: &PayloadMode::Unsigned };
        let asked = (Operation::PostObject, &target, Query::default());
        let mut context = RequestContext::new(access, &self.ingress, head, sender, asked, &PostObject::UNDERSTOOD);
        context.has_body = true;
        let tags = form.tags()?.map(|tags| tags::header(&tags));
        let mut list = form.headers(&self.bucket)?;
        if let Some(tags) = &tags {
            list.retain(|(name, _)| *name != tags::HEADER.as_bytes());
            list.push((tags::HEADER.as_bytes(), tags));
        }
        context.head.headers = Headers::new(&list);
        context.authorize_request(&identities).inspect_err(|_| {
            *judged = context.decisions.take(&context.requester).map(Arc::new);
        })?;
        let size = match policy {
            Some(policy) => Policy::parse(policy)?.judge(form, &self.bucket, now_ms)?,
            None => SizeRange::ANY,
        };
        gateway.check_changes(context.operation)?;
        let length = self.length.saturating_sub(form.length as u64);
        let after_max = (FORM_DATA_LEN_MAX - form.length) as u64;
        let frame = FileFrame { boundary: form.boundary.clone(), limits: FileLimits { size, after_max }, length };
        check_supported(&PostObject::FIELDS, &context.query, context.headers())?;
        let input = PostObject::read(&context, form, frame, &self.host)?;
        let (services, responder, cors) = (&gateway.services, &self.responder, &self.envelope.cors);
        TypedRequest::of(Arrival { services, responder, cors }, &context, input)
    }
}

/// The text that a form has to sign, from which a client can find out what is wrong with the signature of its form.
fn signed_text(problem: &Problem, form: &Form) -> Option<Explanation> {
    let policy = form.get("policy").filter(|_| problem.error.code == ErrorCode::SignatureDoesNotMatch);
    policy.map(|policy| Explanation { canonical_request: None, string_to_sign: policy.to_vec() })
}
