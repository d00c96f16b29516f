//! Rebuilds the index of a closed store from the log. What is lost in the log or in packs cannot be restored: then the
//! report says so and the store stays as it is, unless the caller accepts the loss.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open::Engine;
use crate::options::{EngineOptions, Environment};
use orcas_base::error::Result;
use orcas_fs::FileSystem;
use orcas_fsck::{
    CheckOptions, CheckProgress, CheckReport, Finding, FindingKind, GivenUp, INDEX_NAME, IndexState, check_locked,
    check_store, lock, rewrite_log,
};
use orcas_index::IndexPlace;
use orcas_journal::discard;
use orcas_store::StoreKeys;

/// The suffixes of the files of an index after its name.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];
const KEPT: &str = "index.db.before-repair";

/// The result of a repair.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The report of the last check.
    pub report: CheckReport,
    /// The losses that were accepted, if the log had to be rewritten.
    pub given_up: Option<GivenUp>,
}

/// Checks the store and, when its log is whole and its index is not what the log says, rebuilds the index and
/// checks again. The old index is kept as `index.db.before-repair` until the new one has passed. Also repairs a copy of
/// the keys. With `accept_loss`, a log or pack headers that are damaged are no obstacle: the log is rewritten without
/// what is lost.
///
/// # Errors
/// As [`check_store`] and [`Engine::open`]. When the new index cannot be built the old one is back in its place.
pub fn repair_store(
    options: EngineOptions,
    environment: Environment,
    progress: &CheckProgress,
    accept_loss: bool,
) -> Result<Repaired> {
    let how = CheckOptions { read_content: true, threads: 0, bytes_per_sec: 0 };
    let (fs, data) = (Arc::clone(&environment.fs), options.data.clone());
    let lock = lock(&fs, &data)?;
    let found = check_locked(&fs, &data, &how, None, progress)?;
    let mut given_up = None;
    if !can_be_repaired(&found) {
        let keys = StoreKeys::inspect(&fs, &data).into_iter().find_map(|(_, read)| read.ok());
        let Some(keys) = keys.filter(|_| accept_loss && found.findings.iter().any(is_in_the_way)) else {
            return Ok(Repaired { report: found, given_up });
        };
        // The new log gives sequences again that events have had.
        discard(&*fs, &data)?;
        given_up = Some(rewrite_log(&fs, &data, &keys, (&how, progress))?);
    }
    let in_file = matches!(environment.index, IndexPlace::File);
    let renewed = given_up.is_some() || found.index != IndexState::Equal;
    let moved = if in_file && renewed { set_aside(&fs, &data)? } else { Vec::new() };
    // Opening takes the lock itself. Whoever comes first meanwhile builds the same index.
    drop(lock);
    if let Err(error) = Engine::open(options, environment).and_then(Engine::close) {
        put_back(&fs, &data, &moved)?;
        return Err(error);
    }
    let report = check_store(&fs, &data, &how, None, progress)?;
    if report.index == IndexState::Equal {
        for (_, kept) in &moved {
            fs.remove(kept)?;
        }
        fs.sync_dir(&data)?;
    }
    Ok(Repaired { report, given_up })
}

/// Whether the log and the headers of all packs are whole, and there is something to repair.
fn can_be_repaired(found: &CheckReport) -> bool {
    let keys = found.findings.iter().any(|finding| finding.kind == FindingKind::Keys);
    let blocked = found.findings.iter().any(is_in_the_way);
    !blocked && (keys || found.index != IndexState::Equal) && found.log_files > 0
}

fn is_in_the_way(finding: &Finding) -> bool {
    use FindingKind::{LogFile, LogRecord, Manifest, Pack};
    matches!(finding.kind, LogFile | LogRecord | Pack | Manifest)
}

/// Moves the files of the index out of the way.
fn set_aside(fs: &Arc<dyn FileSystem>, data: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let present = fs.list(data)?;
    let mut moved = Vec::new();
    for suffix in SUFFIXES {
        let (name, kept) = (format!("{INDEX_NAME}{suffix}"), data.join(format!("{KEPT}{suffix}")));
        if present.contains(&name) {
            fs.rename(&data.join(&name), &kept)?;
            moved.push((data.join(name), kept));
        }
    }
    fs.sync_dir(data)?;
    Ok(moved)
}

fn put_back(fs: &Arc<dyn FileSystem>, data: &Path, moved: &[(PathBuf, PathBuf)]) -> Result<()> {
    let Ok(_lock) = lock(fs, data) else { return Ok(()) };
    let present = fs.list(data)?;
    if moved.is_empty() {
        return Ok(());
    }
    for suffix in SUFFIXES {
        let name = format!("{INDEX_NAME}{suffix}");
        if present.contains(&name) {
            fs.remove(&data.join(name))?;
        }
    }
    for (path, kept) in moved {
        fs.rename(kept, path)?;
    }
    fs.sync_dir(data)
}
