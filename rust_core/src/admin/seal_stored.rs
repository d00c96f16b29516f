//! Sealing what is stored: its progress, and its report as a dict.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::prelude::*;

use orcas_engine::{self as engine, Left};

/// How far the sealing of what is stored is. Any thread may look, or end it.
#[pyclass(frozen, module = "orcas._core")]
pub struct SealProgress {
    inner: Arc<engine::SealProgress>,
}

impl SealProgress {
    pub fn shared(&self) -> Arc<engine::SealProgress> {
        Arc::clone(&self.inner)
    }
}

#[pymethods]
impl SealProgress {
    #[new]
    fn new() -> Self {
        Self { inner: Arc::default() }
    }

    #[getter]
    fn seen(&self) -> u64 {
        self.inner.seen.load(Ordering::Relaxed)
    }

    #[getter]
    fn versions(&self) -> u64 {
        self.inner.versions.load(Ordering::Relaxed)
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.inner.bytes.load(Ordering::Relaxed)
    }

    #[getter]
    fn stored_bytes(&self) -> u64 {
        self.inner.stored_bytes.load(Ordering::Relaxed)
    }

    #[getter]
    fn finishing(&self) -> bool {
        self.inner.finishing.load(Ordering::Relaxed)
    }

    /// Makes it end soon. What it has done counts.
    fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::Relaxed);
    }
}

/// What is not sealed at the end.
#[derive(IntoPyObject)]
struct LeftUnsealed {
    blobs: u64,
    bytes: u64,
    uploads: u64,
    files: bool,
    index: bool,
}

#[derive(IntoPyObject)]
pub struct SealReport {
    seen: u64,
    versions: u64,
    uploads: u64,
    bytes: u64,
    stored_bytes: u64,
    changed: u64,
    no_room: u64,
    too_long: u64,
    unreadable: u64,
    cancelled: bool,
    left: LeftUnsealed,
}

impl From<engine::SealReport> for SealReport {
    fn from(report: engine::SealReport) -> Self {
        let Left { blobs, bytes, uploads, files, index } = report.left;
        Self {
            seen: report.seen,
            versions: report.versions,
            uploads: report.uploads,
            bytes: report.bytes,
            stored_bytes: report.stored_bytes,
            changed: report.changed,
            no_room: report.no_room,
            too_long: report.too_long,
            unreadable: report.unreadable,
            cancelled: report.cancelled,
            left: LeftUnsealed { blobs, bytes, uploads, files, index },
        }
    }
}
