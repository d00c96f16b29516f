//! Who may do what: secrets that change while requests arrive, and what senders without any right learn.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::Admission;
use orcas_s3::Operation;

type HeaderList = &'static [(&'static str, &'static str)];

/// Every operation of the service model: name, method, address, and a header that it needs.
const MODEL: &str = include_str!("../../../s3/src/testdata/operations.tsv");
const EXTENSIONS: [(&str, &str, HeaderList); 3] = [
    ("PUT", "/bucket/key/name", &[("x-amz-move-source", "bucket/key/name")]),
    ("POST", "/bucket/key/name?instant", &[]),
    ("PUT", "/bucket?orcas-settings", &[]),
];

fn code_of(fixture: &Fixture, signer: &Signer) -> String {
    fixture.accept_as(signer, "GET", "/", &[], b"").err().map_or_else(String::new, |answer| code(&answer))
}

fn signer(secret: &str) -> Signer {
    Signer::new("ROOT", secret.as_bytes(), "us-east-1", now_ms() / 1000).unwrap()
}

#[test]
fn a_secret_counts_until_another_replaces_it() {
    let fixture = Fixture::new();
    let (old, new) = (signer("secret"), signer("changed"));
    assert_eq!((code_of(&fixture, &old).as_str(), code_of(&fixture, &new).as_str()), ("", "SignatureDoesNotMatch"));
    fixture.gateway.access().signers.replace(identities("changed")).unwrap();
    assert_eq!((code_of(&fixture, &old).as_str(), code_of(&fixture, &new).as_str()), ("SignatureDoesNotMatch", ""));
    fixture.gateway.access().signers.replace(IdentityTables::of_root(OWNER, &[])).unwrap();
    assert_eq!(code_of(&fixture, &new), "InvalidAccessKeyId");
    fixture.gateway.access().signers.replace(identities("secret")).unwrap();
    assert_eq!((code_of(&fixture, &old).as_str(), code_of(&fixture, &new).as_str()), ("", "SignatureDoesNotMatch"));
}

#[test]
fn what_begins_anew_elsewhere_takes_nothing_of_a_limit() {
    let fixture = Fixture::new();
    let limits = vec![("ROOT".to_owned(), 1, 0)];
    fixture.gateway.access().signers.change(IdentityTables { limits, ..IdentityTables::default() }, &[]).unwrap();
    for _ in 0..3 {
        let request = fixture.accept("GET", "/", &[], b"").ok().expect("not too many");
        fixture.gateway.pass_on(Admission::Request(&*request), &Headers::new(&[]));
    }
    fixture.accept("GET", "/", &[], b"").ok().expect("not too many");
    assert_eq!(code_of(&fixture, &fixture.signer), "SlowDown");
}

#[test]
fn limits_of_keys_and_users_come_and_go_with_changes() {
    let arn = "arn:aws:iam::111122223333:root".to_owned();
    let rows = |limits: &[(&str, u64, u64)]| IdentityTables {
        limits: limits.iter().map(|(id, requests, bytes)| ((*id).to_owned(), *requests, *bytes)).collect(),
        ..IdentityTables::default()
    };
    let fixture = Fixture::new();
    let signer = signer("secret");
    let root = fixture.gateway.access().identities().requester("ROOT").unwrap().identity.principal.arn.clone();
    assert_ne!(root, arn);
    let is_limited = || fixture.gateway.access().identities().requester("ROOT").unwrap().limits.is_some();
    assert!(!is_limited());
    for id in ["ROOT", &root] {
        fixture.gateway.access().signers.change(rows(&[(id, 1, 0)]), &[]).unwrap();
        assert!(is_limited(), "{id}");
        assert_eq!(code_of(&fixture, &signer), "");
        // The same again fills nothing up.
        fixture.gateway.access().signers.change(rows(&[(id, 1, 0)]), &[]).unwrap();
        let refused = fixture.accept_as(&signer, "GET", "/", &[], b"").err().expect("too many");
        assert_eq!((code(&refused).as_str(), refused.status), ("SlowDown", 503));
        assert!(refused.headers.iter().any(|header| header == ("retry-after", b"1")), "{:?}", refused.headers);
        fixture.gateway.access().signers.change(rows(&[(id, 0, 0)]), &[]).unwrap();
        assert!(!is_limited(), "{id}");
        assert_eq!(code_of(&fixture, &signer), "");
    }
}

/// Requests that overlap a change may be verified with either secret. All others see exactly one.
#[test]
fn a_change_of_a_secret_takes_effect_while_requests_run() {
    const CHANGES: usize = 200;
    let fixture = Fixture::new();
    let secrets: Vec<String> = (0..3).map(|number| format!("secret-{number}")).collect();
    fixture.gateway.access().signers.replace(identities(&secrets[0])).unwrap();
    // The number of the change that has begun, and of the one that is answered.
    let (begun, answered, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let (accepted, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for mine in 0..secrets.len() {
            let (fixture, secrets, begun, answered) = (&fixture, &secrets, &begun, &answered);
            let (done, accepted, refused) = (&done, &accepted, &refused);
            scope.spawn(move || {
                let signer = signer(&secrets[mine]);
                while !done.load(Ordering::SeqCst) {
                    let before = answered.load(Ordering::SeqCst);
                    let answer = code_of(fixture, &signer);
                    if begun.load(Ordering::SeqCst) != before {
                        continue;
                    }
                    let valid = before % secrets.len() == mine;
                    assert_eq!(answer, if valid { "" } else { "SignatureDoesNotMatch" }, "after change {before}");
                    if valid { accepted } else { refused }.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for change in 1..=CHANGES {
            begun.store(change, Ordering::SeqCst);
            fixture.gateway.access().signers.replace(identities(&secrets[change % secrets.len()])).unwrap();
            answered.store(change, Ordering::SeqCst);
            let (had, refusals) = (accepted.load(Ordering::SeqCst), refused.load(Ordering::SeqCst));
            let deadline = Instant::now() + Duration::from_secs(30);
            while accepted.load(Ordering::SeqCst) == had || refused.load(Ordering::SeqCst) == refusals {
                if Instant::now() > deadline {
                    break;
                }
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(accepted.into_inner() >= CHANGES && refused.into_inner() >= CHANGES);
}

/// Status, headers and document, without what identifies the request.
pub(super) fn shown(answer: &Response) -> String {
    let headers: Vec<_> = answer
        .headers
        .iter()
        .filter(|(name, _)| *name != "x-amz-request-id")
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
        .collect();
    let ResponseBody::Bytes(document) = &answer.body else { return format!("{} {headers:?}", answer.status) };
    let document = String::from_utf8_lossy(document);
    let (start, rest) = document.split_once("<RequestId>").unwrap();
    format!("{} {headers:?} {start}{}", answer.status, rest.split_once("</RequestId>").unwrap().1)
}

/// What each operation answers to a request that `signer` has signed, or nobody.
fn refusals(fixture: &Fixture, signer: Option<&Signer>) -> Vec<(String, String)> {
    // DeleteObjects is refused for each of its keys, if it has a signature.
    let by_key = |line: &&str| signer.is_some() && line.starts_with("DeleteObjects\t");
    let model = MODEL.lines().filter(|line| !by_key(line)).map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let headers = Some((fields[3], "bucket/key/name")).filter(|(name, _)| !name.is_empty());
        (fields[1], fields[2], headers.into_iter().collect::<Vec<_>>())
    });
    let extensions = EXTENSIONS.iter().map(|(method, address, headers)| (*method, *address, headers.to_vec()));
    let answer = |(method, address, headers): (&str, &str, Vec<(&str, &str)>)| {
        let answer = match signer {
            Some(signer) => fixture.accept_as(signer, method, address, &headers, b"").err().unwrap(),
            None => {
                let (path, query) = address.split_once('?').unwrap_or((address, ""));
                let mut list: Vec<(&[u8], &[u8])> = vec![(b"host", b"localhost:9000")];
                list.extend(headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
                let (method, path, query) = (method.as_bytes(), path.as_bytes(), query.as_bytes());
                let head = RequestHead { method, path, query, headers: Headers::new(&list) };
                fixture.begun(&head, &near(0)).err().unwrap()
            }
        };
        assert_eq!(answer.status, 403, "{method} {address}: {}", code(&answer));
        assert!(method == "HEAD" || code(&answer) == "AccessDenied", "{method} {address}: {}", code(&answer));
        (format!("{method} {address}"), shown(&answer))
    };
    model.chain(extensions).map(answer).collect()
}

#[test]
fn who_may_do_nothing_learns_nothing_about_the_store() {
    let fixture = Fixture::new();
    let other = Signer::new("OTHER", b"other", "us-east-1", now_ms() / 1000).unwrap();
    let before = [refusals(&fixture, Some(&other)), refusals(&fixture, None)];
    assert_eq!(fixture.call("PUT", "/bucket", &[], b"").status, 200);
    assert_eq!(fixture.call("PUT", "/bucket/key/name", &[], b"content").status, 200);
    assert_eq!(fixture.call("HEAD", "/bucket/key/name", &[], b"").status, 200);
    assert_eq!([refusals(&fixture, Some(&other)), refusals(&fixture, None)], before);
}

#[test]
fn each_key_of_a_deletion_is_refused_on_its_own() {
    let fixture = Fixture::new();
    let other = Signer::new("OTHER", b"other", "us-east-1", now_ms() / 1000).unwrap();
    let document = b"<Delete><Object><Key>a</Key></Object>\
                     <Object><Key>b</Key><VersionId>null</VersionId></Object></Delete>";
    let md5 = base64_encode(&Md5Hasher::digest(document));
    let ask = || {
        let asked = fixture.accept_as(&other, "POST", "/bucket?delete", &[("content-md5", &md5)], document);
        fixture.carry_out(&asked.ok().unwrap(), document)
    };
    let before = ask();
    assert_eq!(fixture.call("PUT", "/bucket", &[], b"").status, 200);
    assert_eq!(fixture.call("PUT", "/bucket/a", &[], b"content").status, 200);
    let answer = ask();
    assert_eq!((answer.status, shown_body(&answer)), (200, shown_body(&before)));
    let document = shown_body(&answer);
    for (key, action) in [("a", "s3:DeleteObject"), ("b", "s3:DeleteObjectVersion")] {
        let refused = format!("perform: {action} on resource: \"arn:aws:s3:::bucket/{key}\"");
        assert!(document.contains(&refused), "{document}");
    }
    assert_eq!(document.matches("<Code>AccessDenied</Code>").count(), 2);
    assert!(!document.contains("<Deleted>"));
    assert_eq!(fixture.call("HEAD", "/bucket/a", &[], b"").status, 200);
}

fn shown_body(answer: &Response) -> String {
    let ResponseBody::Bytes(document) = &answer.body else { panic!("no document") };
    String::from_utf8_lossy(document).into_owned()
}

#[test]
fn a_refusal_names_the_action_and_the_resource() {
    let fixture = Fixture::new();
    let other = Signer::new("OTHER", b"other", "us-east-1", now_ms() / 1000).unwrap();
    for (method, target, headers, action, resource) in [
        ("GET", "/", &[][..], "s3:ListAllMyBuckets", "arn:aws:s3:::*"),
        ("GET", "/bucket?list-type=2", &[], "s3:ListBucket", "arn:aws:s3:::bucket"),
        ("GET", "/bucket/k%20k", &[], "s3:GetObject", "arn:aws:s3:::bucket/k k"),
        ("GET", "/bucket/k?versionId=null", &[], "s3:GetObjectVersion", "arn:aws:s3:::bucket/k"),
        (
            "PUT",
            "/bucket/k",
            &[("x-amz-copy-source", "other/s?versionId=null")],
            "s3:PutObject",
            "arn:aws:s3:::bucket/k",
        ),
    ] {
        let answer = fixture.accept_as(&other, method, target, headers, b"").err().unwrap();
        let ResponseBody::Bytes(document) = &answer.body else { panic!("{method} {target} has no document") };
        let document = String::from_utf8_lossy(document);
        let message = document.split_once("<Message>").unwrap().1.replace("&quot;", "\"");
        let expected = format!(
            "User: arn:aws:iam::{OTHER_ACCOUNT}:user/other is not authorized to perform: {action} on resource: \"{resource}\" because no identity-based \
             policy allows the {action} action</Message>"
        );
        assert!(message.starts_with(&expected), "{message}");
    }
}

/// The bytes that the log has of the request that `answer` answers and that root has sent. They stand one after the other,
/// so they can be found in its files.
pub(super) fn cause(operation: Operation, answer: &Response) -> Vec<u8> {
    let request = u64::from_str_radix(header(answer, "x-amz-request-id").unwrap(), 16).unwrap();
    let owner: [u8; 32] = orcas_http::parse_hex(OWNER.as_bytes()).unwrap();
    [&[operation.code().get()][..], &request.to_le_bytes(), &owner].concat()
}

#[test]
fn the_log_says_which_request_caused_a_change() {
    let fixture = Fixture::new();
    let copy = [("x-amz-copy-source", "bucket/a")];
    let shift = [("x-amz-move-source", "bucket/b")];
    let document = b"<Delete><Object><Key>a</Key></Object></Delete>";
    let md5 = base64_encode(&Md5Hasher::digest(document));
    let vouched = [("content-md5", md5.as_str())];
    let mut causes = Vec::new();
    for (operation, method, target, headers, body) in [
        (Operation::CreateBucket, "PUT", "/bucket", &[][..], &b""[..]),
        (Operation::PutObject, "PUT", "/bucket/a", &[], b"content"),
        (Operation::CopyObject, "PUT", "/bucket/b", &copy, b""),
        (Operation::MoveObject, "PUT", "/bucket/c", &shift, b""),
        (Operation::DeleteObjects, "POST", "/bucket?delete", &vouched, document),
        (Operation::DeleteObject, "DELETE", "/bucket/c", &[], b""),
        (Operation::DeleteBucket, "DELETE", "/bucket", &[], b""),
    ] {
        let answer = fixture.call(method, target, headers, body);
        assert!(answer.status < 300, "{method} {target}: {}", code(&answer));
        causes.push(cause(operation, &answer));
    }
    fixture.reopened(|data| {
        let files = std::fs::read_dir(data.join("log")).unwrap();
        let log: Vec<u8> = files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
        for cause in &causes {
            assert_eq!(memchr::memmem::find_iter(&log, cause).count(), 1, "operation {}", cause[0]);
        }
    });
}
