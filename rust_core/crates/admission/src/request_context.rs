//! The head of an authenticated request, as operations parse it: bucket, key, and the headers and parameters that
//! several of them use.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use bytes::Bytes;

use crate::access_control::AccessControl;
use crate::decision_log::DecisionLog;
use crate::ingress::Ingress;
use crate::senders::identities::Requester;
use orcas_access::{REQUEST_STEPS_MAX, Steps};
use orcas_bodies::intake::transfer_encoded;
use orcas_bodies::problem::Problem;
use orcas_decide::Withheld;
use orcas_http::{Headers, Query, RequestHead};
use orcas_record::Bucket;
use orcas_s3::support::{Understood, check_expected_owner};
use orcas_s3::target::CopySource;
use orcas_s3::{ErrorCode, Operation, S3Error, Target};
use orcas_sigv4::{Authentication, PayloadMode};
use orcas_telemetry::access_log::note::{AccessDecision, Asked, Auth, Note, without_query};

/// A request as every step of it sees it: what the server knows of it, what its head says, and who sent it.
pub struct RequestContext<'a> {
    pub access: &'a AccessControl,
    pub ingress: &'a Ingress,
    /// The head, with the headers that a presigned address carries in its query, or those that the fields of a form
    /// stand for.
    pub head: RequestHead<'a>,
    pub operation: Operation,
    /// Which headers and parameters it may have that other operations refuse.
    pub understood: &'a Understood,
    pub target: &'a Target,
    pub query: Query,
    pub requester: Arc<Requester>,
    pub how: Authentication,
    pub payload: &'a PayloadMode,
    /// The object that a copy or a move begins with, as authorized.
    pub source: Option<CopySource>,
    /// The parts of the source that may not go with it.
    pub withheld: Withheld,
    /// The headers have what the body asks for.
    pub is_body_read: bool,
    /// An action depends on what the body asks for: it is authorized again once that was read.
    pub is_deferred: bool,
    /// An access decision needs what only the index has: nothing that was made of the request counts.
    pub is_postponed: Cell<bool>,
    /// The steps that are left for its access decisions.
    pub steps: Steps,
    /// The bucket, once it was looked up: the request counts as one to it.
    pub found: OnceCell<Arc<Bucket>>,
    /// A body follows the head.
    pub has_body: bool,
    /// The access decisions, for the logs.
    pub decisions: DecisionLog,
}

/// The sender of a request, and the claim of its signature about the body.
pub struct Sender<'a> {
    pub requester: Arc<Requester>,
    pub how: Authentication,
    pub payload: &'a PayloadMode,
}

impl<'a> RequestContext<'a> {
    #[inline]
    pub fn new(
        access: &'a AccessControl,
        ingress: &'a Ingress,
        head: RequestHead<'a>,
        Sender { requester, how, payload }: Sender<'a>,
        (operation, target, query): (Operation, &'a Target, Query),
        understood: &'a Understood,
    ) -> Self {
        let (source, found, has_body) = (None, OnceCell::new(), has_body(&head.headers));
        Self {
            access,
            ingress,
            head,
            operation,
            understood,
            target,
            query,
            requester,
            how,
            payload,
            source,
            withheld: Withheld::default(),
            is_body_read: false,
            is_deferred: false,
            is_postponed: Cell::new(false),
            steps: Steps::new(REQUEST_STEPS_MAX),
            found,
            has_body,
            decisions: DecisionLog::default(),
        }
    }

    pub fn headers(&self) -> &Headers<'a> {
        &self.head.headers
    }

    /// The part of the path that names neither bucket nor key.
    pub fn mount(&self) -> &'a [u8] {
        &self.head.path[..self.ingress.mount_length.min(self.head.path.len())]
    }

    /// The note for the access log, if there is one.
    pub fn note(&self) -> Option<Box<Note>> {
        // The head of a form is not that of its request.
        if !self.access.access_lines.is_open() || self.operation == Operation::PostObject {
            return None;
        }
        let header = |name| self.headers().get(name);
        let requester = &*self.requester;
        let asked = |decisions: &[AccessDecision<'_>]| {
            Note::new(&Asked {
                is_root: requester.is_root,
                decisions,
                principal: requester.log_name(),
                access_key: Some(&*requester.access_key).filter(|key| !key.is_empty()),
                auth: match self.how {
                    Authentication::Header => Auth::Header,
                    Authentication::Presigned | Authentication::PresignedVersionTwo => Auth::Query,
                    Authentication::Anonymous => Auth::Anonymous,
                },
                operation: Some(self.operation.name()),
                method: self.head.method,
                bucket: self.target.bucket(),
                key: self.target.key(),
                version_id: self.query.get("versionId"),
                host: header("host"),
                user_agent: header("user-agent"),
                referer: header("referer").map(without_query),
            })
        };
        let note = if requester.is_root { asked(&[]) } else { self.decisions.with_lines(requester, asked) };
        Some(Box::new(note))
    }

    /// The name of a bucket that need not exist.
    pub fn bucket_name(&self) -> Result<&str, Problem> {
        match self.target {
            Target::Bucket(name) => Ok(name),
            Target::Service | Target::Object { .. } | Target::ObjectLambda => {
                Err(self.operation.not_implemented().into())
            }
        }
    }

    pub fn bucket(&self) -> Result<Arc<Bucket>, Problem> {
        self.find(self.bucket_name()?)
    }

    /// The bucket and the key of an object, which need not exist.
    pub fn object(&self) -> Result<(Arc<Bucket>, Bytes), Problem> {
        match self.target {
            Target::Object { bucket, key, .. } => Ok((self.find(bucket)?, Bytes::copy_from_slice(key))),
            Target::Service | Target::Bucket(_) | Target::ObjectLambda => Err(self.operation.not_implemented().into()),
        }
    }

    fn find(&self, name: &str) -> Result<Arc<Bucket>, Problem> {
        let bucket = self.access.engine.bucket(name.as_bytes());
        let bucket =
            bucket.ok_or_else(|| S3Error::new(ErrorCode::NoSuchBucket).field("BucketName", name.as_bytes()))?;
        let owner = std::str::from_utf8(&bucket.owner).unwrap_or_default();
        let check = |owner: &str| check_expected_owner(self.headers(), "x-amz-expected-bucket-owner", owner);
        // As the number of the account, or as its canonical id.
        check(owner).or_else(|error| check(self.access.identities().account(owner)).map_err(|_| error))?;
        let _ = self.found.set(Arc::clone(&bucket));
        Ok(bucket)
    }

    /// Whether the request has a signature of version 4, which objects with named keys demand.
    pub fn is_sigv4(&self) -> bool {
        matches!(self.how, Authentication::Header | Authentication::Presigned)
    }
}

/// Whether a body follows the head.
#[inline]
pub fn has_body(headers: &Headers<'_>) -> bool {
    transfer_encoded(headers) || headers.get("content-length").is_some_and(|length| length.trim_ascii() != b"0")
}

/// Bytes of the body that a head announces, as they are sent.
#[inline]
pub fn announced(headers: &Headers<'_>) -> u64 {
    let length = headers.get("content-length").and_then(|length| std::str::from_utf8(length.trim_ascii()).ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}
