//! Checks and repairs of a store, and their reports as dicts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::content_keys::KeyringKeys;
use super::keyring::{KeyringOptions, Opened, opened_in};
use super::options::{Options, environment};
use crate::errors::{StoreError, store_error};
use orcas_engine::{self as engine, LogPosition, Repaired, ScrubProgress};
use orcas_fsck::{self as fsck, CheckOptions, CheckReport, IndexState};
use orcas_store::ContentKeys;

/// The progress of a check, which any thread may read. Any thread may also cancel the check.
#[pyclass(frozen, module = "orcas._core")]
pub struct CheckProgress {
    inner: Arc<fsck::CheckProgress>,
}

impl CheckProgress {
    pub fn shared(&self) -> Arc<fsck::CheckProgress> {
        Arc::clone(&self.inner)
    }
}

#[pymethods]
impl CheckProgress {
    #[new]
    fn new() -> Self {
        Self { inner: Arc::default() }
    }

    #[getter]
    fn phase(&self) -> &'static str {
        self.inner.phase_name()
    }

    #[getter]
    fn done_bytes(&self) -> u64 {
        self.inner.done_bytes.load(Ordering::Relaxed)
    }

    #[getter]
    fn total_bytes(&self) -> u64 {
        self.inner.total_bytes.load(Ordering::Relaxed)
    }

    /// Makes the check fail as soon as it notices.
    fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::Relaxed);
    }
}

#[derive(IntoPyObject)]
struct Finding {
    kind: &'static str,
    damage: bool,
    place: String,
    detail: String,
}

#[derive(IntoPyObject)]
struct Group {
    kind: &'static str,
    damage: bool,
    area: String,
    cause: String,
    first: String,
    count: u64,
}

#[derive(IntoPyObject)]
struct Loss {
    bucket: String,
    key: Py<PyBytes>,
    version_id: Option<String>,
    upload: Option<String>,
    bytes: u64,
    reason: String,
}

#[derive(IntoPyObject)]
struct Index {
    state: &'static str,
    detail: Option<String>,
}

/// Sealed contents, chunks and metadata, and why the keyring was not open for them.
#[derive(IntoPyObject)]
struct Tags {
    verified: u64,
    of_customers: u64,
    without_key: u64,
    why: Option<String>,
}

/// A report of a check.
#[derive(IntoPyObject)]
pub struct Report {
    clean: bool,
    findings: Vec<Finding>,
    findings_total: u64,
    groups: Vec<Group>,
    affected: Vec<String>,
    affected_total: u64,
    losses: Vec<Loss>,
    losses_total: u64,
    blobs: u64,
    bytes: u64,
    log_files: u64,
    packs: u64,
    tags: Tags,
    index: Index,
    seconds: f64,
    given_up: Option<GivenUp>,
}

/// What a repair with accepted losses dropped.
#[derive(IntoPyObject)]
struct GivenUp {
    losses: Vec<Loss>,
    losses_total: u64,
    records: Vec<(u64, u64)>,
    buckets: Vec<String>,
    held: Vec<(String, u64)>,
    kept: Vec<String>,
}

impl From<IndexState> for Index {
    fn from(state: IndexState) -> Self {
        match state {
            IndexState::Equal => Self { state: "equal", detail: None },
            IndexState::Different { first } => Self { state: "different", detail: Some(first) },
            IndexState::Absent => Self { state: "absent", detail: None },
            IndexState::NotCompared { why } => Self { state: "not compared", detail: Some(why) },
        }
    }
}

impl From<fsck::Finding> for Finding {
    fn from(finding: fsck::Finding) -> Self {
        Self {
            kind: finding.kind.name(),
            damage: finding.kind.is_damage(),
            place: finding.place,
            detail: finding.detail,
        }
    }
}

impl From<fsck::Group> for Group {
    fn from(group: fsck::Group) -> Self {
        Self {
            kind: group.kind.name(),
            damage: group.kind.is_damage(),
            area: group.area,
            cause: group.cause,
            first: group.first,
            count: group.count,
        }
    }
}

/// Made while the GIL is held again.
fn losses(found: Vec<fsck::Loss>) -> Vec<Loss> {
    Python::attach(|py| {
        let loss = |loss: fsck::Loss| Loss {
            bucket: loss.bucket,
            key: PyBytes::new(py, &loss.key).unbind(),
            version_id: loss.version_id,
            upload: loss.upload,
            bytes: loss.bytes,
            reason: loss.reason,
        };
        found.into_iter().map(loss).collect()
    })
}

/// A report of a salvage.
#[derive(IntoPyObject)]
pub struct SalvageReport {
    whole_store: bool,
    keys: bool,
    source: &'static str,
    findings: Vec<Finding>,
    findings_total: u64,
    losses: Vec<Loss>,
    losses_total: u64,
    whole: u64,
    whole_bytes: u64,
    records: u64,
    authenticated: u64,
    gone: Vec<(u64, u64)>,
    gone_total: u64,
    doubtful: u64,
    named: Vec<(String, Py<PyBytes>)>,
    deleted: u64,
    made_up: Vec<String>,
    log_files: u64,
    packs: u64,
    seconds: f64,
}

impl From<engine::SalvageReport> for SalvageReport {
    fn from(report: engine::SalvageReport) -> Self {
        let named = Python::attach(|py| {
            let named = report.named.iter().map(|(bucket, key)| (bucket.clone(), PyBytes::new(py, key).unbind()));
            named.collect()
        });
        Self {
            whole_store: report.is_whole(),
            keys: report.keys,
            source: match report.source {
                engine::SalvageSource::Log => "log",
                engine::SalvageSource::Index => "index",
            },
            named,
            findings: report.findings.into_iter().map(Finding::from).collect(),
            findings_total: report.findings_total,
            losses: losses(report.losses),
            losses_total: report.losses_total,
            whole: report.whole,
            whole_bytes: report.whole_bytes,
            records: report.records,
            authenticated: report.authenticated,
            gone: report.gone,
            gone_total: report.gone_total,
            doubtful: report.doubtful,
            deleted: report.deleted,
            made_up: report.made_up,
            log_files: report.log_files,
            packs: report.packs,
            seconds: report.seconds,
        }
    }
}

impl Report {
    /// Of a check that was given this keyring.
    pub fn new(report: CheckReport, keyring: &Opened) -> Self {
        let why = match keyring {
            Opened::Absent if report.tags.without_key > 0 => {
                Some("keyring and keyring.copy are missing: restore them from a backup".to_owned())
            }
            Opened::Open(_) | Opened::Absent => None,
            Opened::Closed(why) => Some(why.clone()),
        };
        let fsck::AuthTagCounts { verified, of_customers, without_key } = report.tags;
        Self {
            tags: Tags { verified, of_customers, without_key, why },
            clean: report.is_clean(),
            findings: report.findings.into_iter().map(Finding::from).collect(),
            findings_total: report.findings_total,
            groups: report.groups.into_iter().map(Group::from).collect(),
            affected: report.affected,
            affected_total: report.affected_total,
            losses: losses(report.losses),
            losses_total: report.losses_total,
            blobs: report.blobs,
            bytes: report.bytes,
            log_files: report.log_files,
            packs: report.packs,
            index: report.index.into(),
            seconds: report.seconds,
            given_up: None,
        }
    }
}

/// A repair needs no keys.
impl From<Repaired> for Report {
    fn from(repaired: Repaired) -> Self {
        let given_up = repaired.given_up.map(|given_up| GivenUp {
            losses: losses(given_up.losses),
            losses_total: given_up.losses_total,
            records: given_up.records,
            buckets: given_up.buckets,
            held: given_up.held,
            kept: given_up.kept.iter().map(|path| path.display().to_string()).collect(),
        });
        let closed = Opened::Closed("a repair does not open the keyring".to_owned());
        Self { given_up, ..Self::new(repaired.report, &closed) }
    }
}

#[derive(IntoPyObject)]
struct ScrubDamage {
    place: String,
    detail: String,
}

/// The progress of the scrub.
#[derive(IntoPyObject)]
pub struct ScrubState {
    rate: u64,
    passes: u64,
    done_bytes: u64,
    total_bytes: u64,
    position: String,
    damaged: Vec<ScrubDamage>,
    damaged_total: u64,
    failed: Option<String>,
}

impl From<ScrubProgress> for ScrubState {
    fn from(progress: ScrubProgress) -> Self {
        let damage = |damage: engine::ScrubDamage| ScrubDamage { place: damage.place, detail: damage.detail };
        Self {
            rate: progress.rate,
            passes: progress.passes,
            done_bytes: progress.done_bytes,
            total_bytes: progress.total_bytes,
            position: progress.position,
            damaged: progress.damaged.into_iter().map(damage).collect(),
            damaged_total: progress.damaged_total,
            failed: progress.failed,
        }
    }
}

/// Whether the files of a store are of the formats that are known here; changes nothing, and takes no lock.
#[pyfunction]
pub fn check_formats(py: Python<'_>, data: PathBuf) -> PyResult<()> {
    let fs = environment().fs;
    py.detach(|| fsck::check_formats(&fs, &data).and_then(|()| orcas_keyring::check_formats(&fs, &data)))
        .map_err(|error| StoreError::new_err(format!("{error}{}", error.advice())))
}

/// Reads a copied log behind the position `from`, or all of it, for what the records behind `after` name in packs: the
/// position of its end, and names of packs with the bytes to copy. `given_up` are files that count as gone. Blocks.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "rows for Python")]
pub fn chunks_named(
    py: Python<'_>,
    data: PathBuf,
    given_up: Vec<String>,
    from: Option<Vec<u8>>,
    after: u64,
) -> PyResult<(Vec<u8>, Vec<(String, u64, Option<u64>)>)> {
    py.detach(|| {
        let from = from.and_then(|bytes| LogPosition::decode(&bytes));
        let found = orcas_engine::chunks_named(&environment(), &data, &given_up, from.as_ref(), after)?;
        let ranges = found.ranges.into_iter().map(|(name, (start, end))| (name, start, end)).collect();
        Ok((found.end.encode().to_vec(), ranges))
    })
    .map_err(store_error)
}

/// Checks a store that is not open, with its keyring if that opens, and changes nothing. Blocks.
#[pyfunction]
pub fn check_store(
    py: Python<'_>,
    data: PathBuf,
    keyring: KeyringOptions,
    progress: &CheckProgress,
    read_content: bool,
    threads: usize,
    bytes_per_sec: u64,
) -> PyResult<Report> {
    let options = CheckOptions { read_content, threads, bytes_per_sec };
    let progress = progress.shared();
    py.detach(|| {
        let keyring = opened_in(&data, keyring)?;
        let keys = match &keyring {
            Opened::Open(keyring) => Some(KeyringKeys(Arc::clone(keyring))),
            Opened::Absent | Opened::Closed(_) => None,
        };
        let keys = keys.as_ref().map(|keys| keys as &dyn ContentKeys);
        let checked = fsck::check_store(&environment().fs, &data, &options, keys, &progress);
        checked.map(|report| Report::new(report, &keyring)).map_err(store_error)
    })
}

/// Rebuilds the index of a store that is not open from its log, if that is needed and possible. With `accept_loss`, a
/// damaged log is rewritten first. Blocks.
#[pyfunction]
pub fn repair_store(
    py: Python<'_>,
    settings: Options,
    progress: &CheckProgress,
    accept_loss: bool,
) -> PyResult<Report> {
    let engine_options = settings.engine()?;
    let progress = progress.shared();
    let repaired = py.detach(|| engine::repair_store(engine_options, environment(), &progress, accept_loss));
    repaired.map(Report::from).map_err(store_error)
}
