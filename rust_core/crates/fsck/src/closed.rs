//! A check of a store that is not open: takes the lock and changes nothing.

use std::path::Path;
use std::sync::Arc;

use super::collect::Collector;
use super::journal::check_journal;
use super::owners::Owners;
use super::present::copy_index;
use super::subject::Subject;
use super::{AuthTagCounts, CheckOptions, CheckProgress, CheckReport, FindingKind, IndexState, Phase};
use crate::sealed::tags::AuthTagCheck;
use orcas_base::error::{Error, Result};
use orcas_chunks::PackOptions;
use orcas_fs::FileSystem;
use orcas_fs::real::SystemRandom;
use orcas_fs::scratch::ScratchDir;
use orcas_log::LogOptions;
use orcas_store::{ContentKeys, StoreKeys};

/// Checks the store in `data`, which nobody may have open, and with `keys` also the authentication tags of what is
/// sealed. Blocking: it reads everything.
///
/// # Errors
/// [`Error::Missing`] when there is no store, [`Error::Locked`] when somebody has it open, and what kept the check
/// from going on. Damage is no error: it is in the report.
pub fn check_store(
    fs: &Arc<dyn FileSystem>,
    data: &Path,
    options: &CheckOptions,
    keys: Option<&dyn ContentKeys>,
    progress: &CheckProgress,
) -> Result<CheckReport> {
    let _lock = lock(fs, data)?;
    check_locked(fs, data, options, keys, progress)
}

/// Whether the files of a store are of the formats that are known here. Whoever opens a store asks first, because a file of
/// another format looks like a damaged one to all who read on. Looks at headers alone, and needs no lock. What is missing or
/// cannot be read is left to those who read on.
///
/// # Errors
/// [`Error::Version`] for the first file whose intact header has another version.
pub fn check_formats(fs: &Arc<dyn FileSystem>, data: &Path) -> Result<()> {
    StoreKeys::check_formats(fs, data)?;
    orcas_log::check_formats(&**fs, &data.join("log"))?;
    orcas_chunks::check_formats(&**fs, &data.join("chunks"))
}

/// The lock is only asked for where there is a store: asking makes a file.
///
/// # Errors
/// [`Error::Missing`] when there is no store, [`Error::Version`] when it is of another format, [`Error::Locked`] when
/// somebody has it open.
pub fn lock(fs: &Arc<dyn FileSystem>, data: &Path) -> Result<Box<dyn Send + Sync>> {
    let is_store = fs.list(data).is_ok_and(|names| names.iter().any(|name| name == "log" || name == "store.keys"));
    if !is_store {
        return Err(Error::Missing { path: data.join("log") });
    }
    check_formats(fs, data)?;
    fs.lock(&data.join("store.lock"))
}

/// The check while the lock is held.
///
/// # Errors
/// As [`check_store`].
pub fn check_locked(
    fs: &Arc<dyn FileSystem>,
    data: &Path,
    options: &CheckOptions,
    keys: Option<&dyn ContentKeys>,
    progress: &CheckProgress,
) -> Result<CheckReport> {
    progress.enter(Phase::Start);
    let collector = Collector::new(options, progress, data.to_owned());
    let tags = AuthTagCheck::new(keys);
    let Some(keys) = check_keys(&collector, fs, data) else {
        return Ok(without_keys(&collector));
    };
    let scratch = ScratchDir::new()?;
    let present = copy_index(&collector, data, &scratch, keys.store_id)?;
    let (log, packs) = places(data, &keys);
    if fs.list(&log.dir).is_err() {
        return Err(Error::Missing { path: log.dir });
    }
    check_journal(&collector, &**fs, data);
    let fs = Arc::clone(fs);
    let (owners, scratch, collector) = (Owners::new(keys), &scratch, &collector);
    Subject { fs, log, packs, owners, present, end: None, live: None, scratch, tags, options, collector }.check()
}

/// Where log and packs of a store are, and how to read them.
pub fn places(data: &Path, keys: &StoreKeys) -> (LogOptions, PackOptions) {
    let random = Arc::new(SystemRandom);
    let log = LogOptions {
        dir: data.join("log"),
        store_id: keys.store_id,
        commit_key: keys.commit_key,
        file_size: orcas_log::FILE_SIZE,
        established: true,
        random: Arc::clone(&random) as _,
    };
    let pack_size = orcas_chunks::PACK_SIZE;
    (log, PackOptions { dir: data.join("chunks"), store_id: keys.store_id, pack_size, random })
}

/// The keys, if one of the copies can be read.
fn check_keys(collector: &Collector<'_>, fs: &Arc<dyn FileSystem>, data: &Path) -> Option<StoreKeys> {
    let copies = StoreKeys::inspect(fs, data);
    for (path, read) in &copies {
        if let Err(error) = read {
            let detail = match error {
                Error::Missing { .. } => "this copy of the store's keys is missing".to_owned(),
                Error::Corrupt { .. } => "this copy of the store's keys is damaged".to_owned(),
                error => error.to_string(),
            };
            collector.find(FindingKind::Keys, path.display().to_string(), detail);
        }
    }
    let [(path, first), (_, second)] = copies;
    if let (Ok(first), Ok(second)) = (&first, &second)
        && !first.is_same(second)
    {
        let detail = "the two copies of the store's keys differ";
        collector.find(FindingKind::Keys, path.display().to_string(), detail);
    }
    first.or(second).ok()
}

/// Without keys nothing can be verified.
fn without_keys(collector: &Collector<'_>) -> CheckReport {
    let found = collector.findings();
    CheckReport {
        findings: found.listed,
        findings_total: found.total,
        groups: found.groups,
        affected: found.affected,
        affected_total: found.affected_total,
        losses: Vec::new(),
        losses_total: 0,
        blobs: 0,
        bytes: 0,
        log_files: 0,
        packs: 0,
        tags: AuthTagCounts::default(),
        index: IndexState::NotCompared { why: "without the store's keys nothing can be verified".to_owned() },
        seconds: collector.seconds(),
    }
}
