//! The operations that read a configuration of a bucket: a document of the bucket or, if there is none,
//! what S3 answers in that case.

use std::sync::Arc;

use crate::resources::pages::name_of;
use orcas_admission::documents::document;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_record::{Bucket, DocumentKind};
use orcas_requests::request::{Operation, Progress, Request as _, TypedRequest};
use orcas_responses::response::{HeaderBlock, Response};
use orcas_s3::documents::{BucketPolicy, policy_status};
use orcas_s3::query::no_continuation;
use orcas_s3::replication::Replication;
use orcas_s3::{Operation as Name, configurations, encryption};

pub struct ReadBucketConfiguration(Arc<Bucket>);

impl Operation for ReadBucketConfiguration {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        no_continuation(&context.query)?;
        context.bucket().map(Self)
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let bucket = &request.input.0;
        if let Some(answer) = Self::policy(request) {
            return Ok(answer?.into());
        }
        let (operation, name) = (request.operation(), name_of(bucket));
        let kind = operation.spec().document;
        let stored = kind.and_then(|kind| request.services.engine.document(bucket.id, kind));
        // What the store does by itself, no bucket can do without.
        let of_the_store = kind == Some(DocumentKind::Encryption) && request.services.access.options.encrypt_by_default;
        let document = match stored.filter(|document| !of_the_store || !document.bytes.is_empty()) {
            None if of_the_store => encryption::of_the_store().document(),
            None => configurations::absent(operation, name, false)?,
            Some(document) if document.bytes.is_empty() => configurations::absent(operation, name, true)?,
            Some(stored) if kind == Some(DocumentKind::Replication) => {
                let unreadable = || Problem::internal("the replication configuration of a bucket cannot be read");
                stored.parsed(Replication::load).ok_or_else(unreadable)?.shown()
            }
            Some(document) => document.bytes.to_vec(),
        };
        Ok(request.envelope.document(200, HeaderBlock::new(), document).into())
    }
}

impl ReadBucketConfiguration {
    /// The answer about the policy of the bucket, if it is asked for and there is one.
    fn policy(request: &TypedRequest<Self>) -> Option<Result<Response, Problem>> {
        let bucket = request.input.0.id;
        let stored = request.services.engine.document(bucket, DocumentKind::Policy);
        let stored = stored.filter(|document| !document.bytes.is_empty());
        match request.operation() {
            Name::GetBucketPolicy => stored.map(|document| Ok(request.envelope.json(200, document.bytes.to_vec()))),
            Name::GetBucketPolicyStatus if stored.is_some() => {
                let of_acl = request.services.access.is_public_by_acl(&request.input.0);
                let Some(policy) = document::<BucketPolicy>(&request.services.engine, bucket) else {
                    return Some(Err(Problem::internal("the policy of a bucket cannot be read")));
                };
                let is_public = of_acl || policy.is_public;
                Some(Ok(request.envelope.document(200, HeaderBlock::new(), policy_status(is_public))))
            }
            _ => None,
        }
    }
}
