//! Durable 1 KiB PUTs through the engine beside a raw loop of write and fdatasync of the same bytes on the same disk.
//!
//! `cargo bench --bench commit -- [--dir DIR] [--rounds N] [--seconds S] [--json]`. All ways are measured in turn in
//! every round, because a disk's speed changes by the minute. `raw` overwrites a file of zeros, as the log does, so
//! that a sync writes no metadata; `raw_growing` appends to a file that grows. With `--json` the only line on stdout
//! is a document of operations a second, one number a round.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bare file is measured beside the store")]

#[path = "support/arguments.rs"]
mod arguments;
#[path = "support/pump.rs"]
mod pump;
#[path = "support/puts.rs"]
mod puts;
mod support;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use orcas_record::Durability;

use arguments::Arguments;
use pump::unique;
use puts::Puts;

const BODY: usize = 1024;
const IN_FLIGHT: usize = 64;
/// Bytes of the file that `raw` overwrites again and again.
const RAW_FILE: u64 = 64 << 20;

fn main() {
    let arguments = Arguments::read(7, 1.0);
    let dir = tempfile::tempdir_in(&arguments.dir).expect("a directory");
    let span = arguments.span;
    let mut raw = Raw::new(dir.path());
    let mut together = Puts::new(&dir.path().join("together"), Durability::Sync, true);
    let mut apart = Puts::new(&dir.path().join("apart"), Durability::Sync, false);
    let mut ways: Vec<(&str, Vec<f64>)> =
        ["raw", "raw_growing", "one", "batched", "unbatched"].map(|name| (name, Vec::new())).into();
    for round in 0..=arguments.rounds {
        let measured = [
            raw.overwrite(span),
            raw.append(span),
            together.run(BODY, 1, span),
            together.run(BODY, IN_FLIGHT, span),
            apart.run(BODY, IN_FLIGHT, span),
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
