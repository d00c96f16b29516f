//! From a form that arrives to an authenticated, typed request.
//!
//! The head of the request says only that a form follows, and for which bucket. The fields before the file are read into
//! memory. On a worker, their signature is verified and the upload authorized first, then the policy is judged; only after
//! that is the store looked at.

use std::net::IpAddr;
use std::sync::Arc;

use crate::accounting::tally::Tally;
use crate::admission::accept::{Refused, below, names_claim, with_claim};
use crate::admission::bounds::rates::admit;
use crate::admission::decision_log::LoggedDecisions;
use crate::admission::identities::{Identities, Requester};
use crate::admission::ingress::Ingress;
use crate::admission::request_context::{RequestContext, Sender};
use crate::gateway::{Gateway, now_ms};
use crate::operations::PostObject;
use crate::postponed::{Postponed, Refusal};
use crate::requests::reply::Responder;
use crate::requests::request::{Request, TypedRequest};
use crate::requests::response::{Envelope, Response};
use orcas_bodies::form_file::FileFrame;
use orcas_bodies::problem::Problem;
use orcas_http::{Headers, Query, RequestHead};
use orcas_s3::form::{Boundary, FORM_DATA_LEN_MAX, FieldsReader, FileLimits, Form, Policy, SizeRange, check_form_head};
use orcas_s3::metadata::{BodyLength, UPLOAD_LEN_MAX};
use orcas_s3::resolve::{is_form, resolve};
use orcas_s3::support::check_supported;
use orcas_s3::{ErrorCode, Operation, S3Error, Target, tags};
use orcas_sigv4::{
    Authentication, Diagnosis, Explanation, FormError, PayloadMode, Requirements, SignedForm, authenticate_form,
    claims_nobody,
};

/// A form whose file has not begun.
pub struct FormHead {
    fields: FieldsReader,
    address: Address,
    /// Of what is not the body of a request.
    tally: Arc<Tally>,
}

/// Where a form is sent to, and its length.
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

/// What follows from the fields of a form.
pub struct FormAdmission {
    pub request: Result<Arc<Postponed>, Refused>,
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
    ) -> Option<Result<Box<FormHead>, Refused>> {
        let mount_length = ingress.mount_length;
        if head.method != b"POST" || !is_form(&head.headers) {
            return None;
        }
        let query = Query::parse(head.query).filter(|query| claims_nobody(&head.headers, query))?;
        if self.website_bucket(head).is_some() {
            return None;
        }
        let host = head.headers.get("host").unwrap_or_default();
        let target = Target::parse(below(head.path, mount_length), host, &self.options.domains).ok()?;
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
            Err(error) => Err(Box::new(envelope.problem(error.into()).closing())),
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
    /// What is counted of it, unless it makes a request.
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
                        Err(address.refused(error.into(), None, last))
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
        Ok(FormAdmission { request: Err(self.address.refused(problem, None, last)), taken: 0 })
    }
}

impl Address {
    /// The refusal, with the text that was to be signed if the signature is wrong. If it leaves a part of the body unread,
    /// it ends the connection.
    fn refused(&self, problem: Problem, signed: Option<Explanation>, last: bool) -> Refused {
        let answer = match signed {
            Some(_) => self.envelope.explained(problem, Diagnosis { cause: None, explanation: signed }),
            None => self.envelope.problem(problem),
        };
        Box::new(if last { answer } else { answer.closing() })
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
                let answer = Box::new(Response { judged, ..*self.refused(problem, signed, last) });
                Refusal { answer, trace: None }
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
        let identities = gateway.signers.identities();
        let now_ms = now_ms();
        let (requester, policy) = gateway.authenticate_form(&identities, form, now_ms, self.ingress.client)?;
        if let Some(limits) = &requester.limits {
            admit(limits, now_ms + gateway.clock_ahead_ms(), self.length)?;
        }
        // As a signature in an address, of either version.
        let how = match (policy, form.get("x-amz-signature")) {
            (None, _) => Authentication::Anonymous,
            (Some(_), Some(_)) => Authentication::Presigned,
            (Some(_), None) => Authentication::PresignedVersionTwo,
        };
        let target = Target::Object { bucket: self.bucket.clone(), key, hosted: false };
        let head = RequestHead { method: b"POST", path: &self.path, query: b"", headers: Headers::new(&[]) };
        let sender = Sender { requester, how, payload: &PayloadMode::Unsigned };
        let asked = (Operation::PostObject, &target, Query::default());
        let mut context =
            RequestContext::new((gateway, &self.responder), &self.ingress, head, sender, asked, &self.envelope.cors);
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
            Some(policy) => Policy::parse(policy)?.judge(form, &self.bucket, now_ms + gateway.clock_ahead_ms())?,
            None => SizeRange::ANY,
        };
        gateway.check_not_salvage(context.operation)?;
        let length = self.length.saturating_sub(form.length as u64);
        let after_max = (FORM_DATA_LEN_MAX - form.length) as u64;
        let frame = FileFrame { boundary: form.boundary.clone(), limits: FileLimits { size, after_max }, length };
        check_supported(&PostObject::FIELDS, &context.query, context.headers())?;
        let input = PostObject::read(&context, form, frame, &self.host)?;
        TypedRequest::of(&context, input)
    }
}

impl Gateway {
    /// Verifies the signature of a form. Returns whose it is, and the signed policy; neither if anybody may have sent it.
    fn authenticate_form<'a>(
        &self,
        identities: &Identities,
        form: &'a Form,
        now_ms: i64,
        client: Option<IpAddr>,
    ) -> Result<(Arc<Requester>, Option<&'a [u8]>), Problem> {
        let requirements = self.requirements(now_ms);
        self.check_not_locked_out(client, requirements.now_unix_ms)?;
        let signed = SignedForm {
            policy: form.get("policy"),
            algorithm: form.get("x-amz-algorithm"),
            credential: form.get("x-amz-credential"),
            date: form.get("x-amz-date"),
            signature: form.get("x-amz-signature"),
            security_token: form.get("x-amz-security-token"),
            access_key: form.get("awsaccesskeyid"),
            signature_of_version_two: form.get("signature"),
        };
        let token = signed.security_token.filter(|token| !token.is_empty());
        let session = token.map(|token| identities.session(token, requirements.now_unix_ms)).transpose()?;
        let requirements = Requirements { session_token: token, ..requirements };
        let credential = |key: &str| match &session {
            Some(session) => (key == session.access_key).then(|| session.credential.clone()),
            None => identities.credential(key),
        };
        let verified = authenticate_form(&signed, &requirements, &credential);
        if let Err(FormError::Signature(error)) = &verified {
            self.note_failure(error, client, requirements.now_unix_ms);
        }
        let verified = verified.map_err(|error| with_signer(error.into(), &signed))?;
        let Some(verified) = verified else {
            // A policy that nobody has signed says nothing, and neither does a token.
            let anonymous = identities.requester("").filter(|_| signed.policy.is_none() && token.is_none());
            return Ok((Arc::clone(anonymous.ok_or(ErrorCode::AccessDenied)?), None));
        };
        let requester = match &session {
            Some(session) => &session.requester,
            None => identities.requester(&verified.access_key).ok_or(ErrorCode::AccessDenied)?,
        };
        Ok((Arc::clone(requester), Some(verified.policy)))
    }
}

/// What a client needs in order to find out what is wrong with the signature of its form.
fn signed_text(problem: &Problem, form: &Form) -> Option<Explanation> {
    let policy = form.get("policy").filter(|_| problem.error.code == ErrorCode::SignatureDoesNotMatch);
    policy.map(|policy| Explanation { canonical_request: None, string_to_sign: policy.to_vec() })
}

/// Adds who claims to have signed the form, where errors of requests say so too.
fn with_signer(problem: Problem, signed: &SignedForm<'_>) -> Problem {
    if !names_claim(&problem.error) {
        return problem;
    }
    let of_scope = signed.credential.and_then(|scope| scope.split(|&byte| byte == b'/').next());
    let access_key = of_scope.or(signed.access_key).unwrap_or_default();
    let signature = signed.signature.or(signed.signature_of_version_two).unwrap_or_default();
    Problem { error: with_claim(problem.error, access_key, signature), ..problem }
}
