//! What waits for a worker, and how often.

use super::access::{Site, text};
use super::*;

/// The document is long enough to be checked on a worker, which is where the operation goes on as well.
#[test]
fn a_long_document_waits_for_a_worker_once() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bucket", &[], b"");
    let document = format!("<AbacStatus><Status>Disabled</Status>{}</AbacStatus>", " ".repeat(64 * 1024));
    let long = fixture.accept("PUT", "/bucket?abac", &[], document.as_bytes()).ok().unwrap();
    let short = fixture.accept("GET", "/bucket?lifecycle", &[], b"").ok().unwrap();
    // All workers are busy until one of them is released.
    let (busy, held) = std::sync::mpsc::channel();
    let mut holders: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (busy, (release, released)) = (busy.clone(), std::sync::mpsc::channel::<()>());
            fixture.gateway.services.pool.spawn(move || {
                busy.send(()).unwrap();
                let _ = released.recv();
            });
            release
        })
        .collect();
    (0..WORKERS).for_each(|_| held.recv().unwrap());
    long.body_read();
    assert!(Arc::clone(&long).start(fixture.gateway.services.bodies.buffers.copy(document.as_bytes()), 1).is_none());
    assert!(short.start(Bytes::new(), 2).is_none());
    drop(holders.pop());
    let mut slots = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    while slots.len() < 2 && Instant::now() < deadline {
        slots.extend(fixture.arrived.take().into_iter().map(|(slot, _)| slot));
        std::thread::yield_now();
    }
    assert_eq!(slots, [1, 2], "the first one is done before the second one begins");
}

/// What a worker answers comes later than `start` returns. Nothing reaches the engine here.
#[test]
fn many_entries_of_a_deletion_are_decided_on_a_worker() {
    let site = Site::new(&[("alice", &[])], &[]);
    let root = &site.fixture.signer;
    let alice = &Signer::new("alice", b"alice", "us-east-1", now_ms() / 1000).unwrap();
    for (signer, bucket, entries, is_inline) in
        [(alice, "box", 2, true), (alice, "box", 3, false), (alice, "box", 100, false), (root, "none", 100, true)]
    {
        let keys: String = (0..entries).map(|at| format!("<Object><Key>{at}</Key></Object>")).collect();
        let document = format!("<Delete>{keys}</Delete>");
        let md5 = base64_encode(&Md5Hasher::digest(document.as_bytes()));
        let (target, headers) = (format!("/{bucket}?delete"), [("content-md5", &*md5)]);
        let begun = site.fixture.begin_as(signer, "POST", &target, &headers, document.as_bytes());
        let request = site.fixture.settled(begun).ok().unwrap();
        request.body_read();
        let at_once = request.start(site.fixture.gateway.services.bodies.buffers.copy(document.as_bytes()), 0);
        assert_eq!(at_once.is_some(), is_inline, "{entries} entries in {bucket}");
        let answer = text(&at_once.unwrap_or_else(|| site.fixture.wait_answer()));
        let refusals = answer.matches("<Code>AccessDenied</Code>").count();
        assert_eq!(refusals, if bucket == "box" { entries } else { 0 }, "{answer}");
    }
}

/// A policy that makes each decision take nearly as long as one may. A copy with one header is decided; with all of them,
/// it is refused before its headers are looked at.
#[test]
fn decisions_on_one_request_are_bounded_together() {
    let patterns: Vec<_> = (0..220).map(|_| format!(r#""arn:aws:s3:::*{}b""#, "?".repeat(90))).collect();
    let costly = format!(r#""Effect": "Deny", "Action": "s3:*", "Resource": [{}]"#, patterns.join(","));
    let site = Site::new(&[("alice", &[r#""Effect": "Allow", "Action": "*", "Resource": "*""#, &costly])], &[]);
    let key = format!("/box/{}", "a".repeat(900));
    assert_eq!(site.by("alice", "PUT", &key, &[], b"content").status, 200);
    let source = ("x-amz-copy-source", &key[1..]);
    let headers = [
        ("x-amz-acl", "bucket-owner-full-control"),
        ("x-amz-tagging", "a=1"),
        ("x-amz-object-lock-legal-hold", "ON"),
        ("x-amz-bypass-governance-retention", "true"),
        ("x-amz-object-lock-mode", "COMPLIANCE"),
    ];
    for header in headers {
        let answer = site.by("alice", "PUT", &key, &[source, header], b"");
        assert_ne!(answer.status, 403, "{header:?}: {}", text(&answer));
    }
    let answer = site.by("alice", "PUT", &key, &[&[source][..], &headers].concat(), b"");
    assert_eq!(answer.status, 403, "{}", text(&answer));
}
