//! Who may not list a bucket is not told which keys and versions it lacks: the answer is as for what must not be read.
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>

use crate::admission::circumstances::KeptCircumstances;
use crate::admission::decision::{Facts, Question, Resource};
use crate::admission::identities::Principal;
use crate::admission::request_context::RequestContext;
use crate::gateway::Gateway;
use orcas_s3::ErrorCode;

/// What the decision needs, of a request that root has not sent. It is made only if something is missing.
pub struct Stranger {
    asked: KeptCircumstances,
    /// The bucket of the request, and that of its source.
    buckets: [Option<String>; 2],
}

impl Stranger {
    pub fn of(context: &RequestContext<'_>) -> Self {
        let source = context.source.as_ref().map(|source| source.bucket.clone());
        let buckets = [context.target.bucket().map(str::to_owned), source];
        Self { asked: KeptCircumstances::without_head(context), buckets }
    }

    /// Whether the answer has this code because something is missing, and must not say so.
    pub fn may_not_know(&self, gateway: &Gateway, principal: &Principal, code: Option<ErrorCode>) -> bool {
        let action = match code {
            Some(ErrorCode::NoSuchKey) => "s3:ListBucket",
            Some(ErrorCode::NoSuchVersion) => "s3:ListBucketVersions",
            _ => return false,
        };
        let identities = gateway.identities();
        let denied = |bucket: &String| {
            let resource = Resource::Bucket(bucket);
            let question = Question { principal, action, resource, facts: Facts::UNKNOWN };
            self.asked
                .with(gateway, None, |circumstances| gateway.decide(&identities, &question, circumstances).is_err())
        };
        self.buckets.iter().flatten().any(denied)
    }
}
