//! The rules of presigned requests.

use proptest::prelude::*;

use super::super::{PayloadMode, SKEW_MAX_MS, SignatureError, SigningKeys};
use super::{MAY_24_2013, Request};

fn presigned(expires_s: i64) -> Request {
    Request::new("GET", "/bucket/key?versionId=1", &[("host", "h")]).presigned(expires_s, MAY_24_2013)
}

fn replaced(from: &str, to: &str) -> Request {
    let mut request = presigned(60);
    let query = String::from_utf8(request.query.clone()).expect("text");
    assert!(query.contains(from), "{from}");
    request.query = query.replace(from, to).into();
    request
}

#[test]
fn a_presigned_request_lives_as_long_as_it_says() {
    let at_ms = MAY_24_2013 * 1000;
    for (expires_s, live_ms) in [(1, 1000), (60, 60_000), (604_800, 604_800_000)] {
        presigned(expires_s).authenticate_at(at_ms).expect("alive");
        presigned(expires_s).authenticate_at(at_ms + live_ms).expect("in its last moment");
        let late = presigned(expires_s).authenticate_at(at_ms + live_ms + 1).expect_err("expired");
        assert_eq!((late.code(), late.to_string().as_str()), ("AccessDenied", "Request has expired"));
    }
    presigned(60).authenticate_at(at_ms - SKEW_MAX_MS).expect("a clock may be slow");
    let early = presigned(60).authenticate_at(at_ms - SKEW_MAX_MS - 1).expect_err("signed in the future");
    assert_eq!((early.code(), early.to_string().as_str()), ("AccessDenied", "Request is not valid yet"));
}

#[test]
fn lives_out_of_bounds_are_refused_however_well_signed() {
    for expires_s in [0, -1, 604_801, i64::MAX, i64::MIN] {
        let error = presigned(expires_s).authenticate().expect_err("out of bounds");
        assert_eq!((error.code(), error.status()), ("AuthorizationQueryParametersError", 400), "{expires_s}");
    }
    for text in ["", "+60", "6e1", "60%20", "0x3c", "99999999999999999999"] {
        let error = replaced("X-Amz-Expires=60", &format!("X-Amz-Expires={text}")).authenticate().expect_err(text);
        assert_eq!(error.code(), "AuthorizationQueryParametersError", "{text}");
    }
}

#[test]
fn a_server_may_accept_shorter_lives_only() {
    presigned(60).authenticate_within(60).expect("as long as it may be");
    let error = presigned(61).authenticate_within(60).expect_err("longer");
    assert_eq!((error.code(), error.status()), ("AuthorizationQueryParametersError", 400));
    assert!(error.to_string().contains("at most 60 seconds"), "{error}");
}

#[test]
fn broken_parameters() {
    let malformed = "AuthorizationQueryParametersError";
    let cases = [
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256&", "", malformed),
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Algorithm=AWS4-HMAC-SHA512", malformed),
        ("X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256", "NotImplemented"),
        ("X-Amz-Date=20130524T000000Z&", "", malformed),
        ("X-Amz-Date=20130524T000000Z", "X-Amz-Date=20130525T000000Z", malformed),
        ("X-Amz-Date=20130524T000000Z", "X-Amz-Date=20130524T000001Z", "SignatureDoesNotMatch"),
        ("X-Amz-Expires=60&", "", malformed),
        ("X-Amz-Expires=60", "X-Amz-Expires=61", "SignatureDoesNotMatch"),
        ("X-Amz-SignedHeaders=host&", "", malformed),
        ("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=", malformed),
        ("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=range", "AccessDenied"),
        ("&X-Amz-Signature=", "&X-Amz-Security-Token=t&X-Amz-Signature=", "InvalidToken"),
        ("&X-Amz-Signature=", "&X-Amz-Security-Token=&X-Amz-Signature=", "SignatureDoesNotMatch"),
        ("&X-Amz-Signature=", "&x-id=GetObject&X-Amz-Signature=", "SignatureDoesNotMatch"),
        ("X-Amz-Signature=", "X-Amz-Signature=0", "SignatureDoesNotMatch"),
        ("X-Amz-Signature=", "X-Amz-Signatur=", malformed),
        ("%2Fs3%2F", "%2Fsts%2F", malformed),
        ("%2Fus-east-1%2F", "%2Fus-east-2%2F", "SignatureDoesNotMatch"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7NOBODY", "InvalidAccessKeyId"),
        ("versionId=1", "versionId=2", "SignatureDoesNotMatch"),
        ("versionId=1", "versionId=1&versionId=1", "InvalidArgument"),
        ("X-Amz-Expires=60", "X-Amz-Expires=60&X-Amz-Expires=60", "InvalidArgument"),
        ("X-Amz-Expires=60", "X-Amz-Expires=60&X%2DAmz-Expires=60", "InvalidArgument"),
        ("versionId=1", "versionId=%1", "InvalidURI"),
    ];
    for (from, to, expected) in cases {
        let error = replaced(from, to).authenticate().expect_err(to);
        assert_eq!(error.code(), expected, "{from} -> {to}");
    }
    let strict = presigned(60).authenticate_with(&SigningKeys::new(), Some("eu-west-1"), MAY_24_2013 * 1000);
    assert!(matches!(strict.expect_err("another region"), SignatureError::WrongRegionInQuery { .. }));
    replaced("X-Amz-Expires", "X%2DAmz%2DExpires").authenticate().expect("one spelling of the same name");
}

#[test]
fn another_method_or_header_is_refused() {
    let mut other_method = presigned(60);
    other_method.method = b"DELETE".to_vec();
    assert_eq!(other_method.authenticate().expect_err("method").code(), "SignatureDoesNotMatch");
    for name in ["x-amz-acl", "x-amz-meta-a", "x-amz-content-sha256", "x-amz-date", "x-amz-copy-source"] {
        let mut added = presigned(60);
        added.add(name, "UNSIGNED-PAYLOAD");
        assert_eq!(added.authenticate().expect_err(name).code(), "AccessDenied", "{name}");
    }
    let mut other_host = presigned(60);
    other_host.set("host", "other");
    assert_eq!(other_host.authenticate().expect_err("host").code(), "SignatureDoesNotMatch");
    let mut mixed = presigned(60);
    mixed.add("authorization", "AWS4-HMAC-SHA256 x");
    assert_eq!(mixed.authenticate().expect_err("two mechanisms").code(), "InvalidArgument");
}

/// The SDKs that sign the payload of a presigned request put its hash into the query.
#[test]
fn the_payload_hash_may_stand_in_the_query() {
    let hash = super::sha256_hex(b"body");
    let target = format!("/b/k?X-Amz-Content-Sha256={hash}");
    let request = Request::new("PUT", &target, &[("host", "h")]).presigned(60, MAY_24_2013);
    let explained = request.with_head(super::super::explain).expect("signed");
    assert!(
        explained.canonical_request.expect("a request").ends_with(hash.as_bytes()),
        "the hash stands for the payload"
    );
    let mut conflicting = request;
    conflicting.add("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    assert_eq!(conflicting.authenticate().expect_err("conflict"), SignatureError::InvalidContentSha256 { value: hash });
    let named = Request::new("PUT", "/b/k", &[("host", "h"), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD")]);
    let authenticated = named.presigned(60, MAY_24_2013).authenticate().expect("signed header");
    assert!(matches!(authenticated.payload, PayloadMode::Unsigned));
}

proptest! {
    #[test]
    fn arbitrary_presigned_queries_never_pass(
        values in prop::collection::vec("[ -~]{0,40}", 6),
        signature in "[0-9a-f]{64}",
        at in 0usize..400,
        byte in any::<u8>(),
    ) {
        let names = ["Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Content-Sha256"];
        let mut query = format!("X-Amz-Signature={signature}");
        for (name, value) in names.iter().zip(values) {
            query.push_str(&format!("&X-Amz-{name}={value}"));
        }
        let request = Request::new("GET", &format!("/b/k?{query}"), &[("host", "h")]);
        prop_assert!(request.authenticate().is_err());
        let mut changed = presigned(60);
        let at = at % changed.query.len();
        // Escapes may be written in either case.
        prop_assume!(!changed.query[at].eq_ignore_ascii_case(&byte));
        changed.query[at] = byte;
        prop_assert!(changed.authenticate().is_err());
    }
}
