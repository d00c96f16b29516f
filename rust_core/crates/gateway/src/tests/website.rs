//! Pages of websites: what the head of a request says, and nothing behind it.

use super::*;

const SITE: &[u8] = b"<WebsiteConfiguration><IndexDocument><Suffix>i</Suffix></IndexDocument></WebsiteConfiguration>";

/// A store with the bucket `site`, which everybody may read.
fn published() -> Fixture {
    let fixture = Fixture::new();
    fixture.call("PUT", "/site", &[], b"");
    assert_eq!(fixture.call("PUT", "/site?website", &[], SITE).status, 200);
    assert_eq!(fixture.call("DELETE", "/site?publicAccessBlock", &[], b"").status, 204);
    assert_eq!(fixture.call("PUT", "/site/dir/i", &[], b"page").status, 200);
    fixture
}

/// The answer to an unsigned request, whose path begins with `mount_length` bytes that name nothing.
fn ask(fixture: &Fixture, method: &str, path: &str, mount_length: usize, extra: &[(&str, &str)]) -> Response {
    let list: Vec<(&[u8], &[u8])> = [("host", "site.web.test")]
        .iter()
        .chain(extra)
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        .collect();
    let headers = Headers::new(&list);
    let head = RequestHead { method: method.as_bytes(), path: path.as_bytes(), query: b"", headers };
    let ingress = near(mount_length);
    assert!(fixture.gateway.form(&head, &ingress, &fixture.responder()).is_none());
    match fixture.begun(&head, &ingress) {
        Ok(request) => Arc::clone(&request).start(Bytes::new(), 0).unwrap_or_else(|| fixture.wait_answer()),
        Err(answer) => *answer,
    }
}

#[test]
fn a_server_below_a_path_leads_to_paths_below_it() {
    let fixture = published();
    let answer = ask(&fixture, "GET", "/s3/dir", 3, &[]);
    assert_eq!((answer.status, header(&answer, "location")), (302, Some("/s3/dir/")));
    let answer = ask(&fixture, "GET", "/s3/dir/", 3, &[]);
    assert_eq!((answer.status, fixture.content(answer)), (200, Ok(b"page".to_vec())));
    assert_eq!(ask(&fixture, "GET", "/s3/dir/", 0, &[]).status, 404);
    assert_eq!(ask(&fixture, "GET", "/s3", 9, &[]).status, 400);
}

#[test]
fn a_form_and_a_body_are_refused() {
    let fixture = published();
    let form = [("content-type", "multipart/form-data; boundary=x"), ("content-length", "9")];
    let answer = ask(&fixture, "POST", "/", 0, &form);
    assert_eq!(
        (answer.status, answer.closes, header(&answer, "x-amz-error-code")),
        (405, true, Some("MethodNotAllowed"))
    );
    let answer = ask(&fixture, "GET", "/dir/", 0, &[("content-length", "9")]);
    assert_eq!((answer.status, answer.closes), (200, true));
}

#[test]
fn tags_of_a_page_decide_on_it() {
    let fixture = published();
    assert_eq!(fixture.call("PUT", "/site/hidden", &[("x-amz-tagging", "hidden=yes")], b"page").status, 200);
    let policy = br#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*",
                      "Condition": {"StringEquals": {"s3:ExistingObjectTag/hidden": "yes"}}}}"#;
    assert_eq!(fixture.call("PUT", "/site?policy", &[], policy).status, 204);
    assert!(fixture.gateway.engine.catch_up(Duration::from_secs(30)).unwrap());
    assert_eq!(["/dir/i", "/hidden"].map(|path| ask(&fixture, "GET", path, 0, &[]).status), [200, 403]);
}

#[test]
fn the_log_hears_of_no_error_of_a_visitor() {
    let fixture = published();
    for (method, path, status) in [("GET", "/none", 404), ("HEAD", "/none", 404), ("PUT", "/dir/i", 405)] {
        let answer = ask(&fixture, method, path, 0, &[]);
        assert_eq!((answer.status, answer.error.is_none()), (status, true));
        assert_eq!(header(&answer, "content-type"), Some("text/html; charset=utf-8"));
    }
    let head = [("host", "site.web.test")];
    let list: Vec<(&[u8], &[u8])> = head.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let headers = Headers::new(&list);
    let described = fixture.gateway.describe(&RequestHead { method: b"GET", path: b"/", query: b"", headers }, 0);
    assert_eq!((described.bucket.as_deref(), described.operation), (Some("site"), None));
}
