//! The access decision, in the order of AWS (IAM User Guide, "How AWS enforcement code logic evaluates requests"):
//! 1. A statement of any policy that denies is final.
//! 2. In the account of the resource, its policy may allow alone: everybody, a user, or a session by its own ARN; then what
//!    boundary and session leave out does not count. It allows a role, or the user that a session is of, as policies of the
//!    identity would. What it allows an account, the account's own policies must pass on.
//! 3. Else a policy of the identity allows, and so do its boundary and the policy of the session, if there are any.
//! 4. In another account, both the identity's side and the policy of the resource must allow.

use std::sync::Arc;

use crate::context::{Asked, Request};
use crate::context::{STEPS_MAX, Steps};
use crate::policy::{DecidingStatements, Filter, Policy};
use crate::principals::{Kind, Named};

/// The policies that apply to a request.
#[derive(Clone, Copy, Default)]
pub struct Policies<'a> {
    /// Policies of the user or role, and of the groups of the user.
    pub identity: &'a [Arc<Policy>],
    pub boundary: Option<&'a Policy>,
    /// The policies of the session: one of them must allow as well. None allow anything if there are none.
    pub session: Option<&'a [Arc<Policy>]>,
    pub resource: Option<&'a Policy>,
}

/// A policy that applies to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A policy of the identity, by its place among these.
    Identity(usize),
    Boundary,
    /// A policy of the session, by its place among these.
    Session(usize),
    Resource,
}

/// The statement behind an access decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    pub source: Source,
    pub statement: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessDecision {
    /// `None`: the root user of an account needs no statement for what is its own.
    Allowed(Option<Reason>),
    ExplicitDeny(Reason),
    /// Nothing allows it: no policy of this kind does.
    ImplicitDeny(Missing),
    /// What was to be compared up to this statement took too much, so nobody knows what the policies say.
    TooCostly(Reason),
}

/// Which kind of policy would have to allow a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Identity,
    Boundary,
    Session,
    Resource,
}

impl AccessDecision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Whether nothing else can allow it: neither access control lists nor the website of a bucket.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::ExplicitDeny(_) | Self::TooCostly(_))
    }
}

/// What the root user of an account may do whatever the policy of its bucket says, so that nobody is locked out.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketPolicy.html>
fn is_kept(request: &Request<'_>, policies: &Policies<'_>) -> bool {
    let principal = request.principal;
    let is_owner =
        principal.kind == Kind::Root && policies.session.is_none() && principal.account == request.resource_account;
    is_owner && matches!(request.action, "s3:GetBucketPolicy" | "s3:PutBucketPolicy" | "s3:DeleteBucketPolicy")
}

impl DecidingStatements {
    /// What nothing changes any more.
    fn end(&self, reason: impl Fn(usize) -> Reason) -> Option<AccessDecision> {
        let is_cut = self.is_cut.map(|statement| AccessDecision::TooCostly(reason(statement)));
        is_cut.or_else(|| self.denies.map(|statement| AccessDecision::ExplicitDeny(reason(statement))))
    }
}

/// Where one of several policies applies.
type Placed = fn(usize) -> Source;

pub fn evaluate(request: &Request<'_>, policies: &Policies<'_>) -> AccessDecision {
    evaluate_within(request, policies, &Steps::new(STEPS_MAX))
}

/// One of several decisions, which take their steps of the same ones.
pub fn evaluate_within(request: &Request<'_>, policies: &Policies<'_>, shared: &Steps) -> AccessDecision {
    let own = shared.left().min(STEPS_MAX);
    let steps = Steps::new(own);
    let decision = decide(request, policies, &steps);
    shared.take((own - steps.left()) as usize);
    decision
}

fn decide(request: &Request<'_>, policies: &Policies<'_>, steps: &Steps) -> AccessDecision {
    let has_boundary = policies.boundary.is_some();
    let (filter, asked) = (Filter::of_request(request), Asked { context: request, steps });
    let judge = |policy: &Policy, is_allowed| policy.judge((request, &filter), &asked, has_boundary, is_allowed);

    // What denies is final, wherever it stands.
    let mut allowing = [None; 2];
    let several: [(Placed, &[Arc<Policy>]); 2] =
        [(Source::Identity, policies.identity), (Source::Session, policies.session.unwrap_or_default())];
    for (allowing, (source, policies)) in allowing.iter_mut().zip(several) {
        for (place, policy) in policies.iter().enumerate() {
            let found = judge(policy, allowing.is_some());
            let reason = |statement| Reason { source: source(place), statement };
            if let Some(decision) = found.end(reason) {
                return decision;
            }
            *allowing = allowing.or(found.allows.map(|(statement, _)| reason(statement)));
        }
    }
    let [identity, session] = allowing;
    let mut others = [DecidingStatements::default(); 2];
    let applied = [(Source::Boundary, policies.boundary), (Source::Resource, policies.resource)];
    for (found, (source, policy)) in others.iter_mut().zip(applied) {
        *found = policy.map(|policy| judge(policy, false)).unwrap_or_default();
        let decision = found.end(|statement| Reason { source, statement });
        if let Some(decision) = decision.filter(|_| source != Source::Resource || !is_kept(request, policies)) {
            return decision;
        }
    }
    let [boundary, resource] = others;
    let resource = resource.allows.map(|(statement, named)| (named, Reason { source: Source::Resource, statement }));

    let principal = request.principal;
    let is_root = principal.kind == Kind::Root;
    let is_own = !principal.account.is_empty() && principal.account == request.resource_account;
    let is_known = !matches!(principal.kind, Kind::Anonymous | Kind::Service | Kind::Federated);
    if !is_known {
        // Nobody's own policies allow it anything.
        return resource.map_or(AccessDecision::ImplicitDeny(Missing::Resource), |(_, reason)| {
            AccessDecision::Allowed(Some(reason))
        });
    }

    let alone = resource.filter(|(named, _)| match named {
        Named::Itself => true,
        Named::User => policies.session.is_none(),
        Named::Identity | Named::Account => false,
    });
    if let (true, Some((_, reason))) = (is_own, alone) {
        return AccessDecision::Allowed(Some(reason));
    }
    let granted = if is_own { resource.filter(|(named, _)| *named != Named::Account) } else { None };
    let allowed = identity.or(granted.map(|(_, reason)| reason));
    if allowed.is_none() && !is_root {
        return AccessDecision::ImplicitDeny(Missing::Identity);
    }
    if policies.boundary.is_some() && boundary.allows.is_none() {
        return AccessDecision::ImplicitDeny(Missing::Boundary);
    }
    if policies.session.is_some() && session.is_none() {
        return AccessDecision::ImplicitDeny(Missing::Session);
    }
    match (is_own, resource) {
        (true, _) => AccessDecision::Allowed(allowed),
        (false, Some((_, reason))) => AccessDecision::Allowed(allowed.or(Some(reason))),
        (false, None) => AccessDecision::ImplicitDeny(Missing::Resource),
    }
}
