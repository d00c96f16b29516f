//! Whole loads against a small S3 server whose responses each test can alter.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::plan::tests::workload;
use super::{Load, Operation, Phase, Report, Sizes, Target, Workload, plan};
use orcas_http::percent_decode;
use orcas_sigv4::sha256_hex;

const ALL: [(Operation, u32); 7] = [
    (Operation::Put, 4),
    (Operation::Get, 5),
    (Operation::Head, 3),
    (Operation::List, 2),
    (Operation::Delete, 2),
    (Operation::Copy, 2),
    (Operation::Multipart, 1),
];

struct Request {
    method: String,
    /// Bucket and key, decoded.
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Response {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

fn response(status: u16, body: impl Into<Vec<u8>>) -> Response {
    Response { status, headers: String::new(), body: body.into() }
}

type Objects = Mutex<BTreeMap<String, Vec<u8>>>;
/// Alters the correct response to a request. `None` closes the connection without a response.
type Alteration = dyn Fn(&Request, Response) -> Option<Response> + Send + Sync;

fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let mut words = lines[0].split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let plain = |text: &str| String::from_utf8(percent_decode(text.as_bytes()).expect("escaped well")).expect("UTF-8");
    let query = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let headers: BTreeMap<String, String> =
        lines[1..].iter().filter_map(|line| line.split_once(": ")).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let query = query.map(|(name, value)| (plain(name), plain(value))).collect();
    Some(Request { method, path: plain(path), query, headers, body })
}

fn list(objects: &Objects, query: &BTreeMap<String, String>) -> Response {
    let (after, max) = (format!("/bucket/{}", query["start-after"]), query["max-keys"].parse().expect("a number"));
    let objects = objects.lock();
    let mut found = objects.range(after.clone()..).filter(|(key, _)| key.starts_with("/bucket/o/") && **key > after);
    let mut document = String::from("<ListBucketResult>");
    for (key, body) in found.by_ref().take(max) {
        let key = key.trim_start_matches("/bucket/");
        document += &format!("<Contents><Key>{key}</Key><Size>{}</Size></Contents>", body.len());
    }
    document += &format!("<IsTruncated>{}</IsTruncated></ListBucketResult>", found.next().is_some());
    response(200, document)
}

fn correct(objects: &Objects, request: &Request) -> Response {
    assert!(request.headers["authorization"].contains("SignedHeaders=host;x-amz"), "{:?}", request.headers);
    let signed = &request.headers["x-amz-content-sha256"];
    assert!(signed == "UNSIGNED-PAYLOAD" || *signed == sha256_hex(&request.body), "{}", request.path);
    let (path, query) = (request.path.clone(), &request.query);
    match request.method.as_str() {
        "PUT" if query.contains_key("partNumber") => {
            assert_eq!(query["uploadId"], "a+/&b");
            let part = format!("{path}?{}", query["partNumber"]);
            objects.lock().insert(part, request.body.clone());
            Response { headers: "ETag: \"e\"\r\n".to_owned(), ..response(200, "") }
        }
        "POST" if query.contains_key("uploads") => response(200, "<R><UploadId>a+/&amp;b</UploadId></R>"),
        "POST" => {
            let parts = request.body.split(|&byte| byte == b'<').filter(|tag| tag.starts_with(b"PartNumber>"));
            let parts = (1..=parts.count()).filter_map(|number| objects.lock().remove(&format!("{path}?{number}")));
            let whole = parts.collect::<Vec<_>>().concat();
            objects.lock().insert(path, whole);
            response(200, "<CompleteMultipartUploadResult/>")
        }
        "PUT" => {
            let source = request.headers.get("x-amz-copy-source").cloned();
            let body = match source {
                None => request.body.clone(),
                Some(source) => match objects.lock().get(&source) {
                    Some(body) => body.clone(),
                    None => return response(404, "<Error><Code>NoSuchKey</Code></Error>"),
                },
            };
            objects.lock().insert(path, body);
            response(200, "<CopyObjectResult/>")
        }
        "DELETE" => {
            objects.lock().remove(&path);
            response(204, "")
        }
        _ if query.contains_key("list-type") => list(objects, query),
        _ => match objects.lock().get(&path) {
            Some(body) => response(200, body.clone()),
            None => response(404, "<Error><Code>NoSuchKey</Code></Error>"),
        },
    }
}

fn answer(stream: &mut TcpStream, request: &Request, response: Response) -> std::io::Result<()> {
    let Response { status, headers, body } = response;
    let mut out = format!("HTTP/1.1 {status} Whatever\r\n{headers}").into_bytes();
    if !headers.contains("chunked") && status != 204 {
        out.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    if request.method != "HEAD" && status != 204 {
        out.extend_from_slice(&body);
    }
    stream.write_all(&out)
}

fn serve(alteration: Arc<Alteration>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let objects = Arc::new(Objects::default());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (alteration, objects) = (Arc::clone(&alteration), Arc::clone(&objects));
            thread::spawn(move || {
                let mut out = stream.try_clone().expect("a descriptor");
                let mut stream = BufReader::new(stream);
                while let Some(request) = read_request(&mut stream) {
                    let Some(altered) = alteration(&request, correct(&objects, &request)) else { break };
                    let closes = altered.headers.contains("close");
                    if answer(&mut out, &request, altered).is_err() || closes {
                        break;
                    }
                }
            });
        }
    });
    address
}

fn target(address: SocketAddr) -> Target {
    Target { address, host: address.to_string(), ..plan::tests::target() }
}

fn small(mix: &[(Operation, u32)]) -> Workload {
    let sizes = Sizes::Table(vec![(0, 1), (5, 1), (1000, 1), (700_000, 1)]);
    Workload { connections: 6, threads: 2, part_size: 300_001, sizes, ..workload(mix) }
}

fn phase(load: &Load, phase: Phase) -> Report {
    load.start(phase).expect("idle");
    while !load.wait(Duration::from_secs(1)) {}
    load.finish().expect("ran")
}

/// Prepares, runs `count` operations and reads back. Returns the report of each phase.
fn run(workload: Workload, count: u64, alteration: Arc<Alteration>) -> [Report; 3] {
    let load = Load::new(target(serve(alteration)), workload).expect("a load");
    [Phase::Prepare, Phase::Count(count), Phase::ReadBack].map(|next| phase(&load, next))
}

fn errors(report: &Report) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for operation in Operation::ALL {
        for (name, count) in &report.tally.of(operation).errors {
            *all.entry(name.clone()).or_default() += count;
        }
    }
    all
}

fn sum(report: &Report, of: impl Fn(&super::Counts) -> u64) -> u64 {
    Operation::ALL.iter().map(|&operation| of(report.tally.of(operation))).sum()
}

#[test]
fn a_correct_server_passes_every_check() {
    // More than the 40 deletions and the operations in progress can use up, so that an object is always left.
    const KEYS: u32 = 60;
    for overwrite in [false, true] {
        for (identical, signed_payload) in [(false, true), (true, false), (true, true)] {
            let plan = Workload { keys: KEYS, overwrite, identical, signed_payload, ..small(&ALL) };
            let [prepared, measured, again] = run(plan, 380, Arc::new(|_: &Request, correct| Some(correct)));
            for report in [&prepared, &measured, &again] {
                assert_eq!(errors(report), BTreeMap::new());
                assert_eq!(report.tally.wrong_examples, Vec::<String>::new());
            }
            assert_eq!(prepared.tally.of(Operation::Put).done, u64::from(KEYS));
            for (operation, weight) in ALL {
                let counts = measured.tally.of(operation);
                assert_eq!(counts.done + counts.raced, u64::from(weight) * 20, "{operation:?}");
                assert_eq!(counts.latencies.count(), counts.done);
            }
            assert_eq!(measured.tally.of(Operation::Multipart).bytes, 20 * 600_002);
            assert!(again.tally.of(Operation::Get).done > 30, "objects, copies and uploads were read back");
            assert!(measured.elapsed > Duration::ZERO && measured.cpu > Duration::ZERO);
        }
    }
}

#[test]
fn chunked_responses_and_closed_connections_are_understood() {
    let chunked = |_: &Request, correct: Response| {
        let mut body = Vec::new();
        for chunk in correct.body.chunks(70_000) {
            body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        Some(Response { headers: format!("{}transfer-encoding: chunked\r\n", correct.headers), body, ..correct })
    };
    let mix = [(Operation::Put, 1), (Operation::Get, 1), (Operation::List, 1)];
    let [_, measured, _] = run(small(&mix), 90, Arc::new(chunked));
    assert_eq!((sum(&measured, |counts| counts.done), measured.tally.reconnects), (90, 0));
    let closing = |_: &Request, correct: Response| {
        Some(Response { headers: format!("{}connection: close\r\n", correct.headers), ..correct })
    };
    let [_, measured, _] = run(small(&mix), 90, Arc::new(closing));
    assert_eq!(sum(&measured, |counts| counts.done), 90);
    assert!((84..=90).contains(&measured.tally.reconnects), "{}", measured.tally.reconnects);
}

#[test]
fn every_wrong_answer_is_found() {
    let read = |request: &Request| request.method == "GET" && !request.query.contains_key("list-type");
    let wrong_answers: [(&str, Operation, Arc<Alteration>); 6] = [
        (
            "has another byte at 999",
            Operation::Get,
            Arc::new(move |request, mut correct| {
                if read(request) {
                    correct.body[999] ^= 1;
                }
                Some(correct)
            }),
        ),
        (
            "has 999 bytes",
            Operation::Get,
            Arc::new(move |request, mut correct| {
                if read(request) {
                    correct.body.pop();
                }
                Some(correct)
            }),
        ),
        (
            "is missing",
            Operation::Get,
            Arc::new(move |request, correct| {
                Some(if read(request) { response(404, "<Error><Code>NoSuchKey</Code></Error>") } else { correct })
            }),
        ),
        (
            "according to HEAD",
            Operation::Head,
            Arc::new(|request, mut correct| {
                if request.method == "HEAD" {
                    correct.body.push(0);
                }
                Some(correct)
            }),
        ),
        (
            "lacks objects",
            Operation::List,
            Arc::new(|request, mut correct| {
                if let (true, Some(end)) =
                    (request.query.contains_key("list-type"), memchr::memmem::find(&correct.body, b"</Contents>"))
                {
                    correct.body.drain(18..end + 11);
                }
                Some(correct)
            }),
        ),
        (
            "has an object that was never written",
            Operation::List,
            Arc::new(|request, mut correct| {
                if request.query.contains_key("list-type") {
                    let text = String::from_utf8(correct.body).expect("UTF-8");
                    correct.body = text.replace("<Size>1000<", "<Size>1001<").into_bytes();
                }
                Some(correct)
            }),
        ),
    ];
    for (what, operation, alteration) in wrong_answers {
        let plan = Workload { sizes: Sizes::Table(vec![(1000, 1)]), ..small(&[(operation, 1)]) };
        let [prepared, measured, _] = run(plan, 60, alteration);
        assert_eq!(prepared.tally.of(Operation::Put).done, 10);
        let counts = measured.tally.of(operation);
        // A list after the last key is empty and therefore not altered.
        let unaltered = if operation == Operation::List { 60 / 5 } else { 0 };
        assert!(counts.wrong >= 60 - unaltered && counts.wrong + counts.done == 60, "{what}: {}", counts.wrong);
        assert!(measured.tally.wrong_examples.iter().all(|told| told.contains(what)), "{what}: {:?}", measured.tally);
        assert_eq!(counts.latencies.count(), counts.done);
    }
}

#[test]
fn lost_and_stale_objects_are_found_when_they_are_read_back() {
    let without_copies = |request: &Request, correct: Response| {
        let copies = request.path.contains("/c/");
        Some(if copies && request.method == "GET" { response(404, "") } else { correct })
    };
    let [_, measured, again] = run(small(&[(Operation::Copy, 1), (Operation::Put, 1)]), 40, Arc::new(without_copies));
    assert_eq!(sum(&measured, |counts| counts.done), 40);
    assert_eq!(again.tally.of(Operation::Get).errors["404"], 20);
    let first = Mutex::new(BTreeMap::new());
    let stale = move |request: &Request, correct: Response| {
        let body = first.lock().entry(request.path.clone()).or_insert_with(|| request.body.clone()).clone();
        Some(if request.method == "GET" { response(200, body) } else { correct })
    };
    let sizes = Sizes::Table(vec![(1000, 1)]);
    let plan = Workload { overwrite: true, sizes, ..small(&[(Operation::Put, 1)]) };
    let [_, measured, again] = run(plan, 30, Arc::new(stale));
    assert_eq!(sum(&measured, |counts| counts.done), 30);
    assert_eq!((sum(&again, |counts| counts.done), sum(&again, |counts| counts.wrong)), (0, 30));
    assert!(again.tally.wrong_examples.iter().all(|told| told.contains("is older")), "{:?}", again.tally);
}

#[test]
fn errors_are_counted_by_kind() {
    let slow = |request: &Request, correct: Response| {
        let busy = || response(503, "<Error><Code>SlowDown</Code></Error>");
        Some(if request.method == "GET" { busy() } else { correct })
    };
    let [_, measured, _] = run(small(&[(Operation::Get, 1)]), 50, Arc::new(slow));
    assert_eq!(errors(&measured), BTreeMap::from([("503 SlowDown".to_owned(), 50)]));
    let silent = |request: &Request, correct: Response| (request.method != "GET").then_some(correct);
    let [_, measured, _] = run(small(&[(Operation::Get, 1)]), 50, Arc::new(silent));
    assert_eq!(errors(&measured), BTreeMap::from([("connection closed early".to_owned(), 50)]));
    let late = |request: &Request, correct: Response| {
        let failed = || response(200, "<Error><Code>InternalError</Code></Error>");
        Some(if request.method == "POST" || request.path.contains("/c/") { failed() } else { correct })
    };
    let [_, measured, _] = run(small(&[(Operation::Copy, 1), (Operation::Multipart, 1)]), 50, Arc::new(late));
    assert_eq!(errors(&measured), BTreeMap::from([("200 InternalError".to_owned(), 50)]));
    let garbage = |request: &Request, correct: Response| {
        let headers = "transfer-encoding: chunked\r\n".to_owned();
        Some(if request.method == "GET" { Response { headers, ..response(200, "x\r\n") } } else { correct })
    };
    let [_, measured, _] = run(small(&[(Operation::Get, 1)]), 20, Arc::new(garbage));
    assert_eq!(errors(&measured), BTreeMap::from([("bad response: a chunk is malformed".to_owned(), 20)]));
}

#[test]
fn a_refusal_before_the_end_of_the_body_is_the_response() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 100];
            stream.read_exact(&mut head).expect("a head");
            let refusal = b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(refusal).expect("sent");
            // Unread data would reset the connection, and the client could lose the response.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    let sizes = Sizes::Table(vec![(40 << 20, 1)]);
    let plan = Workload { keys: 0, sizes, signed_payload: false, ..small(&[(Operation::Put, 1)]) };
    let load = Load::new(target(address), plan).expect("a load");
    let report = phase(&load, Phase::Count(12));
    assert_eq!(errors(&report), BTreeMap::from([("403".to_owned(), 12)]));
}

#[test]
fn a_run_ends_if_the_server_is_gone_or_hangs() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let load = Load::new(target(closed), small(&[(Operation::Put, 1)])).expect("a load");
    let report = phase(&load, Phase::Time(Duration::from_secs(3600)));
    assert_eq!(report.tally.given_up, 6);
    assert_eq!(errors(&report).keys().collect::<Vec<_>>(), ["connection refused"]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound");
    let impatient = Target { timeout: Duration::from_millis(200), ..target(address) };
    let load = Load::new(impatient, Workload { keys: 0, ..small(&[(Operation::Put, 1)]) }).expect("a load");
    assert_eq!(errors(&phase(&load, Phase::Count(8))), BTreeMap::from([("timed out".to_owned(), 8)]));
    let load = Load::new(target(address), Workload { keys: 0, ..small(&[(Operation::Put, 1)]) }).expect("a load");
    load.start(Phase::Count(8)).expect("idle");
    assert!(!load.wait(Duration::from_millis(100)));
    load.stop();
    assert_eq!(sum(&load.finish().expect("stopped"), |counts| counts.done), 0);
}

#[test]
fn a_delete_needs_something_to_delete() {
    let plan = small(&[(Operation::Delete, 1)]);
    let [_, measured, _] = run(plan, 15, Arc::new(|_: &Request, correct| Some(correct)));
    assert_eq!(measured.tally.of(Operation::Delete).done, 10);
    assert_eq!(errors(&measured), BTreeMap::from([("no object left".to_owned(), 5)]));
}

#[test]
fn invalid_loads_are_refused() {
    let address = "127.0.0.1:1".parse().expect("an address");
    assert!(Load::new(target(address), workload(&[])).is_err());
    let none = Workload { connections: 0, ..workload(&ALL) };
    assert!(Load::new(target(address), none).is_err());
    let many = Workload { keys: u32::MAX, ..workload(&ALL) };
    assert!(Load::new(target(address), many).is_err());
    let load = Load::new(target(address), workload(&ALL)).expect("a load");
    assert!(load.finish().is_err() && load.wait(Duration::ZERO));
}
