//! Replication for Python: the rules of buckets, the changes of one as they come, and how far copies are.

use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::store_error;
use orcas_event_streams::{BucketReader, ReplicatedChange, ReplicatedChanges};
use orcas_events::FailedCopy;
use orcas_gateway::CopyProgress;
use orcas_http::lossy_text;
use orcas_record::{BucketId, DocumentKind};
use orcas_s3::documents::BucketDocument as _;
use orcas_s3::replication::Replication;

/// A rule of a bucket. `target` and `to`: the names of the target and of the bucket there.
#[derive(IntoPyObject)]
pub struct ReplicationRule {
    id: String,
    enabled: bool,
    priority: u32,
    prefix: Vec<u8>,
    tags: Vec<(String, String)>,
    markers: bool,
    existing: bool,
    of_named_keys: bool,
    target: String,
    to: String,
    storage_class: Option<String>,
    key_id: Option<String>,
    begins_after: u64,
}

/// A bucket with rules.
#[derive(IntoPyObject)]
pub struct ReplicatedBucket {
    name: String,
    id: u64,
    rules: Vec<ReplicationRule>,
}

/// The buckets with rules, from memory.
pub fn replicated_buckets(engine: &orcas_engine::Handle) -> Vec<ReplicatedBucket> {
    if !engine.has_documents(DocumentKind::Replication) {
        return Vec::new();
    }
    let of_bucket = |bucket: &std::sync::Arc<orcas_record::Bucket>| {
        let document = engine.document(bucket.id, Replication::KIND)?;
        let rules = document.parsed(Replication::load)?;
        let name = lossy_text(&bucket.name).into_owned();
        Some(ReplicatedBucket { name, id: bucket.id.0, rules: rules.rules.iter().map(rule).collect() })
    };
    engine.buckets().iter().filter_map(of_bucket).collect()
}

fn rule(rule: &orcas_s3::replication::Rule) -> ReplicationRule {
    let (target, to) = rule.place();
    let text = |bytes: &[u8]| lossy_text(bytes).into_owned();
    ReplicationRule {
        id: rule.id.clone(),
        enabled: rule.enabled,
        priority: rule.priority.unwrap_or_default(),
        prefix: rule.prefix.clone(),
        tags: rule.tags.iter().map(|(key, value)| (text(key), text(value))).collect(),
        markers: rule.markers == Some(true),
        existing: rule.existing == Some(true),
        of_named_keys: rule.of_named_keys == Some(true),
        target: target.to_owned(),
        to: to.to_owned(),
        storage_class: rule.storage_class.clone(),
        key_id: rule.key_id.clone(),
        begins_after: rule.begins_after,
    }
}

/// A bucket, the sequence up to which its changes are copied or exceptions, the keys of those, and the key up to which
/// what existed before is copied (None: all of it).
pub type ProgressRow = (u64, u64, Vec<Vec<u8>>, Option<Vec<u8>>);

pub fn progress_of((bucket, done, failed, walked): ProgressRow) -> (BucketId, CopyProgress) {
    (BucketId(bucket), CopyProgress { done, failed: failed.into_iter().collect(), walked })
}

/// The changes of the objects of one bucket, as they come.
#[pyclass(frozen, module = "orcas._core")]
pub struct ReplicatedEvents {
    reader: Mutex<BucketReader>,
}

impl ReplicatedEvents {
    pub fn new(reader: BucketReader) -> Self {
        Self { reader: Mutex::new(reader) }
    }
}

/// Key, name of the event, version, milliseconds since 1970, and bytes of the object.
type Row<'py> = (Bound<'py, PyBytes>, &'static str, String, u64, u64);
/// Changes, the place behind them with its sequence, and whether changes before them are gone.
type Page<'py> = (Vec<Row<'py>>, String, u64, bool);

#[pymethods]
impl ReplicatedEvents {
    /// The next changes, the place behind them with its sequence, and whether changes before them are gone. None: the
    /// store is closed. Waits for so long if there are none.
    fn next<'py>(&self, py: Python<'py>, wait_ms: u64) -> PyResult<Option<Page<'py>>> {
        let next = py.detach(|| self.reader.lock().next(Duration::from_millis(wait_ms))).map_err(store_error)?;
        Ok(next.map(|ReplicatedChanges { found, after, sequence, lost }| {
            let row = |change: ReplicatedChange| {
                let ReplicatedChange { key, name, version_id, time_ms, size } = change;
                (PyBytes::new(py, &key), name.as_str(), version_id, time_ms, size)
            };
            (found.into_iter().map(row).collect(), after, sequence, lost)
        }))
    }

    /// Tells the targets of notifications that a key could not be copied to a destination, since when, and why. `version` is
    /// empty for the current one.
    #[expect(clippy::too_many_arguments, reason = "what an event says")]
    fn tell_failed(
        &self,
        py: Python<'_>,
        key: Vec<u8>,
        version: &str,
        destination: String,
        is_marker: bool,
        since_ms: u64,
        reason: String,
    ) -> PyResult<()> {
        py.detach(|| {
            let Some((streams, bucket)) = self.reader.lock().streams() else { return Ok(()) };
            let operation = if is_marker { "OBJECT_DELETE" } else { "OBJECT_PUT" };
            let failed = FailedCopy { destination, operation, reason, ..FailedCopy::default() };
            streams.tell_failed_copy(bucket, Bytes::from(key), version, since_ms, failed)
        })
        .map_err(store_error)
    }
}
