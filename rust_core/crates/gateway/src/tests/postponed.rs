//! Access decisions that need what only the index has: a worker makes them, before anything is received or stored. That no
//! other thread reads the index is asserted where it is read (`orcas_base::blocking`).

use super::access::{Site, text};
use super::*;

/// Everything, to what is tagged as open.
const TAGGED: &str = r#""Effect": "Allow", "Action": "s3:*", "Resource": "*", "Condition": {"StringEquals": {"s3:ExistingObjectTag/open": "yes"}}"#;
const EVERYTHING: &str = r#""Effect": "Allow", "Action": "s3:*", "Resource": "*""#;
const TAGS: &[u8] = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";

/// A store whose objects only the index has. Of these, `closed` has no tag. `alice` may do what the tag allows, `bob`
/// everything.
fn site() -> Site {
    let site = Site::new(&[("alice", &[TAGGED]), ("bob", &[EVERYTHING])], &[]);
    for (key, tags) in [("open", "open=yes"), ("target", "open=yes"), ("closed", "open=no")] {
        let put = site.fixture.call("PUT", &format!("/box/{key}"), &[("x-amz-tagging", tags)], b"content");
        assert_eq!(put.status, 200, "{}", text(&put));
    }
    assert!(site.fixture.gateway.engine.catch_up(Duration::from_secs(30)).unwrap());
    site
}

#[test]
fn what_only_the_index_has_is_asked_for_on_a_worker() {
    let large = noise(200_000);
    for (method, target, source, body, allowed) in [
        ("GET", "/box/open", None, &b""[..], 200),
        ("HEAD", "/box/open", None, b"", 200),
        ("GET", "/box/open?versionId=null", None, b"", 200),
        ("GET", "/box/open?tagging", None, b"", 200),
        ("PUT", "/box/open?tagging", None, TAGS, 200),
        // The index is asked once more when the body has come.
        ("PUT", "/box/open?tagging&versionId=null", None, TAGS, 200),
        ("PUT", "/box/open", None, b"small", 200),
        ("PUT", "/box/open", None, &large, 200),
        ("PUT", "/box/target", Some("box/open"), b"", 200),
        ("POST", "/box/open?uploads", None, b"", 200),
        ("DELETE", "/box/open", None, b"", 204),
    ] {
        let site = site();
        for (key, status) in [("closed", 403), ("open", allowed)] {
            let (target, source) = (target.replace("open", key), source.map(|source| source.replace("open", key)));
            let headers: Vec<_> = source.iter().map(|source| ("x-amz-copy-source", &**source)).collect();
            let begun = site.begin("alice", method, &target, &headers, body);
            assert!(matches!(begun, Begun::Postponed(_)), "{method} {target}");
            let answer = site.finish(begun, body);
            assert_eq!(answer.status, status, "{method} {target}: {}", text(&answer));
        }
        let closed = site.fixture.call("GET", "/box/closed", &[], b"");
        assert_eq!(header(&closed, "x-amz-tagging-count"), Some("1"));
        assert_eq!(site.fixture.content(closed), Ok(b"content".to_vec()), "{method} {target}");
    }
}

#[test]
fn what_needs_nothing_of_the_index_is_accepted_at_once() {
    let site = site();
    for (name, method, target) in [("bob", "GET", "/box/open"), ("bob", "PUT", "/box/new"), ("alice", "GET", "/box")] {
        assert!(matches!(site.begin(name, method, target, &[], b""), Begun::Accepted(_)), "{name} {method} {target}");
    }
    let root = site.fixture.begin_as(&site.fixture.signer, "GET", "/box/open?versionId=null", &[], b"");
    assert!(matches!(root, Begun::Accepted(Ok(_))));
    // Memory has it from now on.
    assert_eq!(site.get("alice", "/box/open"), 200);
    assert!(matches!(site.begin("alice", "GET", "/box/open", &[], b""), Begun::Accepted(Ok(_))));
}

#[test]
fn entries_of_a_deletion_are_decided_on_a_worker() {
    let site = site();
    let document = b"<Delete><Object><Key>open</Key></Object><Object><Key>closed</Key></Object></Delete>";
    let md5 = base64_encode(&Md5Hasher::digest(document));
    let answer = text(&site.by("alice", "POST", "/box?delete", &[("content-md5", &md5)], document));
    assert!(answer.contains("<Deleted><Key>open</Key>") && answer.contains("<Error><Key>closed</Key>"), "{answer}");
    assert_eq!(["open", "closed"].map(|key| site.get("bob", &format!("/box/{key}"))), [404, 200]);
}

#[test]
fn a_limit_counts_a_request_once() {
    let site = site();
    let limits = vec![("alice".to_owned(), 1, 0)];
    site.fixture.gateway.access().signers.change(IdentityTables { limits, ..IdentityTables::default() }, &[]).unwrap();
    let begun = site.begin("alice", "GET", "/box/open", &[], b"");
    assert!(matches!(begun, Begun::Postponed(_)));
    assert_eq!(site.finish(begun, b"").status, 200);
}

#[test]
fn without_workers_nothing_is_accepted() {
    let site = site();
    let begun = site.begin("alice", "PUT", "/box/open", &[], b"new");
    site.fixture.gateway.close();
    let answer = site.finish(begun, b"new");
    assert_eq!((answer.status, code(&answer).as_str(), answer.closes), (500, "InternalError", true));
}
