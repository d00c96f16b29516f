//! What the tests share: policies from the members of their statements, and requests by one user.

mod conditions;
mod cost;
mod language;
mod matching;
mod order;
mod pitfalls;
mod random;

use std::sync::Arc;

use crate::context::{Context, Request};
use crate::error::PolicyKind;
use crate::evaluate::{AccessDecision, Policies, evaluate};
use crate::policy::Policy;
use crate::principals::{Kind, Principal};

pub const ACCOUNT: &str = "111122223333";
pub const OTHER_ACCOUNT: &str = "444455556666";
pub const READER: &str = "arn:aws:iam::111122223333:role/reader";
pub const KEY: &str = "arn:aws:s3:::b/k";

/// Keys in lower case, each with its values.
pub struct Keys<'a>(pub &'a [(&'a str, &'a [&'a str])]);

impl Context for Keys<'_> {
    fn visit(&self, key: &str, each: &mut dyn FnMut(&str)) {
        self.0.iter().filter(|(known, _)| *known == key).flat_map(|(_, values)| *values).for_each(|value| each(value));
    }
}

pub fn document(statements: &[&str]) -> String {
    format!(r#"{{"Version": "2012-10-17", "Statement": [{{{}}}]}}"#, statements.join("}, {"))
}

/// From what stands between the braces of each statement.
pub fn policy(kind: PolicyKind, statements: &[&str]) -> Arc<Policy> {
    Arc::new(Policy::parse(&document(statements), kind, None).unwrap())
}

pub fn identity(statements: &[&str]) -> Arc<Policy> {
    policy(PolicyKind::Identity, statements)
}

pub fn bucket(statements: &[&str]) -> Arc<Policy> {
    policy(PolicyKind::Resource, statements)
}

pub fn principal(kind: Kind, account: &str, arn: &str) -> Principal {
    let tags = vec![("Team".into(), "red".into())];
    Principal { unique_id: "AIDA1".into(), tags, ..Principal::new(kind, account.into(), arn.into(), "bob".into()) }
}

pub fn bob() -> Principal {
    principal(Kind::User, ACCOUNT, "arn:aws:iam::111122223333:user/eng/bob")
}

pub fn session() -> Principal {
    let arn = "arn:aws:sts::111122223333:assumed-role/reader/s1".into();
    Principal { arn, ..principal(Kind::Role, ACCOUNT, READER) }
}

/// An access decision about an object of the account `ACCOUNT`.
pub fn decided(principal: &Principal, policies: &Policies<'_>) -> AccessDecision {
    let context = &();
    let request =
        Request { principal, action: "s3:GetObject", resource: KEY.as_bytes(), resource_account: ACCOUNT, context };
    evaluate(&request, policies)
}

/// Whether a policy of an identity allows bob something.
pub fn allows_with(policy: &Arc<Policy>, action: &str, resource: &str, context: &dyn Context) -> bool {
    let (principal, identity) = (bob(), [Arc::clone(policy)]);
    let request =
        Request { principal: &principal, action, resource: resource.as_bytes(), resource_account: ACCOUNT, context };
    evaluate(&request, &Policies { identity: &identity, ..Policies::default() }).is_allowed()
}

pub fn allows(policy: &Arc<Policy>, action: &str, resource: &str) -> bool {
    allows_with(policy, action, resource, &())
}

/// Whether a condition, as JSON, holds for bob and these keys.
pub fn holds(condition: &str, keys: &[(&str, &[&str])]) -> bool {
    let statement =
        format!(r#""Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", "Condition": {condition}"#);
    allows_with(&identity(&[&statement]), "s3:GetObject", KEY, &Keys(keys))
}
