//! What AWS published and what botocore really sends.

use super::super::canonical::{CanonicalQuery, CanonicalRequest, canonical_path, push_hex, string_to_sign};
use super::super::date::Timestamp;
use super::super::keys::SigningKey;
use super::super::{
    Authentication, ChunkMode, ChunkedDecoder, PayloadMode, SigningKeys, decoded_length, explain, sha256_hex,
};
use super::{ACCESS_KEY, MAY_24_2013, Request, signer};
use orcas_http::Query;

const S3_HOST: (&str, &str) = ("host", "examplebucket.s3.amazonaws.com");

/// Method, target, headers, body, signature.
type Example<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8], &'a str);

/// "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk", all four examples.
#[test]
fn s3_documentation_single_chunk() {
    let put = [S3_HOST, ("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
    let cases: [Example<'_>; 4] = [
        (
            "GET",
            "/test.txt",
            &[S3_HOST, ("range", "bytes=0-9")],
            b"",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test$file.text",
            &put,
            b"Welcome to Amazon S3.",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        ("GET", "/?lifecycle", &[S3_HOST], b"", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "GET",
            "/?prefix=J&max-keys=2",
            &[S3_HOST],
            b"",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ];
    for (method, target, headers, body, signature) in cases {
        let request = Request::new(method, target, headers).signed(&sha256_hex(body), MAY_24_2013);
        assert!(request.header("authorization").ends_with(&format!("Signature={signature}")), "{target}");
        let authenticated = request.authenticate().expect(target);
        assert_eq!((authenticated.access_key.as_str(), authenticated.how), (ACCESS_KEY, Authentication::Header));
        assert!(matches!(authenticated.payload, PayloadMode::Hash(hash) if sha256_hex(body) == hex(&hash)));
    }
}

/// "Authenticating Requests: Using Query Parameters".
#[test]
fn s3_documentation_presigned() {
    let request = Request::new("GET", "/test.txt", &[S3_HOST]).presigned(86_400, MAY_24_2013);
    let query = String::from_utf8(request.query.clone()).expect("text");
    assert_eq!(
        query,
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2F\
         aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=\
         aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
    let authenticated = request.authenticate().expect("presigned");
    assert_eq!(authenticated.how, Authentication::Presigned);
    assert!(matches!(authenticated.payload, PayloadMode::Unsigned));
}

const CHUNKED_HEADERS: [(&str, &str); 4] = [
    ("host", "s3.amazonaws.com"),
    ("content-encoding", "aws-chunked"),
    ("x-amz-decoded-content-length", "66560"),
    ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
];

/// The chunks of a body of 66,560 letters "a", with the given signatures.
fn letters_in_chunks(signatures: [&str; 3], end: &str) -> Vec<u8> {
    let mut body = format!("10000;chunk-signature={}\r\n", signatures[0]).into_bytes();
    body.resize(body.len() + 65_536, b'a');
    body.extend_from_slice(format!("\r\n400;chunk-signature={}\r\n", signatures[1]).as_bytes());
    body.resize(body.len() + 1024, b'a');
    body.extend_from_slice(format!("\r\n0;chunk-signature={}\r\n{end}", signatures[2]).as_bytes());
    body
}

/// "Transferring Payload in Multiple Chunks": the request, the three chunks, and the signing side of both.
#[test]
fn s3_documentation_chunked() {
    let mut headers = CHUNKED_HEADERS.to_vec();
    headers.push(("content-length", "66824"));
    let request = Request::new("PUT", "/examplebucket/chunkObject.txt", &headers)
        .signed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", MAY_24_2013);
    let authorization = request.header("authorization");
    assert!(authorization.ends_with("4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"));
    let body = letters_in_chunks(
        [
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ],
        "\r\n",
    );
    assert_eq!(body.len(), 66_824);
    assert_eq!(decode(&request, b"", &body), vec![b'a'; 66_560]);

    let mut chunks = signer(MAY_24_2013).chunks(&authorization).expect("a signature");
    let mut signed = Vec::new();
    for data in [&[b'a'; 65_536][..], &[b'a'; 1024], b""] {
        signed.extend_from_slice(&chunks.header(data));
        signed.extend_from_slice(data);
        signed.extend_from_slice(b"\r\n");
    }
    assert_eq!(signed, body);
}

/// "Including Trailing Headers (Chunked Upload)".
#[test]
fn s3_documentation_chunked_with_trailer() {
    let mut headers = CHUNKED_HEADERS.to_vec();
    headers.push(("x-amz-trailer", "x-amz-checksum-crc32c"));
    let request = Request::new("PUT", "/examplebucket/chunkObject.txt", &headers)
        .signed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", MAY_24_2013);
    let authorization = request.header("authorization");
    assert!(authorization.ends_with("106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"));
    let signatures = [
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
    ];
    let trailers = "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:\
                    d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n";
    // minio-go ends its trailers with a bare LF and sets an empty line before the signature.
    let spaced = trailers.replacen("==\r\n", "==\n\r\n", 1);
    for end in [trailers, &spaced] {
        let body = letters_in_chunks(signatures, end);
        assert_eq!(decode(&request, b"x-amz-checksum-crc32c", &body), vec![b'a'; 66_560]);
    }
    let mut chunks = signer(MAY_24_2013).chunks(&authorization).expect("a signature");
    for data in [&[b'a'; 65_536][..], &[b'a'; 1024], b""] {
        chunks.header(data);
    }
    assert_eq!(chunks.trailers(&[("x-amz-checksum-crc32c", "sOO8/Q==")]), trailers.as_bytes());
}

fn decode(request: &Request, announced: &[u8], body: &[u8]) -> Vec<u8> {
    let authenticated = request.authenticate().expect("authenticated");
    let mode = ChunkMode::of(&authenticated.payload).expect("a chunked body");
    let length = request.with_head(|head| decoded_length(&head.headers)).expect("a length");
    let mut decoder = ChunkedDecoder::new(mode, length, announced);
    let mut decoded = Vec::new();
    decoder.push(body, &mut |data| decoded.extend_from_slice(data)).expect("well-formed");
    let trailers = decoder.finish().expect("complete");
    let names: Vec<&[u8]> = trailers.iter().map(|(name, _)| name.as_slice()).collect();
    assert_eq!(names, announced.split(|_| false).filter(|name| !name.is_empty()).collect::<Vec<_>>());
    decoded
}

/// The generic test suite, as far as S3 follows its rules. It has no `x-amz-content-sha256`, so the steps are tested.
#[test]
fn generic_test_suite() {
    let key = SigningKey::derive(b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", b"20150830", "us-east-1", "service");
    let cases: Vec<&str> = include_str!("../testdata/aws4_testsuite.txt").split("\n== ").skip(1).collect();
    assert_eq!(cases.len(), 21);
    for case in cases {
        let (name, parts) = case.split_once('\n').expect("a name");
        let parts: Vec<&str> = parts.split("\n--").map(|part| part.strip_prefix('\n').unwrap_or(part)).collect();
        let [request, canonical, to_sign, signature, _] = parts[..] else { panic!("{name} has five parts") };
        let (request, body) = parse_request(request);
        let signed = canonical.rsplit('\n').nth(1).expect("signed headers");
        let built = request.with_head(|head| {
            let query = CanonicalQuery::strict(&Query::parse(head.query).expect("escapes"));
            let path = canonical_path(head.path).expect("escapes");
            let payload = sha256_hex(body.as_bytes());
            let (method, headers) = (head.method, head.headers);
            CanonicalRequest { method, path: &path, query: &query, headers, signed, payload: payload.as_bytes() }
                .to_bytes()
        });
        assert_eq!(String::from_utf8_lossy(&built), canonical, "{name}");
        let timestamp = Timestamp::parse_iso(request.header("x-amz-date").as_bytes()).expect("a date");
        let string = string_to_sign(&timestamp, "us-east-1", "service", &built);
        assert_eq!(String::from_utf8_lossy(&string), to_sign, "{name}");
        assert_eq!(hex(&key.sign(&string)), signature, "{name}");
    }
}

/// S3 does not normalise paths: these are names, and different ones.
#[test]
fn paths_are_not_normalised() {
    for path in ["//", "/a//b", "/./a", "/a/../b", "/a/."] {
        assert_eq!(canonical_path(path.as_bytes()).expect("no escapes"), path.as_bytes());
    }
    assert_eq!(canonical_path(b"/year=2024/%7e%2f%2520").expect("escapes"), b"/year%3D2024/~/%2520");
    assert!(canonical_path(b"/%4").is_none() && canonical_path(b"/%zz").is_none());
}

#[test]
fn botocore_requests_are_accepted() {
    let cases: Vec<&str> = include_str!("../testdata/botocore.txt").split("\n== ").skip(1).collect();
    assert_eq!(cases.len(), 10);
    let signed_at_ms = 1000 * 1_795_233_600;
    for case in cases {
        let (name, text) = case.split_once('\n').expect("a name");
        let (request, body) = parse_request(text);
        let body = body.trim_end_matches('\n').replace("\\r\\n", "\r\n");
        let keys = SigningKeys::new();
        let authenticated = request.authenticate_with(&keys, Some("eu-central-1"), signed_at_ms).expect(name);
        let expected = if name.contains("presigned") { Authentication::Presigned } else { Authentication::Header };
        assert_eq!(authenticated.how, expected, "{name}");
        match authenticated.payload {
            PayloadMode::Hash(hash) => {
                let computed = super::super::canonical::parse_hex(sha256_hex(body.as_bytes()).as_bytes());
                assert_eq!(Some(hash), computed, "{name}");
            }
            PayloadMode::StreamingUnsignedTrailer => {
                let length = request.with_head(|head| decoded_length(&head.headers)).expect(name);
                let mut decoder = ChunkedDecoder::new(ChunkMode::Unsigned, length, b"x-amz-checksum-crc32");
                decoder.push(body.as_bytes(), &mut |_| {}).expect(name);
                assert_eq!(decoder.finish().expect(name).len(), 1, "{name}");
            }
            PayloadMode::Unsigned => assert_eq!(authenticated.how, Authentication::Presigned),
            PayloadMode::Mistaken(_) | PayloadMode::StreamingSigned(_) | PayloadMode::StreamingSignedTrailer(_) => {
                panic!("{name}")
            }
        }
    }
}

/// aws-sdk-cpp sends `=` raw and signs `%3D`; others sign what they send. Both name the same object.
#[test]
fn the_path_may_be_signed_encoded_or_as_sent() {
    let encoded =
        Request::new("GET", "/b/year%3D2024/f?prefix=a%2Fb", &[S3_HOST]).signed("UNSIGNED-PAYLOAD", MAY_24_2013);
    for (path, query) in
        [("/b/year=2024/f", "prefix=a%2Fb"), ("/b/year=2024/f", "prefix=a/b"), ("/b/year%3d2024/f", "prefix=%61/b")]
    {
        let mut sent = encoded.clone();
        (sent.path, sent.query) = (path.into(), query.into());
        sent.authenticate().expect(path);
    }
    let as_sent = Request::new("GET", "/b/year=2024/a%2fb?x=a+b&marker=a/b", &[S3_HOST]);
    let mut as_sent_signed = as_sent.clone().signed("UNSIGNED-PAYLOAD", MAY_24_2013);
    let explained = as_sent_signed.with_head(explain).expect("signed");
    let strict = String::from_utf8(explained.canonical_request.expect("a request")).expect("text");
    assert!(strict.starts_with("GET\n/b/year%3D2024/a/b\nmarker=a%2Fb&x=a%20b\nhost:"));
    for (path, query) in [
        ("/b/year=2024/a%2fb", "marker=a%2Fb&x=a%20b"),
        ("/b/year%3D2024/a/b", "marker=a/b&x=a+b"),
        ("/b/year=2024/a%2fb", "marker=a/b&x=a+b"),
    ] {
        let raw = strict.replacen("/b/year%3D2024/a/b\nmarker=a%2Fb&x=a%20b", &format!("{path}\n{query}"), 1);
        let timestamp = Timestamp::from_unix_s(MAY_24_2013).expect("a date");
        let key = SigningKey::derive(super::SECRET, b"20130524", "us-east-1", "s3");
        let signature = key.sign(&string_to_sign(&timestamp, "us-east-1", "s3", raw.as_bytes()));
        let authorization = as_sent_signed.header("authorization");
        let (start, _) = authorization.rsplit_once('=').expect("a signature");
        as_sent_signed.set("authorization", &format!("{start}={}", hex(&signature)));
        as_sent_signed.authenticate().expect(path);
    }
    // A signed plus sign is not a space: had it been accepted so, a signature for one name would open another.
    let mut plus = Request::new("GET", "/b?prefix=a%2Bb", &[S3_HOST]).signed("UNSIGNED-PAYLOAD", MAY_24_2013);
    plus.query = b"prefix=a+b".to_vec();
    plus.authenticate().expect_err("another prefix");
}

fn parse_request(text: &str) -> (Request, &str) {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, rest) = lines.next().and_then(|line| line.split_once(' ')).expect("a request line");
    let target = rest.strip_suffix(" HTTP/1.1").unwrap_or(rest);
    let mut request = Request::new(method, target, &[]);
    for line in lines {
        let (name, value) = line.split_once(':').expect("a header");
        request.add(&name.to_ascii_lowercase(), value);
    }
    (request, body)
}

fn hex(bytes: &[u8; 32]) -> String {
    let mut text = Vec::new();
    push_hex(&mut text, bytes);
    String::from_utf8(text).expect("hexadecimal")
}
