//! What is stored for whom, quotas of that, and requests counted for whoever pays for them, as Python keeps and shows them.

use std::sync::Arc;

use pyo3::prelude::*;

use super::snapshots;
use crate::errors::store_error;
use orcas_decide::{Intent, Quota};
use orcas_engine::BucketUsage;
use orcas_gateway::Gateway;
use orcas_gateway::accounting::metering::{Prices, RequestCounts, RequestUsage};
use orcas_record::{Bucket, DocumentKind};
use orcas_s3::tags::read_bucket_document;

#[pyclass(frozen, module = "orcas._core")]
pub struct UsageCounts {
    gateway: Arc<Gateway>,
}

impl UsageCounts {
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway }
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
        self.gateway.observation.meter.take().into_iter().map(RequestRow::from).collect()
    }

    /// What usage costs: writes, reads, bytes in and out and GB-months of each, by the prices of GB-months, a thousand
    /// writes and reads, and GB in and out.
    #[staticmethod]
    fn costs(prices: (f64, f64, f64, f64, f64), usage: Vec<(u64, u64, u64, u64, f64)>) -> Vec<f64> {
        let (gb_month, writes_1000, reads_1000, gb_in, gb_out) = prices;
        let prices = Prices { gb_month, writes_1000, reads_1000, gb_in, gb_out };
        let cost = |(writes, reads, received, sent, gb_months)| {
            prices.cost(&RequestCounts { writes, reads, free: 0, received, sent }, gb_months)
        };
        usage.into_iter().map(cost).collect()
    }

    /// The tags of every bucket that has some.
    fn bucket_tags(&self) -> Vec<(String, Vec<(String, String)>)> {
        let engine = &self.gateway.engine;
        let tags = engine.buckets().into_iter().filter_map(|bucket| {
            let document = engine.document(bucket.id, DocumentKind::Tagging)?;
            let tags = read_bucket_document(&document.bytes).ok()?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some((text(&bucket.name), tags.iter().map(|(name, value)| (text(name), text(value))).collect()))
        });
        tags.collect()
    }

    /// Gives a bucket a quota; None sets no limit. Blocks.
    fn set_bucket_quota(&self, py: Python<'_>, bucket: &str, size: Option<u64>, objects: Option<u64>) -> PyResult<()> {
        let document = Quota { bytes: size, versions: objects }.to_document();
        py.detach(|| {
            snapshots::change(&self.gateway.engine, bucket, |bucket| Intent::PutDocument {
                bucket,
                kind: DocumentKind::Quota,
                document: document.into(),
            })
        })
    }

    /// Whether an identity or a bucket's owner has this id.
    fn knows_owner(&self, owner: &str) -> bool {
        let owns = |bucket: Arc<Bucket>| bucket.owner == owner.as_bytes();
        self.gateway.access().identities().has(owner) || self.gateway.engine.buckets().into_iter().any(owns)
    }

    /// Owner, bytes and objects of each quota of an owner, in place of those before.
    fn set_owner_quotas(&self, quotas: Vec<(String, Option<u64>, Option<u64>)>) {
        let quota = |(owner, bytes, versions): (String, _, _)| (owner.into(), Quota { bytes, versions });
        self.gateway.engine.set_owner_quotas(quotas.into_iter().map(quota).collect());
    }

    /// Bucket, bytes and objects of each quota of a bucket, in order of the names.
    fn bucket_quotas(&self) -> Vec<(String, Option<u64>, Option<u64>)> {
        let engine = &self.gateway.engine;
        let quotas = engine.buckets().into_iter().map(|bucket| (bucket.name.clone(), engine.quota(bucket.id)));
        let named = |(name, quota): (bytes::Bytes, Quota)| {
            (String::from_utf8_lossy(&name).into_owned(), quota.bytes, quota.versions)
        };
        quotas.filter(|(_, quota)| !quota.is_none()).map(named).collect()
    }

    /// What every bucket holds. `exact`: wait until everything acknowledged is counted, if it can be. Blocks.
    fn stored(&self, py: Python<'_>, exact: bool) -> PyResult<StoredUsage> {
        py.detach(|| {
            let engine = &self.gateway.engine;
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
