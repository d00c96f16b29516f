//! The settings of the engine and of the request lane, as the control plane hands them over, and the machine they run on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;

use super::tally::Watch;
use orcas_engine::{EngineOptions, Environment, EventOptions, IndexPlace, LifecycleOptions, SystemClock};
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_gateway::{EventTarget, LaneOptions};
use orcas_record::{Durability, RefLevel};
use orcas_telemetry::traces::Traces;

/// Settings of the engine and the lane, as the control plane hands them over.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    data: PathBuf,
    batch_write_enabled: bool,
    max_batch_write_file_size: u64,
    write_buffer_window_sec: f64,
    max_write_buffer_size: u64,
    max_write_buffer_count: u32,
    chunk_size: u32,
    durability: String,
    ref_level: String,
    sync_interval_ms: u64,
    db_max_open_conns: u32,
    db_max_idle_conns: u32,
    db_conn_max_lifetime_sec: u64,
    log_file_size: u64,
    pack_size: u64,
    reclaim_bytes_per_sec: u64,
    scrub_bytes_per_sec: u64,
    lifecycle_day_sec: u64,
    reserve: u64,
    ballast: u64,
    pooling_enabled: bool,
    events_enabled: bool,
    events_retention_sec: u64,
    events_max_bytes: u64,
    events_listeners_max: usize,
    region: String,
    strict_region: bool,
    presign_v2: bool,
    domains: Vec<String>,
    website_host: Option<String>,
    encrypt_by_default: bool,
    event_targets: Vec<String>,
    /// As long as the names.
    event_target_kinds: Vec<String>,
    body_budget: u64,
    workers: usize,
    explain_signatures: bool,
    slow_request_ms: u64,
    metrics: bool,
    /// None: requests are not traced.
    traces_ratio: Option<f64>,
    traces_asked_per_sec: u32,
    meters_usage: bool,
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
            ref_level: ref_level(&self.ref_level)?,
            sync_interval: Duration::from_millis(self.sync_interval_ms),
            db_max_open: self.db_max_open_conns,
            db_max_idle: self.db_max_idle_conns,
            db_lifetime: Duration::from_secs(self.db_conn_max_lifetime_sec),
            log_file_size: self.log_file_size,
            pack_size: self.pack_size,
            reclaim_rate: self.reclaim_bytes_per_sec,
            scrub_rate: self.scrub_bytes_per_sec,
            reserve: self.reserve,
            ballast: self.ballast,
            pooling_enabled: self.pooling_enabled,
            events: self.events_enabled.then_some(EventOptions {
                retention_ms: self.events_retention_sec * 1000,
                max_bytes: self.events_max_bytes,
            }),
        })
    }

    pub fn watch(&self) -> Watch {
        Watch {
            slow: (self.slow_request_ms > 0).then(|| Duration::from_millis(self.slow_request_ms)),
            counts: self.metrics,
            traces: self.traces_ratio.map(|ratio| Traces::new(ratio, self.traces_asked_per_sec)),
        }
    }

    pub fn lifecycle(&self) -> LifecycleOptions {
        LifecycleOptions { day_ms: self.lifecycle_day_sec * 1000, read: orcas_s3::lifecycle::rules }
    }

    pub fn lane(self, ref_level: RefLevel, salvage: bool) -> LaneOptions {
        let event_targets = self.event_targets.into_iter().zip(self.event_target_kinds);
        let event_targets = event_targets.map(|(name, kind)| EventTarget { name, kind }).collect();
        LaneOptions {
            instant_upload: ref_level != RefLevel::Off,
            salvage,
            region: self.region,
            strict_region: self.strict_region,
            presign_v2: self.presign_v2,
            domains: self.domains,
            website_host: self.website_host,
            encrypt_by_default: self.encrypt_by_default,
            event_targets,
            whole_body_max: self.max_batch_write_file_size,
            body_budget: self.body_budget,
            workers: self.workers,
            explains: self.explain_signatures,
            event_listeners_max: self.events_listeners_max,
            meters_usage: self.meters_usage && !salvage,
        }
    }
}

/// The file system, clock and randomness of the machine.
pub fn environment() -> Environment {
    Environment {
        fs: Arc::new(RealFileSystem),
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(SystemRandom),
        index: IndexPlace::File,
    }
}

fn durability(name: &str) -> PyResult<Durability> {
    let unknown = || pyo3::exceptions::PyValueError::new_err(format!("unknown durability {name}"));
    Durability::from_name(name).ok_or_else(unknown)
}

fn ref_level(name: &str) -> PyResult<RefLevel> {
    let unknown = || pyo3::exceptions::PyValueError::new_err(format!("unknown reference level {name}"));
    RefLevel::from_name(name).ok_or_else(unknown)
}
