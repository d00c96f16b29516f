//! The index that the store has, as a check sees it: a private copy, which may be changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::FindingKind;
use super::collect::Collector;
use orcas_base::error::{Error, Result};
use orcas_fs::scratch::ScratchDir;
use orcas_index::{Index, IndexOptions};
use orcas_log::LogPosition;
use orcas_record::Sequence;

/// The file of the index.
pub const INDEX_NAME: &str = "index.db";
const WAL_SUFFIX: &str = "-wal";
/// The name of the copy in the scratch directory.
pub(super) const COPY_NAME: &str = "present.db";

/// A private copy of the store's index.
pub(super) struct Copied {
    pub index: Index,
    pub position: Option<LogPosition>,
}

impl Copied {
    /// The last record that it holds.
    pub fn applied(&self) -> Sequence {
        self.position.as_ref().map_or(0, |position| position.sequence)
    }
}

pub(super) enum PresentIndex {
    Copied(Copied),
    Absent,
    Unreadable(String),
}

/// Readers of a private index: one for each thread and some for the scans.
pub(super) fn private_options(path: Option<&Path>) -> IndexOptions {
    IndexOptions {
        path: path.map(Path::to_owned),
        max_open: 72,
        max_idle: 8,
        lifetime: Duration::MAX,
        synchronous_off: true,
    }
}

pub(super) fn copy_index(
    collector: &Collector<'_>,
    data: &Path,
    scratch: &ScratchDir,
    store_id: [u8; 16],
) -> Result<PresentIndex> {
    if !scratch.copy_in(&data.join(INDEX_NAME), COPY_NAME)? {
        return Ok(PresentIndex::Absent);
    }
    scratch.copy_in(&data.join(format!("{INDEX_NAME}{WAL_SUFFIX}")), &format!("{COPY_NAME}{WAL_SUFFIX}"))?;
    open_copy(collector, scratch.path().join(COPY_NAME), store_id)
}

/// Opens the copy of an index.
pub(super) fn open_copy(collector: &Collector<'_>, path: PathBuf, store_id: [u8; 16]) -> Result<PresentIndex> {
    let opened = Index::open(private_options(Some(&path)), store_id).and_then(|index| {
        let position = index.position()?.and_then(|position| LogPosition::decode(&position));
        Ok(Copied { index, position })
    });
    match opened {
        Ok(copied) => Ok(PresentIndex::Copied(copied)),
        Err(error @ (Error::Index { .. } | Error::IndexDamaged { .. } | Error::Foreign { .. })) => {
            Ok(unreadable(collector, &error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// An index that is there and cannot be read.
pub(super) fn unreadable(collector: &Collector<'_>, why: &str) -> PresentIndex {
    collector.find(FindingKind::Index, INDEX_NAME, format!("the index cannot be read: {why}"));
    PresentIndex::Unreadable(why.to_owned())
}
