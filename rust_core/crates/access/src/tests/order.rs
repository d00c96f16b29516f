//! In which order policies count, and what is told.

use super::*;
use std::slice;

use crate::evaluate::{Missing, Reason, Source};

const READ: &str = r#""Effect": "Allow", "Action": "s3:GetObject", "Resource": "*""#;
const REFUSE: &str = r#""Effect": "Deny", "Action": "s3:*", "Resource": "*""#;
const WRITE: &str = r#""Effect": "Allow", "Action": "s3:PutObject", "Resource": "*""#;

fn everybody(effect: &str) -> Arc<Policy> {
    bucket(&[&format!(
        r#""Effect": "{effect}", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"]"#
    )])
}

fn reason(source: Source, statement: usize) -> Option<Reason> {
    Some(Reason { source, statement })
}

#[test]
fn one_statement_that_denies_outweighs_all_that_allow() {
    let (read, refuse) = (identity(&[READ]), identity(&[READ, REFUSE]));
    let (all, none) = (everybody("Allow"), everybody("Deny"));
    let own = [Arc::clone(&read)];
    let all_allow =
        Policies { identity: &own, boundary: Some(&read), session: Some(slice::from_ref(&read)), resource: Some(&all) };
    assert_eq!(decided(&bob(), &all_allow), AccessDecision::Allowed(reason(Source::Resource, 0)));
    let denied = [Arc::clone(&read), Arc::clone(&refuse)];
    for (policies, source, statement) in [
        (Policies { identity: &denied, ..all_allow }, Source::Identity(1), 1),
        (Policies { boundary: Some(&refuse), ..all_allow }, Source::Boundary, 1),
        (Policies { session: Some(slice::from_ref(&refuse)), ..all_allow }, Source::Session(0), 1),
        (Policies { resource: Some(&none), ..all_allow }, Source::Resource, 0),
    ] {
        assert_eq!(decided(&bob(), &policies), AccessDecision::ExplicitDeny(Reason { source, statement }));
    }
}

#[test]
fn a_boundary_and_a_session_must_allow_too() {
    let (read, write) = (identity(&[READ]), identity(&[WRITE]));
    let own = [Arc::clone(&write), Arc::clone(&read)];
    let base = Policies { identity: &own, ..Policies::default() };
    assert_eq!(decided(&bob(), &base), AccessDecision::Allowed(reason(Source::Identity(1), 0)));
    for (policies, missing) in [
        (Policies { identity: &own[..1], ..base }, Missing::Identity),
        (Policies { boundary: Some(&write), ..base }, Missing::Boundary),
        (Policies { session: Some(slice::from_ref(&write)), ..base }, Missing::Session),
    ] {
        assert_eq!(decided(&bob(), &policies), AccessDecision::ImplicitDeny(missing));
    }
    let both = Policies { boundary: Some(&read), session: Some(slice::from_ref(&read)), ..base };
    assert!(decided(&bob(), &both).is_allowed());
}

#[test]
fn strangers_need_the_policy_of_the_resource_and_their_own() {
    let stranger = principal(Kind::User, OTHER_ACCOUNT, "arn:aws:iam::444455556666:user/eve");
    let (read, write) = (identity(&[READ]), identity(&[WRITE]));
    let (own, other) = ([Arc::clone(&read)], [Arc::clone(&write)]);
    for principals in [
        r#""*""#,
        r#"{"AWS": "444455556666"}"#,
        r#"{"AWS": "arn:aws:iam::444455556666:root"}"#,
        r#"{"AWS": "arn:aws:iam::444455556666:user/eve"}"#,
    ] {
        let grant = bucket(&[&format!(
            r#""Effect": "Allow", "Principal": {principals}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*""#
        )]);
        let all = Policies { identity: &own, resource: Some(&grant), ..Policies::default() };
        assert!(decided(&stranger, &all).is_allowed());
        for (policies, missing) in [
            (Policies { identity: &other, ..all }, Missing::Identity),
            (Policies { resource: None, ..all }, Missing::Resource),
            (Policies { boundary: Some(&write), ..all }, Missing::Boundary),
            (Policies { session: Some(slice::from_ref(&write)), ..all }, Missing::Session),
        ] {
            assert_eq!(decided(&stranger, &policies), AccessDecision::ImplicitDeny(missing));
        }
    }
}

#[test]
fn the_root_user_of_an_account_may_do_everything_to_what_is_its_own() {
    let root = principal(Kind::Root, ACCOUNT, "arn:aws:iam::111122223333:root");
    let stranger = principal(Kind::Root, OTHER_ACCOUNT, "arn:aws:iam::444455556666:root");
    assert_eq!(decided(&root, &Policies::default()), AccessDecision::Allowed(None));
    assert_eq!(decided(&stranger, &Policies::default()), AccessDecision::ImplicitDeny(Missing::Resource));
    let (all, none) = (everybody("Allow"), everybody("Deny"));
    assert!(decided(&stranger, &Policies { resource: Some(&all), ..Policies::default() }).is_allowed());
    assert!(!decided(&root, &Policies { resource: Some(&none), ..Policies::default() }).is_allowed());
    // It is never locked out of the policy itself.
    for (sender, expected) in [(&root, true), (&stranger, false), (&bob(), false)] {
        let request = Request {
            principal: sender,
            action: "s3:PutBucketPolicy",
            resource: b"arn:aws:s3:::b",
            resource_account: ACCOUNT,
            context: &(),
        };
        let policies = Policies { resource: Some(&none), ..Policies::default() };
        assert_eq!(evaluate(&request, &policies).is_allowed(), expected);
    }
}

#[test]
fn anonymous_requests_are_decided_by_the_policy_of_the_resource() {
    let anonymous = Principal::anonymous();
    assert_eq!(decided(&anonymous, &Policies::default()), AccessDecision::ImplicitDeny(Missing::Resource));
    for (principals, expected) in [
        (r#""*""#, true),
        (r#"{"AWS": "*"}"#, true),
        (r#"{"AWS": ["arn:aws:iam::111122223333:user/x", "*"]}"#, true),
        (r#"{"AWS": "111122223333"}"#, false),
        (r#"{"Service": "*"}"#, false),
    ] {
        let grant = bucket(&[&format!(
            r#""Effect": "Allow", "Principal": {principals}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*""#
        )]);
        let policies = Policies { resource: Some(&grant), ..Policies::default() };
        assert_eq!(decided(&anonymous, &policies).is_allowed(), expected, "{principals}");
    }
}

#[test]
fn a_canonical_id_names_an_account() {
    let grant = bucket(&[&format!(
        r#""Effect": "Allow", "Principal": {{"CanonicalUser": "{}"}}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*""#,
        "0a".repeat(32)
    )]);
    let mut stranger = principal(Kind::Root, OTHER_ACCOUNT, "arn:aws:iam::444455556666:root");
    let policies = Policies { resource: Some(&grant), ..Policies::default() };
    assert!(!decided(&stranger, &policies).is_allowed());
    stranger.canonical_id = "0a".repeat(32);
    assert!(decided(&stranger, &policies).is_allowed());
}

#[test]
fn a_thousand_statements_are_told_apart() {
    let statements: Vec<String> = (0..1000)
        .map(|n| {
            format!(
                r#""Sid": "s{n}", "Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket-{n}/*""#
            )
        })
        .collect();
    let own = [identity(&statements.iter().map(String::as_str).collect::<Vec<_>>())];
    let sender = bob();
    for n in 0..1000 {
        let resource = format!("arn:aws:s3:::bucket-{n}/k");
        let request = Request {
            principal: &sender,
            action: "s3:GetObject",
            resource: resource.as_bytes(),
            resource_account: ACCOUNT,
            context: &(),
        };
        let found = evaluate(&request, &Policies { identity: &own, ..Policies::default() });
        assert_eq!(found, AccessDecision::Allowed(reason(Source::Identity(0), n)));
    }
}
