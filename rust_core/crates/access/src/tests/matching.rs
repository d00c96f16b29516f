//! What actions, resources and variables match.

use super::*;

fn on(action: &str, resource: &str) -> Arc<Policy> {
    identity(&[&format!(r#""Effect": "Allow", "Action": "{action}", "Resource": "{resource}""#)])
}

#[test]
fn actions_are_compared_without_case_and_with_wildcards() {
    for (pattern, action, expected) in [
        ("s3:GetObject", "s3:GetObject", true),
        ("S3:getobject", "s3:GetObject", true),
        ("s3:GetObject", "s3:getobject", true),
        ("s3:GetObject", "s3:GetObjectVersion", false),
        ("s3:Get*", "s3:GetObjectVersion", true),
        ("s3:?etObject", "s3:GetObject", true),
        ("s3:*Object", "s3:GetObject", true),
        ("s3:*", "s3:PutObject", true),
        ("*", "s3:PutObject", true),
        ("*", "iam:CreateUser", true),
        ("iam:*", "s3:PutObject", false),
        ("iam:Create*", "iam:CreateUser", true),
        ("iam:Create*", "iam:DeleteUser", false),
        ("s3:GetObject", "iam:GetObject", false),
    ] {
        assert_eq!(allows(&on(pattern, "*"), action, KEY), expected, "{pattern} {action}");
    }
}

#[test]
fn not_action_means_every_other_action() {
    let all_but_reads = identity(&[r#""Effect": "Allow", "NotAction": ["s3:Get*", "iam:*"], "Resource": "*""#]);
    for (action, expected) in
        [("s3:PutObject", true), ("s3:GetObject", false), ("iam:CreateUser", false), ("sts:AssumeRole", true)]
    {
        assert_eq!(allows(&all_but_reads, action, KEY), expected, "{action}");
    }
}

#[test]
fn resources_match_as_arns() {
    for (pattern, resource, expected) in [
        ("*", KEY, true),
        ("arn:aws:s3:::b/k", KEY, true),
        ("arn:aws:s3:::b/K", KEY, false),
        ("arn:aws:s3:::b/*", KEY, true),
        ("arn:aws:s3:::b/*", "arn:aws:s3:::b", false),
        ("arn:aws:s3:::b*", "arn:aws:s3:::b", true),
        ("arn:aws:s3:::b*", KEY, true),
        ("arn:aws:s3:::*", KEY, true),
        ("arn:aws:s3:::*/k", "arn:aws:s3:::b/x:y/k", true),
        ("arn:aws:s3:::?/k", KEY, true),
        ("arn:aws:s3:::b/??", KEY, false),
        ("arn:aws:s3:::b/?", "arn:aws:s3:::b/é", true),
        ("arn:aws:s3:::b/*a*b*c", "arn:aws:s3:::b/xaxbxbxc", true),
        ("arn:aws:s3:::b/*a*b*c", "arn:aws:s3:::b/xaxbxbx", false),
        ("arn:aws:s3:::bb/*", KEY, false),
        ("arn:*:s3:::b/k", KEY, true),
        ("arn:aws:s3:*", KEY, true),
        ("arn:aws:iam:*", KEY, false),
        // A wildcard in one part ends at the colon.
        ("arn:aws:*:b/k", KEY, false),
        ("arn:aws:s3:*:*:b/k", KEY, true),
        ("arn:aws:iam::111122223333:role/*", "arn:aws:iam::111122223333:role/a/b", true),
    ] {
        let parsed = Policy::parse(
            &document(&[&format!(r#""Effect": "Allow", "Action": "s3:*", "Resource": "{pattern}""#)]),
            PolicyKind::Identity,
            None,
        );
        let allowed = parsed.is_ok_and(|policy| allows(&Arc::new(policy), "s3:GetObject", resource));
        assert_eq!(allowed, expected, "{pattern} {resource}");
    }
}

#[test]
fn not_resource_means_every_other_resource() {
    let policy =
        identity(&[r#""Effect": "Allow", "Action": "*", "NotResource": ["arn:aws:s3:::b/*", "arn:aws:s3:::c"]"#]);
    for (resource, expected) in
        [(KEY, false), ("arn:aws:s3:::b", true), ("arn:aws:s3:::c", false), ("arn:aws:s3:::c/k", true)]
    {
        assert_eq!(allows(&policy, "s3:GetObject", resource), expected, "{resource}");
    }
}

#[test]
fn keys_of_objects_need_not_be_text() {
    let (principal, identity) = (bob(), [on("s3:*", "arn:aws:s3:::b/a?c")]);
    let policies = Policies { identity: &identity, ..Policies::default() };
    for (resource, expected) in [(&b"arn:aws:s3:::b/a\xffc"[..], true), (b"arn:aws:s3:::b/a\xff\xffc", false)] {
        let request = Request {
            principal: &principal,
            action: "s3:GetObject",
            resource,
            resource_account: ACCOUNT,
            context: &(),
        };
        assert_eq!(evaluate(&request, &policies).is_allowed(), expected);
    }
}

#[test]
fn variables_stand_for_values_of_the_request() {
    let keys: &[(&str, &[&str])] =
        &[("s3:prefix", &["home"]), ("aws:calledvia", &["a", "b"]), ("s3:x-amz-acl", &["*"])];
    for (pattern, resource, expected) in [
        ("arn:aws:s3:::b/${aws:username}/*", "arn:aws:s3:::b/bob/x", true),
        ("arn:aws:s3:::b/${aws:username}/*", "arn:aws:s3:::b/eve/x", false),
        ("arn:aws:s3:::b/${AWS:UserName}/*", "arn:aws:s3:::b/bob/x", true),
        ("arn:aws:s3:::b/*/${aws:username}", "arn:aws:s3:::b/bobob/bob", true),
        ("arn:aws:s3:::b/${aws:PrincipalTag/team}", "arn:aws:s3:::b/red", true),
        ("arn:aws:s3:::b/${aws:PrincipalTag/none}", "arn:aws:s3:::b/", false),
        ("arn:aws:s3:::b/${aws:PrincipalTag/none, 'all'}", "arn:aws:s3:::b/all", true),
        ("arn:aws:s3:::b/${aws:PrincipalTag/team, 'all'}", "arn:aws:s3:::b/all", false),
        ("arn:aws:s3:::b/${s3:prefix}", "arn:aws:s3:::b/home", true),
        // Of several values none is meant.
        ("arn:aws:s3:::b/${aws:CalledVia}", "arn:aws:s3:::b/a", false),
        ("arn:aws:s3:::b/${*}", "arn:aws:s3:::b/*", true),
        ("arn:aws:s3:::b/${*}", "arn:aws:s3:::b/x", false),
        ("arn:aws:s3:::b/${?}${$}", "arn:aws:s3:::b/?$", true),
        ("arn:aws:s3:::b/$x", "arn:aws:s3:::b/$x", true),
        // What a client sends is never a wildcard.
        ("arn:aws:s3:::b/${s3:x-amz-acl}", "arn:aws:s3:::b/x", false),
        ("arn:aws:s3:::b/${s3:x-amz-acl}", "arn:aws:s3:::b/*", true),
    ] {
        assert_eq!(
            allows_with(&on("*", pattern), "s3:GetObject", resource, &Keys(keys)),
            expected,
            "{pattern} {resource}"
        );
    }
}

#[test]
fn the_older_version_has_no_variables() {
    let statement = r#"{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::b/${aws:username}"}"#;
    for version in ["", r#""Version": "2008-10-17", "#] {
        let text = format!(r#"{{{version}"Statement": {statement}}}"#);
        let policy = Arc::new(Policy::parse(&text, PolicyKind::Identity, None).unwrap());
        assert!(allows(&policy, "s3:GetObject", "arn:aws:s3:::b/${aws:username}"));
        assert!(!allows(&policy, "s3:GetObject", "arn:aws:s3:::b/bob"));
    }
}

#[test]
fn a_pattern_with_many_wildcards_takes_no_longer_than_the_product() {
    let pattern = format!("arn:aws:s3:::b/{}x", "*a".repeat(500));
    assert!(!allows(&on("*", &pattern), "s3:GetObject", &format!("arn:aws:s3:::b/{}", "a".repeat(1000))));
}
