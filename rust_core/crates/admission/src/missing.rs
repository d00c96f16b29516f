//! Who may not list a bucket is not told which keys and versions it lacks: the answer is as for what must not be read.
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>

use crate::access_control::AccessControl;
use crate::access_decision::{Question, Resource, ResourceFacts};
use crate::circumstances::KeptCircumstances;
use crate::decision_log::DecisionLog;
use crate::request_context::RequestContext;
use crate::senders::identities::Requester;
use orcas_s3::{ErrorCode, S3Error};

/// What the access decision needs, of a request that root has not sent. It is made only if something is missing.
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

    /// What is answered in place of an answer with this code, which says that something is missing and must not.
    /// The access decision is noted in `decisions`.
    pub fn told(
        &self,
        access: &AccessControl,
        requester: &Requester,
        code: Option<ErrorCode>,
        decisions: &DecisionLog,
    ) -> Option<S3Error> {
        let action = match code {
            Some(ErrorCode::NoSuchKey) => "s3:ListBucket",
            Some(ErrorCode::NoSuchVersion) => "s3:ListBucketVersions",
            _ => return None,
        };
        let identities = access.identities();
        let denied = |bucket: &String| {
            let resource = Resource::Bucket(bucket);
            let question = Question { requester, action, resource, facts: ResourceFacts::UNKNOWN };
            self.asked.with(access, None, Some(decisions), |circumstances| {
                access.authorize_action(&identities, &question, circumstances).err()
            })
        };
        let private = self.buckets.iter().flatten().find_map(denied)?.private;
        Some(S3Error { private, ..ErrorCode::AccessDenied.into() })
    }
}
