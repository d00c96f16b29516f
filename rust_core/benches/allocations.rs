//! What a request asks of the allocator with pooling and without: bytes and allocations through the gateway, from a signed
//! head to the last byte of the answer, with the work that follows the answer until the index has it; and the pool by
//! itself. Both ways in turn in every round.
//!
//! `cargo bench --bench allocations -- [--dir DIR] [--rounds N] [--json]`. With `--json` the only line on stdout is a list of
//! documents, one a kind of request, with one number a round. What Python allocates is not in it.

#[path = "support/arguments.rs"]
mod arguments;
#[path = "support/counting.rs"]
mod counting;
#[path = "support/gateway.rs"]
mod gateway;
mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use arguments::Arguments;
use counting::{Allocated, Counting};
use gateway::{Server, Signed};
use orcas_base::buffers::{Buffer, Buffers};
use support::scatter;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Clone, Copy)]
enum Work {
    Put,
    Get,
    Head,
    List,
    /// A buffer of the pool is taken, filled and dropped.
    Take,
    /// Another thread drops it.
    Pass,
}

struct Kind {
    name: &'static str,
    work: Work,
    /// Bytes of the body or buffer; of a list nothing.
    size: usize,
    /// Requests in a round.
    requests: usize,
}

const fn kind(name: &'static str, work: Work, size: usize, requests: usize) -> Kind {
    Kind { name, work, size, requests }
}

/// A GET or HEAD asks for what the last round of PUTs has stored. No key is put twice, so that nothing is to be reclaimed.
const KINDS: [Kind; 16] = [
    kind("put-1k", Work::Put, 1 << 10, 1000),
    kind("get-1k", Work::Get, 1 << 10, 1000),
    kind("head-1k", Work::Head, 1 << 10, 1000),
    kind("put-64k", Work::Put, 64 << 10, 400),
    kind("get-64k", Work::Get, 64 << 10, 400),
    kind("put-10m", Work::Put, 10 << 20, 8),
    kind("get-10m", Work::Get, 10 << 20, 8),
    kind("list-1000", Work::List, 0, 100),
    kind("take-1k", Work::Take, 1 << 10, 100_000),
    kind("take-16k", Work::Take, 16 << 10, 20_000),
    kind("take-64k", Work::Take, 64 << 10, 10_000),
    kind("take-256k", Work::Take, 256 << 10, 2_000),
    kind("pass-1k", Work::Pass, 1 << 10, 20_000),
    kind("pass-16k", Work::Pass, 16 << 10, 10_000),
    kind("pass-64k", Work::Pass, 64 << 10, 5_000),
    kind("pass-256k", Work::Pass, 256 << 10, 2_000),
];
/// Objects in the bucket that is listed, and on a page of it.
const LISTED: usize = 1000;
/// Bytes of the largest body.
const BODY_MAX: usize = 10 << 20;
/// Buffers on their way to the thread that drops them.
const PASSED_MAX: usize = 16;

/// One number a round, for one request.
#[derive(Default)]
struct Way {
    bytes: Vec<f64>,
    allocations: Vec<f64>,
    microseconds: Vec<f64>,
}

fn main() {
    let arguments = Arguments::read(5, 0.0);
    let dir = tempfile::tempdir_in(&arguments.dir).expect("a directory");
    let mut stores = [true, false].map(|pooling| Store::open(&dir.path().join(pooling.to_string()), pooling));
    let mut documents = Vec::new();
    for kind in &KINDS {
        let mut ways: [Way; 2] = Default::default();
        for round in 0..=arguments.rounds {
            // The other one is first in the next round.
            for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                let start = Instant::now();
                let used = stores[at].round(kind);
                let took = start.elapsed();
                // The first round fills caches.
                if round > 0 {
                    let each = |total: f64| total / kind.requests as f64;
                    ways[at].bytes.push(each(used.bytes as f64));
                    ways[at].allocations.push(each(used.count as f64));
                    ways[at].microseconds.push(each(took.as_secs_f64() * 1e6));
                }
            }
        }
        let [on, off] = &ways;
        if !arguments.json {
            println!("{:<10} on {}  off {}", kind.name, on.tell(), off.tell());
        }
        documents.push(format!(
            "{{\"kind\": \"{}\", \"on\": {}, \"off\": {}}}",
            kind.name,
            on.document(),
            off.document()
        ));
    }
    if arguments.json {
        println!("[{}]", documents.join(", "));
    }
}

impl Way {
    fn tell(&self) -> String {
        let median = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (bytes, allocations) = (median(&self.bytes), median(&self.allocations));
        format!("{bytes:>10.0} bytes in {allocations:>7.1}, {:>9.2} µs", median(&self.microseconds))
    }

    fn document(&self) -> String {
        let Self { bytes, allocations, microseconds } = self;
        format!("{{\"bytes\": {bytes:.1?}, \"allocations\": {allocations:.2?}, \"microseconds\": {microseconds:.3?}}}")
    }
}

struct Store {
    server: Server,
    /// Rounds of PUTs so far.
    puts: usize,
    /// Blocks sent so far, so that no two are alike.
    number: u64,
    /// What is sent. Kept, for an allocator that has freed as much once keeps more ready from then on.
    body: Vec<u8>,
}

impl Store {
    fn open(data: &Path, pooling: bool) -> Self {
        let server = Server::open(data, pooling);
        for bucket in ["/bucket", "/list"] {
            server.call(&server.sign("PUT", bucket.into(), "", 0), b"");
        }
        for n in 0..LISTED {
            let key = format!("/list/data/{:016x}/object", scatter(n as u64));
            server.call(&server.sign("PUT", key, "", 100), &[7; 100]);
        }
        Self { server, puts: 0, number: 0, body: vec![0x5a; BODY_MAX] }
    }

    /// What all requests of a round took together.
    fn round(&mut self, kind: &Kind) -> Allocated {
        match kind.work {
            Work::Take => take(self.server.gateway.engine.buffers(), kind),
            Work::Pass => pass(self.server.gateway.engine.buffers(), kind),
            Work::Put | Work::Get | Work::Head | Work::List => self.requests(kind),
        }
    }

    fn requests(&mut self, kind: &Kind) -> Allocated {
        let server = &self.server;
        self.puts += usize::from(matches!(kind.work, Work::Put));
        let path = |n: usize| format!("/bucket/{}/{n:08x}", self.puts);
        let signed: Vec<Signed> = (0..kind.requests)
            .map(|n| match kind.work {
                Work::Put => server.sign("PUT", path(n), "", kind.size),
                Work::List => server.sign("GET", "/list".into(), "list-type=2&max-keys=1000", 0),
                Work::Head => server.sign("HEAD", path(n), "", 0),
                _ => server.sign("GET", path(n), "", 0),
            })
            .collect();
        let body = &mut self.body[..if matches!(kind.work, Work::Put) { kind.size } else { 0 }];
        server.settle();
        let before = Allocated::now();
        for request in &signed {
            for block in body.chunks_mut(1024) {
                self.number += 1;
                block[..8].copy_from_slice(&scatter(self.number).to_le_bytes());
            }
            let received = server.call(request, body);
            match kind.work {
                Work::Put | Work::Head => assert_eq!(received, 0),
                Work::List => assert!(received > 200 * LISTED as u64),
                _ => assert_eq!(received, kind.size as u64),
            }
        }
        server.settle();
        before.since()
    }
}

fn take(buffers: &Arc<Buffers>, kind: &Kind) -> Allocated {
    let content = vec![0x5a; kind.size];
    let before = Allocated::now();
    for _ in 0..kind.requests {
        let mut buffer = buffers.take(kind.size);
        buffer.extend_from_slice(&content);
        std::hint::black_box(&buffer);
    }
    before.since()
}

fn pass(buffers: &Arc<Buffers>, kind: &Kind) -> Allocated {
    let content = vec![0x5a; kind.size];
    let (sender, receiver) = sync_channel::<Buffer>(PASSED_MAX);
    let dropping = std::thread::spawn(move || receiver.into_iter().for_each(drop));
    let before = Allocated::now();
    for _ in 0..kind.requests {
        let mut buffer = buffers.take(kind.size);
        buffer.extend_from_slice(&content);
        sender.send(buffer).expect("somebody drops it");
    }
    drop(sender);
    dropping.join().expect("nothing panics in dropping");
    before.since()
}
