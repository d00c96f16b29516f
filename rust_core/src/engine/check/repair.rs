//! Builds the index of a closed store anew, from the log. What is lost in log or packs nothing can bring back: then the
//! report says so and the store stays as it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::{Engine, EngineOptions, Environment, IndexPlace};
use super::store::{INDEX_NAME, check_locked, check_store, lock};
use super::{CheckOptions, CheckProgress, CheckReport, FindingKind, IndexState};
use crate::error::Result;
use crate::fs::FileSystem;

/// What the files of an index are called after its name.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];
const KEPT: &str = "index.db.before-repair";

/// Checks the store and, when its log is whole and its index is not what the log says, builds the index anew and
/// checks again. The old index is kept as `index.db.before-repair` until the new one has passed. Also mends a copy of
/// the keys.
///
/// # Errors
/// As [`check_store`] and [`Engine::open`]. When the new index cannot be built the old one is back in its place.
pub fn repair_store(options: EngineOptions, environment: Environment, progress: &CheckProgress) -> Result<CheckReport> {
    let how = CheckOptions { read_content: true, threads: 0, bytes_per_sec: 0 };
    let (fs, data) = (Arc::clone(&environment.fs), options.data.clone());
    let lock = lock(&fs, &data)?;
    let found = check_locked(&fs, &data, &how, progress)?;
    if !can_be_repaired(&found) {
        return Ok(found);
    }
    let in_file = matches!(environment.index, IndexPlace::File);
    let moved = if in_file && found.index != IndexState::Equal { set_aside(&fs, &data)? } else { Vec::new() };
    // Opening takes the lock itself. Whoever comes first meanwhile builds the same index.
    drop(lock);
    if let Err(error) = Engine::open(options, environment).and_then(Engine::close) {
        put_back(&fs, &data, &moved)?;
        return Err(error);
    }
    let again = check_store(&fs, &data, &how, progress)?;
    if again.index == IndexState::Equal {
        for (_, kept) in &moved {
            fs.remove(kept)?;
        }
        fs.sync_dir(&data)?;
    }
    Ok(again)
}

/// Whether the log and the headers of all packs are whole, and there is something to mend.
fn can_be_repaired(found: &CheckReport) -> bool {
    let stands_in_the_way = |kind| {
        matches!(kind, FindingKind::LogFile | FindingKind::LogRecord | FindingKind::Pack | FindingKind::Manifest)
    };
    let keys = found.findings.iter().any(|finding| finding.kind == FindingKind::Keys);
    let blocked = found.findings.iter().any(|finding| stands_in_the_way(finding.kind));
    !blocked && (keys || found.index != IndexState::Equal) && found.log_files > 0
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
