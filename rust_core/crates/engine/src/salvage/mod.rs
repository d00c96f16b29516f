//! Opens what is left of a store for reading, whatever is missing: log files, packs, headers, keys, the index.
//!
//! Invariants. Nothing in the store's directory is written: the file system refuses it, and the index is a private one.
//! Only intact records and blocks are served, and before the first request every object was read and compared with its
//! entity tag. Objects that are incomplete are listed, and so are those that a lost record may have deleted or
//! replaced.

mod verify;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::options::{EngineOptions, Environment};
use crate::opening::open::{Assembly, Engine, read_only};
use crate::opening::recover::{index_options, load_buckets};
use crate::upkeep::Upkeep;
use orcas_base::error::{Error, Result};
use orcas_catalog::BucketTable;
use orcas_chunks::{PackOptions, PackSalvage};
use orcas_fs::FileSystem;
use orcas_fs::read_only::ReadOnlyFileSystem;
use orcas_fs::scratch::ScratchDir;
use orcas_fsck::{FINDINGS_MAX, Finding, FindingKind, INDEX_NAME, Loss, SalvageSource, Survey, check_formats};
use orcas_index::{Index, IndexOptions};
use orcas_log::{LogOptions, LogPosition, LogReader, LogSalvage};
use orcas_record::Sequence;
use orcas_store::StoreKeys;
use orcas_store::ballast::Ballast;

/// The reason why writes fail.
const REASON: &str = "it was opened for salvage";

/// The findings of a salvage.
#[derive(Clone, Debug)]
pub struct SalvageReport {
    /// Whether the store's keys are there. Without them records cannot be authenticated: only checksums are verified.
    pub keys: bool,
    pub source: SalvageSource,
    pub findings: Vec<Finding>,
    pub findings_total: u64,
    /// Versions that cannot be read whole, ordered by the sequence of their records.
    pub losses: Vec<Loss>,
    pub losses_total: u64,
    /// Objects that can be read whole, with the older versions of them, and their bytes.
    pub whole: u64,
    pub whole_bytes: u64,
    /// Records that were read, and those of them whose batch proves that this store wrote it.
    pub records: u64,
    pub authenticated: u64,
    /// Records that are gone, first to last.
    pub gone: Vec<(Sequence, Sequence)>,
    pub gone_total: u64,
    /// Objects that may have been deleted or replaced by a record that is gone.
    pub doubtful: u64,
    /// Doubtful objects that such a record seems to name.
    pub named: Vec<(String, Bytes)>,
    /// Versions that had been deleted for sure, although the record that deleted them is gone; they are not shown.
    pub deleted: u64,
    /// Names of buckets that were made up because the real ones are gone.
    pub made_up: Vec<String>,
    pub log_files: u64,
    pub packs: u64,
    pub seconds: f64,
}

impl SalvageReport {
    /// Everything is there.
    pub fn is_whole(&self) -> bool {
        self.losses_total == 0 && self.gone_total == 0 && self.findings.iter().all(|finding| !finding.kind.is_damage())
    }
}

/// Opens a store for reading. `owner` is shown as the owner of every bucket. Blocking: it reads everything.
///
/// # Errors
/// [`Error::Missing`] when there is no store, [`Error::Version`] when it is of another format, [`Error::Locked`] when it is
/// open elsewhere, [`Error::Corrupt`] when not
/// one record is left, and what kept the salvage from going on.
pub fn salvage_store(
    options: EngineOptions,
    environment: Environment,
    owner: &Bytes,
) -> Result<(Engine, SalvageReport)> {
    let started = Instant::now();
    let fs: Arc<dyn FileSystem> = Arc::new(ReadOnlyFileSystem::new(Arc::clone(&environment.fs)));
    let data = options.data.clone();
    check_formats(&fs, &data)?;
    let lock = lock(&*fs, &data)?;
    let mut site = Survey::of(fs, &data)?;
    let scratch = ScratchDir::new()?;
    let (log_dir, pack_dir) = (data.join("log"), data.join("chunks"));
    let commit_key = site.keys.as_ref().map(|keys| keys.commit_key);
    let log = LogSalvage::survey(Arc::clone(&site.fs), &log_dir, site.store_id, commit_key.as_ref())?;
    site.find(FindingKind::LogFile, &log.findings);
    let private = IndexOptions { synchronous_off: true, ..index_options(&options, None) };
    let (index, source, mut outcome) = site.index(&log, (&environment.index, private), &scratch, owner)?;
    site.findings.append(&mut outcome.findings);
    let packs = PackSalvage::survey(&*site.fs, &pack_dir, site.store_id)?;
    site.find(FindingKind::Pack, &packs.findings);
    let pack_count = packs.count();
    let log_options = LogOptions {
        dir: log_dir,
        store_id: site.store_id,
        commit_key: commit_key.unwrap_or_default(),
        file_size: options.log_file_size,
        established: true,
        random: Arc::clone(&environment.random),
    };
    let pack_options = PackOptions {
        dir: pack_dir,
        store_id: site.store_id,
        pack_size: options.pack_size,
        random: Arc::clone(&environment.random),
    };
    let parts = Assembly {
        logs: None,
        log_reader: LogReader::salvaged(Arc::clone(&site.fs), log_options.clone(), log.contexts()),
        spares: log.spare_maker(log_options),
        packs: packs.open(Arc::clone(&site.fs), pack_options),
        ballast: Ballast::none(Arc::clone(&site.fs), &data),
        keys: site.keys.clone().unwrap_or_else(|| StoreKeys::lost(site.store_id)),
        buckets: buckets_of(&index, owner)?,
        position: LogPosition::ORIGIN,
        upkeep: Upkeep::pair().0,
        clock: environment.clock,
        random: environment.random,
        fs: Arc::clone(&site.fs),
        index,
    };
    let has_keys = site.keys.is_some();
    let engine = read_only(options, parts, lock, scratch, REASON);
    let verified = verify::run(&engine.handle(), &outcome)?;
    let findings_total = site.findings.len() as u64;
    site.findings.truncate(FINDINGS_MAX);
    let report = SalvageReport {
        keys: has_keys,
        source,
        findings: site.findings,
        findings_total,
        losses: verified.losses,
        losses_total: verified.losses_total,
        whole: verified.whole,
        whole_bytes: verified.whole_bytes,
        records: outcome.counted.records,
        authenticated: outcome.counted.authenticated,
        gone_total: outcome.gone.iter().map(|(first, last)| last - first + 1).sum(),
        gone: outcome.gone,
        doubtful: verified.doubtful,
        named: verified.named,
        deleted: verified.deleted,
        made_up: outcome.made_up,
        log_files: outcome.counted.files,
        packs: pack_count,
        seconds: started.elapsed().as_secs_f64(),
    };
    Ok((engine, report))
}

/// The lock is only asked for where there is something of a store.
fn lock(fs: &dyn FileSystem, data: &Path) -> Result<Box<dyn Send + Sync>> {
    let of_store = |name: &String| ["log", "chunks", "store.keys", "store.keys.copy", INDEX_NAME].contains(&&name[..]);
    if !fs.list(data).is_ok_and(|names| names.iter().any(of_store)) {
        return Err(Error::Missing { path: data.join("log") });
    }
    fs.lock(&data.join("store.lock"))
}

/// All buckets as `owner`'s: whoever salvages a store sees all of it.
fn buckets_of(index: &Index, owner: &Bytes) -> Result<BucketTable> {
    let found = load_buckets(index)?;
    let mut table = found.clone();
    for bucket in found.all() {
        let bucket = orcas_record::Bucket { owner: owner.clone(), ..(**bucket).clone() };
        table.insert(Arc::new(bucket));
    }
    Ok(table)
}
