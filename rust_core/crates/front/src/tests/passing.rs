//! Requests that the application answers.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::Server;

/// The next connection to the application; `None` when the server has ended.
pub fn accept(way: &UnixStream) -> Option<UnixStream> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(way, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::empty()).unwrap();
    let ends = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(ends) => ends.collect(),
        _ => Vec::new(),
    });
    ends.map(UnixStream::from).next()
}

/// Answers every request like this, one connection each, and tells what came.
fn application(server: &Server, answer: &'static str) -> Receiver<String> {
    let way = server.application.try_clone().unwrap();
    let (told, heard) = channel();
    std::thread::spawn(move || {
        while let Some(mut stream) = accept(&way) {
            let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
            while !seen.ends_with(b"\r\n\r\n") && !seen.ends_with(b"end") {
                let read = stream.read(&mut piece).unwrap();
                assert!(read > 0);
                seen.extend_from_slice(&piece[..read]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            if told.send(String::from_utf8(seen).unwrap()).is_err() {
                break;
            }
        }
    });
    heard
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\nx-own: 1\r\norcas-front-endless:\r\ncontent-length: 5\r\n\
                      connection: close\r\n\r\nhello";

#[test]
fn what_is_not_s3_is_passed_on_as_it_came() {
    let server = Server::start();
    let heard = application(&server, ANSWER);
    for (request, line) in [
        ("GET /_orcas/a%2Fb/../c?x=%20y HTTP/1.1\r\n", "GET /_orcas/a%2Fb/../c?x=%20y HTTP/1.1"),
        ("GET /?Action=ListUsers HTTP/1.1\r\n", "GET /?Action=ListUsers HTTP/1.1"),
        ("GET /b?prefix=&events=x HTTP/1.1\r\n", "GET /b?prefix=&events=x HTTP/1.1"),
        ("GET / HTTP/1.1\r\nAccept: text/html\r\n", "GET / HTTP/1.1"),
    ] {
        let forged = "Orcas-Front-Client: 1.2.3.4:5\r\nOrcas-Front-Certificate: 3000\r\n";
        let request = format!("{request}Host: some.where:1\r\n{forged}{forged}X-Other: Kept\r\n\r\n");
        let answer = server.exchange(request.as_bytes());
        assert!(answer.contains("\r\nx-own: 1\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
        assert!(!answer.contains("orcas-front"), "{answer}");
        let came = heard.recv().unwrap();
        assert_eq!(came.lines().next(), Some(line));
        assert!(came.contains("\r\nhost: some.where:1\r\n") && came.contains("\r\nx-other: Kept\r\n"), "{came}");
        assert!(came.contains("\r\norcas-front-client: 127.0.0.1:") && !came.contains("1.2.3.4"), "{came}");
        assert!(came.contains("\r\norcas-front-scheme: http\r\n"), "{came}");
        assert!(!came.contains("orcas-front-certificate"), "{came}");
    }
}

#[test]
fn a_body_is_passed_on() {
    let server = Server::start();
    let heard = application(&server, ANSWER);
    let answer = server.exchange(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
          Content-Length: 10\r\n\r\nAction=end",
    );
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(heard.recv().unwrap().ends_with("\r\n\r\nAction=end"));
}

fn head_of(stream: &mut UnixStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn a_client_is_asked_for_its_body_when_the_application_wants_it() {
    let server = Server::start();
    let request = b"PUT /_orcas/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    let mut client = server.connect();
    client.send(request);
    let mut application = accept(&server.application).unwrap();
    assert!(head_of(&mut application).contains("\r\nexpect: 100-continue\r\n"));
    application.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").unwrap();
    let answer = client.read("PUT");
    assert_eq!((answer.status, answer.header("connection"), &*answer.body), (403, Some("close"), &b"no"[..]));
    assert_eq!((client.rest().as_str(), application.read(&mut [0]).unwrap()), ("", 0));

    let mut client = server.connect();
    client.send(request);
    let mut application = accept(&server.application).unwrap();
    head_of(&mut application);
    application.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    assert_eq!(client.read("PUT").status, 100);
    client.send(b"body");
    let mut body = [0; 4];
    application.read_exact(&mut body).unwrap();
    assert_eq!(&body, b"body");
    application.write_all(ANSWER.as_bytes()).unwrap();
    assert_eq!(client.read("PUT").body, b"hello");
}

#[test]
fn changes_of_rights_are_passed_on_and_other_changes_are_not() {
    let server = Server::start();
    let heard = application(&server, ANSWER);
    server.ask("DELETE", "/bucket", "policy=", &[], b"");
    assert!(heard.recv().unwrap().starts_with("DELETE /bucket?policy= HTTP/1.1\r\n"));
    server.ask("PUT", "/other", "", &[("x-amz-object-ownership", "ObjectWriter")], b"end");
    assert!(heard.recv().unwrap().starts_with("PUT /other HTTP/1.1\r\n"));
    // Refused here: it would change nothing.
    assert_eq!(server.ask("PUT", "/bucket/k", "", &[("x-amz-acl", "public-read")], b"end").status, 400);
    let tags = b"<Tagging><TagSet></TagSet></Tagging>";
    assert_eq!(server.ask("PUT", "/bucket/k", "", &[], b"end").status, 200);
    assert_eq!(server.ask("PUT", "/bucket/k", "tagging=", &[], tags).status, 200);
    assert!(heard.try_recv().is_err());
}

#[test]
fn methods_that_its_parser_does_not_know_are_not_passed_on() {
    let server = Server::start();
    for request in ["FOO /_orcas/health/live", "FOO /bucket/k", "FOO /bucket?policy", "FOO /", "CONNECT /_orcas/x"] {
        let request = format!(
            "{request} HTTP/1.1\r\nHost: a\r\nX-Amz-Acl: public-read\r\nX-Amz-Target: a.b\r\nConnection: close"
        );
        let answer = server.exchange(format!("{request}\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 40") && answer.contains("<Error><Code>"), "{request}{answer}");
    }
}

#[test]
fn without_the_application_the_answer_is_an_error() {
    let server = Server::start();
    server.application.shutdown(std::net::Shutdown::Both).unwrap();
    let answer = server.exchange(b"GET /_orcas/health/live HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("<Code>InternalError</Code>"), "{answer}");
}
