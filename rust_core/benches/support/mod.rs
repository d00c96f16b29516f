//! What the benchmarks of the engine share: a store on the real disk with the server's settings.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orcas_engine::{Engine, EngineOptions, Environment, IndexPlace, SystemClock};
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_record::{Durability, RefLevel};

pub fn open(options: EngineOptions) -> Engine {
    let environment = Environment {
        fs: Arc::new(RealFileSystem),
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(SystemRandom),
        index: IndexPlace::File,
    };
    Engine::open(options, environment).expect("the store opens")
}

/// The settings of a server that was told nothing else.
pub fn options(data: &Path, durability: Durability) -> EngineOptions {
    EngineOptions {
        data: data.to_owned(),
        batch_write_enabled: true,
        write_buffer_window: Duration::from_secs(10),
        max_write_buffer_size: 8 << 20,
        max_write_buffer_count: 2048,
        chunk_size: 4 << 20,
        durability,
        ref_level: RefLevel::Full,
        sync_interval: Duration::from_millis(50),
        db_max_open: 25,
        db_max_idle: 10,
        db_lifetime: Duration::from_secs(3600),
        log_file_size: 16 << 20,
        pack_size: 1 << 30,
        reclaim_rate: 0,
        scrub_rate: 0,
        reserve: 256 << 20,
        ballast: 0,
        pooling_enabled: true,
        events: None,
    }
}

/// `number` scattered over all 64 bits, so that neighbours in time are not neighbours in key order.
pub fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
