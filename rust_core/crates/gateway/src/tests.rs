//! The gateway without Python and without sockets: signed heads in, answers out, over a real store in a temporary
//! directory.

mod access;
mod audited;
mod concurrent;
mod cors;
#[path = "../../engine/src/tests/options.rs"]
mod engine_options;
mod events;
mod forms;
mod handed_over;
mod header_rights;
mod identities;
mod instant;
mod options;
mod pooling;
mod postponed;
mod pulled;
mod website;
mod workers;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::now_ms;
use crate::{
    Begun, BodyPlan, Completion, Gateway, GatewayOptions, Identities, IdentityTables, Ingress, Postponed, Reply,
    Request, Responder, Response, ResponseBody,
};
use orcas_bodies::stream::Flow;
use orcas_checksum::{ChecksumAlgorithm, Etag, Hasher, Md5Hasher, base64_encode};
use orcas_engine::{Engine, EngineOptions, Environment, EventOptions, IndexPlace, SystemClock};
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_http::{Headers, RequestHead};

use orcas_sigv4::{Signer, sha256_hex};
use parking_lot::Mutex;

const OWNER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// The account of `IdentityTables::of_root`.
const ACCOUNT: &str = "000000000000";
const OTHER_ACCOUNT: &str = "444455556666";
const WORKERS: usize = 4;
const OTHER: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

/// A front end that only collects.
#[derive(Default)]
struct Arrived(Mutex<Vec<(u32, Completion)>>);

impl Arrived {
    fn take(&self) -> Vec<(u32, Completion)> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Responder for Arrived {
    fn complete_quietly(&self, slot: u32, completion: Completion) -> bool {
        self.0.lock().push((slot, completion));
        false
    }

    fn wake(&self) {}
}

struct Fixture {
    gateway: Arc<Gateway>,
    arrived: Arc<Arrived>,
    signer: Signer,
    engine: Option<Engine>,
    dir: tempfile::TempDir,
}

/// Root with the access key ROOT and `secret`, and a user of another account who may do nothing.
fn identities(secret: &str) -> IdentityTables {
    let mut rows = IdentityTables::of_root(OWNER, &[("ROOT", secret)]);
    add_account(&mut rows, OTHER_ACCOUNT, OTHER);
    add_user(&mut rows, OTHER_ACCOUNT, "other", "OTHER", &[]);
    rows
}

fn add_account(rows: &mut IdentityTables, number: &str, canonical_id: &str) {
    let number = number.to_owned();
    rows.accounts.push((number.clone(), canonical_id.into(), "other".into()));
    let arn = format!("arn:aws:iam::{number}:root");
    rows.identities.push((arn, "root".into(), number.clone(), number, "root".into(), Vec::new(), None, Vec::new()));
}

/// A user with a key, whose secret is the name, and policies of one statement each.
fn add_user(rows: &mut IdentityTables, account: &str, name: &str, access_key: &str, statements: &[&str]) {
    let arn = format!("arn:aws:iam::{account}:user/{name}");
    let ids: Vec<String> = (0..statements.len()).map(|number| format!("{name}/{number}")).collect();
    for (id, statement) in ids.iter().zip(statements) {
        let document = format!(r#"{{"Version": "2012-10-17", "Statement": {{{statement}}}}}"#);
        rows.policies.push((id.clone(), document));
    }
    let identity = (arn.clone(), "user".into(), account.into(), "AIDA".into(), name.into(), ids, None, Vec::new());
    rows.identities.push(identity);
    rows.keys.push((access_key.into(), name.into(), arn, None, true));
}

impl Fixture {
    fn new() -> Self {
        Self::open(tempfile::tempdir().unwrap())
    }

    fn open(dir: tempfile::TempDir) -> Self {
        Self::open_with(dir, true)
    }

    fn open_with(dir: tempfile::TempDir, pooling_enabled: bool) -> Self {
        Self::open_as(dir, pooling_enabled, None)
    }

    fn open_as(dir: tempfile::TempDir, pooling_enabled: bool, events: Option<EventOptions>) -> Self {
        let environment = Environment {
            fs: Arc::new(RealFileSystem),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            index: IndexPlace::File,
        };
        let options =
            EngineOptions { chunk_size: 1 << 20, pooling_enabled, events, ..engine_options::options(dir.path()) };
        let engine = Engine::open(options, environment).unwrap();
        let options = GatewayOptions {
            website_host: Some("web.test".to_owned()),
            body_budget: 8 << 20,
            workers: WORKERS,
            ..options::options()
        };
        let gateway = Gateway::new(engine.handle(), options, Identities::new(identities("secret")).unwrap()).unwrap();
        let signer = Signer::new("ROOT", b"secret", "us-east-1", now_ms() / 1000).unwrap();
        Self { gateway, arrived: Arc::default(), signer, engine: Some(engine), dir }
    }

    fn responder(&self) -> Arc<dyn Responder> {
        self.arrived.clone()
    }

    /// Signs and submits a head; `body` is what its Content-Length and hash speak of.
    fn accept(
        &self,
        method: &str,
        target: &str,
        extra: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Arc<dyn Request>, Box<Response>> {
        self.accept_as(&self.signer, method, target, extra, body)
    }

    fn accept_as(
        &self,
        signer: &Signer,
        method: &str,
        target: &str,
        extra: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Arc<dyn Request>, Box<Response>> {
        self.settled(self.begin_as(signer, method, target, extra, body))
    }

    fn begin_as(&self, signer: &Signer, method: &str, target: &str, extra: &[(&str, &str)], body: &[u8]) -> Begun {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let length = body.len().to_string();
        let mut list: Vec<(&str, &str)> = vec![("host", "localhost:9000"), ("content-length", &length)];
        let (declared, others): (Vec<_>, Vec<_>) = extra.iter().partition(|(name, _)| *name == "x-amz-content-sha256");
        list.extend(others);
        let bytes = |list: &[(&str, &str)]| -> Vec<(Vec<u8>, Vec<u8>)> {
            list.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
        };
        let mut owned = bytes(&list);
        let signature = {
            let borrowed: Vec<(&[u8], &[u8])> = owned.iter().map(|(n, v)| (n.as_slice(), v.as_slice())).collect();
            let head = RequestHead {
                method: method.as_bytes(),
                path: path.as_bytes(),
                query: query.as_bytes(),
                headers: Headers::new(&borrowed),
            };
            let payload = declared.first().map_or_else(|| sha256_hex(body), |(_, value)| (*value).to_owned());
            signer.sign_request(&head, &payload).unwrap()
        };
        owned.extend(signature.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())));
        let borrowed: Vec<(&[u8], &[u8])> = owned.iter().map(|(n, v)| (n.as_slice(), v.as_slice())).collect();
        let headers = Headers::new(&borrowed);
        let head = RequestHead { method: method.as_bytes(), path: path.as_bytes(), query: query.as_bytes(), headers };
        self.gateway.begin(&head, &near(0), &self.responder())
    }

    fn begun(&self, head: &RequestHead<'_>, ingress: &Ingress) -> Result<Arc<dyn Request>, Box<Response>> {
        self.settled(self.gateway.begin(head, ingress, &self.responder()))
    }

    /// The result of a request that has no form.
    fn settled(&self, begun: Begun) -> Result<Arc<dyn Request>, Box<Response>> {
        match begun {
            Begun::Accepted(accepted) => accepted.map_err(|refusal| Box::new(refusal.answer)),
            Begun::Postponed(postponed) => self.accepted(&postponed),
            Begun::Form(_) => panic!("a form"),
        }
    }

    /// The result of a request that a worker accepts.
    fn accepted(&self, postponed: &Arc<Postponed>) -> Result<Arc<dyn Request>, Box<Response>> {
        postponed.begin(0);
        assert!(matches!(self.wait(), Completion::Resume));
        postponed.take().map_err(|refusal| Box::new(refusal.answer))
    }

    /// The next completion.
    fn wait(&self) -> Completion {
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            let mut done = self.arrived.take();
            assert!(done.len() <= 1, "one request has one completion");
            if let Some((_, completion)) = done.pop() {
                return completion;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no completion came");
    }

    fn wait_answer(&self) -> Response {
        match self.wait() {
            Completion::Committed(request, result) => request.committed(result),
            Completion::Answered(answer) => answer,
            Completion::Piece(_) | Completion::Resume => panic!("an answer was expected"),
        }
    }

    /// Sends `sent` as the body of an accepted request.
    fn carry_out(&self, request: &Arc<dyn Request>, sent: &[u8]) -> Response {
        if let BodyPlan::Stream(_) = request.body() {
            let stream = request.open_body("127.0.0.1").unwrap();
            for piece in sent.chunks(100_000) {
                let responder = self.responder();
                match stream.admit(Box::new(move || responder.complete(0, Completion::Resume))) {
                    Flow::More => stream.push(piece),
                    Flow::Wait => panic!("the budget is larger than this body"),
                    Flow::Stop => break,
                }
            }
            request.body_read();
            stream.finish(Reply::new(request.clone(), 0));
            return self.wait_answer();
        }
        request.body_read();
        Arc::clone(request)
            .start(self.gateway.services.bodies.buffers.copy(sent), 0)
            .unwrap_or_else(|| self.wait_answer())
    }

    fn call(&self, method: &str, target: &str, extra: &[(&str, &str)], body: &[u8]) -> Response {
        match self.accept(method, target, extra, body) {
            Ok(request) => self.carry_out(&request, body),
            Err(answer) => *answer,
        }
    }

    /// The content of an answer, or why it broke off.
    fn content(&self, answer: Response) -> Result<Vec<u8>, String> {
        match answer.body {
            ResponseBody::Empty => Ok(Vec::new()),
            ResponseBody::Bytes(bytes) => Ok(bytes.to_vec()),
            ResponseBody::Pieces(download) => {
                let mut out = Vec::new();
                while (out.len() as u64) < download.length() {
                    let responder = self.responder();
                    let piece = download.next(Box::new(move |piece| responder.complete(0, Completion::Piece(piece))));
                    let piece = piece.unwrap_or_else(|| match self.wait() {
                        Completion::Piece(piece) => piece,
                        _ => panic!("a piece was expected"),
                    });
                    out.extend_from_slice(&piece.map_err(|problem| problem.fault.unwrap_or_default())?);
                }
                Ok(out)
            }
        }
    }

    /// Closes the store, lets `harm` at its directory, and opens it again.
    fn reopened(mut self, harm: impl FnOnce(&Path)) -> Self {
        self.gateway.close();
        self.engine.take().unwrap().close().unwrap();
        let Self { dir, gateway, .. } = self;
        drop(gateway);
        harm(dir.path());
        Self::open(dir)
    }
}

/// From this machine, below `root` bytes of the path.
fn near(root: usize) -> Ingress {
    Ingress::now("127.0.0.1", false, root)
}

fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    let found = answer.headers.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| std::str::from_utf8(value).unwrap())
}

fn code(answer: &Response) -> String {
    let ResponseBody::Bytes(document) = &answer.body else { return String::new() };
    let text = String::from_utf8_lossy(document);
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    code.map_or_else(String::new, |(code, _)| code.to_owned())
}

fn noise(length: usize) -> Vec<u8> {
    let mut out = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut out);
    out
}

#[test]
fn bodies_of_every_size_come_back() {
    let fixture = Fixture::new();
    assert_eq!(fixture.call("PUT", "/bucket", &[], b"").status, 200);
    for size in [0, 1, 256, 257, 9_000, 65_536, 65_537, (1 << 20) + 1, 3 << 20] {
        let content = noise(size);
        let put = fixture.call("PUT", "/bucket/k", &[], &content);
        assert_eq!(put.status, 200, "{size}: {}", code(&put));
        let got = fixture.call("GET", "/bucket/k", &[], b"");
        assert_eq!(header(&got, "content-length"), Some(size.to_string().as_str()));
        assert_eq!(header(&got, "etag"), header(&put, "etag"));
        assert_eq!(fixture.content(got).unwrap(), content);
        let head = fixture.call("HEAD", "/bucket/k", &[], b"");
        assert_eq!(header(&head, "content-length"), Some(size.to_string().as_str()));
        assert!(matches!(head.body, ResponseBody::Empty));
    }
}

/// The source is hashed, and longer than two pieces.
#[test]
fn a_copy_in_pieces_ends_once_it_is_abandoned() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let content = noise(3 << 20);
    fixture.call("PUT", "/bucket/k", &[], &content);
    let copy = [("x-amz-copy-source", "/bucket/k"), ("x-amz-checksum-algorithm", "SHA256")];
    let request = fixture.accept("PUT", "/bucket/copy", &copy, b"").map_err(|a| code(&a)).unwrap();
    assert!(request.in_pieces());
    request.abandon();
    assert_eq!(code(&fixture.carry_out(&request, b"")), "ServiceUnavailable");
    assert_eq!(code(&fixture.call("GET", "/bucket/copy", &[], b"")), "NoSuchKey");
    assert_eq!(fixture.call("PUT", "/bucket/copy", &copy, b"").status, 200);
    let got = fixture.call("GET", "/bucket/copy", &[], b"");
    assert_eq!(fixture.content(got).unwrap(), content);
}

#[test]
fn a_body_unlike_its_declaration_stores_nothing() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    for size in [100, 9_000, 200_000] {
        let declared = noise(size);
        let mut other = declared.clone();
        other[size / 2] ^= 1;
        for (sent, expected) in [(&other[..], "XAmzContentSHA256Mismatch"), (&declared[..size - 1], "IncompleteBody")] {
            let request = fixture.accept("PUT", "/bucket/k", &[], &declared).map_err(|a| code(&a)).unwrap();
            let answer = fixture.carry_out(&request, sent);
            assert_eq!(code(&answer), expected, "{size}");
            assert_eq!(code(&fixture.call("GET", "/bucket/k", &[], b"")), "NoSuchKey");
        }
        let md5 = [("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")];
        assert_eq!(code(&fixture.call("PUT", "/bucket/k", &md5, &declared)), "BadDigest");
        assert_eq!(code(&fixture.call("GET", "/bucket/k", &[], b"")), "NoSuchKey");
    }
}

/// Beginnings that are known take their digests from memory; what follows them must come out right all the same.
#[test]
fn bodies_that_begin_alike_have_digests_of_their_own() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let chunks = noise(3 << 20);
    let (a, b, c) = (&chunks[..1 << 20], &chunks[1 << 20..2 << 20], &chunks[2 << 20..]);
    let bodies = [&[a, b][..], &[a, c], &[b, a], &[a, b, c], &[a, a], &[a, b, &c[..99]], &[a, &b[1..]], &[a]];
    for (number, body) in bodies.iter().cycle().take(2 * bodies.len()).enumerate() {
        let body = body.concat();
        let md5 = Md5Hasher::digest(&body);
        let etag = Etag::simple(md5).to_string();
        let declared = base64_encode(&md5);
        let unsigned = ("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        let sha256 = base64_encode(Hasher::digest(ChecksumAlgorithm::Sha256, &body).as_bytes());
        let crc = Hasher::digest(ChecksumAlgorithm::Crc64Nvme, &body).to_base64();
        // Without a SHA-256 first, so that it is known later than the MD5.
        for extra in [
            &[unsigned, ("content-md5", &declared)][..],
            &[("content-md5", &declared)],
            &[unsigned, ("x-amz-checksum-sha256", &sha256)],
            &[unsigned, ("x-amz-checksum-crc64nvme", &crc)],
        ] {
            let put = fixture.call("PUT", "/bucket/k", extra, &body);
            assert_eq!(put.status, 200, "{number} {extra:?}: {}", code(&put));
            assert_eq!(header(&put, "etag"), Some(format!("\"{etag}\"").as_str()));
        }
        let mut other = body.clone();
        *other.last_mut().unwrap() ^= 1;
        let request = fixture.accept("PUT", "/bucket/k", &[], &body).map_err(|a| code(&a)).unwrap();
        assert_eq!(code(&fixture.carry_out(&request, &other)), "XAmzContentSHA256Mismatch");
        let wrong = [unsigned, ("content-md5", &*declared)];
        let request = fixture.accept("PUT", "/bucket/k", &wrong, &body).map_err(|a| code(&a)).unwrap();
        assert_eq!(code(&fixture.carry_out(&request, &other)), "BadDigest");
        let got = fixture.call("GET", "/bucket/k", &[], b"");
        assert_eq!(fixture.content(got).unwrap(), body);
    }
}

#[test]
fn an_aborted_body_stores_nothing_and_gives_its_memory_back() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let content = noise(500_000);
    let request = fixture.accept("PUT", "/bucket/k", &[], &content).map_err(|a| code(&a)).unwrap();
    let stream = request.open_body("127.0.0.1").unwrap();
    assert_eq!(stream.admit(Box::new(|| ())), Flow::More);
    stream.push(&content[..100_000]);
    drop(stream);
    assert_eq!(code(&fixture.call("GET", "/bucket/k", &[], b"")), "NoSuchKey");
    let deadline = Instant::now() + Duration::from_secs(10);
    while fixture.gateway.services.bodies.budget.try_take(8 << 20).is_none() {
        assert!(Instant::now() < deadline, "the budget did not come back");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn only_root_may_ask_and_nobody_learns_of_buckets_first() {
    let fixture = Fixture::new();
    let now_s = now_ms() / 1000;
    let other = Signer::new("OTHER", b"other", "us-east-1", now_s).unwrap();
    let unknown = Signer::new("UNKNOWN", b"secret", "us-east-1", now_s).unwrap();
    let forged = Signer::new("ROOT", b"guess", "us-east-1", now_s).unwrap();
    for (signer, expected) in
        [(&other, "AccessDenied"), (&unknown, "InvalidAccessKeyId"), (&forged, "SignatureDoesNotMatch")]
    {
        let answer = fixture.accept_as(signer, "GET", "/missing/k", &[], b"").err().unwrap();
        assert_eq!(code(&answer), expected);
    }
    let list: [(&[u8], &[u8]); 1] = [(b"host", b"localhost")];
    let head = RequestHead { method: b"GET", path: b"/missing/k", query: b"", headers: Headers::new(&list) };
    assert_eq!(code(&fixture.begun(&head, &near(0)).err().unwrap()), "AccessDenied");
    assert_eq!(code(&fixture.call("GET", "/missing/k", &[], b"")), "NoSuchBucket");
}

#[test]
fn answers_that_leave_a_body_unread_close_the_connection() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let refused = fixture.call("PUT", "/missing/k", &[], b"body");
    assert_eq!((refused.status, refused.closes), (404, true));
    fixture.call("PUT", "/bucket/k", &[], b"body");
    let early = fixture.accept("PUT", "/bucket/k", &[("if-none-match", "*")], b"body").err().unwrap();
    assert_eq!((early.status, early.closes), (412, true));
    let unread = fixture.accept("DELETE", "/bucket/k", &[], b"body").map_err(|a| code(&a)).unwrap();
    let answer = unread.start(Bytes::new(), 0).unwrap_or_else(|| fixture.wait_answer());
    assert_eq!((answer.status, answer.closes), (204, true));
    let missing = fixture.call("GET", "/bucket/k", &[], b"");
    assert_eq!((missing.status, missing.closes), (404, false));
}

#[test]
fn every_answer_names_its_request() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let mut seen = std::collections::HashSet::new();
    for (method, target) in
        [("GET", "/"), ("GET", "/bucket"), ("HEAD", "/bucket/k"), ("GET", "/bucket?acl"), ("PATCH", "/bucket")]
    {
        let answer = fixture.call(method, target, &[], b"");
        let id = header(&answer, "x-amz-request-id").unwrap().to_owned();
        assert!(id.len() == 16 && id.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()), "{id}");
        assert!(header(&answer, "x-amz-id-2").is_some());
        if let ResponseBody::Bytes(document) = &answer.body {
            let text = String::from_utf8_lossy(document);
            assert!(answer.status == 200 || text.contains(&format!("<RequestId>{id}</RequestId>")), "{text}");
        }
        assert!(seen.insert(id));
    }
}

#[test]
fn a_damaged_chunk_breaks_the_download_off() {
    let content = noise(3 << 20);
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    fixture.call("PUT", "/bucket/k", &[], &content);
    let fixture = fixture.reopened(|dir| {
        for pack in std::fs::read_dir(dir.join("chunks")).unwrap() {
            let path = pack.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            let needle = &content[(2 << 20) + 1000..(2 << 20) + 1016];
            if let Some(at) = memchr::memmem::find(&bytes, needle) {
                bytes[at] ^= 1;
                std::fs::write(&path, bytes).unwrap();
            }
        }
    });
    let got = fixture.call("GET", "/bucket/k", &[], b"");
    assert_eq!((got.status, header(&got, "content-length")), (200, Some("3145728")));
    assert!(fixture.content(got).is_err());
    let range = fixture.call("GET", "/bucket/k", &[("range", "bytes=0-99999")], b"");
    assert_eq!(fixture.content(range).unwrap(), content[..100_000]);
}

#[test]
fn whatever_a_head_holds_it_gets_an_answer() {
    use proptest::prelude::*;
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let bytes = || proptest::collection::vec(any::<u8>(), 0..24);
    let text = || "[ -~]{0,24}";
    proptest!(ProptestConfig::with_cases(256), |(path in bytes(), query in text(), name in "[a-z-]{1,20}", value in bytes())| {
        let raw = [b"/bucket/".as_slice(), &path].concat();
        let list: Vec<(&[u8], &[u8])> = vec![(b"host", b"localhost"), (name.as_bytes(), &value)];
        let head = RequestHead { method: b"PUT", path: &raw, query: query.as_bytes(), headers: Headers::new(&list) };
        let answer = fixture.begun(&head, &near(0)).err().unwrap();
        prop_assert!((400..500).contains(&answer.status));
        let (described, diagnosis) = (fixture.gateway.describe(&head, 0), fixture.gateway.diagnose(&head));
        prop_assert_eq!((described.access_key, diagnosis.and_then(|it| it.explanation)), (None, None));
        let signed = fixture.call("GET", &format!("/bucket/k?{}", query.replace(['#', ' ', '%'], "")), &[], b"");
        prop_assert!((200..600).contains(&signed.status) && signed.error.is_none_or(|note| !note.at_fault));
    });
}
