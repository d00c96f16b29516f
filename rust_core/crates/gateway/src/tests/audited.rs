//! Whatever changes who may do what is in the audit log, whichever operation does it: its row or its headers say so.

use super::*;
use orcas_admission::request_context::{RequestContext, Sender};
use orcas_http::Query;
use orcas_operations::implemented;
use orcas_s3::operations::{Method, Subject};
use orcas_s3::stored_headers::actions_of;
use orcas_s3::support::Understood;
use orcas_s3::{Operation, Target};
use orcas_sigv4::{Authentication, PayloadMode};

/// The actions of S3 whose access level is "Permissions management" in the Service Authorization Reference.
const PERMISSIONS_MANAGEMENT: &str = include_str!("../../../s3/src/testdata/permissions_management.txt");

fn manages(action: &str) -> bool {
    PERMISSIONS_MANAGEMENT.lines().any(|managing| managing == action)
}

fn is_audited(fixture: &Fixture, operation: Operation, header: Option<(&str, &str)>) -> bool {
    let list: Vec<_> = header.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let head = RequestHead { method: b"", path: b"/bucket/k", query: b"", headers: Headers::new(&list) };
    let target = Target::Object { bucket: "bucket".into(), key: b"k".to_vec(), hosted: false };
    let requester = Arc::clone(fixture.gateway.access().identities().requester("ROOT").unwrap());
    let sender = Sender { requester, how: Authentication::Header, payload: &PayloadMode::Unsigned };
    let (ingress, asked) = (near(0), (operation, &target, Query::default()));
    let understood = implemented(operation).map_or(&Understood::NOTHING, |handler| &handler.understood);
    RequestContext::new(fixture.gateway.access(), &ingress, head, sender, asked, understood).is_audited()
}

#[test]
fn every_row_and_every_header_that_manages_permissions_is_audited() {
    let fixture = Fixture::new();
    let mut by_header = Vec::new();
    for operation in Operation::ALL {
        let (Some(handler), row) = (implemented(*operation), operation.spec()) else { continue };
        let changes = !matches!(row.method, Method::Get | Method::Head);
        let in_row = row.permissions.iter().any(|it| manages(it.action(false)) || manages(it.action(true)));
        assert_eq!(is_audited(&fixture, *operation, None), changes && in_row, "{operation:?}");
        let of_bucket = row.permissions[0].subject == Subject::Bucket;
        for name in handler.understood.attributes.iter().chain(handler.understood.extensions) {
            let in_header = actions_of(name.as_bytes(), of_bucket).iter().any(|action| manages(action));
            let value = if name.contains("bypass") { "true" } else { "something" };
            let audited = is_audited(&fixture, *operation, Some((name, value)));
            assert_eq!(audited, changes && (in_row || in_header), "{name} of {operation:?}");
            if audited && !in_row {
                by_header.push((operation.name(), *name));
            }
        }
    }
    for header in ["x-amz-acl", "x-amz-grant-read", "x-amz-grant-write-acp", "x-amz-object-ownership"] {
        assert!(by_header.contains(&("CreateBucket", header)), "{header}");
    }
    assert!(by_header.contains(&("PutObject", "x-amz-grant-full-control")));
    // A list that gives nobody anything.
    assert!(!is_audited(&fixture, Operation::CreateBucket, Some(("x-amz-acl", "private"))));
}

#[test]
fn a_request_says_what_the_audit_log_gets() {
    let fixture = Fixture::new();
    let audited = |headers: &[(&str, &str)]| {
        let request = fixture.accept("PUT", "/owned", headers, b"").ok().unwrap();
        request.audited().map(|audited| audited.bucket.clone())
    };
    assert_eq!(audited(&[("x-amz-object-ownership", "ObjectWriter")]), Some("owned".to_owned()));
    assert_eq!(audited(&[]), None);
}
