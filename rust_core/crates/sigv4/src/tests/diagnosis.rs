//! What happens to requests between their signer and the server, and whether the cause is found.

use super::{ACCESS_KEY, MAY_24_2013, Request, SECRET, lookup, signed_put};
use crate::{
    Diagnosis, Requirements, SKEW_MAX_MS, ServerNames, SignatureError, Signer, SigningKeys, authenticate, diagnose,
};

const NOW_MS: i64 = MAY_24_2013 * 1000;

/// The refusal of a request, and what is found behind it.
pub(super) fn judged(request: &Request, now_unix_ms: i64, region: Option<&str>) -> (SignatureError, Option<Diagnosis>) {
    let requirements = Requirements {
        may_lack_region: false,
        presign_max_s: crate::PRESIGN_EXPIRES_S_MAX,
        any_signature: false,
        region,
        now_unix_ms,
        skew_max_ms: SKEW_MAX_MS,
        service: "s3",
        body: None,
        session_token: None,
        version_two: None,
    };
    let domains = ["s3.example.org".to_owned()];
    let names = ServerNames { region: "eu-west-1", domains: &domains };
    request.with_head(|head| {
        let error = authenticate(head, &requirements, &SigningKeys::new(), &lookup).expect_err("refused");
        let diagnosis = diagnose(head, &error, &requirements, &names, &lookup);
        (error, diagnosis)
    })
}

/// The cause found for a request that comes at the right time. What is told must not hold the signature that would be
/// right for it.
fn cause(request: &Request) -> String {
    let (_, diagnosis) = judged(request, NOW_MS, None);
    let diagnosis = diagnosis.expect("a diagnosis");
    let mut bare = request.clone();
    bare.headers
        .retain(|(name, _)| !matches!(name.as_slice(), b"authorization" | b"x-amz-date" | b"x-amz-content-sha256"));
    let right = bare.signed(&request.header("x-amz-content-sha256"), MAY_24_2013).header("authorization");
    let right = right.rsplit_once("Signature=").expect("signed").1.to_owned();
    assert!(!format!("{diagnosis:?}").contains(&right));
    let texts = diagnosis.explanation.expect("texts");
    let told = [texts.canonical_request.expect("a request"), texts.string_to_sign]
        .map(|text| String::from_utf8(text).expect("text"));
    assert!(!told.concat().contains(&right));
    diagnosis.cause.expect("a cause")
}

/// A GET of `signed` as it was signed, and as it came: with another target.
fn sent_as(signed: &str, sent: &str) -> Request {
    let mut request = Request::new("GET", signed, &[("host", "h:9000")]).signed("UNSIGNED-PAYLOAD", MAY_24_2013);
    let (path, query) = sent.split_once('?').unwrap_or((sent, ""));
    (request.path, request.query) = (path.into(), query.into());
    request
}

#[test]
fn a_host_that_a_proxy_changed_is_found() {
    let came = |host: &str, name: &str, value: &str| cause(signed_put().set("host", host).add(name, value));
    for told in [
        came("backend", "x-forwarded-host", "127.0.0.1:9000, other"),
        came("backend", "forwarded", "for=1.2.3.4; host=\"127.0.0.1:9000\";proto=https"),
        came("127.0.0.1", "x-forwarded-port", "9000"),
        came("backend:9000", "x-unrelated", "1"),
    ] {
        assert!(told.starts_with("Host: the client signed for '127.0.0.1:9000' and"), "{told}");
    }
    let of_domain = Request::new("GET", "/b/k", &[("host", "s3.example.org")]).signed("UNSIGNED-PAYLOAD", MAY_24_2013);
    assert!(cause(of_domain.clone().set("host", "backend:9000")).contains("signed for 's3.example.org'"));
    // Nothing says what it was: then at least that there was a proxy.
    let elsewhere = Request::new("GET", "/b/k", &[("host", "elsewhere")]).signed("UNSIGNED-PAYLOAD", MAY_24_2013);
    let told = cause(elsewhere.clone().set("host", "backend").add("via", "1.1 proxy"));
    assert!(told.contains("secret key") && told.contains("through a proxy ('via')"), "{told}");
}

#[test]
fn what_was_changed_on_the_way_is_found() {
    for (signed, sent, told) in [
        ("/b/a%2520b", "/b/a%20b", "encodes the path twice"),
        ("/b/a%20b", "/b/a%2520b", "encoded once more"),
        ("/b/a/c", "/b//a/./x/../c", "without '//'"),
        ("/b/a%20b", "/b/a+b", "space where '+'"),
        ("/b/a", "/b/a/", "a slash at the end"),
        ("/b/a?x=1%2B2", "/b/a?x=1+2", "signed '+' as %2B"),
        ("/b/a", "/b/a?prefix=x", "left the query out"),
    ] {
        let found = cause(&sent_as(signed, sent));
        assert!(found.contains(told), "{signed} {sent}: {found}");
    }
    assert!(cause(sent_as("/api/b/k", "/b/k").add("x-forwarded-prefix", "/api/")).contains("prefix"));
    assert!(cause(sent_as("/x/b/k", "/b/k").add("x-original-uri", "/x/b/k?y")).contains("changed the path"));
    let mut method = sent_as("/b/k", "/b/k");
    method.method = b"HEAD".to_vec();
    assert!(cause(&method).contains("signed as GET and arrived as HEAD"));
    let mut gone = signed_put();
    gone.headers.retain(|(name, _)| name != b"content-type");
    assert!(cause(&gone).contains("'content-type' was signed and did not arrive"));
    let encoding = Request::new("GET", "/b/k", &[("host", "h"), ("accept-encoding", "identity")]);
    let mut encoding = encoding.signed("UNSIGNED-PAYLOAD", MAY_24_2013);
    assert!(cause(encoding.set("accept-encoding", "gzip, br")).contains("'accept-encoding' was changed"));
    let payload = cause(signed_put().set("x-amz-content-sha256", &"0".repeat(64)));
    assert!(payload.contains("secret key"), "another hash of another body cannot be guessed: {payload}");
}

#[test]
fn mistakes_of_the_signer_are_found() {
    let secret = |secret: &[u8]| {
        let signer = Signer::new(ACCESS_KEY, secret, "us-east-1", MAY_24_2013).expect("a signer");
        let mut request = Request::new("GET", "/b/k", &[("host", "h")]);
        for (name, value) in request.with_head(|head| signer.sign_request(head, "UNSIGNED-PAYLOAD")).expect("signed") {
            request.add(name, &value);
        }
        cause(&request)
    };
    assert!(secret(b"another secret").starts_with("most likely the secret key"));
    assert!(secret(&[SECRET, b"\n"].concat()).contains("line end"));
    assert!(secret(&[b" ", SECRET].concat()).contains("space"));

    let mut region = signed_put();
    let authorization = region.header("authorization").replace("/us-east-1/", "/us-east-2/");
    region.set("authorization", &authorization);
    let told = cause(&region);
    assert!(told.contains("signed for 'us-east-1' and names 'us-east-2'"), "{told}");
    let mut broken = signed_put();
    let authorization = broken.header("authorization");
    broken.set("authorization", &authorization[..authorization.len() - 1]);
    assert!(judged(&broken, NOW_MS, None).1.is_some_and(|it| it.cause.is_some_and(|told| told.contains("64"))));
}

#[test]
fn what_is_refused_before_the_signature_is_told_too() {
    let told = |request: &Request, now_ms, region| {
        let (error, diagnosis) = judged(request, now_ms, region);
        (error, diagnosis.and_then(|diagnosis| diagnosis.cause).expect("a cause"))
    };
    let (error, late) = told(&signed_put(), NOW_MS + 3_600_000, None);
    let now_ms = NOW_MS + 3_600_000;
    let signed_at = "20130524T000000Z".to_owned();
    assert_eq!(error, SignatureError::RequestTimeTooSkewed { signed_at, now_ms, skew_max_ms: SKEW_MAX_MS });
    assert!(late.contains("3600 seconds behind"), "{late}");
    let (_, early) = told(&signed_put(), NOW_MS - 3_600_000, None);
    assert!(early.contains("3600 seconds ahead"), "{early}");
    let url = Request::new("GET", "/b/k", &[("host", "h")]).presigned(60, MAY_24_2013);
    let (error, expired) = told(&url, NOW_MS + 100_000, None);
    let (expired_ms, now_ms) = (NOW_MS + 60_000, NOW_MS + 100_000);
    assert_eq!(error, SignatureError::RequestExpired { expired_ms, now_ms, lifetime_s: Some(60) });
    assert!(expired.contains("for 60 seconds and came 100 seconds later"), "{expired}");
    let (_, region) = told(&signed_put(), NOW_MS, Some("eu-west-1"));
    assert!(region.contains("signs for 'us-east-1'") && region.contains("'eu-west-1' only"), "{region}");
    let (_, added) = told(signed_put().add("x-amz-acl", "private"), NOW_MS, None);
    assert!(added.contains("'x-amz-acl' came without being signed"), "{added}");
    let mut unknown = signed_put();
    let authorization = unknown.header("authorization").replace(ACCESS_KEY, "NOBODY");
    let (_, nobody) = told(unknown.set("authorization", &authorization), NOW_MS, None);
    assert!(nobody.contains("unknown access key"), "{nobody}");
}

#[test]
fn large_heads_are_not_looked_into() {
    let mut large = signed_put();
    large.add("x-padding", &"x".repeat(8 * 1024)).set("host", "backend");
    let (error, diagnosis) = judged(&large, NOW_MS, None);
    assert_eq!((error, diagnosis), (SignatureError::SignatureDoesNotMatch, None));
}
