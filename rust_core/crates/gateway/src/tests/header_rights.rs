//! Every header and field that stores something, sent to every operation that takes it by a user who is denied the
//! action of that header alone.

use super::access::{Site, text};
use super::*;
use orcas_s3::Operation;
use orcas_s3::operations::{AddressKind, OperationSpec, Subject};
use orcas_s3::stored_headers::actions_of;

const ALL: &str = r#""Effect": "Allow", "Action": "*", "Resource": "*""#;
const DOCUMENT: &[u8] = b"<Delete><Object><Key>k</Key></Object></Delete>";

/// A value with which the header asks for something.
fn value(header: &str) -> &'static str {
    match header {
        "x-amz-tagging" => "a=1",
        "x-amz-acl" => "public-read",
        "x-amz-object-lock-mode" => "COMPLIANCE",
        "x-amz-object-lock-retain-until-date" => "2076-01-01T00:00:00Z",
        "x-amz-object-lock-legal-hold" => "ON",
        "x-amz-object-ownership" => "BucketOwnerPreferred",
        "x-amz-bypass-governance-retention" | "x-amz-bucket-object-lock-enabled" => "true",
        "x-amz-orcas-durability" => "interval",
        "x-amz-orcas-replica-time" => "Fri, 02 Jan 2026 03:04:05 GMT",
        _ => r#"uri="http://acs.amazonaws.com/groups/global/AllUsers""#,
    }
}

/// The headers that need an action, with the operations that take them.
fn pairs() -> Vec<(Operation, &'static str, &'static str)> {
    let mut pairs = Vec::new();
    for operation in Operation::ALL {
        let Some(handler) = orcas_operations::implemented(*operation) else { continue };
        let of_bucket = operation.spec().permissions[0].subject == Subject::Bucket;
        for header in handler.understood.attributes.iter().chain(handler.understood.extensions) {
            pairs.extend(actions_of(header.as_bytes(), of_bucket).iter().map(|action| (*operation, *header, *action)));
        }
    }
    pairs
}

/// Method, target and headers of a request of an operation.
fn request(operation: Operation) -> (&'static str, String, Vec<(&'static str, String)>) {
    let OperationSpec { method, address, subresource, parameter, permissions, .. } = operation.spec();
    let path = match address {
        AddressKind::Service => "/",
        AddressKind::Bucket if operation == Operation::CreateBucket => "/new",
        AddressKind::Bucket => "/box",
        AddressKind::Object => "/box/k",
    };
    let query = subresource.map(|name| format!("?{name}")).unwrap_or_default();
    let query = parameter.map(|name| format!("{query}&{name}=x")).unwrap_or(query);
    // Its parameter is not in its row.
    let query = if operation == Operation::CompleteMultipartUpload { "?uploadId=x".to_owned() } else { query };
    let mut headers = Vec::new();
    if permissions.iter().any(|it| it.subject == Subject::Source) {
        headers.push(("x-amz-copy-source", "box/k".to_owned()));
    }
    if operation == Operation::DeleteObjects {
        headers.push(("content-md5", base64_encode(&Md5Hasher::digest(DOCUMENT))));
    }
    (method.name(), format!("{path}{query}"), headers)
}

#[test]
fn a_header_lets_nobody_do_what_is_denied() {
    let pairs = pairs();
    let mut denied: Vec<&str> = pairs.iter().map(|(.., action)| *action).collect();
    denied.sort_unstable();
    denied.dedup();
    let denials: Vec<_> = denied
        .iter()
        .map(|action| (*action, format!(r#""Effect": "Deny", "Action": "{action}", "Resource": "*""#)))
        .collect();
    let statements: Vec<_> = denials.iter().map(|(action, deny)| (*action, [ALL, deny.as_str()])).collect();
    let users: Vec<(&str, &[&str])> = statements.iter().map(|(name, both)| (*name, &both[..])).collect();
    let site = Site::new(&[&users[..], &[("free", &[ALL])]].concat(), &[]);
    let mut sent = 0;
    for (operation, header, action) in pairs.iter().filter(|(operation, ..)| *operation != Operation::PostObject) {
        let (method, target, headers) = request(*operation);
        let mut headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push((header, value(header)));
        let body = if *operation == Operation::DeleteObjects { DOCUMENT } else { b"" };
        let begun = site.begin(action, method, &target, &headers, body);
        let refused = if let Begun::Accepted(Err(refusal)) = &begun { refusal.operation } else { None };
        let answer = site.finish(begun, body);
        let expected = format!("{action} on resource");
        assert!(text(&answer).contains(&expected), "{operation:?} {header}: {} {}", answer.status, text(&answer));
        if *operation != Operation::DeleteObjects {
            assert_eq!((answer.status, refused), (403, Some(*operation)), "{header}");
        }
        sent += 1;
    }
    assert!(sent > 60, "{sent}");
    assert_eq!(site.get("free", "/box/k"), 200, "something was stored or deleted");
    assert_eq!(code(&site.by("free", "GET", "/new", &[], b"")), "NoSuchBucket");
    // What a new bucket is anyway needs no action.
    assert_eq!(site.by("s3:PutBucketAcl", "PUT", "/new", &[("x-amz-acl", "private")], b"").status, 200);
}

/// The fields of a form that stand for a header.
const FIELDS: [(&str, &str); 2] = [("acl", "x-amz-acl"), ("tagging", "x-amz-tagging")];
const TAGS: &str = "<Tagging><TagSet><Tag><Key>team</Key><Value>r+d=1/2</Value></Tag></TagSet></Tagging>";

#[test]
fn a_field_of_a_form_lets_nobody_do_what_is_denied() {
    let everybody = |effect: &str, action: &str, more: &str| {
        format!(
            r#""Effect": "{effect}", "Principal": "*", "Action": "{action}", "Resource": "arn:aws:s3:::box/*"{more}"#
        )
    };
    let site = Site::new(&[], &[]);
    let post = |field: &str, value: &str| site.post("box", &[("key", "new"), (field, value)]);
    let of_header = pairs().into_iter().filter(|(operation, ..)| *operation == Operation::PostObject);
    let fields: Vec<_> = of_header.map(|(_, header, action)| (header, header, action)).collect();
    let others = FIELDS.iter().map(|(field, header)| (*field, *header, actions_of(header.as_bytes(), false)[0]));
    let fields: Vec<_> = fields.into_iter().chain(others).collect();
    assert!(fields.len() >= 12, "{fields:?}");
    for (field, header, action) in fields {
        let value = if field == "tagging" { TAGS } else { value(header) };
        assert_eq!(
            site.policy(&[&everybody("Allow", "s3:*", ""), &everybody("Deny", action, "")]).status,
            204,
            "{action}"
        );
        assert_eq!(post(field, value).status, 403, "{field}");
        assert_eq!(site.fixture.call("HEAD", "/box/new", &[], b"").status, 404, "{field}");
        assert_eq!(site.policy(&[&everybody("Allow", "s3:*", "")]).status, 204);
        assert_ne!(post(field, value).status, 403, "{field}");
        assert_eq!(site.fixture.call("DELETE", "/box/new", &[], b"").status, 204);
    }
    // Conditions see the tags.
    for (team, status) in [("r+d=1/2", 204), ("ops", 403)] {
        let condition = format!(r#", "Condition": {{"StringEquals": {{"s3:RequestObjectTag/team": "{team}"}}}}"#);
        let tagging = everybody("Allow", "s3:PutObjectTagging", &condition);
        assert_eq!(site.policy(&[&everybody("Allow", "s3:PutObject", ""), &tagging]).status, 204);
        assert_eq!(post("tagging", TAGS).status, status, "{team}");
    }
    let stored = text(&site.fixture.call("GET", "/box/new?tagging", &[], b""));
    assert!(stored.contains("<Key>team</Key><Value>r+d=1/2</Value>"), "{stored}");
}
