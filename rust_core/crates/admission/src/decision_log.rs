//! Access decisions as the logs have them: what was asked, the outcome, and the statement behind it. Nobody else is told.

use std::cell::RefCell;
use std::sync::Arc;

use crate::senders::identities::Requester;
use orcas_access::{AccessDecision, Missing, Policy, Reason, Source};
use orcas_s3::documents::BucketPolicy;
use orcas_telemetry::access_log::note;

/// Different access decisions of one request that are kept. Only a request with many entries has more.
const KEPT_MAX: usize = 16;

/// An access decision on an action.
#[derive(Clone)]
pub struct LoggedDecision {
    pub action: &'static str,
    pub decision: AccessDecision,
    /// The policy of the bucket, if it has one.
    pub bucket_policy: Option<Arc<BucketPolicy>>,
    /// How often it was made.
    pub count: u32,
}

impl LoggedDecision {
    /// The decision as the access log has it. `requester`: whom it was about.
    pub fn line<'a>(&'a self, requester: &'a Requester) -> note::AccessDecision<'a> {
        let (allowed, reason) = match self.decision {
            AccessDecision::Allowed(reason) => (true, reason),
            AccessDecision::ExplicitDeny(reason) | AccessDecision::TooCostly(reason) => (false, Some(reason)),
            AccessDecision::ImplicitDeny(_) => (false, None),
        };
        let missing = match self.decision {
            AccessDecision::ImplicitDeny(missing) => Some(kind_of(missing)),
            AccessDecision::Allowed(_) | AccessDecision::ExplicitDeny(_) | AccessDecision::TooCostly(_) => None,
        };
        let (policy, statement, sid) = match reason.map(|reason| (self.found(requester, reason), reason)) {
            Some(((name, policy), Reason { statement, .. })) => {
                (Some(name), Some(statement + 1), policy.and_then(|policy| policy.sid(statement)))
            }
            None => (None, None, None),
        };
        note::AccessDecision { action: self.action, allowed, policy, statement, sid, missing, count: self.count }
    }

    /// The decision in words, for people.
    pub fn words(&self, requester: &Requester) -> String {
        let note::AccessDecision { action, allowed, policy, statement, sid, missing, .. } = self.line(requester);
        if let Some(missing) = missing {
            return format!("no {missing} allows {action}");
        }
        let what = match self.decision {
            AccessDecision::TooCostly(_) => "takes too much to compare, which denies",
            _ if allowed => "allows",
            _ => "denies",
        };
        let sid = sid.map(|sid| format!(" {sid}")).unwrap_or_default();
        let (statement, policy) = (statement.unwrap_or_default(), policy.unwrap_or("nothing"));
        format!("statement {statement}{sid} of {policy} {what} {action}")
    }

    /// The name of a policy behind an access decision, and the policy.
    fn found<'a>(&'a self, requester: &'a Requester, reason: Reason) -> (&'a str, Option<&'a Policy>) {
        let identity = &requester.identity;
        match reason.source {
            Source::Identity(place) => {
                (identity.policy_id(place).unwrap_or_default(), identity.policies.get(place).map(|it| &**it))
            }
            Source::Boundary => {
                (identity.boundary_id().unwrap_or("the permissions boundary"), identity.boundary.as_deref())
            }
            Source::Session(place) => {
                let policies = requester.session.as_deref().unwrap_or_default();
                ("the session policy", policies.get(place).map(|it| &**it))
            }
            Source::Resource => ("the bucket policy", self.bucket_policy.as_ref().map(|it| &it.policy)),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.action == other.action && self.decision == other.decision
    }
}

/// The kind of policy that would have to allow something.
pub fn kind_of(missing: Missing) -> &'static str {
    match missing {
        Missing::Identity => "identity-based policy",
        Missing::Boundary => "permissions boundary",
        Missing::Session => "session policy",
        Missing::Resource => "resource-based policy",
    }
}

/// The access decisions of one request, as they are made. Root makes none.
#[derive(Default)]
pub struct DecisionLog(RefCell<Vec<LoggedDecision>>);

impl DecisionLog {
    pub fn add(&self, logged: LoggedDecision) {
        let mut kept = self.0.borrow_mut();
        if let Some(known) = kept.iter_mut().find(|known| known.is_like(&logged)) {
            known.count += 1;
        } else if kept.len() < KEPT_MAX {
            kept.push(logged);
        }
    }

    /// Takes the decisions, with whom they are about; `None` if there are none. There are none afterwards.
    pub fn take(&self, requester: &Arc<Requester>) -> Option<LoggedDecisions> {
        let decisions = self.0.take();
        (!decisions.is_empty()).then(|| LoggedDecisions { requester: Arc::clone(requester), decisions })
    }

    /// Hands the decisions on as the access log has them.
    pub fn with_lines<T>(&self, requester: &Requester, write: impl FnOnce(&[note::AccessDecision<'_>]) -> T) -> T {
        let kept = self.0.borrow();
        let lines: Vec<_> = kept.iter().map(|logged| logged.line(requester)).collect();
        write(&lines)
    }
}

/// The decisions on the requests of one sender, for the log.
pub struct LoggedDecisions {
    pub requester: Arc<Requester>,
    pub decisions: Vec<LoggedDecision>,
}

impl LoggedDecisions {
    pub fn lines(&self) -> Vec<note::AccessDecision<'_>> {
        self.decisions.iter().map(|logged| logged.line(&self.requester)).collect()
    }
}
