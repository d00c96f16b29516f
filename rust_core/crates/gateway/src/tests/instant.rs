//! Instant uploads and the settings of buckets.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::*;
use orcas_decide::{Intent, Outcome};
use orcas_http::hex;
use orcas_record::{Bucket, BucketSettings, Version};
use orcas_requests::challenge::{Claim, LIFETIME_MS};

const SIZE: &str = "x-amz-orcas-instant-size";
const SHA256: &str = "x-amz-orcas-instant-sha256";
const CHALLENGE: &str = "x-amz-orcas-instant-challenge";
const ANSWER: &str = "x-amz-orcas-instant-answer";

fn text(answer: &Response) -> String {
    match &answer.body {
        ResponseBody::Bytes(document) => String::from_utf8(document.to_vec()).unwrap(),
        ResponseBody::Empty | ResponseBody::Pieces(_) => String::new(),
    }
}

fn element<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

fn asks_for(document: &str) -> Vec<(usize, usize)> {
    let number = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!("{name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    document.split("<Range ").skip(1).map(|range| (number(range, "first"), number(range, "last"))).collect()
}

/// The answer of somebody who has `content` to the challenge in `document`.
fn solve(document: &str, content: &[u8]) -> String {
    let nonce = element(document, "Nonce").unwrap();
    let nonce: [u8; 32] = orcas_http::parse_hex(nonce.as_bytes()).unwrap();
    let mut answer = Sha256::new().chain_update(nonce);
    for (first, last) in asks_for(document) {
        answer.update(&content[first..=last]);
    }
    hex(&answer.finalize())
}

#[test]
fn only_whom_policies_allow_it_learns_what_the_account_has() {
    let all = r#""Effect": "Allow", "Action": "s3:*", "Resource": "*""#;
    let asks = r#""Effect": "Allow", "Action": "orcas:InstantUpload", "Resource": "arn:aws:s3:::box/asked/*""#;
    let site = super::access::Site::new(&[("alice", &[all]), ("bob", &[all, asks])], &[]);
    let content = noise(100_000);
    let digest = sha256_hex(&content);
    let headers = [("x-amz-checksum-sha256", base64_encode(&Sha256::digest(&content)))];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(site.fixture.call("PUT", "/box/letter", &headers, &content).status, 200);
    let status = |name: &str, key: &str| {
        let answer = site.by(name, "POST", &format!("/box/{key}?instant"), &[(SIZE, "100000"), (SHA256, &digest)], b"");
        element(&text(&answer), "Status").map(str::to_owned)
    };
    let (send, challenge) = (Some("send".to_owned()), Some("challenge".to_owned()));
    assert_eq!(
        [status("alice", "asked/k"), status("bob", "k"), status("bob", "asked/k")],
        [send.clone(), send, challenge]
    );
}

impl Fixture {
    fn instant(&self, key: &str, content: &[u8], extra: &[(&str, &str)]) -> Response {
        let (size, sha256) = (content.len().to_string(), sha256_hex(content));
        let list = [&[(SIZE, size.as_str()), (SHA256, sha256.as_str())], extra].concat();
        self.call("POST", &format!("/{key}?instant"), &list, b"")
    }

    fn challenged(&self, key: &str, content: &[u8]) -> (String, String) {
        let document = text(&self.instant(key, content, &[]));
        assert_eq!(element(&document, "Status"), Some("challenge"), "{document}");
        (element(&document, "Challenge").unwrap().to_owned(), solve(&document, content))
    }

    fn status(&self, key: &str, content: &[u8]) -> Option<String> {
        element(&text(&self.instant(key, content, &[])), "Status").map(str::to_owned)
    }

    fn version(&self, bucket: &str, key: &str) -> Version {
        let bucket = self.gateway.engine.bucket(bucket.as_bytes()).unwrap();
        let found = self.gateway.engine.object(bucket.id, &Bytes::copy_from_slice(key.as_bytes())).unwrap();
        found.unwrap().object.version.clone()
    }

    fn bucket_of(&self, owner: &str, name: &'static str) -> Arc<Bucket> {
        let create = Intent::CreateBucket {
            name: Bytes::from_static(name.as_bytes()),
            owner: Bytes::copy_from_slice(owner.as_bytes()),
            location: Bytes::new(),
            settings: BucketSettings::default(),
            object_lock: false,
            documents: Vec::new(),
        };
        match self.gateway.engine.execute(create) {
            Ok(Outcome::Bucket(bucket)) => bucket,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_has_the_bytes_need_not_send_them() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    for size in [65_536, 65_537, (3 << 20) + 1] {
        let content = noise(size);
        assert_eq!(fixture.status("bucket/k", &content).as_deref(), Some("send"), "{size}");
        let put = fixture.call("PUT", "/bucket/source", &[("x-amz-meta-a", "source")], &content);
        let (token, answer) = fixture.challenged("bucket/k", &content);
        let headers =
            [(CHALLENGE, token.as_str()), (ANSWER, &answer), ("x-amz-meta-a", "own"), ("content-type", "a/b")];
        let made = fixture.instant("bucket/k", &content, &headers);
        assert_eq!((made.status, header(&made, "etag")), (200, header(&put, "etag")), "{}", text(&made));
        let checksum = orcas_checksum::base64_encode(&Sha256::digest(&content));
        assert_eq!(header(&made, "x-amz-checksum-sha256"), Some(checksum.as_str()));
        let got = fixture.call("GET", "/bucket/k", &[], b"");
        assert_eq!((header(&got, "x-amz-meta-a"), header(&got, "content-type")), (Some("own"), Some("a/b")));
        assert_eq!(fixture.content(got).unwrap(), content);
        assert_eq!(fixture.version("bucket", "k").sha256, Some(Sha256::digest(&content).into()));
        fixture.call("DELETE", "/bucket/k", &[], b"");
        fixture.call("DELETE", "/bucket/source", &[], b"");
        // Answered twice, the second time without a source.
        assert_eq!(element(&text(&fixture.instant("bucket/k", &content, &headers)), "Status"), Some("send"));
    }
}

#[test]
fn a_replica_has_the_time_of_its_source() {
    const TIME: (&str, &str) = ("x-amz-orcas-replica-time", "Fri, 02 Jan 2026 03:04:05 GMT");
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let content = noise(100_000);
    assert_eq!(fixture.call("PUT", "/bucket/put", &[TIME], &content).status, 200);
    let (token, answer) = fixture.challenged("bucket/instant", &content);
    let headers = [(CHALLENGE, token.as_str()), (ANSWER, answer.as_str()), TIME];
    assert_eq!(fixture.instant("bucket/instant", &content, &headers).status, 200);
    let made = text(&fixture.call("POST", "/bucket/parts?uploads", &[], b""));
    let upload = element(&made, "UploadId").unwrap();
    let part = fixture.call("PUT", &format!("/bucket/parts?partNumber=1&uploadId={upload}"), &[], &content);
    let etag = header(&part, "etag").unwrap();
    let list = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    );
    let complete = fixture.call("POST", &format!("/bucket/parts?uploadId={upload}"), &[TIME], list.as_bytes());
    assert_eq!(complete.status, 200, "{}", text(&complete));
    for key in ["put", "instant", "parts"] {
        let found = fixture.call("HEAD", &format!("/bucket/{key}"), &[], b"");
        assert_eq!(header(&found, "last-modified"), Some(TIME.1), "{key}");
    }
    // A clock there that is ahead of this one.
    let late = [(TIME.0, "Fri, 02 Jan 2099 03:04:05 GMT")];
    assert_eq!(fixture.call("PUT", "/bucket/late", &late, b"x").status, 200);
    let found = fixture.call("HEAD", "/bucket/late", &[], b"");
    assert!(header(&found, "last-modified").is_some_and(|time| !time.contains("2099")));
    let wrong = fixture.call("PUT", "/bucket/wrong", &[(TIME.0, "yesterday")], b"x");
    assert_eq!((wrong.status, code(&wrong).as_str()), (400, "InvalidArgument"));
}

#[test]
fn nothing_comes_of_a_wrong_answer() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let content = noise(200_000);
    fixture.call("PUT", "/bucket/source", &[], &content);
    let (token, right) = fixture.challenged("bucket/k", &content);
    let mut other = content.clone();
    other.iter_mut().for_each(|byte| *byte ^= 1);
    let document = text(&fixture.instant("bucket/k", &content, &[]));
    let changed = solve(&document, &other);
    let zeros = "0".repeat(64);
    let forged = format!("{}{}", &token[..16], &"0".repeat(token.len() - 16));
    for (token, answer) in [
        (token.as_str(), zeros.as_str()),
        (token.as_str(), ""),
        (token.as_str(), &right[1..]),
        (element(&document, "Challenge").unwrap(), changed.as_str()),
        (element(&document, "Challenge").unwrap(), right.as_str()),
        (forged.as_str(), right.as_str()),
        ("", right.as_str()),
    ] {
        let refused = fixture.instant("bucket/k", &content, &[(CHALLENGE, token), (ANSWER, answer)]);
        assert_eq!((refused.status, code(&refused).as_str()), (403, "AccessDenied"), "{token} {answer}");
    }
    assert_eq!(code(&fixture.call("GET", "/bucket/k", &[], b"")), "NoSuchKey");
}

#[test]
fn a_challenge_holds_for_one_upload_and_not_for_ever() {
    let fixture = Fixture::new();
    for bucket in ["/bucket", "/beside"] {
        fixture.call("PUT", bucket, &[], b"");
    }
    let (content, longer) = (noise(200_000), noise(200_001));
    fixture.call("PUT", "/bucket/source", &[], &content);
    fixture.call("PUT", "/bucket/longer", &[], &longer);
    let (token, answer) = fixture.challenged("bucket/k", &content);
    let proof = [(CHALLENGE, token.as_str()), (ANSWER, answer.as_str())];
    for (key, content) in [("bucket/other", &content), ("beside/k", &content), ("bucket/k", &longer)] {
        assert_eq!(code(&fixture.instant(key, content, &proof)), "AccessDenied", "{key}");
    }
    let bucket = fixture.gateway.engine.bucket(b"bucket").unwrap();
    let sha256 = Sha256::digest(&content).into();
    let size = content.len() as u64;
    let claim = Claim { owner: OWNER.as_bytes(), bucket: bucket.id, key: b"k", size, sha256: &sha256 };
    for (age_ms, status) in [(LIFETIME_MS + 1000, 403), (LIFETIME_MS - 60_000, 200)] {
        let challenge = fixture.gateway.services.challenger.issue(&claim, now_ms() - age_ms, &[3; 32]);
        let mut answer = Sha256::new().chain_update(challenge.nonce);
        for (first, last) in challenge.ranges {
            answer.update(&content[first as usize..=last as usize]);
        }
        let proof = [(CHALLENGE, challenge.token.as_str()), (ANSWER, &hex(&answer.finalize()))];
        let got = fixture.instant("bucket/k", &content, &proof);
        assert_eq!(got.status, status, "{}", text(&got));
    }
    let fixture = fixture.reopened(|_| ());
    assert_eq!(code(&fixture.instant("bucket/k", &content, &proof)), "AccessDenied");
}

#[test]
fn what_others_store_is_never_told() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    fixture.bucket_of(OTHER, "theirs");
    let content = noise(100_000);
    fixture.call("PUT", "/theirs/source", &[], &content);
    assert_eq!(fixture.status("bucket/k", &content).as_deref(), Some("send"));
    assert_eq!(fixture.status("theirs/k", &content).as_deref(), Some("send"));
    fixture.call("PUT", "/bucket/source", &[], &content);
    assert_eq!(fixture.status("bucket/k", &content).as_deref(), Some("challenge"));
    assert_eq!(fixture.status("theirs/k", &content).as_deref(), Some("send"));
}

#[test]
fn conditions_on_the_destination_are_those_of_a_put() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let content = noise(100_000);
    let put = fixture.call("PUT", "/bucket/source", &[], &content);
    let tag = header(&put, "etag").unwrap().to_owned();
    let try_with = |key: &str, name: &str, value: &str| {
        let (token, answer) = fixture.challenged(&format!("bucket/{key}"), &content);
        let headers = [(CHALLENGE, token.as_str()), (ANSWER, &answer), (name, value)];
        fixture.instant(&format!("bucket/{key}"), &content, &headers)
    };
    assert_eq!(code(&try_with("k", "if-match", &tag)), "NoSuchKey");
    assert_eq!(try_with("k", "if-none-match", "*").status, 200);
    assert_eq!(try_with("k", "if-none-match", "*").status, 412);
    assert_eq!(try_with("k", "if-match", "\"00000000000000000000000000000000\"").status, 412);
    assert_eq!(try_with("k", "if-match", &tag).status, 200);
    // Onto the source itself: its metadata are replaced.
    assert_eq!(try_with("source", "x-amz-meta-new", "1").status, 200);
    assert_eq!(header(&fixture.call("HEAD", "/bucket/source", &[], b""), "x-amz-meta-new"), Some("1"));
}

#[test]
fn heads_that_cannot_be_meant() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let sha256 = sha256_hex(b"x");
    let (size, hash) = ((SIZE, "100000"), (SHA256, sha256.as_str()));
    let long = "5368709121";
    for (expected, headers) in [
        ("InvalidArgument", vec![size]),
        ("InvalidArgument", vec![hash]),
        ("InvalidArgument", vec![(SIZE, "-1"), hash]),
        ("InvalidArgument", vec![(SIZE, "+1"), hash]),
        ("InvalidArgument", vec![size, (SHA256, &sha256[1..])]),
        ("InvalidArgument", vec![size, size, hash]),
        ("EntityTooLarge", vec![(SIZE, long), hash]),
        ("InvalidRequest", vec![size, hash, (CHALLENGE, "00")]),
        ("InvalidRequest", vec![size, hash, (ANSWER, "00")]),
        ("InvalidRequest", vec![size, hash, ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")]),
        ("InvalidRequest", vec![size, hash, ("x-amz-checksum-crc32", "AAAAAA==")]),
        ("NotImplemented", vec![size, hash, ("x-amz-orcas-chunk-size", "65536")]),
    ] {
        assert_eq!(code(&fixture.call("POST", "/bucket/k?instant", &headers, b"")), expected, "{headers:?}");
    }
    let body = fixture.call("POST", "/bucket/k?instant", &[size, hash], b"content");
    assert_eq!((code(&body).as_str(), body.closes), ("InvalidRequest", true));
    assert_eq!(code(&fixture.call("POST", "/missing/k?instant", &[size, hash], b"")), "NoSuchBucket");
    assert_eq!(code(&fixture.call("PUT", "/bucket/k?instant", &[size, hash], b"")), "MethodNotAllowed");
    assert_eq!(code(&fixture.call("POST", "/bucket?instant", &[size, hash], b"")), "InvalidRequest");
}

#[test]
fn the_sha256_of_an_upload_is_kept_when_somebody_vouched_for_it() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    fixture.call("PUT", "/keeping", &[("x-amz-orcas-keep-sha256", "true")], b"");
    for size in [0, 300, 9_000, 200_000] {
        let content = noise(size);
        let sha256: [u8; 32] = Sha256::digest(&content).into();
        let checksum = orcas_checksum::base64_encode(&sha256);
        let (vouched, unsigned) = (("x-amz-checksum-sha256", checksum.as_str()), "UNSIGNED-PAYLOAD");
        for (bucket, extra, kept) in [
            ("bucket", vec![], true),
            ("bucket", vec![vouched], true),
            ("bucket", vec![("x-amz-content-sha256", unsigned)], false),
            ("bucket", vec![("x-amz-content-sha256", unsigned), vouched], true),
            ("keeping", vec![("x-amz-content-sha256", unsigned)], true),
        ] {
            let put = fixture.call("PUT", &format!("/{bucket}/k"), &extra, &content);
            assert_eq!(put.status, 200, "{}", text(&put));
            let version = fixture.version(bucket, "k");
            assert_eq!(version.sha256, kept.then_some(sha256), "{bucket} {size} {extra:?}");
            let chosen = if extra.contains(&vouched) { "SHA256" } else { "CRC64NVME" };
            assert_eq!(version.checksum.map(|whole| whole.checksum.algorithm().name()), Some(chosen));
        }
    }
}

#[test]
fn settings_change_one_by_one_and_outlive_a_restart() {
    let fixture = Fixture::new();
    let (level, chunking, keep) = ("x-amz-orcas-ref-level", "x-amz-orcas-chunking", "x-amz-orcas-keep-sha256");
    fixture.call("PUT", "/bucket", &[(level, "2"), ("x-amz-orcas-durability", "buffered")], b"");
    let change = |list: &[(&str, &str)]| fixture.call("PUT", "/bucket?orcas-settings", list, b"");
    let answer = change(&[(chunking, "content-defined"), (keep, "true"), (level, "default")]);
    assert_eq!((answer.status, header(&answer, chunking)), (200, Some("content-defined")), "{}", text(&answer));
    assert_eq!(code(&change(&[])), "InvalidRequest");
    assert_eq!(code(&change(&[(chunking, "fixed"), (level, "4")])), "InvalidArgument");
    assert_eq!(code(&fixture.call("PUT", "/bucket?orcas-settings", &[(keep, "false")], b"x")), "InvalidRequest");
    assert_eq!(code(&fixture.call("PUT", "/missing?orcas-settings", &[(keep, "false")], b"")), "NoSuchBucket");
    let fixture = fixture.reopened(|_| ());
    let seen = fixture.call("HEAD", "/bucket", &[], b"");
    let shown = |name| header(&seen, name);
    assert_eq!((shown(level), shown(chunking), shown(keep)), (None, Some("content-defined"), Some("true")));
    assert_eq!(shown("x-amz-orcas-durability"), Some("buffered"));
    let content = noise(100_000);
    fixture.call("PUT", "/bucket/k", &[], &content);
    assert_eq!(fixture.status("bucket/j", &content).as_deref(), Some("challenge"));
    fixture.call("PUT", "/bucket?orcas-settings", &[(level, "off")], b"");
    assert_eq!(fixture.status("bucket/j", &content).as_deref(), Some("send"));
}
