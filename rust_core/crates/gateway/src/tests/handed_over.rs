//! What a copy or a move hands over of its source, and what a body asks for: decided on before anything is stored.

use super::access::{Site, text};
use super::*;

const ALL: &str = r#""Effect": "Allow", "Action": "*", "Resource": "*""#;

fn deny(action: &str) -> String {
    format!(r#""Effect": "Deny", "Action": "{action}", "Resource": "*""#)
}

/// Copies, renames and moves `from` to `to` as `name`; the statuses.
fn each_way(site: &Site, name: &str, from: &str, more: &[(&str, &str)]) -> [u16; 3] {
    let ways = [
        ("/box/to-copied", "x-amz-copy-source", format!("box/{from}")),
        ("/box/to-renamed?renameObject", "x-amz-rename-source", from.to_owned()),
        ("/box/to-moved", "x-amz-move-source", format!("box/{from}")),
    ];
    ways.map(|(target, header, source)| {
        let headers = [&[(header, source.as_str())], more].concat();
        let status = site.by(name, "PUT", target, &headers, b"").status;
        // Back to where it was.
        let to = target.split('?').next().unwrap();
        let moved = [("x-amz-move-source", &to[1..])];
        if status == 200 && header != "x-amz-copy-source" {
            assert_eq!(site.fixture.call("PUT", &format!("/box/{from}"), &moved, b"").status, 200);
        }
        let stored = site.fixture.call("HEAD", to, &[], b"").status == 200;
        assert_eq!(stored, status == 200 && header == "x-amz-copy-source", "{to}");
        site.fixture.call("DELETE", to, &[], b"");
        status
    })
}

#[test]
fn tags_and_annotations_go_only_with_who_may_read_and_write_them() {
    let denied = ["s3:GetObjectTagging", "s3:PutObjectTagging", "s3:GetObjectAnnotation", "s3:PutObjectAnnotation"];
    let denials: Vec<_> = denied.iter().map(|action| (*action, deny(action))).collect();
    let statements: Vec<_> = denials.iter().map(|(action, deny)| (*action, [ALL, deny.as_str()])).collect();
    let users: Vec<(&str, &[&str])> = statements.iter().map(|(name, both)| (*name, &both[..])).collect();
    let site = Site::new(&[&users[..], &[("free", &[ALL])]].concat(), &[]);
    let put = |target: &str, headers: &[(&str, &str)]| site.fixture.call("PUT", target, headers, b"text").status;
    assert_eq!([put("/box/tagged", &[("x-amz-tagging", "a=1")]), put("/box/noted", &[])], [200; 2]);
    assert_eq!(put("/box/noted?annotation&annotationName=x", &[]), 200);
    for name in denied {
        assert_eq!(each_way(&site, name, "k", &[]), [200; 3], "{name}: there is nothing to hand over");
        let (tagged, noted) = if name.ends_with("Tagging") { (403, 200) } else { (200, 403) };
        assert_eq!(each_way(&site, name, "tagged", &[]), [tagged; 3], "{name}");
        assert_eq!(each_way(&site, name, "noted", &[]), [noted; 3], "{name}");
    }
    for from in ["k", "tagged", "noted"] {
        assert_eq!(each_way(&site, "free", from, &[]), [200; 3], "{from}");
    }
    // A copy that takes nothing of them needs nothing.
    let copy = |name: &str, from: &str, header: (&str, &str)| {
        site.by(name, "PUT", "/box/to", &[("x-amz-copy-source", from), header], b"").status
    };
    assert_eq!(copy(denied[0], "box/tagged", ("x-amz-tagging-directive", "REPLACE")), 200);
    assert_eq!(copy(denied[1], "box/tagged", ("x-amz-tagging-directive", "REPLACE")), 200);
    assert_eq!(copy(denied[2], "box/noted", ("x-amz-object-annotation-directive", "EXCLUDE")), 200);
    let answer = site.by(denied[0], "PUT", "/box/to", &[("x-amz-copy-source", "box/tagged")], b"");
    assert!(text(&answer).contains("s3:GetObjectTagging of the source"), "{}", text(&answer));
}

#[test]
fn tags_of_a_source_are_none_that_a_condition_allows() {
    let only = r#""Effect": "Deny", "Action": "s3:PutObjectTagging", "Resource": "*", "Condition": {"StringNotEquals": {"s3:RequestObjectTag/a": "1"}}"#;
    let put = r#""Effect": "Deny", "Action": "s3:PutObject", "Resource": "*", "Condition": {"StringNotEquals": {"s3:RequestObjectTag/a": "1"}}"#;
    let site = Site::new(&[("alice", &[ALL, only]), ("bob", &[ALL, put])], &[]);
    assert_eq!(site.fixture.call("PUT", "/box/admin", &[("x-amz-tagging", "role=admin")], b"x").status, 200);
    assert_eq!(each_way(&site, "alice", "admin", &[]), [403; 3]);
    assert_eq!(each_way(&site, "alice", "k", &[]), [200; 3]);
    // A header that the copy does not store is no tag.
    let copy = |directive: &str| {
        let tags = [("x-amz-tagging", "a=1"), ("x-amz-tagging-directive", directive)];
        site.by("bob", "PUT", "/box/to", &[&[("x-amz-copy-source", "box/k")], &tags[..]].concat(), b"").status
    };
    assert_eq!([copy("COPY"), copy("REPLACE")], [403, 200]);
}

#[test]
fn conditions_ask_what_the_body_says() {
    let allow = |action: &str, condition: &str| {
        format!(r#""Effect": "Allow", "Action": "{action}", "Resource": "*", "Condition": {condition}"#)
    };
    let tags = |key: &str, value: &str| {
        format!("<Tagging><TagSet><Tag><Key>{key}</Key><Value>{value}</Value></Tag></TagSet></Tagging>")
    };
    let until = |year: &str| {
        format!(
            "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{year}-01-01T00:00:00Z</RetainUntilDate></Retention>"
        )
    };
    let hold = |status: &str| format!("<LegalHold><Status>{status}</Status></LegalHold>");
    let equal = r#"{"StringEquals": {"s3:RequestObjectTag/team": "red"}}"#;
    let keys = r#"{"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["team"]}}"#;
    let mode = r#"{"StringEquals": {"s3:object-lock-mode": "GOVERNANCE"}, "NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "36500"}}"#;
    let off = r#"{"StringEquals": {"s3:object-lock-legal-hold": "OFF"}}"#;
    for (query, action, condition, body, allowed) in [
        ("tagging", "s3:PutObjectTagging", equal, tags("team", "red"), true),
        ("tagging", "s3:PutObjectTagging", equal, tags("team", "blue"), false),
        ("tagging", "s3:PutObjectTagging", keys, tags("team", "blue"), true),
        ("tagging", "s3:PutObjectTagging", keys, tags("other", "red"), false),
        ("retention", "s3:PutObjectRetention", mode, until("2199"), true),
        ("retention", "s3:PutObjectRetention", mode, until("2077"), false),
        ("legal-hold", "s3:PutObjectLegalHold", off, hold("OFF"), true),
        ("legal-hold", "s3:PutObjectLegalHold", off, hold("ON"), false),
    ] {
        let site = Site::new(&[("alice", &[&allow(action, condition)]), ("bob", &[])], &[]);
        let md5 = base64_encode(&Md5Hasher::digest(body.as_bytes()));
        let headers = [("content-md5", &*md5)];
        let send = |name: &str, bucket: &str| {
            let target = format!("/{bucket}/k?{query}");
            let answer = site.by(name, "PUT", &target, &headers, body.as_bytes());
            (answer.status, code(&answer))
        };
        let (status, error) = send("alice", "box");
        // Without Object Lock, a lock that is allowed is none.
        assert_eq!(error == "AccessDenied", !allowed, "{condition} {body}");
        if query == "tagging" {
            assert_eq!(status, if allowed { 200 } else { 403 }, "{condition} {body}");
        }
        assert_eq!(send("bob", "box").0, 403);
        // It tells nobody which buckets there are.
        assert_eq!(send("alice", "none"), (403, "AccessDenied".to_owned()));
        let stored = text(&site.fixture.call("GET", "/box/k?tagging", &[], b""));
        assert_eq!(stored.contains("<Key>"), allowed && query == "tagging", "{stored}");
    }
}

#[test]
fn a_new_bucket_is_made_with_what_its_maker_may_say() {
    let create = |condition: &str| {
        format!(r#""Effect": "Allow", "Action": "s3:CreateBucket", "Resource": "*", "Condition": {condition}"#)
    };
    let there = create(r#"{"StringEquals": {"s3:LocationConstraint": "eu-west-1"}}"#);
    let untagged = [ALL, r#""Effect": "Deny", "Action": "s3:TagResource", "Resource": "*""#];
    let site = Site::new(&[("alice", &[&there]), ("bob", &untagged), ("carl", &[ALL])], &[]);
    let body = |inside: &str| format!("<CreateBucketConfiguration>{inside}</CreateBucketConfiguration>").into_bytes();
    let region = |name: &str| body(&format!("<LocationConstraint>{name}</LocationConstraint>"));
    let tags = body("<Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags>");
    for (name, bucket, document, status) in [
        ("alice", "/there", region("eu-west-1"), 200),
        ("alice", "/elsewhere", region("eu-west-2"), 403),
        ("alice", "/nowhere", Vec::new(), 403),
        ("bob", "/plain", region("eu-west-1"), 200),
        ("bob", "/tagged", tags.clone(), 403),
        ("carl", "/tagged", tags.clone(), 200),
    ] {
        let answer = site.by(name, "PUT", bucket, &[], &document);
        assert_eq!(answer.status, status, "{name} {bucket} {}", text(&answer));
        assert_eq!(site.fixture.call("HEAD", bucket, &[], b"").status == 200, status == 200, "{bucket}");
    }
}
