//! What is to be done at intervals, for whoever keeps the time, and the sealing of what is stored. Each call blocks until
//! the work is done or the store is closed.

use pyo3::prelude::*;

use super::seal_stored::{SealProgress, SealReport};
use super::tools::LifecycleStats;
use crate::errors::store_error;
use orcas_engine::{AbandonedReport, Handle};

#[pyclass(frozen, module = "orcas._core")]
pub struct Maintenance {
    engine: Handle,
}

impl Maintenance {
    pub fn new(engine: Handle) -> Self {
        Self { engine }
    }
}

/// What became of uploads.
#[derive(IntoPyObject)]
struct AbandonedStats {
    seen: u64,
    aborted: u64,
    changed: u64,
}

#[pymethods]
impl Maintenance {
    /// Applies the lifecycle rules of all buckets.
    fn run_lifecycle(&self, py: Python<'_>) -> PyResult<LifecycleStats> {
        py.detach(|| self.engine.run_lifecycle()).map(LifecycleStats::from).map_err(store_error)
    }

    /// Aborts uploads of which nothing has come for so many days.
    fn abort_abandoned(&self, py: Python<'_>, days: u32) -> PyResult<AbandonedStats> {
        let AbandonedReport { seen, aborted, changed } =
            py.detach(|| self.engine.abort_abandoned(days)).map_err(store_error)?;
        Ok(AbandonedStats { seen, aborted, changed })
    }

    /// Removes events that were kept for long enough.
    fn expire_events(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.expire_events()).map_err(store_error)
    }

    /// Reads everything once, at the rate of the scrub.
    fn scrub(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.scrub()).map_err(store_error)
    }

    /// Whether the keyring is open, so that content can be sealed.
    fn can_seal(&self) -> bool {
        self.engine.keys().can_seal()
    }

    /// Seals what was stored without encryption, and rewrites files so that nothing unsealed is left in them. Blocks;
    /// `progress` shows how far it is and can end it.
    fn seal_stored(&self, py: Python<'_>, progress: &SealProgress) -> PyResult<SealReport> {
        let progress = progress.shared();
        py.detach(|| self.engine.seal_stored(&progress)).map(SealReport::from).map_err(store_error)
    }
}
