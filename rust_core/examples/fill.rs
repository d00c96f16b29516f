//! Fills a store with small objects through the engine, or deletes them again: a million in well under a minute.
//!
//! `cargo run --release --example fill -- --data DIR --bucket NAME --objects N [--first N] [--size BYTES]
//! [--prefix TEXT] [--times N] [--delete] [--die-at-lag]`. Two keys a directory, in scattered order. Every key is
//! written `--times` times, which in a bucket with versioning makes as many versions. With `--die-at-lag` the
//! process kills itself, as a crash would, when the index is as far behind as it may be.

#[path = "../benches/support/pump.rs"]
mod pump;
#[path = "../benches/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use orcas_decide::{Intent, Precondition};
use orcas_engine::{Handle, LAG_BYTES_MAX, LAG_RECORDS_MAX};
use orcas_record::Durability;
use rustix::process::{Signal, getpid, kill_process};

use pump::{Pump, bucket, put, unique};
use support::{open, options, scatter};

const IN_FLIGHT: usize = 4096;
/// Intents between two looks at the lag.
const LOOK_EVERY: u64 = 256;
/// Share of the lag's limits, in percent, that counts as as much as it may be: the lag moves in steps of a batch.
const LARGEST_PERCENT: u64 = 90;

struct Arguments {
    data: PathBuf,
    bucket: String,
    objects: u64,
    first: u64,
    size: usize,
    prefix: String,
    times: u64,
    delete: bool,
    die_at_lag: bool,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments {
        data: PathBuf::new(),
        bucket: "benchmark".to_owned(),
        objects: 0,
        first: 0,
        size: 1024,
        prefix: "data/".to_owned(),
        times: 1,
        delete: false,
        die_at_lag: false,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut value = || given.next().expect("an option is followed by its value");
        match name.as_str() {
            "--data" => arguments.data = value().into(),
            "--bucket" => arguments.bucket = value(),
            "--objects" => arguments.objects = value().parse().expect("a number of objects"),
            "--first" => arguments.first = value().parse().expect("the number of the first object"),
            "--size" => arguments.size = value().parse().expect("bytes an object"),
            "--prefix" => arguments.prefix = value(),
            "--times" => arguments.times = value().parse().expect("a number of writes"),
            "--delete" => arguments.delete = true,
            "--die-at-lag" => arguments.die_at_lag = true,
            other => panic!("{other} is not an option"),
        }
    }
    arguments
}

fn main() {
    let arguments = arguments();
    let engine = open(options(&arguments.data, Durability::Buffered));
    let handle = engine.handle();
    let bucket = bucket(&handle, &arguments.bucket);
    let mut pump = Pump::new(IN_FLIGHT);
    let start = Instant::now();
    let writes = arguments.objects * arguments.times;
    for write in 0..writes {
        let number = arguments.first + write % arguments.objects;
        let key = Bytes::from(format!("{}{:016x}/{}", arguments.prefix, scatter(number / 2), number % 2));
        let intent = if arguments.delete {
            Intent::DeleteObject {
                bucket: bucket.id,
                key,
                precondition: Precondition::default(),
                version: None,
                bypass: false,
            }
        } else {
            put(&handle, &bucket, key, unique(arguments.first + write, arguments.size))
        };
        pump.submit(&handle, intent);
        if arguments.die_at_lag && write.is_multiple_of(LOOK_EVERY) {
            die_if_far_behind(&handle);
        }
    }
    pump.finish();
    let rate = writes as f64 / start.elapsed().as_secs_f64();
    engine.close().expect("the store closes");
    println!("{writes} objects, {rate:.0}/s, closed after {:?}", start.elapsed());
    assert!(!arguments.die_at_lag, "the index never fell far enough behind");
}

fn die_if_far_behind(handle: &Handle) {
    let health = handle.health();
    let bytes = health.lag_bytes * 100 / LAG_BYTES_MAX;
    let records = health.lag_records * 100 / LAG_RECORDS_MAX as u64;
    if bytes.max(records) < LARGEST_PERCENT {
        return;
    }
    println!("{} bytes and {} records behind", health.lag_bytes, health.lag_records);
    kill_process(getpid(), Signal::KILL).expect("killed");
}
