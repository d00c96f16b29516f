//! What snapshots, forks and restores of a bucket with many objects take, and what reads of a fork cost beside those of
//! its bucket.
//!
//! `cargo run --release --example forks -- DIR OBJECTS`: DIR is empty or does not exist.

#[path = "../benches/support/pump.rs"]
mod pump;
#[path = "../benches/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use orcas_catalog::{ListObjects, ListPage};
use orcas_decide::{Intent, Outcome};
use orcas_engine::{Effort, Handle};
use orcas_record::{Bucket, Durability};

use pump::{Pump, bucket, put, unique};
use support::{open, options, scatter};

const IN_FLIGHT: usize = 4096;
const ROUNDS: usize = 20;
const LOOKUPS: u64 = 2_000;

fn key(number: u64) -> Bytes {
    Bytes::from(format!("data/{:016x}", scatter(number)))
}

fn tell(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    println!("{what}: median {:.3?}, worst {:.3?}", times[times.len() / 2], times[times.len() - 1]);
}

fn measure(what: &str, mut run: impl FnMut(usize)) {
    let time = |round| {
        let start = Instant::now();
        run(round);
        start.elapsed()
    };
    tell(what, (0..ROUNDS).map(time).collect());
}

fn present(handle: &Handle, name: &str) -> Arc<Bucket> {
    handle.bucket(name.as_bytes()).expect("the bucket exists")
}

fn execute(handle: &Handle, intent: Intent) -> Outcome {
    handle.execute(intent).expect("the store takes what it is given")
}

fn reads(handle: &Handle, bucket: &Bucket, objects: u64) {
    let name = String::from_utf8_lossy(&bucket.name).into_owned();
    for warmth in ["cold", "warm"] {
        let start = Instant::now();
        for number in 0..LOOKUPS.min(objects) {
            let key = key(number * (objects / LOOKUPS).max(1));
            let found = handle.try_object_in(bucket, &key).flatten();
            let found = found.or_else(|| handle.object_in(bucket, &key).expect("the index is read"));
            assert!(found.is_some());
        }
        println!("{name}, lookup, {warmth}: {:.1?}", start.elapsed() / LOOKUPS.min(objects) as u32);
    }
    let (mut after, mut times, mut keys) = (None, Vec::new(), 0);
    loop {
        let (prefix, delimiter) = (Bytes::new(), None);
        let list = ListObjects { bucket: bucket.id, prefix, delimiter, after, max_keys: 1_000 };
        let (start, mut page) = (Instant::now(), ListPage::default());
        after = handle.list_objects_in(bucket, &list, &mut page).expect("the index is read");
        times.push(start.elapsed());
        keys += page.entries.len();
        if after.is_none() {
            break;
        }
    }
    tell(&format!("{name}, page of a list, {keys} keys in all"), times);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let data: PathBuf = arguments.next().expect("a directory").into();
    let objects: u64 = arguments.next().expect("a number of objects").parse().expect("a number");
    let filling = open(options(&data, Durability::Buffered));
    let handle = filling.handle();
    let photos = bucket(&handle, "photos");
    let (start, mut pump) = (Instant::now(), Pump::new(IN_FLIGHT));
    for number in 0..objects {
        pump.submit(&handle, put(&handle, &photos, key(number), unique(number, 64)));
    }
    pump.finish();
    filling.close().expect("the store closes");
    println!("{objects} objects after {:.1?}", start.elapsed());

    let engine = open(options(&data, Durability::Sync));
    let handle = engine.handle();
    reads(&handle, &photos, objects);
    execute(&handle, Intent::CreateSnapshot { bucket: photos.id, name: "first".into() });
    measure("snapshot of a changed bucket, with the change", |round| {
        execute(&handle, put(&handle, &photos, key(objects + round as u64), unique(round as u64, 64)));
        let name = Bytes::from(format!("s{round}"));
        execute(&handle, Intent::CreateSnapshot { bucket: photos.id, name });
    });
    measure("write to a bucket", |round| {
        execute(&handle, put(&handle, &photos, key(round as u64), unique(round as u64, 65)));
    });
    measure("restore", |_| {
        drop(execute(&handle, Intent::RestoreBucket { bucket: photos.id, snapshot: "first".into() }))
    });
    measure("fork of a snapshot, and the first write to it", |round| {
        let (snapshot, name) = (Some(Bytes::from("first")), Bytes::from(format!("fork{round}")));
        execute(&handle, Intent::ForkBucket { bucket: photos.id, snapshot, name });
        let fork = present(&handle, &format!("fork{round}"));
        execute(&handle, put(&handle, &fork, key(0), unique(round as u64, 66)));
    });
    reads(&handle, &present(&handle, "photos"), objects);
    reads(&handle, &present(&handle, "fork0"), objects);
    for round in 0..ROUNDS {
        let name = Bytes::from(format!("s{round}"));
        execute(&handle, Intent::DeleteSnapshot { bucket: photos.id, name });
    }
    let start = Instant::now();
    handle.reclaim(Effort::Collect).expect("the store is writable");
    println!("layers of {ROUNDS} snapshots removed after {:.1?}", start.elapsed());
    engine.close().expect("the store closes");
}
