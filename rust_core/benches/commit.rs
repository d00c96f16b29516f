//! Durable 1 KiB PUTs through the engine beside a raw loop of write and fdatasync of the same bytes on the same disk.
//!
//! `cargo bench --bench commit -- [--dir DIR] [--rounds N] [--seconds S] [--json]`. All ways are measured in turn in
//! every round, because a disk's speed changes by the minute. `raw` overwrites a file of zeros, as the log does, so
//! that a sync writes no metadata; `raw_growing` appends to a file that grows. With `--json` the only line on stdout
//! is a document of operations a second, one number a round.

mod support;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use orcas_core::engine::{Engine, Handle};
use orcas_core::record::Durability;

use support::{Pump, bucket, open, put, scatter, unique};

const BODY: usize = 1024;
const IN_FLIGHT: usize = 64;
/// Bytes of the file that `raw` overwrites again and again.
const RAW_FILE: u64 = 64 << 20;

struct Arguments {
    dir: Option<PathBuf>,
    rounds: usize,
    seconds: f64,
    json: bool,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments { dir: None, rounds: 7, seconds: 1.0, json: false };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut value = || given.next().expect("an option is followed by its value");
        match name.as_str() {
            "--dir" => arguments.dir = Some(value().into()),
            "--rounds" => arguments.rounds = value().parse().expect("a number of rounds"),
            "--seconds" => arguments.seconds = value().parse().expect("seconds"),
            "--json" => arguments.json = true,
            // Cargo says so to every benchmark.
            "--bench" => {}
            other => panic!("{other} is not an option"),
        }
    }
    arguments
}

fn main() {
    let arguments = arguments();
    let place = arguments.dir.unwrap_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned());
    let dir = tempfile::tempdir_in(place).expect("a directory");
    let span = Duration::from_secs_f64(arguments.seconds);
    let mut raw = Raw::new(dir.path());
    let mut together = Puts::new(&dir.path().join("together"), true);
    let mut apart = Puts::new(&dir.path().join("apart"), false);
    let mut ways: Vec<(&str, Vec<f64>)> =
        ["raw", "raw_growing", "one", "batched", "unbatched"].map(|name| (name, Vec::new())).into();
    for round in 0..=arguments.rounds {
        let measured = [
            raw.overwrite(span),
            raw.append(span),
            together.run(1, span),
            together.run(IN_FLIGHT, span),
            apart.run(IN_FLIGHT, span),
        ];
        // The first round makes files and fills caches.
        if round > 0 {
            ways.iter_mut().zip(measured).for_each(|((_, rates), rate)| rates.push(rate));
        }
    }
    if arguments.json {
        let fields: Vec<_> = ways.iter().map(|(name, rates)| format!("\"{name}\": {rates:.1?}")).collect();
        println!("{{{}}}", fields.join(", "));
        return;
    }
    let raw = ways[0].1.clone();
    for (name, rates) in &ways {
        let ratios = rates.iter().zip(&raw).map(|(rate, raw)| rate / raw);
        let [least, median, most] = spread(ratios.collect());
        let [_, rate, _] = spread(rates.clone());
        println!("{name:<12} {rate:>9.0}/s   ÷ raw: {median:.2} ({least:.2} to {most:.2})");
    }
}

/// Least, median and most.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

/// Runs `once` for `span` and returns how often it ran a second.
fn rate(span: Duration, mut once: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut runs = 0_u64;
    while start.elapsed() < span {
        once();
        runs += 1;
    }
    runs as f64 / start.elapsed().as_secs_f64()
}

/// Write and fdatasync, nothing else.
struct Raw {
    zeros: File,
    zeros_at: u64,
    growing: File,
    growing_at: u64,
    number: u64,
}

impl Raw {
    fn new(dir: &Path) -> Self {
        let file = |name| {
            let made = OpenOptions::new().create_new(true).write(true).open(dir.join(name));
            made.expect("a file")
        };
        let zeros = file("zeros");
        for offset in (0..RAW_FILE).step_by(1 << 20) {
            zeros.write_all_at(&vec![0; 1 << 20], offset).expect("written");
        }
        zeros.sync_all().expect("synced");
        Self { zeros, zeros_at: 0, growing: file("growing"), growing_at: 0, number: 0 }
    }

    fn overwrite(&mut self, span: Duration) -> f64 {
        rate(span, || {
            self.number += 1;
            self.zeros.write_all_at(&unique(self.number, BODY), self.zeros_at).expect("written");
            self.zeros.sync_data().expect("synced");
            self.zeros_at = (self.zeros_at + BODY as u64) % RAW_FILE;
        })
    }

    fn append(&mut self, span: Duration) -> f64 {
        rate(span, || {
            self.number += 1;
            self.growing.write_all_at(&unique(self.number, BODY), self.growing_at).expect("written");
            self.growing.sync_data().expect("synced");
            self.growing_at += BODY as u64;
        })
    }
}

/// PUTs of new keys through an engine in `sync` mode.
struct Puts {
    engine: Engine,
    number: u64,
}

impl Puts {
    fn new(data: &Path, batch_write_enabled: bool) -> Self {
        Self { engine: open(data, Durability::Sync, batch_write_enabled), number: 0 }
    }

    fn run(&mut self, in_flight: usize, span: Duration) -> f64 {
        let handle = self.engine.handle();
        let bucket = bucket(&handle, "benchmark");
        let mut pump = Pump::new(in_flight);
        let (start, first) = (Instant::now(), self.number);
        while start.elapsed() < span {
            self.number += 1;
            let key = Bytes::from(format!("{:016x}", scatter(self.number)));
            pump.submit(&handle, put(&handle, &bucket, key, unique(self.number, BODY)));
        }
        pump.finish();
        let rate = (self.number - first) as f64 / start.elapsed().as_secs_f64();
        settle(&handle);
        rate
    }
}

/// Waits until the index has everything, so that the work of one measurement does not fall into the next.
fn settle(handle: &Handle) {
    while handle.health().lag_records > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
}
