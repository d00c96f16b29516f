//! What the costliest policies take, in steps: a policy that may be put decides within those of one decision.

use super::*;
use crate::context::{POLICY_STEPS_MAX, STEPS_MAX};

const LONGEST: &str = "arn:aws:s3:::b/";

/// Fills a policy up to a size.
fn filled(size: usize, start: &str, value: impl Fn(usize) -> String, end: &str) -> String {
    let mut values = String::new();
    for at in 0.. {
        let next = format!("{}\"{}\"", if at == 0 { "" } else { "," }, value(at));
        if start.len() + values.len() + next.len() + end.len() > size {
            break;
        }
        values += &next;
    }
    format!("{start}{values}{end}")
}

fn costliest(size: usize) -> Vec<String> {
    let resources = r#"{"Statement":{"Effect":"Deny","Action":"*","Resource":["#;
    let values = |key: &str| {
        format!(r#"{{"Statement":{{"Effect":"Deny","Action":"*","Resource":"*","Condition":{{"StringLike":{{"{key}":["#)
    };
    let arn = |end: String| format!("arn:aws:s3:::*{end}");
    vec![
        filled(size, resources, |_| arn(format!("{}b", "?".repeat(90))), "]}}"),
        filled(size, resources, |_| arn("?a".repeat(50) + "b"), "]}}"),
        filled(size, resources, |_| arn("*a".repeat(50) + "b"), "]}}"),
        filled(size, resources, |_| arn("*aab*".to_owned()), "]}}"),
        filled(size, resources, |_| arn("?*".repeat(50) + "b"), "]}}"),
        filled(size, &values("s3:prefix"), |_| "*b*".to_owned(), "]}}}}"),
        filled(size, &values("s3:prefix"), |_| "*?b".to_owned(), "]}}}}"),
        filled(size, &values("s3:prefix"), |_| format!("*{}", "é?".repeat(30)), "]}}}}"),
        filled(size, &values("s3:prefix"), |_| format!("*{}", "${s3:delimiter}".repeat(9)), "]}}}}"),
        filled(size, &values("aws:useragent"), |_| "${aws:useragent}".to_owned(), "]}}}}"),
    ]
}

/// The decision on the longest name there is.
fn decided_by(policy: &Arc<Policy>, value: &str) -> AccessDecision {
    let resource = format!("{LONGEST}{}", "a".repeat(1101 - LONGEST.len()));
    let keys: [(&str, &[&str]); 3] =
        [("s3:prefix", &[value]), ("aws:useragent", &[value]), ("s3:delimiter", &["aaaaaaaa"])];
    let (principal, identity) = (bob(), [Arc::clone(policy)]);
    let request = Request {
        principal: &principal,
        action: "s3:GetObject",
        resource: resource.as_bytes(),
        resource_account: ACCOUNT,
        context: &Keys(&keys),
    };
    evaluate(&request, &Policies { identity: &identity, ..Policies::default() })
}

#[test]
fn what_may_be_put_is_decided() {
    const { assert!(POLICY_STEPS_MAX < STEPS_MAX) };
    let mut put = 0;
    for size in [2048, 6144, 20480] {
        for text in costliest(size) {
            let text = text.replacen('{', r#"{"Version":"2012-10-17","#, 1);
            let policy = Arc::new(Policy::parse(&text, PolicyKind::Identity, None).unwrap());
            if policy.is_too_costly() {
                assert!(size > 2048, "{text}");
                continue;
            }
            put += 1;
            for value in ["a".repeat(1101), "é".repeat(550)] {
                let decision = decided_by(&policy, &value);
                assert!(!matches!(decision, AccessDecision::TooCostly(_)), "{text}");
            }
        }
    }
    assert!(put > 20, "{put}");
}

#[test]
fn what_takes_too_long_denies() {
    // Whatever was put, a value of a request may be longer than is usual.
    let costly = &costliest(20480)[5].replace("Deny", "Allow").replace("*b*", "*b*a*");
    let costly = Arc::new(Policy::parse(costly, PolicyKind::Identity, None).unwrap());
    assert!(matches!(decided_by(&costly, &"a".repeat(60_000)), AccessDecision::TooCostly(_)));
    // Nothing allows it, whatever else does, and the root user of the account can still mend its bucket.
    let open = identity(&[r#""Effect": "Allow", "Action": "*", "Resource": "*""#]);
    let (principal, keys) = (bob(), "a".repeat(60_000));
    let values: [(&str, &[&str]); 1] = [("s3:prefix", &[&keys])];
    let request = Request {
        principal: &principal,
        action: "s3:GetObject",
        resource: KEY.as_bytes(),
        resource_account: ACCOUNT,
        context: &Keys(&values),
    };
    for several in [[Arc::clone(&open), Arc::clone(&costly)], [Arc::clone(&costly), Arc::clone(&open)]] {
        let decision = evaluate(&request, &Policies { identity: &several, ..Policies::default() });
        // A policy that denies nothing is passed over once another one allows.
        assert_eq!(decision.is_allowed(), Arc::ptr_eq(&several[0], &open), "{decision:?}");
    }
}

#[test]
fn ordinary_policies_take_few_steps() {
    let statement = |at: usize| {
        format!(
            r#"{{"Sid":"Team{at}","Effect":"Allow","Principal":{{"AWS":"arn:aws:iam::111122223333:user/u{at}"}},"Action":["s3:GetObject","s3:PutObject"],"Resource":["arn:aws:s3:::b/*/team-{at}/*.parquet","arn:aws:s3:::b/????-??-??/*"],"Condition":{{"StringLike":{{"s3:prefix":["home/*/x*","*/log-??-*"]}},"IpAddress":{{"aws:SourceIp":"192.0.2.0/24"}}}}}}"#
        )
    };
    let statements: Vec<String> = (0..50).map(statement).collect();
    let text = format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(","));
    assert!(text.len() > 16_000 && text.len() < 20_480, "{}", text.len());
    assert!(!Policy::parse(&text, PolicyKind::Resource, None).unwrap().is_too_costly());
}

#[test]
fn members_are_told_apart_in_little_time() {
    // Compared each with each, these would take minutes.
    let members: Vec<String> = (0..200_000).map(|at| format!("\"{at}\":1")).collect();
    let text = format!("{{{}}}", members.join(","));
    assert!(Policy::parse(&text, PolicyKind::Identity, None).is_err());
}
