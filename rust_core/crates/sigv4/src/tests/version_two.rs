//! Presigned requests of version 2: the published vector, and hostile variations.

use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use sha1::Sha1;

use super::super::{
    Authenticated, Authentication, Credential, PRESIGN_EXPIRES_S_MAX, PayloadMode, Requirements, SKEW_MAX_MS,
    SignatureError, SigningKeys, VersionTwo, authenticate,
};
use super::{ACCESS_KEY, MAY_24_2013, Request, SECRET, lookup};
use orcas_checksum::base64_encode;
use orcas_http::percent_encode_into;

const EXPIRES: i64 = MAY_24_2013 + 60;

fn hosted(host: &[u8], _: &[String]) -> Option<String> {
    let host = std::str::from_utf8(host).ok()?;
    host.strip_suffix(".s3").map(str::to_owned)
}

fn is_resource(name: &[u8]) -> bool {
    name.starts_with(b"response-") || [&b"uploads"[..], b"uploadId", b"partNumber", b"versionId"].contains(&name)
}

fn authenticate_at(request: &Request, now_ms: i64, region: Option<&str>) -> Result<Authenticated, SignatureError> {
    let version_two = Some(VersionTwo { domains: &[], hosted_bucket: hosted, is_resource });
    let requirements = Requirements {
        may_lack_region: false,
        presign_max_s: crate::PRESIGN_EXPIRES_S_MAX,
        any_signature: false,
        region,
        now_unix_ms: now_ms,
        skew_max_ms: SKEW_MAX_MS,
        service: "s3",
        body: None,
        session_token: None,
        version_two,
    };
    request.with_head(|head| authenticate(head, &requirements, &SigningKeys::new(), &lookup))
}

fn verdict(request: &Request) -> Result<Authenticated, SignatureError> {
    authenticate_at(request, MAY_24_2013 * 1000, None)
}

fn code(request: &Request) -> &'static str {
    verdict(request).map_or_else(|error| error.code(), |_| "accepted")
}

/// The query parameters that sign `text`.
fn signature(secret: &[u8], expires: &str, text: &str) -> String {
    let mac = Hmac::<Sha1>::new_from_slice(secret).unwrap().chain_update(text).finalize().into_bytes();
    let mut query = format!("AWSAccessKeyId={ACCESS_KEY}&Expires={expires}&Signature=").into_bytes();
    percent_encode_into(&mut query, base64_encode(&mac).as_bytes(), false);
    String::from_utf8(query).unwrap()
}

/// A request whose signature is over `text`, which begins behind the method.
fn presigned(method: &str, target: &str, headers: &[(&str, &str)], text: &str) -> Request {
    let mut request = Request::new(method, target, headers);
    let sign = signature(SECRET, &EXPIRES.to_string(), &format!("{method}\n{text}"));
    let separator = if request.query.is_empty() { "" } else { "&" };
    request.query.extend_from_slice(format!("{separator}{sign}").as_bytes());
    request
}

fn get() -> Request {
    presigned("GET", "/b/a%20k", &[("host", "h")], &format!("\n\n{EXPIRES}\n/b/a%20k"))
}

/// "Query string request authentication alternative".
#[test]
fn s3_documentation() {
    let target = "/photos/puppy.jpg?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1175139620\
                  &Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D";
    let request = Request::new("GET", target, &[("host", "johnsmith.s3")]);
    let authenticated = authenticate_at(&request, 1_175_139_620_000, None).expect("as published");
    assert_eq!(
        (authenticated.access_key.as_str(), authenticated.how),
        (ACCESS_KEY, Authentication::PresignedVersionTwo)
    );
    assert!(matches!(authenticated.payload, PayloadMode::Unsigned) && authenticated.stamp.is_none());
    let late = authenticate_at(&request, 1_175_139_620_001, None).expect_err("late");
    assert_eq!((late.code(), late.status(), late.to_string().as_str()), ("AccessDenied", 403, "Request has expired"));
}

#[test]
fn what_is_signed() {
    let all = [("host", "h"), ("content-md5", "m"), ("content-type", "t"), ("x-amz-meta-b", " 2 "), ("x-amz-a", "1")];
    let lines =
        format!("m\nt\n{EXPIRES}\nx-amz-a:1\nx-amz-meta-b:2\n/b/k?partNumber=1&response-expires=a b&uploadId=u");
    for (headers, query) in [
        (&all[..], "uploadId=u&prefix=ignored&response-expires=a%20b&partNumber=1"),
        (
            &all[..1],
            "content-md5=m&uploadId=u&x-amz-meta-b=2&Content-Type=t&partNumber=1&response-expires=a+b&X-Amz-A=1",
        ),
        (&all[..3], "content-type=t&uploadId=u&x-amz-meta-b=2&partNumber=1&response-expires=a%20b&x-amz-a=1"),
    ] {
        let request = presigned("PUT", &format!("/b/k?{query}"), headers, &lines);
        assert_eq!(code(&request), "accepted", "{query}");
    }
    for (host, path) in [("h", "/b/k"), ("b.s3", "/k")] {
        for (query, signed) in [("uploads", "uploads"), ("uploads=", "uploads="), ("uploads=", "uploads")] {
            let text = format!("\n\n{EXPIRES}\n/b/k?{signed}");
            let request = presigned("POST", &format!("{path}?{query}"), &[("host", host)], &text);
            assert_eq!(code(&request), "accepted", "{host} {query} {signed}");
        }
    }
}

/// botocore signs a bucket with a slash behind it and sends it without; both name the bucket.
#[test]
fn a_bucket_may_be_signed_with_a_slash() {
    for (host, target, signed, expected) in [
        ("h", "/b", "/b", "accepted"),
        ("h", "/b", "/b/", "accepted"),
        ("h", "/b/", "/b/", "accepted"),
        ("h", "/b?uploads=", "/b/?uploads", "accepted"),
        ("b.s3", "/", "/b/", "accepted"),
        ("h", "/b/", "/b", "SignatureDoesNotMatch"),
        ("h", "/b/k", "/b/k/", "SignatureDoesNotMatch"),
        ("b.s3", "/k", "/b/k/", "SignatureDoesNotMatch"),
        ("h", "/", "//", "SignatureDoesNotMatch"),
    ] {
        let request = presigned("GET", target, &[("host", host)], &format!("\n\n{EXPIRES}\n{signed}"));
        assert_eq!(code(&request), expected, "{host} {target} {signed}");
    }
}

#[test]
fn each_part_changed() {
    assert_eq!(code(&get()), "accepted");
    let changed = |change: &dyn Fn(&mut Request)| {
        let mut request = get();
        change(&mut request);
        code(&request)
    };
    let mismatch = "SignatureDoesNotMatch";
    assert_eq!(changed(&|r| r.method = b"PUT".to_vec()), mismatch);
    assert_eq!(changed(&|r| r.path = b"/b/a%20l".to_vec()), mismatch);
    assert_eq!(changed(&|r| r.path = b"/b/a k".to_vec()), mismatch);
    assert_eq!(changed(&|r| _ = r.set("host", "b.s3")), mismatch);
    assert_eq!(changed(&|r| _ = r.set("host", "another")), "accepted", "without a bucket in it the host is not signed");
    assert_eq!(changed(&|r| _ = r.add("content-type", "t")), mismatch);
    assert_eq!(changed(&|r| _ = r.add("content-md5", "m")), mismatch);
    assert_eq!(changed(&|r| _ = r.add("range", "bytes=0-1")), "accepted");
    for name in ["x-amz-acl", "x-amz-meta-a", "x-amz-copy-source", "x-amz-date", "x-amz-content-sha256"] {
        assert_eq!(changed(&|r| _ = r.add(name, "UNSIGNED-PAYLOAD")), mismatch, "{name}");
        assert_eq!(changed(&|r| r.query.extend(format!("&{name}=1").bytes())), mismatch, "{name}");
    }
    assert_eq!(changed(&|r| _ = r.add("x-amz-security-token", "t")), "InvalidToken");
    assert_eq!(changed(&|r| _ = r.add("x-amz-security-token", "")), mismatch, "empty, but signed like any other");
    for name in ["uploads", "uploadId=u", "versionId=1", "response-content-type=a", "respons%65-expires=1"] {
        assert_eq!(changed(&|r| r.query.extend(format!("&{name}").bytes())), mismatch, "{name}");
    }
    assert_eq!(changed(&|r| r.query.extend(b"&prefix=a")), "accepted");
    assert_eq!(changed(&|r| r.query.extend(b"&prefix=a&prefix=b")), "InvalidArgument");
    assert_eq!(changed(&|r| r.query.extend(b"&Expires=1")), "InvalidArgument");
    assert_eq!(changed(&|r| r.query.extend(b"&X-Amz-Signature=1")), "InvalidArgument");
    assert_eq!(changed(&|r| r.query.extend(b"&x-amz-meta-a=1&X-Amz-Meta-A=1")), "InvalidArgument");
    assert_eq!(changed(&|r| _ = r.add("authorization", "AWS a:b")), "InvalidArgument");
    assert_eq!(changed(&|r| r.query.extend(b"&%zz")), "InvalidURI");
}

#[test]
fn the_parameters_of_the_signature() {
    let replaced = |from: &str, to: &str| {
        let mut request = get();
        let query = String::from_utf8(request.query.clone()).unwrap();
        assert!(query.contains(from), "{from}");
        request.query = query.replace(from, to).into();
        verdict(&request).expect_err(to).code()
    };
    let expires = format!("Expires={EXPIRES}");
    for (from, to, expected) in [
        (format!("AWSAccessKeyId={ACCESS_KEY}"), String::new(), "AccessDenied"),
        (ACCESS_KEY.to_owned(), "AKIANOBODY".to_owned(), "InvalidAccessKeyId"),
        (ACCESS_KEY.to_owned(), String::new(), "InvalidAccessKeyId"),
        (ACCESS_KEY.to_owned(), "a".repeat(129), "InvalidAccessKeyId"),
        (expires.clone(), String::new(), "AccessDenied"),
        (expires.clone(), "Expires=soon".to_owned(), "AccessDenied"),
        (expires.clone(), "Expires=".to_owned(), "AccessDenied"),
        (expires.clone(), "Expires=-1".to_owned(), "AccessDenied"),
        (expires.clone(), "Expires=99999999999999999999".to_owned(), "AccessDenied"),
        (expires.clone(), format!("Expires={}", EXPIRES + 1), "SignatureDoesNotMatch"),
        (expires.clone(), format!("Expires=0{EXPIRES}"), "SignatureDoesNotMatch"),
        (expires, format!("Expires={}", MAY_24_2013 - 1), "AccessDenied"),
        ("Signature=".to_owned(), "Signatur=".to_owned(), "AccessDenied"),
        ("Signature=".to_owned(), "Signature=AAAA".to_owned(), "SignatureDoesNotMatch"),
    ] {
        assert_eq!(replaced(&from, &to), expected, "{from} -> {to}");
    }
    let mut wrong = Request::new("GET", "/b/k", &[("host", "h")]);
    let text = format!("GET\n\n\n{EXPIRES}\n/b/k");
    wrong.query = signature(b"another secret", &EXPIRES.to_string(), &text).into();
    assert_eq!(code(&wrong), "SignatureDoesNotMatch");
    assert_eq!(
        authenticate_at(&get(), MAY_24_2013 * 1000, Some("us-east-1")).expect_err("strict").code(),
        "InvalidRequest"
    );
}

#[test]
fn an_expiry_may_lie_a_week_ahead() {
    let at = |expires: i64| {
        let mut request = Request::new("GET", "/b/k", &[("host", "h")]);
        request.query = signature(SECRET, &expires.to_string(), &format!("GET\n\n\n{expires}\n/b/k")).into();
        code(&request)
    };
    let latest = MAY_24_2013 + PRESIGN_EXPIRES_S_MAX + SKEW_MAX_MS / 1000;
    assert_eq!((at(MAY_24_2013), at(latest)), ("accepted", "accepted"));
    assert_eq!(at(MAY_24_2013 - 1), "AccessDenied");
    for expires in [latest + 1, i64::MAX] {
        assert_eq!(at(expires), "AuthorizationQueryParametersError");
    }
}

/// Nothing is encoded in what version 2 signs, so one text could stand for two requests.
#[test]
fn nothing_can_be_cut_in_another_place() {
    let text = format!("\n\n{EXPIRES}\n/b/k?response-expires=a&uploadId=b");
    let apart = presigned("GET", "/b/k?response-expires=a&uploadId=b", &[("host", "h")], &text);
    let joined = presigned("GET", "/b/k?response-expires=a%26uploadId=b", &[("host", "h")], &text);
    let harmless = format!("\n\n{EXPIRES}\n/b/k?response-expires=a&other=b");
    let harmless = presigned("GET", "/b/k?response-expires=a%26other=b", &[("host", "h")], &harmless);
    assert_eq!((code(&apart), code(&joined), code(&harmless)), ("accepted", "SignatureDoesNotMatch", "accepted"));
    let lines = format!("\n\n{EXPIRES}\nx-amz-meta-a:1\nx-amz-meta-b:2\n/b/k");
    let apart = presigned("PUT", "/b/k?x-amz-meta-a=1&x-amz-meta-b=2", &[("host", "h")], &lines);
    let joined = presigned("PUT", "/b/k?x-amz-meta-a=1%0Ax-amz-meta-b:2", &[("host", "h")], &lines);
    let moved = format!("\n\n{EXPIRES}\n/b/k");
    let moved = presigned("PUT", "/b/k?content-type=%0A", &[("host", "h")], &moved);
    assert_eq!(
        (code(&apart), code(&joined), code(&moved)),
        ("accepted", "SignatureDoesNotMatch", "SignatureDoesNotMatch")
    );
    let one = presigned("PUT", "/b/k?x-amz-meta-a%3A1%0Ax-amz-meta-b=2", &[("host", "h")], &lines);
    assert_eq!(code(&one), "SignatureDoesNotMatch", "two headers as the name of one");
    let source = format!("\n\n{EXPIRES}\nx-amz-copy-source:/b/a:1\n/b/k");
    let copy = presigned("PUT", "/b/k?x-amz-copy-source=%2Fb%2Fa%3A1", &[("host", "h")], &source);
    let put = presigned("PUT", "/b/k?x-amz-copy-source%3A%2Fb%2Fa=1", &[("host", "h")], &source);
    assert_eq!((code(&copy), code(&put)), ("accepted", "SignatureDoesNotMatch"), "a value that is half in the name");
    let both = presigned("PUT", "/b/k?x-amz-meta-a=1", &[("host", "h"), ("x-amz-meta-a", "2")], &lines);
    assert_eq!(code(&both), "InvalidArgument");
}

#[test]
fn a_server_may_take_none() {
    let requirements = Requirements {
        may_lack_region: false,
        presign_max_s: crate::PRESIGN_EXPIRES_S_MAX,
        any_signature: false,
        region: None,
        now_unix_ms: MAY_24_2013 * 1000,
        skew_max_ms: SKEW_MAX_MS,
        service: "s3",
        body: None,
        session_token: None,
        version_two: None,
    };
    let nobody: &dyn Fn(&str) -> Option<Credential> = &|_| panic!("no key is looked up");
    let refused = get().with_head(|head| authenticate(head, &requirements, &SigningKeys::new(), nobody)).map(|_| ());
    assert_eq!(refused, Err(SignatureError::UnsupportedMechanism));
}

proptest! {
    #[test]
    fn no_byte_of_the_address_can_be_changed(at in 0usize..400, byte in any::<u8>()) {
        let target = "/b/k%C3%A9?x-amz-meta-a=1&uploadId=u%2Fv&response-content-disposition=a%3Bb";
        let lines = format!("\n\n{EXPIRES}\nx-amz-meta-a:1\n/b/k%C3%A9?response-content-disposition=a;b&uploadId=u/v");
        let mut request = presigned("PUT", target, &[("host", "h")], &lines);
        prop_assert_eq!(code(&request), "accepted");
        let path = request.path.len();
        let at = at % (path + request.query.len());
        let place = if at < path { &mut request.path[at] } else { &mut request.query[at - path] };
        // Escapes may be written in either case in the query, and names of headers.
        prop_assume!(!place.eq_ignore_ascii_case(&byte));
        *place = byte;
        prop_assert!(verdict(&request).is_err());
    }

    #[test]
    fn whatever_comes_is_judged(query in "[ -~]{0,80}", value in "[ -~]{0,20}") {
        let query = format!("AWSAccessKeyId={ACCESS_KEY}&Expires={EXPIRES}&Signature={value}&{query}");
        let request = Request::new("GET", &format!("/b/k?{query}"), &[("host", "h")]);
        prop_assert!(verdict(&request).is_err());
    }
}
