//! What the admin API reads from an open store, and the signatures of its requests. The structs here become dicts, field
//! by field.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use orcas_engine::{self as engine, Handle, LifecycleProgress, LifecycleReport, ReclaimProgress, Reclaimed, Usage};
use orcas_http::{Headers, RequestHead, hex};
use orcas_seal::Secret;
use orcas_sigv4::Signer;

/// A bucket as `Core.stats` shows it.
#[derive(IntoPyObject)]
struct BucketStats {
    name: String,
    objects: u64,
    bytes: u64,
    history: u64,
    logical: u64,
    stored: u64,
    shared: u64,
}

#[derive(IntoPyObject)]
struct TotalStats {
    logical: u64,
    stored: u64,
    dead: u64,
}

#[derive(IntoPyObject)]
struct FileStats {
    log_files: u64,
    log_bytes: u64,
    log_allocated: u64,
    packs: u64,
    pack_bytes: u64,
    pack_allocated: u64,
    index_bytes: u64,
    index_wal_bytes: u64,
}

#[derive(IntoPyObject)]
pub struct Stats {
    store: String,
    buckets: Vec<BucketStats>,
    totals: TotalStats,
    files: FileStats,
    pools: Pools,
}

#[derive(Clone, IntoPyObject)]
struct BufferCounts {
    hits: u64,
    misses: u64,
    returned: u64,
    discarded: u64,
    held_bytes: u64,
    out_bytes: u64,
}

#[derive(Clone, IntoPyObject)]
struct Connections {
    hits: u64,
    misses: u64,
    waits: u64,
    refusals: u64,
    open: u32,
    idle: u32,
}

/// The pools of buffers and connections.
#[derive(Clone, IntoPyObject)]
pub struct Pools {
    enabled: bool,
    buffers: BufferCounts,
    connections: Connections,
}

#[derive(IntoPyObject)]
pub struct ReclaimStats {
    blobs: u64,
    condemned_bytes: u64,
    punched_bytes: u64,
    moved_bytes: u64,
    log_files: u64,
    packs: u64,
}

#[derive(IntoPyObject)]
pub struct ReclaimState {
    total: ReclaimStats,
    requested: bool,
    failed: Option<String>,
}

#[derive(IntoPyObject)]
pub struct LifecycleStats {
    buckets: u64,
    seen: u64,
    versions: u64,
    markers: u64,
    uploads: u64,
    changed: u64,
    locked: u64,
}

#[derive(IntoPyObject)]
pub struct LifecycleState {
    total: LifecycleStats,
    runs: u64,
    running: bool,
    failed: Option<String>,
}

impl From<Usage> for Stats {
    fn from(usage: Usage) -> Self {
        let bucket = |bucket: orcas_engine::BucketUsage| BucketStats {
            name: bucket.name,
            objects: bucket.objects,
            bytes: bucket.bytes,
            history: bucket.history,
            logical: bucket.logical,
            stored: bucket.stored,
            shared: bucket.logical.saturating_sub(bucket.stored),
        };
        let files = usage.files;
        Self {
            store: hex(&usage.store_id),
            buckets: usage.buckets.into_iter().map(bucket).collect(),
            totals: TotalStats { logical: usage.totals.logical, stored: usage.totals.stored, dead: usage.totals.dead },
            files: FileStats {
                log_files: files.log_files,
                log_bytes: files.log_bytes,
                log_allocated: files.log_allocated,
                packs: files.packs,
                pack_bytes: files.pack_bytes,
                pack_allocated: files.pack_allocated,
                index_bytes: files.index_bytes,
                index_wal_bytes: files.index_wal_bytes,
            },
            pools: usage.pools.into(),
        }
    }
}

impl From<engine::Pools> for Pools {
    fn from(pools: engine::Pools) -> Self {
        let (buffers, connections) = (pools.buffers, pools.connections);
        Self {
            enabled: pools.enabled,
            buffers: BufferCounts {
                hits: buffers.hits,
                misses: buffers.misses,
                returned: buffers.returned,
                discarded: buffers.discarded,
                held_bytes: buffers.held_bytes,
                out_bytes: buffers.out_bytes,
            },
            connections: Connections {
                hits: connections.hits,
                misses: connections.misses,
                waits: connections.waits,
                refusals: connections.refusals,
                open: connections.open,
                idle: connections.idle,
            },
        }
    }
}

impl From<Reclaimed> for ReclaimStats {
    fn from(done: Reclaimed) -> Self {
        Self {
            blobs: done.blobs,
            condemned_bytes: done.condemned_bytes,
            punched_bytes: done.punched_bytes,
            moved_bytes: done.moved_bytes,
            log_files: done.log_files,
            packs: done.packs,
        }
    }
}

impl From<ReclaimProgress> for ReclaimState {
    fn from(progress: ReclaimProgress) -> Self {
        Self {
            total: progress.total.into(),
            requested: progress.requested,
            failed: progress.failed.map(|reason| reason.to_string()),
        }
    }
}

impl From<LifecycleReport> for LifecycleStats {
    fn from(report: LifecycleReport) -> Self {
        let LifecycleReport { buckets, seen, versions, markers, uploads, changed, locked } = report;
        Self { buckets, seen, versions, markers, uploads, changed, locked }
    }
}

impl From<LifecycleProgress> for LifecycleState {
    fn from(progress: LifecycleProgress) -> Self {
        Self {
            total: progress.total.into(),
            runs: progress.runs,
            running: progress.running,
            failed: progress.failed.map(|reason| reason.to_string()),
        }
    }
}

/// Keeps the files of one moment in place until it is released or dropped.
#[pyclass(frozen, module = "orcas._core")]
pub struct BackupPin {
    /// None once released.
    pin: Mutex<Option<engine::BackupPin>>,
    #[pyo3(get)]
    store: String,
    #[pyo3(get)]
    sequence: u64,
    #[pyo3(get)]
    files: Vec<(String, u64)>,
}

impl BackupPin {
    pub fn take(engine: &Handle) -> orcas_base::error::Result<Self> {
        let pin = engine.pin_for_backup()?;
        let files = pin.files.iter().map(|file| (file.name.clone(), file.length)).collect();
        Ok(Self { store: hex(&pin.store_id), sequence: pin.sequence, files, pin: Mutex::new(Some(pin)) })
    }
}

#[pymethods]
impl BackupPin {
    /// Releases the files. Without effect when called again.
    fn release(&self) {
        let pin = self.pin.lock().take();
        drop(pin);
    }
}

/// The headers that sign a request, besides those it has: names in lower case.
///
/// `payload` is what `x-amz-content-sha256` says, `now` seconds since 1970. `keys`: access key and secret.
#[pyfunction]
#[pyo3(signature = (method, raw_path, query, headers, payload, keys, region, now))]
#[expect(clippy::too_many_arguments, reason = "a request head, and who signs it when")]
pub fn sign(
    method: &str,
    raw_path: &[u8],
    query: &[u8],
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    payload: &str,
    keys: (String, String),
    region: &str,
    now: i64,
) -> PyResult<Vec<(&'static str, String)>> {
    let refused = |reason: String| pyo3::exceptions::PyValueError::new_err(reason);
    let (access_key, secret) = keys;
    let signer = Signer::new(&access_key, secret.as_bytes(), region, now);
    let signer = signer.ok_or_else(|| refused("the time lies beyond the year 9999".to_owned()))?;
    let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let head = RequestHead { method: method.as_bytes(), path: raw_path, query, headers: Headers::new(&list) };
    signer.sign_request(&head, payload).map_err(|error| refused(error.to_string()))
}

/// A secret sealed with AES-256-GCM, its tag at the end. `bound` must be the same when it is opened.
#[pyfunction]
pub fn seal_secret<'py>(
    py: Python<'py>,
    key: [u8; 32],
    nonce: [u8; 12],
    bound: &[u8],
    secret: &[u8],
) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &orcas_seal::seal_message(&Secret::new(&key), nonce, bound, secret))
}

/// The secret that `seal_secret` has sealed; `None` if it was changed, or the key, the nonce or `bound` is another one.
#[pyfunction]
pub fn open_secret<'py>(
    py: Python<'py>,
    key: [u8; 32],
    nonce: [u8; 12],
    bound: &[u8],
    sealed: &[u8],
) -> Option<Bound<'py, PyBytes>> {
    let secret = orcas_seal::open_message(&Secret::new(&key), nonce, bound, sealed).ok()?;
    Some(PyBytes::new(py, &secret))
}
