//! Requests that another node carries out: a second front, or a server whose answers a test writes.

use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;

use super::passing::accept;
use super::{Answer, Server, TIMEOUT};
use crate::Owner;

pub fn follow(node: &Server, address: impl Display) {
    let owner = Owner::At { url: format!("http://{address}"), authorities: String::new() };
    node.front.set_owner(owner).unwrap();
}

/// A server whose answers a test writes.
struct Written(TcpListener);

impl Written {
    /// The owner for `node`.
    fn before(node: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        follow(node, listener.local_addr().unwrap());
        Self(listener)
    }

    fn accept(&self) -> TcpStream {
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Whether nobody has connected who was not accepted.
    fn is_left_alone(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        self.0.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

pub fn head_of(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn take(stream: &mut impl Read, length: usize) -> Vec<u8> {
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    body
}

const GET: &[u8] = b"GET /bucket/k HTTP/1.1\r\nHost: a\r\n\r\n";
const PUT: &[u8] = b"PUT /bucket/k HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nx-own: 1\r\ncontent-length: 5\r\n\r\nhello";

fn is_to_be_repeated(answer: &Answer) -> bool {
    answer.status == 503
        && answer.header("retry-after") == Some("1")
        && answer.text().contains("<Code>ServiceUnavailable</Code>")
}

#[test]
fn the_owner_carries_requests_out() {
    let (owner, node) = (Server::start(), Server::start());
    follow(&node, owner.listener.local_addr().unwrap());
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    for (path, content) in [("/bucket/k", &b"hello"[..]), ("/bucket/large", &large), ("/bucket/empty", b"")] {
        assert_eq!(node.ask("PUT", path, "", &[], content).status, 200);
        assert!(owner.ask("GET", path, "", &[], b"").body == content);
        assert!(node.ask("GET", path, "", &[], b"").body == content);
        let length = content.len().to_string();
        assert_eq!(node.ask("HEAD", path, "", &[], b"").header("content-length"), Some(&*length));
    }
    assert_eq!(node.ask("GET", "/bucket/absent", "", &[], b"").status, 404);
    assert_eq!(node.ask("DELETE", "/bucket/k", "", &[], b"").status, 204);
    assert_eq!(owner.ask("GET", "/bucket/k", "", &[], b"").status, 404);
    assert_eq!(node.front.passed(), [("answered", 11), ("refused", 0), ("lost", 0), ("repeated", 0), ("read", 0)]);
    // What was passed on is not here.
    node.front.set_owner(Owner::Here).unwrap();
    assert_eq!(node.ask("GET", "/bucket/large", "", &[], b"").status, 404);
    assert_eq!(node.front.passed()[0], ("answered", 11));
}

#[test]
fn the_owner_gets_requests_as_they_came_and_the_client_beside() {
    let node = Server::start();
    let owner = Written::before(&node);
    let mut client = node.connect();
    client.send(
        b"PUT /bucket/a%2Fb/../c?x=%20y HTTP/1.1\r\nHost: some.where:1\r\nAuthorization: Kept\r\nX-Amz-Date: 1\r\n\
          X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\nX-Forwarded-Proto: https\r\nX-Mine: 1\r\n\
          Connection: keep-alive, X-Mine, Host, Content-Length\r\nKeep-Alive: 1\r\nTE: trailers\r\n\
          Content-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    let mut stream = owner.accept();
    let head = head_of(&mut stream);
    assert!(head.starts_with("PUT /bucket/a%2Fb/../c?x=%20y HTTP/1.1\r\n"), "{head}");
    let mut headers: Vec<_> = head.trim_end().lines().skip(1).collect();
    headers.sort_unstable();
    assert_eq!(
        headers,
        [
            "authorization: Kept",
            "content-length: 4",
            "expect: 100-continue",
            "host: some.where:1",
            "orcas-hop: 1",
            "x-amz-date: 1",
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-proto: http",
        ]
    );
    // The client sends its body when the owner wants it.
    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    assert_eq!(client.read("PUT").status, 100);
    client.send(b"body");
    assert_eq!(take(&mut stream, 4), b"body");
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\nDate: then\r\nx-own: 1\r\nKeep-Alive: 1\r\nConnection: close\r\n\
              Content-Length: 5\r\n\r\nhello",
        )
        .unwrap();
    let answer = client.read("PUT");
    assert_eq!((answer.status, answer.header("date"), answer.header("x-own")), (200, Some("then"), Some("1")));
    assert_eq!((answer.header("connection"), answer.header("keep-alive")), (None, None));
    assert_eq!(answer.body, b"hello");
    drop(stream);
    // Its connection goes on, whatever becomes of that to the owner.
    client.send(GET);
    let mut stream = owner.accept();
    assert!(head_of(&mut stream).starts_with("GET /bucket/k HTTP/1.1\r\n"));
    stream.write_all(ANSWER).unwrap();
    assert_eq!(client.read("GET").body, b"hello");
}

#[test]
fn a_client_is_not_asked_for_a_body_that_the_owner_refuses() {
    let node = Server::start();
    let owner = Written::before(&node);
    let mut client = node.connect();
    client.send(b"PUT /bucket/k HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    let mut stream = owner.accept();
    head_of(&mut stream);
    stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").unwrap();
    let answer = client.read("PUT");
    assert_eq!((answer.status, answer.header("connection"), &*answer.body), (403, Some("close"), &b"no"[..]));
    assert_eq!((client.rest().as_str(), stream.read(&mut [0]).unwrap()), ("", 0));
}

#[test]
fn connections_to_the_owner_are_kept() {
    let node = Server::start();
    let owner = Written::before(&node);
    let (accepted, counted) = channel();
    std::thread::spawn(move || {
        loop {
            let mut stream = owner.accept();
            if accepted.send(()).is_err() {
                break;
            }
            std::thread::spawn(move || {
                // A head is written at once.
                while stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                    stream.write_all(ANSWER).unwrap();
                }
            });
        }
    });
    let mut client = node.connect();
    for _ in 0..50 {
        client.send(GET);
        assert_eq!(client.read("GET").body, b"hello");
    }
    // A client may be faster than the connection is put aside.
    assert!(counted.try_iter().count() < 10);
}

#[test]
fn an_answer_that_breaks_off_ends_the_connection() {
    for (answer, received) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "\r\n\r\nhello"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "\r\n5\r\nhello\r\n"),
    ] {
        let node = Server::start();
        let owner = Written::before(&node);
        let mut client = node.connect();
        client.send(GET);
        let mut stream = owner.accept();
        head_of(&mut stream);
        stream.write_all(answer.as_bytes()).unwrap();
        drop(stream);
        let answer = client.rest();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(received), "{answer}");
        assert!(owner.is_left_alone());
    }
}

#[test]
fn a_request_that_reaches_no_owner_is_refused_and_may_be_repeated() {
    let node = Server::start();
    drop(Written::before(&node));
    for nobody in [false, true] {
        if nobody {
            node.front.set_owner(Owner::Nobody).unwrap();
        }
        let mut client = node.connect();
        for _ in 0..2 {
            client.send(GET);
            let answer = client.read("GET");
            assert!(is_to_be_repeated(&answer) && answer.header("connection").is_none(), "{}", answer.head);
            client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.read("HEAD").status, 503);
        }
        client.send(PUT);
        let answer = client.read("PUT");
        assert!(is_to_be_repeated(&answer) && answer.header("connection") == Some("close"), "{}", answer.head);
        let mut client = node.connect();
        client.send(b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
        assert!(is_to_be_repeated(&client.read("PUT")));
    }
    assert_eq!(node.front.passed(), [("answered", 0), ("refused", 12), ("lost", 0), ("repeated", 0), ("read", 0)]);
}

#[test]
fn a_node_may_begin_without_an_owner_and_answers_for_itself() {
    let node = Server::with(|options| options.is_owner = false);
    let mut client = node.connect();
    client.send(GET);
    assert!(is_to_be_repeated(&client.read("GET")));
    for path in ["/_orcas/health", "/_orcas/health/live?x"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        let mut application = accept(&node.application).unwrap();
        assert!(head_of(&mut application).starts_with(&format!("GET {path} HTTP/1.1\r\n")));
        application.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nup").unwrap();
        assert_eq!(client.read("GET").body, b"up");
        client = node.connect();
    }
    for path in ["/_orcas/healthy", "/_orcas/admin/info"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert!(is_to_be_repeated(&client.read("GET")));
    }
}

#[test]
fn only_reads_are_repeated_when_the_owner_is_lost() {
    let node = Server::start();
    let owner = Written::before(&node);
    for request in [PUT, b"DELETE /bucket/k HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut client = node.connect();
        client.send(request);
        let mut stream = owner.accept();
        head_of(&mut stream);
        drop(stream);
        let answer = client.read("PUT");
        assert!(answer.text().contains("<Code>InternalError</Code>"), "{}", answer.text());
        assert_eq!((answer.status, answer.header("retry-after")), (500, None));
    }
    let mut client = node.connect();
    client.send(GET);
    head_of(&mut owner.accept());
    let mut stream = owner.accept();
    assert!(head_of(&mut stream).starts_with("GET /bucket/k HTTP/1.1\r\n"));
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    assert_eq!(client.read("GET").body, b"hello");
    drop(stream);
    client.send(b"HEAD /bucket/k HTTP/1.1\r\nHost: a\r\n\r\n");
    head_of(&mut owner.accept());
    head_of(&mut owner.accept());
    assert_eq!(client.read("HEAD").status, 503);
    assert_eq!(node.front.passed(), [("answered", 1), ("refused", 1), ("lost", 2), ("repeated", 2), ("read", 0)]);
    // Where an answer ends that says nothing of it, nobody knows.
    client.send(GET);
    for _ in 0..2 {
        let mut stream = owner.accept();
        head_of(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello").unwrap();
    }
    assert!(is_to_be_repeated(&client.read("GET")));
    assert!(owner.is_left_alone());
}

#[test]
fn a_request_makes_one_hop() {
    let node = Server::start();
    let owner = Written::before(&node);
    let hop = [("orcas-hop", "1")];
    assert!(is_to_be_repeated(&node.ask("PUT", "/bucket/k", "", &hop, b"content")));
    assert!(owner.is_left_alone());
    node.front.set_owner(Owner::Here).unwrap();
    assert_eq!(node.ask("PUT", "/bucket/k", "", &hop, b"content").status, 200);
}

#[test]
fn an_owner_that_was_replaced_is_not_waited_for() {
    let node = Server::start();
    let owner = Written::before(&node);
    let (mut reader, mut writer) = (node.connect(), node.connect());
    reader.send(GET);
    let mut silent = owner.accept();
    head_of(&mut silent);
    writer.send(PUT);
    let mut other = owner.accept();
    head_of(&mut other);
    let next = Written::before(&node);
    let mut stream = next.accept();
    head_of(&mut stream);
    stream.write_all(ANSWER).unwrap();
    assert_eq!(reader.read("GET").body, b"hello");
    assert_eq!(writer.read("PUT").status, 500);
    assert!(next.is_left_alone());
    // Nor are its connections kept.
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
}

#[test]
fn an_address_that_is_none_changes_nothing() {
    let node = Server::start();
    for url in
        ["node:9000", "ftp://node", "http://node/path", "http://node?x", "http://a@node", "http://", "https://node"]
    {
        let owner = Owner::At { url: url.into(), authorities: String::new() };
        assert!(node.front.set_owner(owner).is_err(), "{url}");
    }
    assert_eq!(node.ask("GET", "/bucket", "", &[], b"").status, 200);
}
