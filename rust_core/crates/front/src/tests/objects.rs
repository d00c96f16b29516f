//! Operations end to end: their bodies in both directions.

use super::Server;

/// Bytes of a body that is streamed, and then read in pieces.
const LARGE: usize = 5 << 20;

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn objects_are_stored_listed_read_and_deleted_over_one_connection() {
    let server = Server::start();
    let mut client = server.connect();
    for (key, size) in [("/bucket/empty", 0), ("/bucket/small", 1000), ("/bucket/large", LARGE)] {
        let body = content(size);
        client.send(&server.request("PUT", key, "", &[], &body));
        let answer = client.read("PUT");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let etag = answer.header("etag").unwrap().to_owned();
        client.send(&server.request("HEAD", key, "", &[], b""));
        let answer = client.read("HEAD");
        assert_eq!((answer.status, answer.header("content-length")), (200, Some(&*size.to_string())));
        assert_eq!(answer.header("etag"), Some(&*etag));
        assert!(answer.header("date").unwrap().ends_with("GMT"));
        client.send(&server.request("GET", key, "", &[], b""));
        let answer = client.read("GET");
        assert_eq!(answer.status, 200);
        assert!(answer.body == body, "{key}");
    }
    client.send(&server.request("GET", "/bucket/large", "", &[("range", "bytes=1000000-1000009")], b""));
    let answer = client.read("GET");
    assert_eq!((answer.status, answer.body), (206, content(LARGE)[1_000_000..1_000_010].to_vec()));
    client.send(&server.request("GET", "/bucket", "list-type=2", &[], b""));
    let listed = client.read("GET").text();
    assert_eq!(listed.matches("<Key>").count(), 3, "{listed}");
    client.send(&server.request("DELETE", "/bucket/small", "", &[], b""));
    assert_eq!(client.read("DELETE").status, 204);
    client.send(&server.request("GET", "/bucket/small", "", &[], b""));
    let answer = client.read("GET");
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("<Code>NoSuchKey</Code>"));
}

#[test]
fn a_document_and_parts_arrive_whole() {
    let server = Server::start();
    let created = server.ask("POST", "/bucket/parts", "uploads=", &[], b"").text();
    let id = created.split("<UploadId>").nth(1).unwrap().split("</UploadId>").next().unwrap().to_owned();
    let mut document = String::from("<CompleteMultipartUpload>");
    let bodies = [content(LARGE), content(10)];
    for (number, body) in bodies.iter().enumerate() {
        let query = format!("partNumber={}&uploadId={id}", number + 1);
        let answer = server.ask("PUT", "/bucket/parts", &query, &[], body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let etag = answer.header("etag").unwrap();
        document.push_str(&format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", number + 1));
    }
    document.push_str("</CompleteMultipartUpload>");
    let answer = server.ask("POST", "/bucket/parts", &format!("uploadId={id}"), &[], document.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(server.ask("GET", "/bucket/parts", "", &[], b"").body == bodies.concat());
}

#[test]
fn a_body_is_asked_for_only_when_its_head_is_admitted() {
    let server = Server::start();
    let expects = [("expect", "100-continue")];
    let mut client = server.connect();
    client.send(&server.sign("PUT", "/bucket/late", "", &expects, 5));
    assert_eq!(client.read("PUT").status, 100);
    client.send(b"hello");
    assert_eq!(client.read("PUT").status, 200);
    // Clients count on it even when there is nothing to send.
    client.send(&server.sign("PUT", "/bucket/none", "", &expects, 0));
    assert_eq!(client.read("PUT").status, 100);
    assert_eq!(client.read("PUT").status, 200);
    client.send(&server.sign("PUT", "/nowhere/late", "", &expects, 5));
    let answer = client.read("PUT");
    assert_eq!((answer.status, answer.header("connection")), (404, Some("close")));
    assert_eq!(client.rest(), "");
}

#[test]
fn who_sends_a_refused_body_to_its_end_reads_the_refusal() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&server.request("PUT", "/nowhere/large", "", &[], &content(LARGE)));
    let answer = client.read("PUT");
    assert_eq!((answer.status, answer.header("connection")), (404, Some("close")));
    assert_eq!(client.rest(), "");
}

#[test]
fn requests_in_a_pipeline_are_answered_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    let mut sent = Vec::new();
    for number in 0..20 {
        sent.extend(server.request("PUT", &format!("/bucket/{number}"), "", &[], format!("{number}").as_bytes()));
        sent.extend(server.request("GET", &format!("/bucket/{number}"), "", &[], b""));
    }
    client.send(&sent);
    for number in 0..20 {
        assert_eq!(client.read("PUT").status, 200);
        assert_eq!(client.read("GET").text(), number.to_string());
    }
}

#[test]
fn a_client_that_sends_no_more_gets_its_answer() {
    let server = Server::start();
    server.ask("PUT", "/bucket/large", "", &[], &content(LARGE));
    let mut client = server.connect();
    client.send(&server.request("GET", "/bucket/large", "", &[], b""));
    client.end();
    assert!(client.read("GET").body == content(LARGE));
    assert_eq!(client.rest(), "");
}

#[test]
fn a_body_that_breaks_off_stores_nothing() {
    let server = Server::start();
    for size in [1000, LARGE] {
        let mut client = server.connect();
        client.send(&server.sign("PUT", "/bucket/short", "", &[], size));
        client.send(&content(size - 1));
        client.end();
        assert_eq!(client.rest(), "");
        assert_eq!(server.ask("GET", "/bucket/short", "", &[], b"").status, 404);
    }
}

#[test]
fn content_that_looks_like_an_answer_arrives() {
    let server = Server::start();
    let mut content = vec![b'.'; 3 << 20];
    for block in content.chunks_mut(1024) {
        block[..10].copy_from_slice(b"HTTP/1.1 4");
    }
    assert_eq!(server.ask("PUT", "/bucket/answers", "", &[], &content).status, 200);
    for from in [0, 1024, 1 << 20, (3 << 20) - 1024] {
        let range = format!("bytes={from}-");
        let answer = server.ask("GET", "/bucket/answers", "", &[("range", &range)], b"");
        assert_eq!(answer.status, 206);
        assert!(answer.body == content[from..], "from {from}");
    }
}
