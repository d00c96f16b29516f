//! Answers about missing keys and versions: a sender that may not list a bucket does not learn which ones it lacks. The
//! answer is as for an object that must not be read.

use crate::access_control::AccessControl;
use crate::access_decision::{Question, Resource, ResourceFacts};
use crate::circumstances::KeptCircumstances;
use crate::decision_log::DecisionLog;
use crate::request_context::RequestContext;
use crate::senders::identities::Requester;
use orcas_s3::{ErrorCode, S3Error};

/// The check whether a sender that is not root may learn that a key or version is missing. It is made only if one is.
pub struct MissingCheck {
    asked: KeptCircumstances,
    /// The bucket of the request, and that of its source.
    buckets: [Option<String>; 2],
}

impl MissingCheck {
    pub fn of(context: &RequestContext<'_>) -> Self {
        let source = context.source.as_ref().map(|source| source.bucket.clone());
        let buckets = [context.target.bucket().map(str::to_owned), source];
        Self { asked: KeptCircumstances::without_head(context), buckets }
    }

    /// The answer in place of one with this code, if that would say that something is missing and must not. The access
    /// decision is noted in `decisions`.
    pub fn answer(
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
