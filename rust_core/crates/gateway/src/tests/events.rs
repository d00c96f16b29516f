//! Streams of events over the hub, without a journal that lags behind on its own account.

use super::*;
use bytes::Bytes;
use orcas_engine::{Change, ChangeKind, EventOptions, Place};
use orcas_event_streams::{BucketReader, ListenOptions, Listener, StreamFormat};
use orcas_record::{BucketId, Cause};

fn removed(sequence: u64, time_ms: u64, key: &'static [u8]) -> Change {
    Change {
        place: Place { sequence, ordinal: 0 },
        time_ms,
        kind: ChangeKind::Removed,
        cause: Cause::Engine,
        bucket: BucketId(1),
        bucket_name: Bytes::from_static(b"bucket"),
        owner: Bytes::new(),
        key: Bytes::from_static(key),
        version: None,
        content: None,
    }
}

fn fixture() -> Fixture {
    let events = Some(EventOptions { retention_ms: 60_000, max_bytes: 1 << 20 });
    Fixture::open_as(tempfile::tempdir().unwrap(), true, events)
}

#[test]
fn listeners_that_want_the_same_share_its_bytes() {
    let fixture = fixture();
    let open = |prefix: &[u8], format| {
        let options = ListenOptions { prefix: prefix.to_vec(), ..ListenOptions::default() };
        Listener::open(&fixture.gateway.events, options, format).map_err(|e| e.code).unwrap()
    };
    let (one, other) = (open(b"", StreamFormat::Lines), open(b"", StreamFormat::Lines));
    let (filtered, sse) = (open(b"a", StreamFormat::Lines), open(b"", StreamFormat::Sse));
    assert!(sse.take().unwrap().starts_with(b"retry: "));
    fixture.gateway.events.hub.taken(Some(&[removed(1001, 1, b"a"), removed(1002, 1, b"b")]), Place::after(1002));
    let [first, second, third, fourth] = [&one, &other, &filtered, &sse].map(|listener| listener.take().unwrap());
    assert_eq!((first.as_ptr(), first.len()), (second.as_ptr(), second.len()));
    let names = |piece: &[u8]| String::from_utf8_lossy(piece).matches("\"eventName\":\"s3:").count();
    assert_eq!([&first, &third, &fourth].map(|piece| names(piece)), [2, 1, 0]);
    // Nobody gets it twice.
    assert!([one, other, filtered, sse].iter().all(|listener| listener.take() == Some(Bytes::new())));
}

#[test]
fn a_stream_begins_at_its_time_though_older_events_reach_the_journal_with_the_first() {
    let fixture = fixture();
    let start = Some("2100-01-01T00:00:00Z".to_owned());
    let began = orcas_http::timestamp::parse(b"2100-01-01T00:00:00Z").unwrap();
    let options = ListenOptions { start, ..ListenOptions::default() };
    let listener = Listener::open(&fixture.gateway.events, options, StreamFormat::Lines).map_err(|e| e.code).unwrap();
    assert_eq!(listener.take(), None, "it has to look into the journal first");
    assert_eq!(listener.read().unwrap(), Some(Bytes::new()));
    assert!(listener.wait(Box::new(|| ())));
    let ahead = [removed(1001, began - 1, b"older"), removed(1002, began, b"first"), removed(1003, began - 1, b"next")];
    assert_eq!(fixture.gateway.events.hub.taken(Some(&ahead), Place::after(1003)).len(), 1);
    let text = String::from_utf8(listener.take().unwrap().to_vec()).unwrap();
    let keys: Vec<_> = ["older", "first", "next"].into_iter().filter(|key| text.contains(key)).collect();
    // A clock that goes back later ends nothing.
    assert_eq!(keys, ["first", "next"]);
}

#[test]
fn copies_hear_of_keys_that_an_enabled_rule_may_be_about_and_of_no_others() {
    let fixture = fixture();
    let engine = &fixture.gateway.engine;
    fixture.gateway.services.replications.set_targets(["there".to_owned()].into());
    let versioning = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    for (target, body) in [("/box", &b""[..]), ("/box?versioning", versioning), ("/other", b"")] {
        assert_eq!(fixture.call("PUT", target, &[], body).status, 200, "{target}");
    }
    let rule = |prefix: &str, status: &str| {
        let destination = "<Destination><Bucket>arn:aws:s3:::there/box</Bucket></Destination>";
        format!("<Rule><Status>{status}</Status><Prefix>{prefix}</Prefix>{destination}</Rule>")
    };
    let rules = ["<Role>r</Role>".to_owned(), rule("a/", "Enabled"), rule("b/", "Disabled")].concat();
    let rules = format!("<ReplicationConfiguration>{rules}</ReplicationConfiguration>");
    let put = fixture.call("PUT", "/box?replication", &[], rules.as_bytes());
    assert_eq!(put.status, 200, "{}", code(&put));
    let (bucket, now) = (engine.bucket(b"box").unwrap().id.0, engine.events_now().sequence);
    let mut reader = BucketReader::open(&fixture.gateway.events, bucket, None, now).unwrap();
    for target in ["/other/a/1", "/box/b/1", "/box/c", "/box/a/1"] {
        assert_eq!(fixture.call("PUT", target, &[], b"x").status, 200, "{target}");
    }
    let read = reader.next(Duration::from_secs(60)).unwrap().unwrap();
    let keys: Vec<_> = read.found.iter().map(|change| &change.key[..]).collect();
    assert_eq!((keys, read.lost), (vec![&b"a/1"[..]], false));
}
