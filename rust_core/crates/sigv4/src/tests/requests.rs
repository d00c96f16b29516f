//! The rules of the `Authorization` header, each broken in turn.

use std::sync::Arc;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::super::keys::SigningKey;
use super::super::{
    Authentication, ChunkMode, ChunkedDecoder, Credential, PayloadMode, Requirements, SKEW_MAX_MS, SignatureError,
    SigningKeys, authenticate, explain,
};
use super::diagnosis::judged;
use super::{ACCESS_KEY, MAY_24_2013, Request, SECRET, lookup, signed_put};

fn code(result: Result<super::Authenticated, SignatureError>) -> &'static str {
    match result {
        Ok(_) => "accepted",
        Err(error) => error.code(),
    }
}

#[test]
fn the_date_may_lie_fifteen_minutes_off_and_no_more() {
    let (request, at_ms) = (signed_put(), MAY_24_2013 * 1000);
    for off_ms in [0, SKEW_MAX_MS, -SKEW_MAX_MS, SKEW_MAX_MS - 1000, 1000 - SKEW_MAX_MS] {
        request.authenticate_at(at_ms + off_ms).expect("within the window");
    }
    for off_ms in
        [SKEW_MAX_MS + 1, -SKEW_MAX_MS - 1, SKEW_MAX_MS + 1000, -SKEW_MAX_MS - 1000, i64::MAX - at_ms, i64::MIN]
    {
        let refused = request.authenticate_at(at_ms.saturating_add(off_ms));
        assert_eq!(refused.expect_err("outside").code(), "RequestTimeTooSkewed");
    }
}

#[test]
fn dates() {
    let request = signed_put();
    let with = |change: &dyn Fn(&mut Request)| {
        let mut changed = request.clone();
        change(&mut changed);
        code(changed.authenticate())
    };
    assert_eq!(with(&|r| r.headers.retain(|(name, _)| name != b"x-amz-date")), "AccessDenied");
    assert_eq!(with(&|r| _ = r.add("x-amz-date", "20130524T000000Z")), "AccessDenied");
    for bad in [
        "",
        "20130524",
        "20130524T000060Z",
        "20130532T000000Z",
        "20130524T000000z",
        "2013-05-24T00:00:00Z",
        "+0130524T000000Z",
    ] {
        assert_eq!(with(&|r| _ = r.set("x-amz-date", bad)), "AccessDenied", "{bad}");
    }
    assert_eq!(with(&|r| _ = r.set("x-amz-date", "20130524T000001Z")), "SignatureDoesNotMatch");
    assert_eq!(with(&|r| _ = r.set("x-amz-date", "20130523T235959Z")), "AuthorizationHeaderMalformed");
}

/// A client without `x-amz-date` signs the moment of its `Date` header.
#[test]
fn the_date_header_stands_in() {
    for date in ["Fri, 24 May 2013 00:00:00 GMT", "Fri, 24 May 2013 00:00:00 -0000", "20130524T000000Z"] {
        let headers = [("host", "h"), ("date", date), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD")];
        let mut request = Request::new("GET", "/b/k", &headers);
        let canonical = format!(
            "GET\n/b/k\n\ndate:{date}\nhost:h\nx-amz-content-sha256:UNSIGNED-PAYLOAD\n\ndate;host;x-amz-content-sha256\n\
             UNSIGNED-PAYLOAD"
        );
        let hash = super::sha256_hex(canonical.as_bytes());
        let to_sign = format!("AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n{hash}");
        let signature = SigningKey::derive(SECRET, b"20130524", "us-east-1", "s3").sign(to_sign.as_bytes());
        let mut hex = Vec::new();
        super::super::canonical::push_hex(&mut hex, &signature);
        let hex = String::from_utf8_lossy(&hex);
        request.add(
            "authorization",
            &format!(
                "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20130524/us-east-1/s3/aws4_request,\
                 SignedHeaders=date;host;x-amz-content-sha256,Signature={hex}"
            ),
        );
        request.authenticate().expect(date);
    }
}

#[test]
fn every_amz_header_and_the_host_are_signed() {
    let mut added = signed_put();
    added.add("x-amz-acl", "public-read");
    let error = added.authenticate().expect_err("unsigned");
    assert_eq!(error, SignatureError::UnsignedHeaders { names: "x-amz-acl".to_owned() });
    assert_eq!((error.code(), error.status()), ("AccessDenied", 403));

    let without_host = Request::new("GET", "/b", &[]).signed("UNSIGNED-PAYLOAD", MAY_24_2013);
    let error = without_host.authenticate().expect_err("unsigned");
    assert_eq!(error, SignatureError::UnsignedHeaders { names: "host".to_owned() });

    let mut removed = signed_put();
    removed.headers.retain(|(name, _)| name != b"content-type");
    assert_eq!(removed.authenticate().expect_err("a signed header is gone"), SignatureError::SignatureDoesNotMatch);

    let mut unsigned_extra = signed_put();
    unsigned_extra.add("user-agent", "anything").add("expect", "100-continue");
    unsigned_extra.authenticate().expect("other headers need no signature");
}

#[test]
fn malformed_authorization_headers() {
    let request = signed_put();
    let good = request.header("authorization");
    let cases = [
        (good.replace("Credential=", "Credentials="), "AuthorizationHeaderMalformed"),
        (good.replace(", Signature=", ", Signature=0, Signature="), "AuthorizationHeaderMalformed"),
        (good.replace("SignedHeaders=", "SignedHeaders=zzz;"), "AuthorizationHeaderMalformed"),
        (good.replace("SignedHeaders=content-type;", "SignedHeaders=Content-Type;"), "AuthorizationHeaderMalformed"),
        (good.replace("host;", "host;host;"), "AuthorizationHeaderMalformed"),
        (good.replace("host;", "host;;"), "AuthorizationHeaderMalformed"),
        (good.replace("/s3/", "/ec2/"), "AuthorizationHeaderMalformed"),
        (good.replace("aws4_request", "aws5_request"), "AuthorizationHeaderMalformed"),
        (good.replace("/20130524/", "/20130525/"), "AuthorizationHeaderMalformed"),
        (good.replace("/20130524/", "/2013052/"), "AuthorizationHeaderMalformed"),
        (good.replace("/us-east-1/", "//"), "AuthorizationHeaderMalformed"),
        (good.replace("/us-east-1/", "/us-east-1/x/"), "AuthorizationHeaderMalformed"),
        (good.replace("/us-east-1/", "/us-east-2/"), "SignatureDoesNotMatch"),
        (good.replace(ACCESS_KEY, "AKIAIOSFODNN7EXAMPLF"), "InvalidAccessKeyId"),
        (good.replace(ACCESS_KEY, ""), "AuthorizationHeaderMalformed"),
        (good[..good.len() - 1].to_owned(), "SignatureDoesNotMatch"),
        (format!("{good}0"), "SignatureDoesNotMatch"),
        ("AWS4-HMAC-SHA256".to_owned(), "InvalidArgument"),
        ("AWS4-HMAC-SHA256 ".to_owned(), "InvalidArgument"),
        (String::new(), "InvalidArgument"),
        ("Basic dXNlcjpwYXNz".to_owned(), "InvalidArgument"),
        ("AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=".to_owned(), "InvalidRequest"),
        (good.replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), "NotImplemented"),
    ];
    for (authorization, expected) in cases {
        let mut changed = request.clone();
        changed.set("authorization", &authorization);
        assert_eq!(code(changed.authenticate()), expected, "{authorization}");
    }
    let mut compact = request.clone();
    compact.set("authorization", &good.replace(", ", ","));
    compact.authenticate().expect("spaces are optional");
    let mut twice = request.clone();
    twice.add("authorization", &good);
    assert_eq!(code(twice.authenticate()), "InvalidArgument");
    let mut mixed = request;
    mixed.query.extend_from_slice(b"&X-Amz-Signature=0");
    assert_eq!(code(mixed.authenticate()), "InvalidArgument");
}

#[test]
fn payload_declarations() {
    let unsigned = Request::new("PUT", "/b/k", &[("host", "h")]);
    let outcome = |payload: &str| unsigned.clone().signed(payload, MAY_24_2013).authenticate();
    assert!(matches!(outcome("UNSIGNED-PAYLOAD").expect("valid").payload, PayloadMode::Unsigned));
    let streaming = outcome("STREAMING-AWS4-HMAC-SHA256-PAYLOAD").expect("valid").payload;
    assert!(matches!(streaming, PayloadMode::StreamingSigned(_)));
    let trailer = outcome("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER").expect("valid").payload;
    assert!(matches!(trailer, PayloadMode::StreamingSignedTrailer(_)));
    let unsigned_trailer = outcome("STREAMING-UNSIGNED-PAYLOAD-TRAILER").expect("valid").payload;
    assert!(matches!(unsigned_trailer, PayloadMode::StreamingUnsignedTrailer));
    assert_eq!(code(outcome("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")), "NotImplemented");
    for bad in ["", "STREAMING-", "unsigned-payload", "abc", &"g".repeat(64), &"0".repeat(63)] {
        assert_eq!(code(outcome(bad)), "InvalidArgument", "{bad}");
    }
    let mut absent = signed_put();
    absent.headers.retain(|(name, _)| name != b"x-amz-content-sha256");
    assert_eq!(absent.authenticate().expect_err("absent"), SignatureError::MissingContentSha256);
    let mut twice = signed_put();
    twice.add("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    let sent = twice.header("x-amz-content-sha256");
    assert_eq!(twice.authenticate().expect_err("twice"), SignatureError::InvalidContentSha256 { value: sent });
    for (token, expected) in [("t", "InvalidToken"), ("", "accepted"), (" ", "accepted")] {
        let request = Request::new("GET", "/b", &[("host", "h"), ("x-amz-security-token", token)]);
        assert_eq!(code(request.signed("UNSIGNED-PAYLOAD", MAY_24_2013).authenticate()), expected, "{token:?}");
    }
}

/// curl signs so before version 8: over the hash of the body, without a header that says it.
#[test]
fn a_payload_hash_may_be_left_out_where_it_is_optional() {
    let canonical =
        format!("GET\n/_orcas/x\n\nhost:h\nx-amz-date:20130524T000000Z\n\nhost;x-amz-date\n{}", super::sha256_hex(b""));
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n{}",
        super::sha256_hex(canonical.as_bytes())
    );
    let signature = SigningKey::derive(SECRET, b"20130524", "us-east-1", "s3").sign(to_sign.as_bytes());
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;x-amz-date,\
         Signature={}",
        orcas_http::hex(&signature)
    );
    let headers = [("host", "h"), ("x-amz-date", "20130524T000000Z"), ("authorization", authorization.as_str())];
    let request = Request::new("GET", "/_orcas/x", &headers);
    assert_eq!(request.authenticate().expect_err("required by S3"), SignatureError::MissingContentSha256);
    let optional = Requirements {
        may_lack_region: false,
        presign_max_s: crate::PRESIGN_EXPIRES_S_MAX,
        any_signature: false,
        region: None,
        now_unix_ms: MAY_24_2013 * 1000,
        skew_max_ms: SKEW_MAX_MS,
        service: "s3",
        body: Some(Sha256::digest(b"").into()),
        session_token: None,
        version_two: None,
    };
    let verdict = |request: &Request| {
        request.with_head(|head| authenticate(head, &optional, &SigningKeys::new(), &lookup)).map(|it| it.payload)
    };
    let empty: [u8; 32] = Sha256::digest(b"").into();
    assert!(matches!(verdict(&request).expect("valid"), PayloadMode::Hash(hash) if hash == empty));
    let mut other = request;
    other.path = b"/_orcas/y".to_vec();
    assert_eq!(verdict(&other).expect_err("another path"), SignatureError::SignatureDoesNotMatch);
}

/// A form that is posted to a service whose clients do not say the hash of the body.
fn posted(service: &str, body: &[u8]) -> Request {
    let canonical =
        format!("POST\n/\n\nhost:h\nx-amz-date:20130524T000000Z\n\nhost;x-amz-date\n{}", super::sha256_hex(body));
    let scope = format!("20130524/us-east-1/{service}/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n20130524T000000Z\n{scope}\n{}", super::sha256_hex(canonical.as_bytes()));
    let signature = SigningKey::derive(SECRET, b"20130524", "us-east-1", service).sign(to_sign.as_bytes());
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope},SignedHeaders=host;x-amz-date,Signature={}",
        orcas_http::hex(&signature)
    );
    Request::new("POST", "/", &[("host", "h"), ("x-amz-date", "20130524T000000Z"), ("authorization", &authorization)])
}

#[test]
fn a_server_may_take_every_signature_for_valid() {
    let credential = "Credential=anybody/20130524/us-east-1/s3/aws4_request";
    let signature = "0".repeat(64);
    let authorization = format!(
        "AWS4-HMAC-SHA256 {credential},SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature={signature}"
    );
    let headers = [
        ("host", "h"),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        ("x-amz-date", "20130524T000000Z"),
        ("authorization", &authorization),
    ];
    let request = Request::new("PUT", "/b/k", &headers);
    assert_eq!(request.authenticate().expect_err("by default"), SignatureError::InvalidAccessKeyId);
    let lenient = Requirements {
        may_lack_region: false,
        presign_max_s: crate::PRESIGN_EXPIRES_S_MAX,
        any_signature: true,
        region: None,
        now_unix_ms: MAY_24_2013 * 1000,
        skew_max_ms: SKEW_MAX_MS,
        service: "s3",
        body: None,
        session_token: None,
        version_two: None,
    };
    let found = request.with_head(|head| authenticate(head, &lenient, &SigningKeys::new(), &lookup)).expect("any");
    assert_eq!(found.access_key, "anybody");
    let PayloadMode::StreamingSigned(context) = found.payload else { panic!("chunks are announced") };
    let mut decoder = ChunkedDecoder::new(ChunkMode::Signed(context), 3, b"");
    let body = format!("3;chunk-signature={signature}\r\nabc\r\n0;chunk-signature={signature}\r\n\r\n");
    let mut decoded = Vec::new();
    decoder.push(body.as_bytes(), &mut |data| decoded.extend_from_slice(data)).expect("any signature of a chunk");
    decoder.finish().expect("whole");
    assert_eq!(decoded, b"abc");
}

/// Also once the keys of the other service are in the cache.
#[test]
fn a_signature_is_for_one_service() {
    let keys = SigningKeys::new();
    let verdict = |request: &Request, service, body: &[u8]| {
        let requirements = Requirements {
            may_lack_region: false,
            presign_max_s: crate::PRESIGN_EXPIRES_S_MAX,
            any_signature: false,
            region: None,
            now_unix_ms: MAY_24_2013 * 1000,
            skew_max_ms: SKEW_MAX_MS,
            service,
            body: Some(Sha256::digest(body).into()),
            session_token: None,
            version_two: None,
        };
        request.with_head(|head| authenticate(head, &requirements, &keys, &lookup)).map(|it| it.access_key)
    };
    for _ in 0..2 {
        for service in ["iam", "s3"] {
            let request = posted(service, b"Action=x");
            assert_eq!(verdict(&request, service, b"Action=x").as_deref(), Ok(ACCESS_KEY));
            assert_eq!(verdict(&request, service, b"Action=y"), Err(SignatureError::SignatureDoesNotMatch));
            let other = if service == "s3" { "iam" } else { "s3" };
            let refused = verdict(&request, other, b"Action=x").expect_err("another service").to_string();
            assert!(refused.contains(&format!("This endpoint belongs to \"{other}\"")), "{refused}");
        }
    }
}

#[test]
fn a_strict_region_is_named_in_the_refusal() {
    let refused = signed_put().authenticate_with(&SigningKeys::new(), Some("eu-west-1"), MAY_24_2013 * 1000);
    let error = refused.expect_err("another region");
    assert_eq!(
        error.to_string(),
        "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'"
    );
    signed_put().authenticate_with(&SigningKeys::new(), Some("us-east-1"), MAY_24_2013 * 1000).expect("this region");
}

#[test]
fn requests_without_a_claim_are_anonymous() {
    let request = Request::new("GET", "/b/k?prefix=x", &[("host", "h")]);
    let anonymous = request.authenticate().expect("claims nobody");
    assert_eq!((anonymous.how, anonymous.access_key.as_str()), (Authentication::Anonymous, ""));
    let chained = Request::new("PUT", "/b/k", &[("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")]);
    assert_eq!(code(chained.authenticate()), "InvalidRequest");
    let version_two = Request::new("GET", "/b/k?AWSAccessKeyId=x&Signature=y&Expires=1", &[("host", "h")]);
    assert_eq!(version_two.authenticate().expect_err("version two"), SignatureError::UnsupportedMechanism);
}

#[test]
fn a_name_that_stands_twice_in_the_query_is_refused_however_well_signed() {
    for query in ["uploadId=a&uploadId=b", "prefix=a&prefix=a", "prefix=a&pre%66ix=b", "acl&x=1&acl", "=&="] {
        let headers = [("host", "h")];
        let signed = Request::new("GET", &format!("/b?{query}"), &headers).signed("UNSIGNED-PAYLOAD", MAY_24_2013);
        assert_eq!(code(signed.authenticate()), "InvalidArgument", "{query}");
    }
    let distinct = Request::new("GET", "/b?prefix=a&Prefix=a", &[("host", "h")]);
    distinct.signed("UNSIGNED-PAYLOAD", MAY_24_2013).authenticate().expect("names are told apart by case");
}

/// A request of minio-go 7.4.1, which sorts parameters by name only. Others sort by value as well.
#[test]
fn values_of_a_name_may_be_signed_in_the_order_of_the_request() {
    const SENT_S: i64 = 1_795_732_347;
    let events = ["events=s3%3AObjectRemoved%3A%2A", "events=s3%3AObjectCreated%3A%2A"];
    let ask = |first: &str, second: &str| {
        let target = format!("/bucket/?{first}&{second}&ping=10&prefix=in%2F&suffix=.txt");
        Request::new("GET", &target, &[("host", "127.0.0.1:39493"), ("user-agent", "MinIO (linux; amd64)")])
    };
    let signed = |mut request: Request| {
        let credential = format!("{ACCESS_KEY}/20261126/us-east-1/s3/aws4_request");
        let signature = "c73145d43410464a851b62094e018d65297d5be0306e539d00e85467fbb27dd8";
        request
            .add(
                "authorization",
                &format!(
                    "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host;x-amz-content-sha256;x-amz-date, \
                     Signature={signature}"
                ),
            )
            .add("x-amz-content-sha256", &super::sha256_hex(b""))
            .add("x-amz-date", "20261126T223227Z");
        request.authenticate_at(SENT_S * 1000)
    };
    signed(ask(events[0], events[1])).expect("in the order of the request");
    assert_eq!(code(signed(ask(events[1], events[0]))), "SignatureDoesNotMatch");
    for sorted in [ask(events[0], events[1]), ask(events[1], events[0])] {
        sorted.signed("UNSIGNED-PAYLOAD", SENT_S).authenticate_at(SENT_S * 1000).expect("sorted by value");
    }
}

/// Derived keys outlive requests, but neither a changed secret nor a stranger.
#[test]
fn the_key_cache_follows_the_secret_and_stays_bounded() {
    let (keys, now_ms) = (SigningKeys::new(), MAY_24_2013 * 1000);
    for _ in 0..3 {
        signed_put().authenticate_with(&keys, None, now_ms).expect("valid");
    }
    assert_eq!(keys.len(), 1);
    let mut forged = signed_put();
    let good = forged.header("authorization");
    forged
        .set("authorization", &good.replace("/us-east-1/", "/us-east-2/"))
        .authenticate_with(&keys, None, now_ms)
        .expect_err("forged");
    assert_eq!(keys.len(), 1);

    let requirements = Requirements {
        may_lack_region: false,
        presign_max_s: crate::PRESIGN_EXPIRES_S_MAX,
        any_signature: false,
        region: None,
        now_unix_ms: now_ms,
        skew_max_ms: SKEW_MAX_MS,
        service: "s3",
        body: None,
        session_token: None,
        version_two: None,
    };
    let rotated = |_: &str| Some(Credential { secret: Arc::from(&b"another"[..]), generation: 2 });
    let refused = signed_put().with_head(|head| authenticate(head, &requirements, &keys, &rotated));
    assert_eq!(refused.expect_err("the old secret"), SignatureError::SignatureDoesNotMatch);

    for region in 0..200 {
        let key = Arc::new(SigningKey::derive(SECRET, b"20130524", &region.to_string(), "s3"));
        keys.keep(ACCESS_KEY, 1, *b"20130524", (&region.to_string(), "s3"), key);
    }
    assert_eq!(keys.len(), 64);
    assert!(keys.get(ACCESS_KEY, 1, b"20130524", ("199", "s3")).is_some());
    assert!(keys.get(ACCESS_KEY, 1, b"20130524", ("0", "s3")).is_none());
}

/// A byte at any place of anything that the signature covers: changed, it is refused.
#[test]
fn every_single_byte_matters() {
    let request = signed_put();
    request.authenticate().expect("valid before it is changed");
    let mut tried = 0;
    let mut refuse = |changed: Request, what: &str| {
        tried += 1;
        if changed.with_head(explain) == request.with_head(explain)
            && changed.header("authorization") == request.header("authorization")
        {
            panic!("{what}: the change is not a change: {changed:?}");
        }
        assert!(changed.authenticate().is_err(), "{what} {changed:?}");
    };
    for flip in [1u8, 2, 4, 16, 64] {
        for at in 0..request.method.len() {
            let mut changed = request.clone();
            changed.method[at] ^= flip;
            refuse(changed, "method");
        }
        for at in 0..request.path.len() {
            let mut changed = request.clone();
            changed.path[at] ^= flip;
            refuse(changed, "path");
        }
        for at in 0..request.query.len() {
            let mut changed = request.clone();
            changed.query[at] ^= flip;
            refuse(changed, "query");
        }
        for (header, (_, value)) in request.headers.iter().enumerate() {
            for at in 0..value.len() {
                let mut changed = request.clone();
                changed.headers[header].1[at] ^= flip;
                // White space between the fields of the Authorization header is free, and so is its order.
                if std::str::from_utf8(&changed.headers[header].1).is_ok() {
                    refuse(changed, "header");
                }
            }
        }
    }
    assert!(tried > 2000, "{tried} changes");
}

proptest! {
    #[test]
    fn another_object_name_is_refused(path in "/[ -~]{0,24}", query in "[ -~]{0,24}") {
        let signed = signed_put();
        let mut changed = signed.clone();
        (changed.path, changed.query) = (path.into(), query.into());
        prop_assert!(changed.authenticate().is_err());
    }

    #[test]
    fn arbitrary_heads_never_panic(
        method in prop::collection::vec(any::<u8>(), 0..8),
        path in prop::collection::vec(any::<u8>(), 0..40),
        query in prop::collection::vec(any::<u8>(), 0..80),
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 6),
        fields in "(AWS4-HMAC-SHA256|AWS|AWS4-ECDSA-P256-SHA256)? ?(Credential=[a-z0-9/]{0,30})?,? ?(SignedHeaders=[a-z;-]{0,20})?,(Signature=[0-9a-f]{0,66})?",
    ) {
        let names = ["host", "x-amz-date", "date", "x-amz-content-sha256", "x-amz-decoded-content-length", "x-amz-meta-a"];
        let mut request = Request { method, path, query, headers: Vec::new() };
        for (name, value) in names.iter().zip(values) {
            request.headers.push((name.as_bytes().to_vec(), value));
        }
        let is_signed = !fields.is_empty();
        request.add("authorization", &fields);
        let outcome = request.authenticate();
        prop_assert!(outcome.is_err() || !is_signed);
        if is_signed {
            judged(&request, MAY_24_2013 * 1000, None);
        }
        let requirements = Requirements { may_lack_region: false, presign_max_s: crate::PRESIGN_EXPIRES_S_MAX, any_signature: false, region: None, now_unix_ms: i64::MIN, skew_max_ms: SKEW_MAX_MS, service: "s3", body: None, session_token: None, version_two: None };
        prop_assert!(request.with_head(|head| authenticate(head, &requirements, &SigningKeys::new(), &lookup)).is_err());
    }

    /// A broken part of an otherwise valid request gets further than noise does.
    #[test]
    fn spliced_requests_never_pass(at in 0usize..300, noise in prop::collection::vec(any::<u8>(), 1..12), header in 0usize..7) {
        let mut request = signed_put();
        let good = request.clone();
        let value = &mut request.headers[header].1;
        let at = at % (value.len() + 1);
        value.splice(at..at, noise.iter().copied());
        let same_words = |r: &Request| r.headers.iter().map(|(_, v)| {
            v.split(|b| b.is_ascii_whitespace() || *b == 0x0b).filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect::<Vec<_>>()
        }).collect::<Vec<_>>();
        prop_assume!(same_words(&request) != same_words(&good));
        prop_assert!(request.authenticate().is_err());
        for now_ms in [MAY_24_2013 * 1000, i64::MIN, i64::MAX] {
            judged(&request, now_ms, Some("eu-west-1"));
        }
    }
}
