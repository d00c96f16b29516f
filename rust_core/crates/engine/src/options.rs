//! The options with which an engine is opened, which the control plane validates, and its interfaces to the machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::clock::Clock;
use super::events::EventOptions;
use orcas_fs::{FileSystem, Random};
use orcas_index::IndexPlace;
use orcas_record::{Durability, RefLevel};

/// All options of the engine; the defaults are in the control plane.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The directory of the store; made when it is not there.
    pub data: PathBuf,
    /// Off: every mutation is a commit of its own.
    pub batch_write_enabled: bool,
    /// How long `buffered` writes may wait for their flush.
    pub write_buffer_window: Duration,
    /// Bytes of bodies that a batch holds at most.
    pub max_write_buffer_size: u64,
    /// Mutations that a batch holds at most.
    pub max_write_buffer_count: u32,
    /// Bytes; for buckets that have no chunk size of their own.
    pub chunk_size: u32,
    pub durability: Durability,
    /// The reference level of buckets that have none of their own.
    pub ref_level: RefLevel,
    /// How long `interval` writes may wait for their sync.
    pub sync_interval: Duration,
    /// Read connections of the index.
    pub db_max_open_conns: u32,
    pub db_max_idle_conns: u32,
    pub db_conn_max_lifetime: Duration,
    /// Bytes a log file is made with.
    pub log_file_size: u64,
    /// Bytes after which a new pack is begun.
    pub pack_size: u64,
    /// Bytes a second that background reclamation reads and writes at most; 0 for no bound.
    pub reclaim_bytes_per_sec: u64,
    /// Bytes a second that the scrub reads; 0 for no scrub.
    pub scrub_bytes_per_sec: u64,
    /// Free bytes below which writes that add content are refused, so that deletions and the index can continue.
    pub disk_reserve: u64,
    /// Bytes that the store takes at most to have room when the disk has none; 0 for none.
    pub ballast: u64,
    /// Off: memory is allocated whenever it is needed and freed at once, and read connections of the index are opened
    /// and closed for each use, instead of being used again.
    pub pooling_enabled: bool,
    /// The options of events; `None`: no events are kept.
    pub events: Option<EventOptions>,
}

/// The engine's interfaces to the machine.
#[derive(Clone)]
pub struct Environment {
    pub fs: Arc<dyn FileSystem>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub index: IndexPlace,
}
