//! PUTs through an engine for a span of time.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use orcas_engine::{Engine, EngineOptions, Handle};
use orcas_record::Durability;

use crate::pump::{Pump, bucket, put, unique};
use crate::support::{open, options, scatter};

/// PUTs of new keys and new bytes through an engine.
pub struct Puts {
    engine: Engine,
    number: u64,
}

impl Puts {
    pub fn new(data: &Path, durability: Durability, batch_write_enabled: bool) -> Self {
        let options = EngineOptions { batch_write_enabled, ..options(data, durability) };
        Self { engine: open(options), number: 0 }
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
    handle.barrier().expect("the store takes a barrier");
    while handle.health().lag_records > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
}
