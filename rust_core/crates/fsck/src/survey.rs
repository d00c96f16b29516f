//! What is known of a store that does not open before its records are read, and the index from which it can be served.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::present::INDEX_NAME;
use super::salvage::{Base, ReplayOutcome, replay_rest};
use super::{Finding, FindingKind};
use orcas_base::error::{Error, Result};
use orcas_fs::FileSystem;
use orcas_fs::scratch::ScratchDir;
use orcas_index::{Index, IndexOptions, IndexPlace};
use orcas_log::{self as log, LogPosition, LogSalvage};
use orcas_store::StoreKeys;

const WAL_SUFFIX: &str = "-wal";
const COPY_NAME: &str = "present.db";
const REBUILT_NAME: &str = "rebuilt.db";
/// An index of a log that is not larger is built in memory, bytes.
const IN_MEMORY_MAX: u64 = 256 << 20;

/// The source of what is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SalvageSource {
    /// From the records of the log alone.
    Log,
    /// From the index, which was whole, and the records behind it.
    Index,
}

/// What is left of a store beside its records.
pub struct Survey {
    pub fs: Arc<dyn FileSystem>,
    pub keys: Option<StoreKeys>,
    pub store_id: [u8; 16],
    pub findings: Vec<Finding>,
    data: PathBuf,
}

impl Survey {
    /// # Errors
    /// When a directory of the store cannot be listed.
    pub fn of(fs: Arc<dyn FileSystem>, data: &Path) -> Result<Self> {
        let mut ids: HashMap<[u8; 16], u64> = log::store_ids(&*fs, &data.join("log"))?;
        for (id, count) in orcas_chunks::store_ids(&*fs, &data.join("chunks"))? {
            *ids.entry(id).or_default() += count;
        }
        let likely = ids.iter().max_by_key(|(_, count)| **count).map(|(id, _)| *id);
        let mut findings = Vec::new();
        let mut keys: Option<StoreKeys> = None;
        for (path, read) in StoreKeys::inspect(&fs, data) {
            let detail = match read {
                Ok(read) if likely.is_none_or(|likely| read.store_id == likely) => {
                    keys.get_or_insert(read);
                    continue;
                }
                Ok(_) => "these are the keys of another store".to_owned(),
                Err(Error::Missing { .. }) => "this copy of the store's keys is missing".to_owned(),
                Err(Error::Corrupt { .. }) => "this copy of the store's keys is damaged".to_owned(),
                Err(error) => error.to_string(),
            };
            findings.push(Finding { kind: FindingKind::Keys, place: path.display().to_string(), detail });
        }
        let store_id = keys.as_ref().map(|keys| keys.store_id).or(likely).unwrap_or_default();
        Ok(Self { fs, keys, store_id, findings, data: data.to_owned() })
    }

    pub fn find(&mut self, kind: FindingKind, found: &[(PathBuf, String)]) {
        self.findings.extend(found.iter().map(|(path, detail)| Finding {
            kind,
            place: path.display().to_string(),
            detail: detail.clone(),
        }));
    }

    /// The private index from which the store is served: that of the log, unless the log lacks something that the
    /// store's own index, at `place`, still knows. `options` are those of an index in memory.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when not one record is left, and what reading the log or writing the index ran into.
    pub fn index(
        &mut self,
        log: &LogSalvage,
        (place, options): (&IndexPlace, IndexOptions),
        scratch: &ScratchDir,
        owner: &Bytes,
    ) -> Result<(Index, SalvageSource, ReplayOutcome)> {
        let present = self.present_index(place, scratch);
        let path = (log.bytes() > IN_MEMORY_MAX).then(|| scratch.path().join(REBUILT_NAME));
        let index = Index::open(IndexOptions { path, ..options }, self.store_id)?;
        let from_log = replay_rest(log, &index, Base::Nothing, owner);
        if let Some((present, position)) = present {
            let lacks = from_log.as_ref().map_or(true, |outcome| {
                !outcome.gone.is_empty() || outcome.unreadable || outcome.torn || outcome.last < position.sequence
            });
            // Compaction drops what ended something once that is gone from the index: an older index would keep it.
            if lacks
                && position.sequence >= log.compacted_up_to()
                && present.integrity_check().is_ok()
                && let Ok(outcome) = replay_rest(log, &present, Base::Index(position), owner)
            {
                return Ok((present, SalvageSource::Index, outcome));
            }
        }
        let outcome = from_log?;
        match outcome.counted.records {
            0 => Err(Error::corrupt(log.dir(), 0, "no record of the log can be read, and no index stands in for it")),
            _ => Ok((index, SalvageSource::Log, outcome)),
        }
    }

    /// A private copy of the store's index, and the last record that it has applied.
    fn present_index(&mut self, place: &IndexPlace, scratch: &ScratchDir) -> Option<(Index, LogPosition)> {
        let opened = match place {
            IndexPlace::Memory(None) => return None,
            IndexPlace::Memory(Some(serialized)) => Index::open_serialized(serialized, self.store_id),
            IndexPlace::File => {
                let copied = scratch.copy_in(&self.data.join(INDEX_NAME), COPY_NAME).and_then(|copied| {
                    let wal = format!("{INDEX_NAME}{WAL_SUFFIX}");
                    scratch.copy_in(&self.data.join(wal), &format!("{COPY_NAME}{WAL_SUFFIX}"))?;
                    Ok(copied)
                });
                match copied {
                    Ok(true) => Index::open(copy_options(scratch), self.store_id),
                    Ok(false) => return None,
                    Err(error) => Err(error),
                }
            }
        };
        let found = opened.and_then(|index| {
            let position = index.position()?.and_then(|position| LogPosition::decode(&position));
            Ok(position.map(|position| (index, position)))
        });
        found.unwrap_or_else(|error| {
            let detail = format!("the index cannot be read: {error}");
            self.findings.push(Finding { kind: FindingKind::Index, place: INDEX_NAME.to_owned(), detail });
            None
        })
    }
}

/// Readers of the copy: as many as requests may need at a time.
fn copy_options(scratch: &ScratchDir) -> IndexOptions {
    IndexOptions {
        path: Some(scratch.path().join(COPY_NAME)),
        max_open: 32,
        max_idle: 8,
        lifetime: Duration::MAX,
        synchronous_off: true,
    }
}
