//! Policies: a byte that says of which kind, then the text. What is read can be decided by, whatever its conditions ask for,
//! and a policy that counts twice decides as one that counts once.
#![cfg_attr(fuzzing, no_main)]

use std::sync::Arc;

use orcas_access::{
    AccessDecision, Context, Kind, Policies, Policy, PolicyKind, Principal, Request, evaluate, warnings,
};
use orcas_fuzz::{Input, bounded, fuzz_target};

const KINDS: [PolicyKind; 5] =
    [PolicyKind::Identity, PolicyKind::Boundary, PolicyKind::Session, PolicyKind::Resource, PolicyKind::Trust];
const ACCOUNT: &str = "111122223333";
const REQUESTS: [(&str, &[u8]); 4] = [
    ("s3:GetObject", b"arn:aws:s3:::photos/2026/a b.jpg"),
    ("s3:ListBucket", b"arn:aws:s3:::photos"),
    ("iam:CreateUser", b"arn:aws:iam::111122223333:user/bob"),
    ("sts:AssumeRole", b"arn:aws:iam::111122223333:role/reader"),
];
/// What every key of a condition has, in turn: nothing, one value, several.
const VALUES: [&[&str]; 4] = [&[], &["a"], &["10", "192.0.2.1", "2026-11-28T00:00:00Z"], &["", "*", "true"]];
/// Allocated bytes for each byte of a text: the shortest elements become vectors of patterns.
const GROWTH_MAX: usize = 512;
const ANY_MAX: usize = 1024 * 1024;

struct Same(&'static [&'static str]);

impl Context for Same {
    fn visit(&self, _key: &str, each: &mut dyn FnMut(&str)) {
        self.0.iter().for_each(|value| each(value));
    }
}

fn principals() -> [Principal; 3] {
    let arn = |rest: &str| format!("arn:aws:{rest}");
    let made = |kind, arn| Principal::new(kind, ACCOUNT.to_owned(), arn, "alice".to_owned());
    let reader = made(Kind::Role, arn("iam::111122223333:role/reader"));
    [
        Principal::anonymous(),
        made(Kind::User, arn("iam::111122223333:user/alice")),
        Principal { arn: arn("sts::111122223333:assumed-role/reader/s"), ..reader },
    ]
}

/// What a policy of this kind makes of a request, counted once or twice where it can count twice.
fn decided(policy: &Arc<Policy>, kind: PolicyKind, times: usize, request: &Request<'_>) -> AccessDecision {
    let several = vec![Arc::clone(policy); times];
    let (identity, session) = match kind {
        PolicyKind::Identity => (&several[..], None),
        PolicyKind::Session => (&several[..], Some(&several[..])),
        PolicyKind::Boundary | PolicyKind::Resource | PolicyKind::Trust => (&[][..], None),
    };
    let boundary = (kind == PolicyKind::Boundary).then_some(&**policy);
    let resource = matches!(kind, PolicyKind::Resource | PolicyKind::Trust).then_some(&**policy);
    evaluate(request, &Policies { identity, boundary, session, resource })
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let kind = KINDS[usize::from(input.u8()) % KINDS.len()];
    let Ok(text) = std::str::from_utf8(input.rest()) else { return };
    let bucket = (kind == PolicyKind::Resource).then_some("photos");
    let Ok(policy) = bounded(GROWTH_MAX * text.len() + ANY_MAX, || Policy::parse(text, kind, bucket)) else { return };
    assert!(!policy.is_empty(), "a policy without statements is refused");
    assert!(policy.keys().all(|key| !key.is_empty()), "a condition without a key is refused");
    drop(warnings(&policy));
    let policy = Arc::new(policy);
    for principal in &principals() {
        for (action, resource) in REQUESTS {
            for values in VALUES {
                let context = Same(values);
                let request = Request { principal, action, resource, resource_account: ACCOUNT, context: &context };
                let once = decided(&policy, kind, 1, &request);
                let twice = decided(&policy, kind, 2, &request);
                if matches!(twice, AccessDecision::TooCostly(_)) {
                    continue;
                }
                assert_eq!(
                    (matches!(once, AccessDecision::Allowed(_)), matches!(once, AccessDecision::ExplicitDeny(_))),
                    (matches!(twice, AccessDecision::Allowed(_)), matches!(twice, AccessDecision::ExplicitDeny(_))),
                );
                if matches!(kind, PolicyKind::Boundary) {
                    assert!(!matches!(once, AccessDecision::Allowed(_)), "a boundary allows nothing by itself");
                }
            }
        }
    }
});
