//! Bytes that are refused before they are a request, and how connections end.

use std::time::Duration;

use crate::UnderWay;

use super::Server;

/// Answers of the connection itself: status, error code.
fn refusal(server: &Server, request: &str) -> (u16, String) {
    let answer = server.exchange(request.as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.contains("\r\nx-amz-request-id: "), "{answer}");
    let code = answer.split("<Code>").nth(1).and_then(|rest| rest.split("</Code>").next()).unwrap_or_default();
    (answer[9..12].parse().unwrap(), code.to_owned())
}

#[test]
fn what_is_no_request_is_refused_with_a_document() {
    let server = Server::start();
    let long = "x".repeat(9000);
    for (request, status, code) in [
        ("nonsense\r\n\r\n", 400, "BadRequest"),
        ("GET / HTTP/1.1\r\nHost: a\r\nbroken\r\n\r\n", 400, "BadRequest"),
        ("GET / HTTP/1.1\r\n\r\n", 400, "BadRequest"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "BadRequest"),
        ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "InvalidURI"),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "InvalidURI"),
        ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "InvalidURI"),
        ("GET http://a:x/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "InvalidURI"),
        ("get / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "BadRequest"),
        ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", 400, "BadRequest"),
        ("GET /b?prefix=\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", 400, "BadRequest"),
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", 400, "BadRequest"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", 400, "BadRequest"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "InvalidURI"),
        (&format!("GET / HTTP/1.1\r\nHost: a\r\nx: {long}\r\n\r\n"), 431, "RequestHeaderSectionTooLarge"),
        ("PUT /b/k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400, "BadRequest"),
        ("PUT /b/k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400, "BadRequest"),
        (
            "PUT /b/k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
            400,
            "BadRequest",
        ),
        (
            "PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "BadRequest",
        ),
        ("PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", 400, "BadRequest"),
        ("PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", 400, "BadRequest"),
        ("PUT /b/k HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "BadRequest"),
        (
            "PUT /b/k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "BadRequest",
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400, "BadRequest"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", 400, "BadRequest"),
        ("PRI * HTTP/1.1\r\nHost: a\r\n\r\n", 400, "InvalidURI"),
        ("PRI * HTTP/2.0\r\nHost: a\r\n\r\n", 400, "BadRequest"),
        ("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 400, "BadRequest"),
    ] {
        assert_eq!(refusal(&server, request), (status, code.to_owned()), "{request}");
    }
    assert_eq!(server.front.refused().values().sum::<u64>(), 28);
}

#[test]
fn what_cannot_be_parsed_behind_a_request_does_not_disturb_its_answer() {
    let server = Server::start();
    let mut client = server.connect();
    let mut sent = server.request("GET", "/bucket/nothing", "", &[], b"");
    sent.extend_from_slice(b"nonsense\r\n\r\n");
    client.send(&sent);
    assert_eq!(client.read("GET").status, 404);
    assert_eq!(client.read("GET").status, 400);
    assert_eq!(client.rest(), "");
}

#[test]
fn nobody_leaves_http_1_by_an_upgrade() {
    let server = Server::start();
    let mut client = server.connect();
    for (protocol, more) in [("websocket", "Sec-WebSocket-Key: eA==\r\n"), ("h2c", "HTTP2-Settings: AAMAAABk\r\n")] {
        let ask =
            format!("GET /bucket/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n{more}\r\n");
        // What follows is the next request.
        client.send(&[ask.as_bytes(), &server.request("GET", "/bucket/nothing", "", &[], b"")].concat());
        assert_eq!((client.read("GET").status, client.read("GET").status), (403, 404), "{protocol}");
    }
}

#[test]
fn slow_senders_and_idle_clients_are_ended() {
    let server = Server::with(|options| {
        let limits = &mut options.limits;
        (limits.head_sec, limits.body_sec, limits.idle_sec) = (1, 1, 1);
    });
    let head = server.exchange(b"GET / HTTP/1.1\r\nHost:");
    assert!(head.starts_with("HTTP/1.1 408 "), "{head}");
    for size in [1000, 5 << 20] {
        let body = server.exchange(&server.sign("PUT", "/bucket/slow", "", &[], size));
        assert!(body.starts_with("HTTP/1.1 400 ") && body.contains("RequestTimeout"), "{body}");
    }
    assert_eq!(server.exchange(b""), "");
    let mut client = server.connect();
    client.send(&server.request("GET", "/bucket/nothing", "", &[], b""));
    assert_eq!(client.read("GET").status, 404);
    assert_eq!(client.rest(), "");
}

#[test]
fn a_stop_ends_idle_connections_and_waits_for_requests() {
    let server = Server::start();
    let mut idle = server.connect();
    idle.send(&server.request("GET", "/bucket/nothing", "", &[], b""));
    assert_eq!(idle.read("GET").status, 404);
    let mut busy = server.connect();
    busy.send(&server.sign("PUT", "/bucket/late", "", &[("expect", "100-continue")], 5));
    assert_eq!(busy.read("PUT").status, 100);
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| server.front.stop(super::TIMEOUT));
        assert_eq!(idle.rest(), "");
        busy.send(b"hello");
        let answer = busy.read("PUT");
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
        assert_eq!(stopped.join().unwrap(), UnderWay::default());
    });
}

#[test]
fn a_stop_cuts_off_what_takes_too_long() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&server.sign("PUT", "/bucket/late", "", &[("expect", "100-continue")], 5));
    assert_eq!(client.read("PUT").status, 100);
    assert_eq!(server.front.stop(Duration::ZERO), UnderWay { requests: 1, unread: 0 });
    let answer = client.read("PUT");
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("<Code>ServiceUnavailable</Code>"));
}
