//! The settings of the engine and of the gateway, taken from those of the control plane, and the machine they run on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use orcas_chunks::PACK_SIZE;
use orcas_engine::{EngineOptions, Environment, EventOptions, IndexPlace, LifecycleOptions, SystemClock};
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_gateway::{EventTarget, GatewayOptions, LockoutOptions, PublicAccess};
use orcas_log::FILE_SIZE;
use orcas_record::{Durability, RefLevel};

/// The size of a log file in memory, where a spare file takes memory as well.
const MEMORY_LOG_FILE_SIZE: u64 = 8 << 20;
/// Maximum size of the ballast, with which a store can start on a full disk.
const BALLAST: u64 = 64 << 20;

/// What engine and gateway need of `Settings`, by the names that it has there.
#[derive(FromPyObject)]
pub struct Options {
    data: PathBuf,
    batch_write_enabled: bool,
    max_batch_write_file_size: u64,
    write_buffer_window_sec: f64,
    max_write_buffer_size: u64,
    max_write_buffer_count: u32,
    chunk_size: u32,
    durability: String,
    instant_upload_enabled: bool,
    ref_level: u8,
    sync_interval_ms: u64,
    db_max_open_conns: u32,
    db_max_idle_conns: u32,
    db_conn_max_lifetime_sec: u64,
    memory: bool,
    reclaim_bytes_per_sec: u64,
    scrub_bytes_per_sec: u64,
    lifecycle_day_sec: u64,
    disk_reserve: u64,
    pooling_enabled: bool,
    events_enabled: bool,
    events_retention_sec: u64,
    events_max_bytes: u64,
    events_listeners_max: usize,
    region: String,
    strict_region: bool,
    presign_v2: bool,
    presign_max_sec: i64,
    any_date: bool,
    any_signature: bool,
    lockout_failures: u32,
    lockout_loopback: bool,
    trusted_proxies: Vec<String>,
    public_access: String,
    domains: Vec<String>,
    website_host: Option<String>,
    encrypt_by_default: bool,
    body_budget: u64,
    dev: bool,
    slow_request_ms: u64,
    metrics: bool,
    traces_endpoint: Option<String>,
    traces_ratio: f64,
    traces_asked_per_sec: u32,
    usage_interval_sec: u64,
}

impl Options {
    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn engine(&self) -> PyResult<EngineOptions> {
        Ok(EngineOptions {
            data: self.data.clone(),
            batch_write_enabled: self.batch_write_enabled,
            write_buffer_window: Duration::from_secs_f64(self.write_buffer_window_sec),
            max_write_buffer_size: self.max_write_buffer_size,
            max_write_buffer_count: self.max_write_buffer_count,
            chunk_size: self.chunk_size,
            durability: durability(&self.durability)?,
            ref_level: self.ref_level()?,
            sync_interval: Duration::from_millis(self.sync_interval_ms),
            db_max_open_conns: self.db_max_open_conns,
            db_max_idle_conns: self.db_max_idle_conns,
            db_conn_max_lifetime: Duration::from_secs(self.db_conn_max_lifetime_sec),
            log_file_size: if self.memory { MEMORY_LOG_FILE_SIZE } else { FILE_SIZE },
            pack_size: PACK_SIZE,
            reclaim_bytes_per_sec: self.reclaim_bytes_per_sec,
            scrub_bytes_per_sec: self.scrub_bytes_per_sec,
            disk_reserve: self.disk_reserve,
            // A store in memory never starts again.
            ballast: if self.memory { 0 } else { BALLAST },
            pooling_enabled: self.pooling_enabled,
            events: self.events_enabled.then_some(EventOptions {
                retention_ms: self.events_retention_sec * 1000,
                max_bytes: self.events_max_bytes,
            }),
        })
    }

    /// Whether the store is gone when it is closed.
    pub fn is_in_memory(&self) -> bool {
        self.memory
    }

    pub fn lifecycle(&self) -> LifecycleOptions {
        LifecycleOptions { day_ms: self.lifecycle_day_sec * 1000, read: orcas_s3::lifecycle::rules }
    }

    fn ref_level(&self) -> PyResult<RefLevel> {
        if !self.instant_upload_enabled {
            return Ok(RefLevel::Off);
        }
        let unknown = || PyValueError::new_err(format!("unknown reference level {}", self.ref_level));
        RefLevel::from_name(&self.ref_level.to_string()).ok_or_else(unknown)
    }

    /// `event_targets`: name and kind of each.
    pub fn gateway(
        self,
        event_targets: Vec<(String, String)>,
        workers: usize,
        read_only: Option<&'static str>,
    ) -> PyResult<GatewayOptions> {
        Ok(GatewayOptions {
            instant_upload_enabled: self.ref_level()? != RefLevel::Off,
            read_only,
            region: self.region,
            strict_region: self.strict_region,
            presign_v2: self.presign_v2,
            presign_max_s: self.presign_max_sec,
            any_date: self.any_date,
            any_signature: self.any_signature,
            lockout: LockoutOptions {
                failures: self.lockout_failures,
                loopback: self.lockout_loopback,
                spared: self.trusted_proxies,
            },
            public_access: public_access(&self.public_access)?,
            domains: self.domains,
            website_host: self.website_host,
            encrypt_by_default: self.encrypt_by_default,
            event_targets: event_targets.into_iter().map(|(name, kind)| EventTarget { name, kind }).collect(),
            max_batch_write_file_size: self.max_batch_write_file_size,
            body_budget: self.body_budget,
            workers,
            dev: self.dev,
            events_listeners_max: self.events_listeners_max,
            meters_usage: self.usage_interval_sec > 0 && read_only.is_none(),
            slow_request: (self.slow_request_ms > 0).then(|| Duration::from_millis(self.slow_request_ms)),
            metrics: self.metrics,
            traces: self.traces_endpoint.map(|_| (self.traces_ratio, self.traces_asked_per_sec)),
        })
    }
}

/// The file system, clock and randomness of the machine.
pub fn environment() -> Environment {
    environment_with(Arc::new(SystemClock::new()))
}

/// The file system and randomness of the machine, with this clock.
pub fn environment_with(clock: Arc<SystemClock>) -> Environment {
    Environment { fs: Arc::new(RealFileSystem), clock, random: Arc::new(SystemRandom), index: IndexPlace::File }
}

fn public_access(name: &str) -> PyResult<PublicAccess> {
    match name {
        "blocked" => Ok(PublicAccess::Blocked),
        "by-bucket" => Ok(PublicAccess::ByBucket),
        "open" => Ok(PublicAccess::Open),
        _ => Err(PyValueError::new_err(format!("unknown public access {name}"))),
    }
}

fn durability(name: &str) -> PyResult<Durability> {
    let unknown = || PyValueError::new_err(format!("unknown durability {name}"));
    Durability::from_name(name).ok_or_else(unknown)
}
