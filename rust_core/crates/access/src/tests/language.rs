//! Which policies are refused, and in which words.

use super::*;
use crate::{simulate, warnings};

fn refused(kind: PolicyKind, text: &str) -> String {
    let bucket = (kind == PolicyKind::Resource).then_some("b");
    match Policy::parse(text, kind, bucket) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn policies_of_identities_are_refused_in_the_words_of_iam() {
    let allow = r#""Effect": "Allow""#;
    for (statement, expected) in [
        (format!(r#"{allow}, "Action": "s3:*", "Resource": "*""#), ""),
        (format!(r#"{allow}, "Action": ["s3:*"], "Resource": ["*"], "Sid": "a1""#), ""),
        (format!(r#"{allow}, "Resource": "*""#), "Policy statement must contain actions."),
        (format!(r#"{allow}, "Action": [], "Resource": "*""#), "Policy statement must contain actions."),
        (format!(r#"{allow}, "Action": "s3:*""#), "Policy statement must contain resources."),
        (format!(r#"{allow}, "Action": "s3:*", "Resource": []"#), "Policy statement must contain resources."),
        (
            format!(r#"{allow}, "Action": "GetObject", "Resource": "*""#),
            "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.",
        ),
        (format!(r#"{allow}, "Action": "s*:GetObject", "Resource": "*""#), "Vendor s* is not valid"),
        (format!(r#"{allow}, "Action": "s3:*", "Resource": "b""#), r#"Resource b must be in ARN format or "*"."#),
        (format!(r#"{allow}, "Action": "s3:*", "Resource": "arn:aws:s3::b""#), "The policy failed legacy parsing"),
        (
            format!(r#"{allow}, "Action": "s3:*", "Resource": "arn:aws:s3:eu::b""#),
            "Resource arn:aws:s3:eu::b can not contain region information.",
        ),
        (format!(r#"{allow}, "Action": "s3:a:b", "Resource": "*""#), "Actions/Condition can contain only one colon."),
        (
            format!(r#"{allow}, "Action": "s3:*", "Resource": "arn:x:s3:::b""#),
            r#"Partition "x" is not valid for resource "arn:x:s3:::b"."#,
        ),
        (
            format!(r#"{allow}, "Action": "s3:*", "Resource": "*", "Principal": "*""#),
            "Policy document should not specify a principal.",
        ),
        (
            format!(r#"{allow}, "Action": "s3:*", "Resource": "*", "Sid": "a b""#),
            "Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular expression [0-9A-Za-z]*",
        ),
        (
            format!(
                r#"{allow}, "Action": "s3:*", "Resource": "*", "Condition": {{"Bool": {{"SecureTransport": "true"}}}}"#
            ),
            "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.",
        ),
        (
            format!(r#"{allow}, "Action": "s3:*", "Resource": "*", "Condition": {{"Nope": {{"a:b": "true"}}}}"#),
            "Syntax errors in policy.",
        ),
        (
            format!(
                r#"{allow}, "Action": "s3:*", "Resource": "*", "Condition": {{"IpAddress": {{"a:b": "10.0.0.0/33"}}}}"#
            ),
            "Syntax errors in policy.",
        ),
        (
            format!(r#"{allow}, "Action": "s3:*", "Resource": "*", "Condition": {{"NumericEquals": {{"a:b": "x"}}}}"#),
            "Syntax errors in policy.",
        ),
        (
            format!(r#"{allow}, "Action": "s3:*", "Resource": "arn:aws:s3:::b/${{aws:username""#),
            "Syntax errors in policy.",
        ),
        (r#""Effect": "allow", "Action": "s3:*", "Resource": "*""#.into(), "The policy failed legacy parsing"),
        (format!(r#"{allow}, "Action": "s3:*", "NotAction": "s3:*", "Resource": "*""#), "Syntax errors in policy."),
        (format!(r#"{allow}, "action": "s3:*", "Resource": "*""#), "Syntax errors in policy."),
        (format!(r#"{allow}, "Action": 1, "Resource": "*""#), "Syntax errors in policy."),
    ] {
        for kind in [PolicyKind::Identity, PolicyKind::Boundary, PolicyKind::Session] {
            assert_eq!(refused(kind, &document(&[&statement])), expected, "{statement}");
        }
    }
    let one = r#""Sid": "a", "Effect": "Allow", "Action": "*", "Resource": "*""#;
    assert_eq!(
        refused(PolicyKind::Identity, &document(&[one, one])),
        "Statement IDs (SID) in a single policy must be unique."
    );
}

#[test]
fn policies_of_buckets_are_refused_in_the_words_of_s3() {
    let all = r#""Effect": "Allow", "Principal": "*""#;
    let to = |principal: &str| {
        format!(
            r#""Effect": "Allow", "Principal": {principal}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*""#
        )
    };
    let when = |condition: &str| {
        format!(r#"{all}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*", "Condition": {condition}"#)
    };
    let on = |action: &str, resource: &str| format!(r#"{all}, "Action": {action}, "Resource": {resource}"#);
    let (invalid, mismatch) = ("Policy has invalid resource", "Action does not apply to any resource(s) in statement");
    for (statement, expected) in [
        (on(r#""s3:*""#, r#""arn:aws:s3:::b""#), ""),
        (on(r#""s3:GetObject""#, r#""arn:aws:s3:::b/*""#), ""),
        (on(r#"["s3:GetObject", "s3:ListBucket"]"#, r#"["arn:aws:s3:::b", "arn:aws:s3:::b/*"]"#), ""),
        (on(r#"["s3:GetObject", "s3:ListBucket"]"#, r#""arn:aws:s3:::b*""#), ""),
        (on(r#""s3:GetObject""#, r#""arn:aws:s3:::b""#), mismatch),
        (on(r#""s3:ListBucket""#, r#""arn:aws:s3:::b/*""#), mismatch),
        (on(r#"["s3:GetObject", "s3:ListBucket"]"#, r#""arn:aws:s3:::b/*""#), mismatch),
        (on(r#""s3:GetObject""#, r#""arn:aws:s3:::other/*""#), invalid),
        (on(r#""s3:GetObject""#, r#""arn:aws:s3:::bother/*""#), invalid),
        (on(r#""s3:GetObject""#, r#""*""#), invalid),
        (on(r#""s3:GetObject""#, "[]"), invalid),
        (on(r#""s3:GetObject""#, r#""""#), invalid),
        (on(r#""s3:Nothing""#, r#""arn:aws:s3:::b/*""#), "Policy has invalid action"),
        (on(r#""iam:GetUser""#, r#""arn:aws:s3:::b/*""#), "Policy has invalid action"),
        (on(r#""GetObject""#, r#""arn:aws:s3:::b/*""#), "Policy has invalid action"),
        (to(r#"{"AWS": ["111122223333", "arn:aws:iam::111122223333:user/a/b"]}"#), ""),
        (to(r#"{"CanonicalUser": "x"}"#), "Invalid principal in policy"),
        (to(r#""""#), "Invalid principal in policy"),
        (to("[]"), "Invalid principal in policy"),
        (to("{}"), "Invalid principal in policy"),
        (to(r#"{"AWS": []}"#), "Invalid principal in policy"),
        (to(r#"{"AWS": "bob"}"#), "Invalid principal in policy"),
        (to(r#"{"AWS": "arn:aws:iam::111122223333:user/*"}"#), "Invalid principal in policy"),
        (to(r#"{"AWS": "arn:aws:iam::111122223333:group/a"}"#), "Invalid principal in policy"),
        (to(r#"{"Federated": "x"}"#), "Invalid principal in policy"),
        (when(r#"{"StringEquals": {"s3:prefix": "x"}}"#), ""),
        (when(r#"{"StringEquals": {"s3:RequestObjectTag/x": "x"}}"#), ""),
        (when(r#"{"StringEquals": {"aws:Whatever": "x"}}"#), ""),
        (when(r#"{"StringEquals": {"s3:x-acl": "x"}}"#), "Policy has an invalid condition key"),
        (when(r#"{"StringEquals": {"ec2:x": "x"}}"#), "Policy has an invalid condition key"),
        (when(r#"{"Equals": {"s3:prefix": "x"}}"#), "Invalid Condition type : Equals"),
        (when(r#"{"IpAddress": {"aws:SourceIp": "x"}}"#), "Invalid IP address in Conditions"),
        (r#""Effect": "Maybe", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b""#.into(), "Invalid effect: Maybe"),
        (r#""Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::b""#.into(), "Missing required field Principal"),
        (format!(r#"{all}, "Resource": "arn:aws:s3:::b""#), "Missing required field Action"),
        (format!(r#"{all}, "Action": "s3:*""#), "Missing required field Resource"),
        (format!(r#"{all}, "Action": "s3:*", "Resource": "arn:aws:s3:::b", "Actions": "x""#), "Unknown field Actions"),
        (
            r#""Effect": "Allow", "NotPrincipal": {"AWS": "111122223333"}, "Action": "s3:*", "Resource": "arn:aws:s3:::b""#.into(),
            "Allow with NotPrincipal is not allowed.",
        ),
    ] {
        assert_eq!(refused(PolicyKind::Resource, &document(&[&statement])), expected, "{statement}");
    }
    for (text, expected) in [
        ("", "Policies must be valid JSON and the first byte must be '{'"),
        ("[]", "Policies must be valid JSON and the first byte must be '{'"),
        ("{", "This policy contains invalid Json"),
        (r#"{"Version": "2012-10-17", "Version": "2008-10-17"}"#, "This policy contains invalid Json"),
        ("{}", "Missing required field Statement"),
        (r#"{"Statement": []}"#, "Could not parse the policy: Statement is empty!"),
        (r#"{"Version": "2020-01-01", "Statement": []}"#, "The policy must contain a valid version string"),
        (r#"{"Version": 1, "Statement": []}"#, "The policy must contain a valid version string"),
        (&format!("{{{}}}", " ".repeat(20 * 1024)), "Policy exceeds the maximum allowed document size."),
    ] {
        assert_eq!(refused(PolicyKind::Resource, text), expected, "{}", &text[..text.len().min(80)]);
    }
}

#[test]
fn policies_of_roles_say_who_may_assume_them() {
    let federated = r#"{"Federated": "https://issuer.example"}"#;
    for (statement, expected) in [
        (r#""Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "sts:AssumeRole""#.to_owned(), ""),
        (format!(r#""Effect": "Allow", "Principal": {federated}, "Action": "sts:AssumeRoleWithWebIdentity""#), ""),
        (
            r#""Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole", "Resource": "*""#.into(),
            "Has prohibited field Resource",
        ),
        (
            r#""Effect": "Allow", "Principal": "*", "Action": "s3:GetObject""#.into(),
            "AssumeRole policy may only specify STS AssumeRole actions.",
        ),
        (r#""Effect": "Allow", "Action": "sts:AssumeRole""#.into(), "Missing required field Principal"),
    ] {
        assert_eq!(refused(PolicyKind::Trust, &document(&[&statement])), expected, "{statement}");
    }
}

#[test]
fn a_policy_is_public_if_nothing_fixed_limits_what_it_allows_everybody() {
    let base = r#""Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*""#;
    for (principal, condition, expected) in [
        (r#""*""#, "{}", true),
        (r#"{"AWS": "*"}"#, "{}", true),
        (r#"{"AWS": "111122223333"}"#, "{}", false),
        (r#""*""#, r#"{"StringEquals": {"aws:PrincipalAccount": "111122223333"}}"#, false),
        (r#""*""#, r#"{"StringLike": {"aws:PrincipalAccount": "1*"}}"#, true),
        (r#""*""#, r#"{"StringEqualsIfExists": {"aws:PrincipalAccount": "111122223333"}}"#, true),
        (r#""*""#, r#"{"StringNotEquals": {"aws:PrincipalAccount": "111122223333"}}"#, true),
        (r#""*""#, r#"{"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}}"#, false),
        (r#""*""#, r#"{"IpAddress": {"aws:SourceIp": "0.0.0.0/1"}}"#, true),
        (r#""*""#, r#"{"StringEquals": {"aws:UserAgent": "x"}}"#, true),
    ] {
        let policy =
            bucket(&[&format!(r#""Effect": "Allow", {base}, "Principal": {principal}, "Condition": {condition}"#)]);
        assert_eq!(policy.is_public(), expected, "{principal} {condition}");
    }
    assert!(!bucket(&[&format!(r#""Effect": "Deny", {base}, "Principal": "*""#)]).is_public());
}

#[test]
fn a_policy_tells_its_keys_and_principals() {
    let policy =
        bucket(&[r#""Effect": "Allow", "Principal": {"AWS": ["111122223333", "arn:aws:iam::111122223333:user/a"]},
           "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/${aws:UserName}",
           "Condition": {"StringLike": {"s3:ExistingObjectTag/X": "${aws:UserId}"}}"#]);
    assert_eq!(policy.keys().collect::<Vec<_>>(), ["s3:existingobjecttag/x", "aws:username", "aws:userid"]);
    assert_eq!(policy.principals().collect::<Vec<_>>(), ["111122223333", "arn:aws:iam::111122223333:user/a"]);
}

#[test]
fn warnings_name_what_is_probably_not_meant() {
    let found = |text: &str| warnings(&Policy::parse(text, PolicyKind::Identity, None).unwrap());
    let one = |statement: &str| found(&document(&[statement]));
    let allow = r#""Effect": "Allow""#;
    assert_eq!(one(&format!(r#"{allow}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*""#)), [""; 0]);
    for (statement, expected) in [
        (
            r#""Action": "s3:GetObjekt", "Resource": "*""#,
            "Statement 1 names the action s3:GetObjekt, which S3 does not have.",
        ),
        (
            r#""Sid": "a", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b""#,
            "Statement a names the action s3:GetObject, which applies to none of its resources.",
        ),
        (
            r#""Action": ["s3:*", "*"], "Resource": "*""#,
            "Statement 1 allows everything, also to create users and to change policies.",
        ),
        (
            r#""NotAction": "s3:GetObject", "Resource": "*""#,
            "Statement 1 allows every action but those that it names, also actions of services yet to come.",
        ),
        (
            r#""Action": "s3:GetObject", "NotResource": "arn:aws:s3:::b""#,
            "Statement 1 allows every resource but those that it names.",
        ),
        (
            r#""Action": "s3:GetObject", "Resource": "*", "Condition": {"Bool": {"s3:Secure": "true"}}"#,
            "Statement 1 asks for s3:secure, which requests to S3 never have.",
        ),
    ] {
        assert_eq!(one(&format!("{allow}, {statement}")), [expected]);
    }
    let old = r#"{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::b/${aws:username}"}}"#;
    assert_eq!(found(old).len(), 1);
}

#[test]
fn a_simulation_says_which_statement_decided() {
    let request = r#"{
        "principal": {"arn": "arn:aws:iam::111122223333:user/bob", "kind": "user", "account": "111122223333", "tags": {}},
        "identity": [{"Statement": {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"}},
                     {"Statement": [{"Effect": "Allow", "Sid": "Read", "Action": "s3:Get*", "Resource": "*",
                                     "Condition": {"IpAddress": {"aws:SourceIp": "1.2.3.4"}}}]}],
        "boundary": null, "session": null, "resource_policy": null, "resource_account": "111122223333",
        "action": "s3:GetObject", "resource": "arn:aws:s3:::b/k", "context": {"aws:SourceIp": ["1.2.3.4"]}}"#;
    assert_eq!(
        simulate(request).unwrap(),
        r#"{"decision":"allowed","policy":"identity:1","statement":0,"sid":"Read"}"#
    );
    let denied = r#"{"decision":"implicitDeny","policy":null,"statement":null,"sid":null}"#;
    assert_eq!(simulate(&request.replace(r#"["1.2.3.4"]"#, r#"["1.2.3.5"]"#)).unwrap(), denied);
    let written = r#"{"decision":"explicitDeny","policy":"identity:0","statement":0,"sid":null}"#;
    assert_eq!(simulate(&request.replace("\"s3:GetObject\"", "\"s3:PutObject\"")).unwrap(), written);
    for bad in ["", "{}", &request.replace("\"user\"", "\"users\""), &request.replace("Allow", "allow")] {
        assert!(simulate(bad).is_err());
    }
}

/// What S3 says to PutBucketPolicy with a condition on this key; empty if it takes it.
fn put(kind: PolicyKind, action: &str, condition: &str) -> String {
    let who = if kind == PolicyKind::Resource { r#""Principal": "*", "# } else { "" };
    let resource = r#"["arn:aws:s3:::b", "arn:aws:s3:::b/*"]"#;
    let statement =
        format!(r#""Effect": "Deny", {who}"Action": {action}, "Resource": {resource}, "Condition": {{{condition}}}"#);
    let policy = Policy::parse(&document(&[&statement]), kind, None);
    policy.and_then(|policy| policy.check_put()).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn conditions_of_a_bucket_policy_are_those_of_its_actions() {
    const UNKNOWN: &str = "Policy has an invalid condition key";
    const APART: &str = "Conditions do not apply to combination of actions and resources in statement";
    for (action, key, expected) in [
        (r#""s3:GetObject""#, "aws:NoSuchKey", UNKNOWN),
        (r#""s3:GetObject""#, "aws:PrincipalTag/", UNKNOWN),
        (r#""s3:GetObject""#, "s3:NoSuchKey", UNKNOWN),
        (r#""s3:GetObject""#, "iam:PolicyARN", UNKNOWN),
        (r#""s3:GetObject""#, "AWS:SourceVpce", ""),
        (r#""s3:GetObject""#, "aws:PrincipalTag/team", ""),
        (r#""s3:GetObject""#, "s3:DataAccessPointAccount", ""),
        (r#""s3:GetObject""#, "s3:prefix", APART),
        (r#""s3:GetObject""#, "s3:x-amz-acl", APART),
        (r#""s3:PutObject""#, "s3:x-amz-acl", ""),
        (r#""s3:PutObject""#, "s3:ExistingObjectTag/a", APART),
        (r#""s3:GetObject""#, "s3:ExistingObjectTag/a", ""),
        (r#""s3:DeleteObject""#, "s3:VersionId", APART),
        (r#"["s3:GetObject", "s3:ListBucket"]"#, "s3:prefix", ""),
        (r#""s3:List*""#, "s3:max-keys", ""),
        (r#""s3:*""#, "s3:object-lock-mode", ""),
        (r#""*""#, "s3:prefix", ""),
    ] {
        let condition = format!(r#""StringEquals": {{"{key}": "x"}}"#);
        assert_eq!(put(PolicyKind::Resource, action, &condition), expected, "{action} {key}");
        // Those of IAM name what they like.
        assert_eq!(put(PolicyKind::Identity, action, &condition), "", "{action} {key}");
    }
    for address in
        ["", "x", "192.0.2", "192.0.2.0/33", "192.0.2.0/", "192.0.2.256", "2001:db8::/129", "192.0.2.1-9", "*"]
    {
        for operator in ["IpAddress", "NotIpAddress", "IpAddressIfExists", "ForAnyValue:IpAddress"] {
            let condition = format!(r#""{operator}": {{"aws:SourceIp": ["192.0.2.1", "{address}"]}}"#);
            let found = put(PolicyKind::Resource, r#""s3:GetObject""#, &condition);
            assert_eq!(found, "Invalid IP address in Conditions", "{operator} {address}");
        }
    }
}
