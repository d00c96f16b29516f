//! What the benchmarks of the engine share: a store on the real disk with the server's settings.

#[path = "../../crates/engine/src/tests/options.rs"]
mod options;

use std::path::Path;
use std::sync::Arc;

use orcas_engine::{Engine, EngineOptions, Environment, IndexPlace, SystemClock};
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_record::Durability;

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
        durability,
        db_max_open_conns: 25,
        db_max_idle_conns: 10,
        log_file_size: 16 << 20,
        pack_size: 1 << 30,
        disk_reserve: 256 << 20,
        ..options::options(data)
    }
}

/// `number` scattered over all 64 bits, so that neighbours in time are not neighbours in key order.
pub fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
