//! What the timed benchmarks share: their options, and PUTs for a span of time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use orcas_core::decide::Intent;
use orcas_core::engine::{Engine, Handle};
use orcas_core::record::Durability;

use crate::support::{Pump, bucket, open, put, scatter, unique};

pub struct Arguments {
    /// On the disk to be measured.
    pub dir: PathBuf,
    pub rounds: usize,
    /// Of one measurement.
    pub span: Duration,
    pub json: bool,
}

impl Arguments {
    /// Reads the command line; `rounds` and `seconds` are the defaults.
    pub fn read(rounds: usize, seconds: f64) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned();
        let mut arguments = Self { dir, rounds, span: Duration::from_secs_f64(seconds), json: false };
        let mut given = std::env::args().skip(1);
        while let Some(name) = given.next() {
            let mut value = || given.next().expect("an option is followed by its value");
            match name.as_str() {
                "--dir" => arguments.dir = value().into(),
                "--rounds" => arguments.rounds = value().parse().expect("a number of rounds"),
                "--seconds" => arguments.span = Duration::from_secs_f64(value().parse().expect("seconds")),
                "--json" => arguments.json = true,
                // Cargo says so to every benchmark.
                "--bench" => {}
                other => panic!("{other} is not an option"),
            }
        }
        arguments
    }
}

/// PUTs of new keys and new bytes through an engine.
pub struct Puts {
    engine: Engine,
    number: u64,
}

impl Puts {
    pub fn new(data: &Path, durability: Durability, batch_write_enabled: bool) -> Self {
        Self { engine: open(data, durability, batch_write_enabled), number: 0 }
    }

    /// How many a second are answered for `span`, of `size` bytes each.
    pub fn run(&mut self, size: usize, in_flight: usize, span: Duration) -> f64 {
        let handle = self.engine.handle();
        let bucket = bucket(&handle, "benchmark");
        let mut pump = Pump::new(in_flight);
        let (start, first) = (Instant::now(), self.number);
        while start.elapsed() < span {
            self.number += 1;
            let key = Bytes::from(format!("{:016x}", scatter(self.number)));
            pump.submit(&handle, put(&handle, &bucket, key, unique(self.number, size)));
        }
        pump.finish();
        let rate = (self.number - first) as f64 / start.elapsed().as_secs_f64();
        settle(&handle);
        rate
    }
}

/// Makes everything durable and waits until the index has it, so that the work of one measurement does not fall into the
/// next.
fn settle(handle: &Handle) {
    handle.execute(Intent::Barrier { seal: false }).expect("the store takes a barrier");
    while handle.health().lag_records > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
}
