//! What implementers of policies get wrong, one by one.

use super::*;
use std::slice;

const ABSENT: &[(&str, &[&str])] = &[];

fn key(operator: &str, value: &str, keys: &[(&str, &[&str])]) -> bool {
    holds(&format!(r#"{{"{operator}": {{"a:k": {value}}}}}"#), keys)
}

/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html>
#[test]
fn without_the_key_operators_are_false_and_negated_ones_true() {
    for (operator, value) in [
        ("StringEquals", "a"),
        ("StringLike", "*"),
        ("NumericLessThan", "1"),
        ("DateLessThan", "2024"),
        ("Bool", "false"),
        ("BinaryEquals", "QQ=="),
        ("IpAddress", "0.0.0.0/0"),
        ("ArnLike", "arn:aws:s3:::*"),
    ] {
        assert!(!key(operator, &format!("{value:?}"), ABSENT), "{operator}");
    }
    for (operator, value) in [
        ("StringNotEquals", "a"),
        ("StringNotEqualsIgnoreCase", "a"),
        ("StringNotLike", "*"),
        ("NumericNotEquals", "1"),
        ("DateNotEquals", "2024"),
        ("NotIpAddress", "0.0.0.0/0"),
        ("ArnNotEquals", "arn:aws:s3:::*"),
        ("ArnNotLike", "arn:aws:s3:::*"),
    ] {
        assert!(key(operator, &format!("{value:?}"), ABSENT), "{operator}");
    }
}

#[test]
fn only_if_exists_and_null_ask_whether_there_is_a_key() {
    assert!(key("StringEqualsIfExists", r#""a""#, ABSENT) && key("BoolIfExists", r#""true""#, ABSENT));
    assert!(key("StringNotEqualsIfExists", r#""a""#, ABSENT));
    assert!(!key("StringEqualsIfExists", r#""a""#, &[("a:k", &["b"])]));
    assert!(key("ForAnyValue:StringEqualsIfExists", r#""a""#, ABSENT));
    assert!(key("Null", r#""true""#, ABSENT) && !key("Null", r#""false""#, ABSENT));
    assert!(!key("Null", r#""true""#, &[("a:k", &["b"])]) && key("Null", r#""false""#, &[("a:k", &["b"])]));
    // A value that is empty is none for Null.
    assert!(key("Null", r#""true""#, &[("a:k", &[""])]));
}

#[test]
fn if_exists_cannot_follow_null_and_unknown_operators_are_refused() {
    for operator in [
        "NullIfExists",
        "ForAnyValue:Null",
        "ForAllValues:Null",
        "stringequals",
        "StringMatches",
        "ForSome:Bool",
        "IfExists",
    ] {
        let statement = format!(
            r#""Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {{"{operator}": {{"a:k": "true"}}}}"#
        );
        assert!(Policy::parse(&document(&[&statement]), PolicyKind::Identity, None).is_err(), "{operator}");
    }
}

/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html>
#[test]
fn for_all_values_is_true_without_the_key_and_for_any_value_false() {
    for operator in ["StringEquals", "StringNotEquals", "StringLike", "StringNotLike"] {
        for keys in [ABSENT, &[("a:k", &[][..])], &[("a:k", &[""][..])]] {
            assert!(key(&format!("ForAllValues:{operator}"), r#""a""#, keys), "{operator}");
            assert!(!key(&format!("ForAnyValue:{operator}"), r#""a""#, keys), "{operator}");
        }
    }
}

#[test]
fn negation_is_per_value_and_the_quantifier_follows() {
    let keys: &[(&str, &[&str])] = &[("a:k", &["a", "b"])];
    // Is there a value that is not a?
    assert!(key("ForAnyValue:StringNotEquals", r#""a""#, keys));
    assert!(!key("ForAnyValue:StringNotEquals", r#"["a", "b"]"#, keys));
    // Is no value a?
    assert!(!key("ForAllValues:StringNotEquals", r#""a""#, keys));
    assert!(key("ForAllValues:StringNotEquals", r#""c""#, keys));
    assert!(key("ForAnyValue:StringEquals", r#""a""#, keys) && !key("ForAllValues:StringEquals", r#""a""#, keys));
    assert!(key("ForAllValues:StringEquals", r#"["a", "b", "c"]"#, keys));
}

const GRANT: &str = r#""Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*""#;

fn grant_to(principal: &str) -> Arc<Policy> {
    bucket(&[&format!(r#"{GRANT}, "Principal": {principal}"#)])
}

#[test]
fn in_one_account_a_policy_of_the_identity_or_of_the_resource_suffices() {
    let (own, bob_named) = ([identity(&[GRANT])], grant_to(r#"{"AWS": "arn:aws:iam::111122223333:user/eng/bob"}"#));
    assert!(decided(&bob(), &Policies { identity: &own, ..Policies::default() }).is_allowed());
    assert!(decided(&bob(), &Policies { resource: Some(&bob_named), ..Policies::default() }).is_allowed());
}

/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-denyallow.html>
#[test]
fn what_a_resource_allows_can_win_over_boundary_and_session_by_kind_of_principal() {
    let nothing = identity(&[r#""Effect": "Allow", "Action": "s3:PutObject", "Resource": "*""#]);
    let (user, role, itself, all, account) = (
        r#"{"AWS": "arn:aws:iam::111122223333:user/eng/bob"}"#,
        r#"{"AWS": "arn:aws:iam::111122223333:role/reader"}"#,
        r#"{"AWS": "arn:aws:sts::111122223333:assumed-role/reader/s1"}"#,
        r#""*""#,
        r#"{"AWS": "111122223333"}"#,
    );
    for (sender, named, boundary, session_policy, expected) in [
        (bob(), user, false, false, true),
        (bob(), user, true, false, true),
        // As a federated user, whose user is named.
        (bob(), user, false, true, false),
        (bob(), all, true, true, true),
        (bob(), account, false, false, false),
        (session(), role, false, false, true),
        (session(), role, true, false, false),
        (session(), role, false, true, false),
        (session(), itself, true, true, true),
        (session(), all, true, true, true),
        (session(), account, false, false, false),
        (session(), user, false, false, false),
    ] {
        let resource = grant_to(named);
        let policies = Policies {
            boundary: boundary.then_some(&*nothing),
            session: session_policy.then_some(slice::from_ref(&nothing)),
            resource: Some(&resource),
            ..Policies::default()
        };
        assert_eq!(decided(&sender, &policies).is_allowed(), expected, "{named} {boundary} {session_policy}");
    }
}

/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_notprincipal.html>
#[test]
fn not_principal_excepts_who_is_named_with_the_account_and_nobody_who_has_a_boundary() {
    let everything = identity(&[r#""Effect": "Allow", "Action": "*", "Resource": "*""#]);
    let own = [Arc::clone(&everything)];
    let (root, user) = ("arn:aws:iam::111122223333:root", "arn:aws:iam::111122223333:user/eng/bob");
    for (listed, boundary, expected) in [
        (vec![root, user], false, true),
        (vec![root, user], true, false),
        (vec![user], false, false),
        (vec![root], false, false),
        (vec!["arn:aws:iam::111122223333:user/eve"], false, false),
    ] {
        let deny = bucket(&[&format!(
            r#""Effect": "Deny", "NotPrincipal": {{"AWS": {listed:?}}}, "Action": "s3:*", "Resource": "arn:aws:s3:::b/*""#
        )]);
        let policies = Policies {
            identity: &own,
            boundary: boundary.then_some(&*everything),
            resource: Some(&deny),
            ..Policies::default()
        };
        assert_eq!(decided(&bob(), &policies).is_allowed(), expected, "{listed:?} {boundary}");
    }
}

#[test]
fn session_policies_intersect_and_never_grant() {
    let session_policy = policy(PolicyKind::Session, &[GRANT]);
    let limited = Policies { session: Some(slice::from_ref(&session_policy)), ..Policies::default() };
    assert!(!decided(&session(), &limited).is_allowed());
    let own = [identity(&[GRANT, r#""Effect": "Allow", "Action": "s3:PutObject", "Resource": "*""#])];
    assert!(decided(&session(), &Policies { identity: &own, ..limited }).is_allowed());
}

#[test]
fn a_policy_that_only_denies_allows_nothing() {
    let own = [identity(&[r#""Effect": "Deny", "Action": "s3:PutObject", "Resource": "*""#])];
    assert!(!decided(&bob(), &Policies { identity: &own, ..Policies::default() }).is_allowed());
    let resource = bucket(&[
        r#""Effect": "Deny", "Principal": {"AWS": "444455556666"}, "Action": "s3:*", "Resource": "arn:aws:s3:::b/*""#,
    ]);
    for sender in [bob(), Principal::anonymous()] {
        assert!(!decided(&sender, &Policies { resource: Some(&resource), ..Policies::default() }).is_allowed());
    }
}

#[test]
fn nobody_is_a_member_of_no_account() {
    // A principal without an account is not in the account of a resource without one.
    let own = [identity(&[GRANT])];
    let nobody = principal(Kind::User, "", "");
    let request = Request {
        principal: &nobody,
        action: "s3:GetObject",
        resource: KEY.as_bytes(),
        resource_account: "",
        context: &(),
    };
    assert!(!evaluate(&request, &Policies { identity: &own, ..Policies::default() }).is_allowed());
}

#[test]
fn a_path_is_nobody() {
    // Paths and names of users are theirs to choose, and ARNs are compared only as a whole.
    let on_role =
        format!(r#""Effect": "Allow", "Principal": {{"AWS": "{READER}"}}, "Action": "s3:*", "Resource": "*""#);
    let denies = r#""Effect": "Deny", "Action": "s3:*", "Resource": "*", "Condition": {"StringEquals": {"aws:username": "eve"}}"#;
    let (granting, identity) = (bucket(&[&on_role]), [identity(&[denies])]);
    for path in
        ["/:assumed-role/reader/", "/dev/:assumed-role/reader/s1/", "/arn:aws:sts::111122223333:assumed-role/reader/"]
    {
        for kind in [Kind::User, Kind::Role] {
            let arn =
                format!("arn:aws:iam::111122223333:{}{path}eve", if kind == Kind::User { "user" } else { "role" });
            let eve = Principal::new(kind, ACCOUNT.into(), arn, "eve".into());
            let decision = decided(&eve, &Policies { resource: Some(&granting), ..Policies::default() });
            assert!(!decision.is_allowed(), "{path}");
        }
        let arn = format!("arn:aws:iam::111122223333:user{path}eve");
        let eve = Principal::new(Kind::User, ACCOUNT.into(), arn, "eve".into());
        let decision = decided(&eve, &Policies { identity: &identity, ..Policies::default() });
        assert!(matches!(decision, AccessDecision::ExplicitDeny(_)), "{path}");
    }
    let session = decided(&session(), &Policies { resource: Some(&granting), ..Policies::default() });
    assert!(session.is_allowed());
}
