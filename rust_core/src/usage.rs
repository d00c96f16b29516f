//! What is stored for whom, and requests counted for whoever pays for them, as Python keeps and shows them.

use std::sync::Arc;

use pyo3::prelude::*;

use super::errors::store_error;
use orcas_engine::BucketUsage;
use orcas_gateway::Lane;
use orcas_gateway::metrics::usage::RequestUsage;

#[pyclass(frozen, module = "orcas._core")]
pub struct UsageCounts {
    lane: Arc<Lane>,
}

impl UsageCounts {
    pub fn new(lane: Arc<Lane>) -> Self {
        Self { lane }
    }
}

/// The requests of one day by one access key to one bucket.
#[derive(IntoPyObject)]
struct RequestRow {
    day: i64,
    owner: String,
    access_key: String,
    bucket: String,
    writes: u64,
    reads: u64,
    free: u64,
    received: u64,
    sent: u64,
}

/// What a bucket holds.
#[derive(IntoPyObject)]
struct BucketRow {
    id: u64,
    name: String,
    owner: String,
    objects: u64,
    versions: u64,
    logical: u64,
    stored: u64,
}

/// What the buckets hold, and whether that includes all that was acknowledged; the distinct content of the store.
#[derive(IntoPyObject)]
struct StoredUsage {
    buckets: Vec<BucketRow>,
    exact: bool,
    stored: u64,
}

#[pymethods]
impl UsageCounts {
    /// Requests that were counted since the last call.
    fn take_requests(&self) -> Vec<RequestRow> {
        self.lane.meter.take().into_iter().map(RequestRow::from).collect()
    }

    /// What every bucket holds. `exact`: wait until everything acknowledged is counted, if it can be. Blocks.
    fn stored(&self, py: Python<'_>, exact: bool) -> PyResult<StoredUsage> {
        py.detach(|| {
            let engine = &self.lane.engine;
            let exact = exact && engine.wait_until_applied().is_ok();
            let (buckets, totals) = engine.bucket_usage()?;
            let buckets = buckets.into_iter().map(BucketRow::from).collect();
            Ok(StoredUsage { buckets, exact, stored: totals.stored })
        })
        .map_err(store_error)
    }
}

impl From<RequestUsage> for RequestRow {
    fn from(usage: RequestUsage) -> Self {
        let RequestUsage { day, owner, access_key, bucket, counts } = usage;
        Self {
            day,
            owner,
            access_key,
            bucket,
            writes: counts.writes,
            reads: counts.reads,
            free: counts.free,
            received: counts.received,
            sent: counts.sent,
        }
    }
}

impl From<BucketUsage> for BucketRow {
    fn from(usage: BucketUsage) -> Self {
        Self {
            id: usage.id,
            name: usage.name,
            owner: usage.owner,
            objects: usage.objects,
            versions: usage.objects + usage.history,
            logical: usage.logical,
            stored: usage.stored,
        }
    }
}
