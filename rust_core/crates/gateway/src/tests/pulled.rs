//! Which requests may be answered from the origin of a bucket, and after which answers.

use super::*;

/// Bucket and key to fetch, if the answer to a request lacks the object.
fn pulled(fixture: &Fixture, method: &str, target: &str) -> Option<(String, String)> {
    let request = fixture.accept(method, target, &[], b"").ok().unwrap();
    let answer = fixture.carry_out(&request, b"");
    request.pulled().filter(|_| answer.lacks_object()).map(|(bucket, key)| (bucket.to_owned(), key.to_owned()))
}

#[test]
fn what_reads_an_object_that_never_was_may_be_fetched() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    fixture.call("PUT", "/bucket/here", &[], b"content");
    let wanted = Some(("bucket".to_owned(), "a/\u{fffd} b".to_owned()));
    for method in ["GET", "HEAD"] {
        assert_eq!(pulled(&fixture, method, "/bucket/a/%EF%BF%BD%20b"), wanted, "{method}");
        assert_eq!(pulled(&fixture, method, "/bucket/here"), None, "{method}");
        // Another version than the newest is only here.
        assert_eq!(pulled(&fixture, method, "/bucket/k?versionId=null"), None, "{method}");
    }
    assert_eq!(pulled(&fixture, "GET", "/bucket/k?acl"), None);
    assert_eq!(pulled(&fixture, "GET", "/bucket?policy"), None);
}

#[test]
fn what_was_deleted_stays_deleted() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(fixture.call("PUT", "/bucket?versioning", &[], enabled).status, 200);
    assert_eq!(fixture.call("DELETE", "/bucket/k", &[], b"").status, 204);
    assert_eq!(fixture.call("GET", "/bucket/k", &[], b"").status, 404);
    assert_eq!(pulled(&fixture, "GET", "/bucket/k"), None);
    assert_eq!(pulled(&fixture, "HEAD", "/bucket/k"), None);
}
