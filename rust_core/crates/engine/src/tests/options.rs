//! Options of a small store in which nothing runs in the background. Suites and benchmarks of other crates include this
//! file, and name what they need otherwise.

use std::path::Path;
use std::time::Duration;

use super::EngineOptions;
use orcas_record::{Durability, RefLevel};

pub fn options(data: &Path) -> EngineOptions {
    EngineOptions {
        data: data.to_owned(),
        batch_write_enabled: true,
        write_buffer_window: Duration::from_secs(10),
        max_write_buffer_size: 8 << 20,
        max_write_buffer_count: 2048,
        chunk_size: 4 << 20,
        durability: Durability::Sync,
        ref_level: RefLevel::Full,
        sync_interval: Duration::from_millis(50),
        db_max_open_conns: 4,
        db_max_idle_conns: 2,
        db_conn_max_lifetime: Duration::from_secs(3600),
        log_file_size: 4 << 20,
        pack_size: 64 << 20,
        reclaim_bytes_per_sec: 0,
        scrub_bytes_per_sec: 0,
        disk_reserve: 0,
        ballast: 0,
        pooling_enabled: true,
        events: None,
    }
}
