//! What each request pays for being known and counted: the lookup of its access key, its signature, its row of usage; and
//! what the cost of a row takes to compute.
//!
//! `cargo bench --features criterion --bench usage`.

#[path = "support/gateway.rs"]
mod gateway;
#[allow(dead_code, reason = "shared by the benchmarks, each of which uses a part")]
mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use criterion::Criterion;

use gateway::{HOST, Server};
use orcas_gateway::accounting::metering::{Billed, Prices, RequestCounts, UsageMeter};
use orcas_gateway::{Identities, IdentityTables, now_ms};
use orcas_s3::RequestClass;
use orcas_sigv4::{Requirements, SKEW_MAX_MS, SigningKeys, authenticate, sha256_hex};

/// Access keys that the server knows.
const KEYS: usize = 1000;
/// Buckets that requests go to in turn.
const BUCKETS: usize = 16;

fn main() {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), true);
    let (names, secret): (Vec<String>, _) = ((0..KEYS).map(|at| format!("KEY{at:06}")).collect(), "secret".repeat(6));
    let keys: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &*secret)).collect();
    let keys = Identities::new(IdentityTables::of_root(&"0".repeat(64), &keys)).expect("identities");
    criterion.bench_function("key/lookup", |bencher| bencher.iter(|| keys.credential(black_box("KEY000777"))));
    let get = server.sign_headers("GET", "/bucket/key".into(), "", &[("host", HOST)], &sha256_hex(b""));
    get.head(|head| {
        let (signing_keys, identities) = (SigningKeys::new(), server.gateway.access().identities());
        let requirements = Requirements {
            may_lack_region: false,
            presign_max_s: orcas_sigv4::PRESIGN_EXPIRES_S_MAX,
            any_signature: false,
            region: None,
            now_unix_ms: now_ms(),
            skew_max_ms: SKEW_MAX_MS,
            service: "s3",
            body: None,
            session_token: None,
            version_two: None,
        };
        criterion.bench_function("key/signature", |bencher| {
            bencher.iter(|| {
                authenticate(black_box(head), &requirements, &signing_keys, &|key| identities.credential(key))
            });
        });
    });
    count(&mut criterion, &server, &keys);
    let prices = Prices { gb_month: 0.023, writes_1000: 0.005, reads_1000: 0.0004, gb_in: 0.0, gb_out: 0.09 };
    let counts = RequestCounts { writes: 1234, reads: 56_789, free: 12, received: 1 << 33, sent: 1 << 40 };
    criterion.bench_function("cost", |bencher| bencher.iter(|| prices.cost(black_box(&counts), black_box(1.5))));
}

fn count(criterion: &mut Criterion, server: &Server, keys: &Identities) {
    let names = (0..BUCKETS).map(|at| format!("bucket-{at}"));
    let buckets: Vec<_> = names
        .map(|name| {
            server.call(&server.sign("PUT", format!("/{name}"), "", 0), b"");
            server.gateway.engine.bucket(name.as_bytes()).expect("the bucket exists")
        })
        .collect();
    // The index gets the buckets now and not while it is measured.
    server.settle();
    let requester = Arc::clone(keys.requester("KEY000777").expect("a known key"));
    let meter = UsageMeter::new(true, now_ms);
    let mut turn = 0;
    criterion.bench_function("usage", |bencher| {
        let ended = Instant::now();
        bencher.iter(|| {
            turn = (turn + 1) % BUCKETS;
            meter.count(&Billed {
                requester: black_box(&requester),
                bucket: Some(&buckets[turn]),
                class: RequestClass::Read,
                received: 0,
                sent: 1024,
                ended,
            });
        });
    });
}
