//! Answers to requests of other origins.

use super::*;

const RULES: &[u8] = b"<CORSConfiguration><CORSRule><AllowedOrigin>http://a</AllowedOrigin>\
                       <AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>";
const ORIGIN: (&str, &str) = ("origin", "http://a");
const METHOD: (&str, &str) = ("access-control-request-method", "GET");

fn put_rules(fixture: &Fixture) {
    let md5 = base64_encode(&Md5Hasher::digest(RULES));
    assert_eq!(fixture.call("PUT", "/bkt?cors", &[("content-md5", &md5)], RULES).status, 200);
}

#[test]
fn answers_name_their_origin_whoever_makes_them() {
    let fixture = Fixture::new();
    assert_eq!(fixture.call("PUT", "/bkt", &[], b"").status, 200);
    put_rules(&fixture);
    let large = vec![7; 200_000];
    assert_eq!(fixture.call("PUT", "/bkt/large", &[], &large).status, 200);
    let other = Signer::new("OTHER", b"other", "us-east-1", now_ms() / 1000).unwrap();
    let Err(refused) = fixture.accept_as(&other, "GET", "/bkt/large", &[ORIGIN], b"") else { panic!("accepted") };
    // On the event loop, on a worker, and by the head alone.
    for (answer, status) in [
        (fixture.call("GET", "/bkt?location", &[ORIGIN], b""), 200),
        (fixture.call("GET", "/bkt", &[ORIGIN], b""), 200),
        (fixture.call("GET", "/bkt/large", &[ORIGIN], b""), 200),
        (fixture.call("GET", "/bkt/none", &[ORIGIN], b""), 404),
        (*refused, 403),
    ] {
        assert_eq!((answer.status, header(&answer, "access-control-allow-origin")), (status, Some("http://a")));
    }
    let answer = fixture.call("GET", "/bkt/large", &[], b"");
    assert_eq!(header(&answer, "access-control-allow-origin").or(header(&answer, "vary")), None);
}

#[test]
fn a_preflight_with_a_body_ends_its_connection() {
    let fixture = Fixture::new();
    fixture.call("PUT", "/bkt", &[], b"");
    put_rules(&fixture);
    for (body, closes) in [(&b""[..], false), (b"body", true)] {
        let answer = fixture.call("OPTIONS", "/bkt/k", &[ORIGIN, METHOD], body);
        assert_eq!((answer.status, answer.closes), (200, closes));
    }
}
