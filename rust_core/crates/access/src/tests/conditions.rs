//! Every operator, with every form of it.

use super::*;

/// Whether `operator` holds for a key with these values and a policy with those.
fn tested(operator: &str, of_policy: &[&str], of_request: &[&str]) -> bool {
    let list = of_policy.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
    holds(&format!(r#"{{"{operator}": {{"test:Key": [{list}]}}}}"#), &[("test:key", of_request)])
}

/// Operator, values of the policy, value of the request, and whether the operator holds.
type Case<'a> = (&'a str, &'a [&'a str], &'a str, bool);

#[test]
fn operators_compare_one_value_with_each_of_the_policy() {
    let cases: &[Case<'_>] = &[
        ("StringEquals", &["a", "b"], "b", true),
        ("StringEquals", &["a", "b"], "B", false),
        ("StringEquals", &["a*"], "ab", false),
        ("StringNotEquals", &["a", "b"], "c", true),
        ("StringNotEquals", &["a", "b"], "a", false),
        ("StringEqualsIgnoreCase", &["Ab"], "aB", true),
        ("StringNotEqualsIgnoreCase", &["Ab"], "aB", false),
        ("StringEqualsIgnoreCase", &["ÉTÉ"], "été", true),
        ("StringLike", &["a*c", "x?"], "abbc", true),
        ("StringLike", &["a*c", "x?"], "x", false),
        ("StringLike", &[""], "", true),
        ("StringNotLike", &["a*"], "ba", true),
        ("StringNotLike", &["a*"], "ab", false),
        ("StringEquals", &["${aws:username}"], "bob", true),
        ("StringLike", &["home/${aws:username}/*"], "home/bob/x", true),
        ("NumericEquals", &["10"], "10.0", true),
        ("NumericNotEquals", &["10"], "11", true),
        ("NumericLessThan", &["10"], "9", true),
        ("NumericLessThan", &["10"], "10", false),
        ("NumericLessThanEquals", &["10"], "10", true),
        ("NumericGreaterThan", &["10"], "9.5", false),
        ("NumericGreaterThanEquals", &["10"], "10", true),
        ("DateEquals", &["2024-02-29T00:00:00Z"], "2024-02-29", true),
        ("DateEquals", &["1709164800"], "2024-02-29T01:00:00+01:00", true),
        ("DateNotEquals", &["2024"], "2024-01-01T00:00:00.001Z", true),
        ("DateLessThan", &["2024-01-01T00:00:00Z"], "2023-12-31T23:59:59Z", true),
        ("DateLessThanEquals", &["2024-01"], "2024-01-01", true),
        ("DateGreaterThan", &["2024-01-01T00:00:00Z"], "2024-01-01T00:00:00Z", false),
        ("DateGreaterThanEquals", &["2024-01-01T00:00Z"], "2024-01-01T00:00:00Z", true),
        ("Bool", &["true"], "TRUE", true),
        ("Bool", &["true"], "false", false),
        ("BinaryEquals", &["QmluYXJ5VmFsdWVJbkJhc2U2NA=="], "QmluYXJ5VmFsdWVJbkJhc2U2NA==", true),
        ("BinaryEquals", &["QQ=="], "qQ==", false),
        ("IpAddress", &["203.0.113.0/24"], "203.0.113.9", true),
        ("IpAddress", &["203.0.113.77/24"], "203.0.113.9", true),
        ("IpAddress", &["203.0.113.0/24"], "203.0.114.9", false),
        ("IpAddress", &["203.0.113.9"], "203.0.113.9", true),
        ("IpAddress", &["0.0.0.0/0"], "203.0.113.9", true),
        ("IpAddress", &["0.0.0.0/0"], "::1", false),
        ("IpAddress", &["203.0.113.0/24"], "::ffff:203.0.113.9", true),
        ("IpAddress", &["2001:db8::/32"], "2001:db8:1::1", true),
        ("NotIpAddress", &["203.0.113.0/24", "10.0.0.0/8"], "10.1.1.1", false),
        ("NotIpAddress", &["203.0.113.0/24"], "10.1.1.1", true),
        ("ArnEquals", &["arn:aws:iam::*:user/*"], "arn:aws:iam::1:user/a/b", true),
        ("ArnLike", &["arn:aws:*:*:*:user/a"], "arn:aws:iam::1:x:user/a", false),
        ("ArnLike", &["arn:aws:iam::1:user/${aws:username}"], "arn:aws:iam::1:user/bob", true),
        ("ArnNotLike", &["arn:aws:iam::1:*"], "arn:aws:iam::2:user/a", true),
        ("ArnNotEquals", &["arn:aws:iam::1:*"], "arn:aws:iam::1:user/a", false),
    ];
    let mut wrong: Vec<String> = Vec::new();
    for (operator, of_policy, value, expected) in cases {
        for (form, expected) in [("", *expected), ("IfExists", *expected)] {
            let operator = format!("{operator}{form}");
            if tested(&operator, of_policy, &[value]) != expected {
                wrong.push(format!("{operator} {of_policy:?} {value}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_variable_is_compared_without_case_where_its_operator_says_so() {
    let same = r#"{"StringEqualsIgnoreCase": {"a:x": "${a:y}"}}"#;
    for (x, y) in [("Ab", "aB"), ("É", "É"), ("ÉTÉ", "été")] {
        assert!(holds(same, &[("a:x", &[x]), ("a:y", &[y])]), "{x} {y}");
    }
}

#[test]
fn a_value_of_another_type_is_neither_equal_nor_different() {
    for (operator, of_policy) in [
        ("NumericEquals", "1"),
        ("NumericNotEquals", "1"),
        ("DateLessThan", "2024"),
        ("DateNotEquals", "2024"),
        ("Bool", "true"),
        ("IpAddress", "10.0.0.0/8"),
        ("NotIpAddress", "10.0.0.0/8"),
        ("ArnLike", "arn:aws:iam::1:user/a"),
        ("ArnNotLike", "arn:aws:iam::1:user/a"),
    ] {
        assert!(!tested(operator, &[of_policy], &["?"]), "{operator}");
    }
}

#[test]
fn values_may_be_numbers_and_booleans() {
    assert!(holds(r#"{"Bool": {"aws:SecureTransport": true}}"#, &[("aws:securetransport", &["true"])]));
    assert!(holds(r#"{"NumericLessThan": {"s3:max-keys": 10}}"#, &[("s3:max-keys", &["9"])]));
    assert!(holds(r#"{"Null": {"s3:max-keys": false}}"#, &[("s3:max-keys", &["9"])]));
}

#[test]
fn all_keys_and_all_operators_must_hold() {
    let both = r#"{"StringEquals": {"a:b": "1", "a:c": "2"}, "StringLike": {"a:b": "?"}}"#;
    assert!(holds(both, &[("a:b", &["1"]), ("a:c", &["2"])]));
    assert!(!holds(both, &[("a:b", &["1"])]));
    assert!(!holds(both, &[("a:b", &["1"]), ("a:c", &["3"])]));
    assert!(holds("{}", &[]) && holds(r#"{"StringEquals": {}}"#, &[]));
}

#[test]
fn keys_are_compared_without_case() {
    assert!(holds(r#"{"StringEquals": {"AWS:userNAME": "bob", "aws:principaltag/TEAM": "red"}}"#, &[]));
}

#[test]
fn what_is_asked_of_the_principal_is_never_answered_by_the_context() {
    let forged: &[(&str, &[&str])] = &[
        ("aws:username", &["root"]),
        ("aws:principalarn", &["arn:aws:iam::1:root"]),
        ("aws:principaltag/team", &["blue"]),
        ("aws:principaltag/other", &["blue"]),
        ("aws:resourceaccount", &["1"]),
        ("aws:userid", &["1"]),
    ];
    for (key, value) in [
        ("aws:username", "bob"),
        ("aws:PrincipalArn", "arn:aws:iam::111122223333:user/eng/bob"),
        ("aws:PrincipalTag/Team", "red"),
        ("aws:PrincipalType", "User"),
        ("aws:PrincipalAccount", ACCOUNT),
        ("aws:ResourceAccount", ACCOUNT),
        ("s3:ResourceAccount", ACCOUNT),
        ("aws:userid", "AIDA1"),
    ] {
        assert!(holds(&format!(r#"{{"StringEquals": {{"{key}": "{value}"}}}}"#), forged), "{key}");
    }
    assert!(holds(r#"{"Null": {"aws:PrincipalTag/other": "true"}}"#, forged));
}
