//! HTTP/2: requests side by side on one connection, and what hostile clients do with it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::owner::follow;
use super::passing::accept;
use super::{Server, TIMEOUT};

/// The pieces of a body, the last one first; and whether it has an end.
struct Pieces(Vec<Bytes>, bool);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        match self.0.pop() {
            None if !self.1 => std::task::Poll::Pending,
            piece => std::task::Poll::Ready(piece.map(|piece| Ok(http_body::Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty() && self.1
    }
}

/// Runs a client on a connection of its own.
fn with_client<T>(server: &Server, talk: impl AsyncFnOnce(SendRequest<Pieces>) -> T) -> T {
    let address = server.listener.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (sender, connection) = Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        tokio::time::timeout(TIMEOUT, talk(sender)).await.unwrap()
    })
}

/// A signed request.
fn request(server: &Server, method: &str, path: &str, body: &[u8]) -> Request<Pieces> {
    let pieces = body.chunks(100_000).rev().map(Bytes::copy_from_slice).collect();
    with_head(&server.sign(method, path, "", &[], body.len()), Pieces(pieces, true))
}

fn with_head(head: &[u8], body: Pieces) -> Request<Pieces> {
    let head = std::str::from_utf8(head).unwrap();
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let mut request = Request::builder().method(method).uri(format!("http://localhost{target}"));
    for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(": ")) {
        if name != "host" {
            request = request.header(name, value);
        }
    }
    request.body(body).unwrap()
}

async fn body_of(response: Response<Incoming>) -> Vec<u8> {
    let (mut body, mut content) = (response.into_body(), Vec::new());
    while let Some(frame) = std::future::poll_fn(|task| std::pin::Pin::new(&mut body).poll_frame(task)).await {
        content.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
    }
    content
}

#[test]
fn objects_are_stored_and_read_side_by_side() {
    let server = Server::start();
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    with_client(&server, async |sender| {
        let mut waiting = Vec::new();
        for number in 0..50 {
            let content = if number % 10 == 0 { &large[..] } else { &large[..number] };
            waiting.push(sender.clone().send_request(request(&server, "PUT", &format!("/bucket/{number}"), content)));
        }
        for answer in waiting {
            assert_eq!(answer.await.unwrap().status(), 200);
        }
        let mut waiting = Vec::new();
        for number in 0..50 {
            let answer = sender.clone().send_request(request(&server, "GET", &format!("/bucket/{number}"), b""));
            // Each is read by itself: what nobody reads would take the window of all.
            waiting.push(tokio::spawn(async {
                let answer = answer.await.unwrap();
                assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
                assert!(answer.headers().contains_key("date") && !answer.headers().contains_key("connection"));
                body_of(answer).await
            }));
        }
        for (number, content) in waiting.into_iter().enumerate() {
            let expected = if number % 10 == 0 { &large[..] } else { &large[..number] };
            assert!(content.await.unwrap() == expected, "{number}");
        }
        let answer = sender.clone().send_request(request(&server, "HEAD", "/bucket/10", b"")).await.unwrap();
        assert_eq!(answer.headers()["content-length"], "3000000");
        assert!(body_of(answer).await.is_empty());
    });
    assert_eq!(server.ask("GET", "/bucket/49", "", &[], b"").body, &large[..49]);
}

#[test]
fn a_body_without_a_length_is_one_in_chunks() {
    let server = Server::start();
    let document = b"<Delete><Object><Key>k</Key></Object></Delete>";
    let head = server.sign("POST", "/bucket", "delete=", &[], 0);
    let size = format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", document.len());
    let chunked = [&head[..head.len() - 2], size.as_bytes(), document, b"\r\n0\r\n\r\n"];
    let mut client = server.connect();
    client.send(&chunked.concat());
    let expected = client.read("POST");
    with_client(&server, async |mut sender| {
        let body = Pieces(vec![Bytes::from_static(document)], true);
        let answer = sender.send_request(with_head(&head, body)).await.unwrap();
        assert_eq!(answer.status(), expected.status);
        assert_eq!(answer.headers().get("connection"), None);
    });
}

#[test]
fn what_is_no_request_of_http_is_refused() {
    let server = Server::start();
    with_client(&server, async |mut sender| {
        let other_host = Request::builder().uri("http://localhost/").header("host", "elsewhere");
        let options = Request::builder().method(Method::OPTIONS).uri("*").header("host", "localhost");
        for request in [other_host, options] {
            let answer = sender.send_request(request.body(Pieces(Vec::new(), true)).unwrap()).await.unwrap();
            assert_eq!(answer.status(), 400);
            assert!(String::from_utf8(body_of(answer).await).unwrap().contains("<RequestId>"));
        }
        let answer = sender.send_request(request(&server, "GET", "/bucket/nothing", b"")).await.unwrap();
        assert_eq!(answer.status(), 404);
    });
}

#[test]
fn a_slow_body_ends_its_request_alone() {
    let server = Server::with(|options| options.limits.body_sec = 1);
    with_client(&server, async |sender| {
        let head = server.sign("PUT", "/bucket/slow", "", &[], 1000);
        let slow = sender.clone().send_request(with_head(&head, Pieces(vec![Bytes::from_static(b"content")], false)));
        let fast = sender.clone().send_request(request(&server, "PUT", "/bucket/fast", b"content"));
        assert_eq!(fast.await.unwrap().status(), 200);
        let answer = slow.await.unwrap();
        assert_eq!(answer.status(), 400);
        assert!(String::from_utf8(body_of(answer).await).unwrap().contains("<Code>RequestTimeout</Code>"));
        let next = sender.clone().send_request(request(&server, "GET", "/bucket/fast", b""));
        assert_eq!(body_of(next.await.unwrap()).await, b"content");
    });
}

#[test]
fn an_answer_without_an_end_does_not_delay_a_stop() {
    let server = Server::start();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = accept(&server.application).unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            let answer =
                b"HTTP/1.1 200 OK\r\norcas-front-endless: \r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
            stream.write_all(answer).unwrap();
            // Until the listener goes.
            while stream.read(&mut [0; 4096]).unwrap_or(0) > 0 {}
        });
        with_client(&server, async |sender| {
            let request = Request::builder().uri("http://localhost/_orcas/events").body(Pieces(Vec::new(), true));
            let mut body = sender.clone().send_request(request.unwrap()).await.unwrap().into_body();
            let mut next = async || std::future::poll_fn(|task| std::pin::Pin::new(&mut body).poll_frame(task)).await;
            assert_eq!(next().await.unwrap().unwrap().into_data().unwrap(), b"hello"[..]);
            scope.spawn(|| server.front.stop(TIMEOUT));
            assert!(next().await.is_some_and(|frame| frame.is_err()));
        });
    });
}

/// A client that writes frames by itself.
struct Raw {
    stream: TcpStream,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

impl Raw {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        let mut raw = Self { stream };
        // It may come in pieces.
        raw.stream.set_nodelay(true).unwrap();
        raw.stream.write_all(b"PRI * HTTP/2.0\r\n\r").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        raw.stream.write_all(b"\nSM\r\n\r\n").unwrap();
        raw.frame(SETTINGS, 0, 0, b"");
        raw
    }

    /// Whether the connection still takes it. If not, the server has ended it.
    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        match self.stream.write_all(&frame) {
            Ok(()) => true,
            Err(error) => {
                assert!(!is_timeout(&error), "the server neither reads nor ends");
                false
            }
        }
    }

    /// The next frame: kind, flags, stream, payload. `None` at the end.
    fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let head = self.read(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let payload = self.read(length as usize)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((head[3], head[4], stream, payload))
    }

    fn read(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        match self.stream.read_exact(&mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) => {
                assert!(!is_timeout(&error), "the server neither answers nor ends");
                None
            }
        }
    }

    /// Reads to the end, which the server makes. Whether it said why.
    fn read_to_end(mut self) -> bool {
        let mut said = false;
        while let Some((kind, ..)) = self.next() {
            said |= kind == GOAWAY;
        }
        said
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// A head as HPACK has it, without any table.
fn head(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let own = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)];
    for (name, value) in own.iter().chain(more) {
        block.push(0);
        for text in [name, value] {
            // A number of seven bits, and what is more than them in groups of seven (RFC 7541, section 5.1).
            match text.len().checked_sub(127) {
                None => block.push(text.len() as u8),
                Some(more) => block.extend_from_slice(&[127, 128 | (more & 127) as u8, (more >> 7) as u8]),
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The same of a signed request for a body of `length` bytes.
fn signed_head(server: &Server, method: &str, path: &str, length: usize) -> Vec<u8> {
    let signed = String::from_utf8(server.sign(method, path, "", &[], length)).unwrap();
    let lines = signed.lines().skip(1).filter_map(|line| line.split_once(": "));
    head(method, path, &lines.filter(|(name, _)| *name != "host").collect::<Vec<_>>())
}

/// The server still answers.
fn is_well(server: &Server) {
    assert_eq!(server.ask("GET", "/bucket/nothing", "", &[], b"").status, 404);
}

#[test]
fn requests_that_are_given_up_at_once_end_the_connection() {
    let server = Server::start();
    let mut raw = Raw::connect(&server);
    let block = head("GET", "/bucket/nothing", &[]);
    for number in 0..100_000 {
        let stream = 2 * number + 1;
        if !raw.frame(HEADERS, END_STREAM | END_HEADERS, stream, &block) {
            break;
        }
        if !raw.frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]) {
            break;
        }
        assert!(number < 99_999);
    }
    raw.read_to_end();
    is_well(&server);
}

#[test]
fn errors_of_the_client_that_make_the_server_reset_end_the_connection() {
    let server = Server::start();
    let mut raw = Raw::connect(&server);
    let block = head("GET", "/bucket/nothing", &[]);
    for number in 0..100_000 {
        let stream = 2 * number + 1;
        // A window must grow by more than nothing (RFC 9113, section 6.9).
        let goes_on = raw.frame(HEADERS, END_HEADERS, stream, &block) && raw.frame(8, 0, stream, &[0; 4]);
        if !goes_on {
            break;
        }
        assert!(number < 99_999);
    }
    assert!(raw.read_to_end());
    is_well(&server);
}

#[test]
fn a_head_without_an_end_ends_the_connection() {
    let server = Server::start();
    let mut raw = Raw::connect(&server);
    raw.frame(HEADERS, END_STREAM, 1, &head("GET", "/bucket/nothing", &[]));
    let more = {
        let mut block = Vec::new();
        for number in 0..100 {
            block.extend_from_slice(&[0, 6]);
            block.extend_from_slice(format!("x-{number:04}").as_bytes());
            block.extend_from_slice(&[1, b'y']);
        }
        block
    };
    for number in 0..100_000 {
        if !raw.frame(CONTINUATION, 0, 1, &more) {
            break;
        }
        assert!(number < 99_999);
    }
    assert!(raw.read_to_end());
    is_well(&server);
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let server = Server::start();
    let mut raw = Raw::connect(&server);
    let value = "y".repeat(100);
    let many: Vec<(String, &str)> = (0..100).map(|number| (format!("x-{number}"), &value[..])).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (&name[..], *value)).collect();
    raw.frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("GET", "/bucket/nothing", &many));
    let answer = loop {
        let (kind, _, stream, payload) = raw.next().unwrap();
        if stream == 1 {
            break (kind, payload);
        }
    };
    // 431, as HPACK compresses it (RFC 7541, appendix B).
    assert!(answer.0 == HEADERS && answer.1.windows(3).any(|three| three == [0x69, 0x90, 0xff]), "{answer:?}");
    is_well(&server);
}

#[test]
fn floods_of_frames_without_content_end_the_connection() {
    let server = Server::with(|options| options.limits.body_sec = 1);
    // Each: a frame that asks for an answer, or for work, and carries nothing. The client reads no answers, so the server
    // stops reading, and then has a client that takes nothing.
    for (kind, payload) in [(PING, &[0; 8][..]), (SETTINGS, b""), (DATA, b"")] {
        let mut raw = Raw::connect(&server);
        if kind == DATA {
            raw.frame(HEADERS, END_HEADERS, 1, &signed_head(&server, "PUT", "/bucket/k", 5));
        }
        let (stream, began) = (u32::from(kind == DATA), Instant::now());
        let mut frames = 0;
        while raw.frame(kind, 0, stream, payload) {
            frames += 1;
            assert!(began.elapsed() < TIMEOUT, "{kind}: {frames} frames, and the connection still takes more");
        }
        let said = raw.read_to_end();
        assert!(said || kind != DATA, "h2 counts them");
        is_well(&server);
    }
    assert_eq!(server.ask("GET", "/bucket/k", "", &[], b"").status, 404);
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let server = Server::start();
    let mut raw = Raw::connect(&server);
    // Bodies that never come.
    let block = head("PUT", "/_orcas/x", &[("content-length", "5")]);
    for number in 0..200 {
        raw.frame(HEADERS, END_HEADERS, 2 * number + 1, &block);
    }
    let refused = loop {
        let Some((kind, _, stream, payload)) = raw.next() else { break false };
        if kind == RST_STREAM && stream > 256 {
            // REFUSED_STREAM: nothing was done.
            break payload == [0, 0, 0, 7];
        }
    };
    assert!(refused);
    is_well(&server);
}

#[test]
fn what_http_2_forbids_in_a_head_is_no_request() {
    let server = Server::start();
    for more in [
        &[("transfer-encoding", "chunked")][..],
        &[("connection", "keep-alive")],
        &[("Upper", "x")],
        &[("content-length", "3"), ("content-length", "4")],
        &[(":path", "/other")],
    ] {
        let mut raw = Raw::connect(&server);
        raw.frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("GET", "/bucket/nothing", more));
        let (kind, ..) = loop {
            let frame = raw.next().unwrap();
            if frame.2 == 1 || frame.0 == GOAWAY {
                break frame;
            }
        };
        assert!(kind == RST_STREAM || kind == GOAWAY, "{more:?}: {kind}");
    }
    is_well(&server);
}

#[test]
fn idle_and_stuck_connections_are_ended() {
    let server = Server::with(|options| {
        let limits = &mut options.limits;
        (limits.head_sec, limits.body_sec, limits.idle_sec) = (1, 1, 1);
    });
    // Nothing comes.
    Raw::connect(&server).read_to_end();
    // A request was answered.
    let mut raw = Raw::connect(&server);
    raw.frame(HEADERS, END_STREAM | END_HEADERS, 1, &head("GET", "/bucket/nothing", &[]));
    assert!(raw.read_to_end());
    // Half a head.
    let mut raw = Raw::connect(&server);
    raw.frame(HEADERS, END_STREAM, 1, &head("GET", "/bucket/nothing", &[]));
    raw.read_to_end();
    // A window that stays closed.
    assert_eq!(server.ask("PUT", "/bucket/k", "", &[], &[7; 100_000]).status, 200);
    let mut raw = Raw::connect(&server);
    raw.frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    raw.frame(HEADERS, END_STREAM | END_HEADERS, 1, &signed_head(&server, "GET", "/bucket/k", 0));
    raw.read_to_end();
    while server.front.connections() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn requests_reach_the_owner_by_another_node() {
    let (owner, node) = (Server::start(), Server::start());
    follow(&node, owner.listener.local_addr().unwrap());
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    with_client(&node, async |sender| {
        for content in [&large[..], b"small", b""] {
            let answer = sender.clone().send_request(request(&node, "PUT", "/bucket/k", content)).await.unwrap();
            assert_eq!(answer.status(), 200);
            let answer = sender.clone().send_request(request(&node, "GET", "/bucket/k", b"")).await.unwrap();
            assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
            assert!(body_of(answer).await == content);
        }
    });
    assert_eq!(owner.ask("GET", "/bucket/k", "", &[], b"").status, 200);
    // It is lost in the middle of an answer, which then has no end.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    follow(&node, listener.local_addr().unwrap());
    let breaking = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").unwrap();
    });
    with_client(&node, async |mut sender| {
        let answer = sender.send_request(request(&node, "GET", "/bucket/k", b"")).await.unwrap();
        let mut body = answer.into_body();
        let mut received = Vec::new();
        let end = loop {
            match std::future::poll_fn(|task| std::pin::Pin::new(&mut body).poll_frame(task)).await {
                Some(Ok(frame)) => received.extend_from_slice(&frame.into_data().unwrap_or_default()),
                end => break end,
            }
        };
        assert!(matches!(end, Some(Err(_))) && b"hello".starts_with(&received));
    });
    breaking.join().unwrap();
}
