//! What a start does before anybody is served: the index is brought up to date with the log, or built from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::EngineOptions;
use super::open::{IndexPlace, Replayed};
use crate::error::{Error, Result};
use crate::fs::FileSystem;
use crate::index::{Applied, BlobLocation, Index, IndexOptions, Writer};
use crate::log::{CONTENT_PREFIX, Log, LogOptions, LogPosition, RecoverError, RecoveredBatch, recover};
use crate::record::{self, Record};

/// Records that go into the index in one piece during a replay.
const REPLAY_RECORDS: usize = 16_384;

/// Opens the index, or a fresh one in its place.
pub(super) struct IndexOpener<'a> {
    pub options: &'a EngineOptions,
    pub place: IndexPlace,
    pub path: PathBuf,
    pub store_id: [u8; 16],
}

impl IndexOpener<'_> {
    fn open(&self, fresh: bool) -> Result<Index> {
        let file = matches!(self.place, IndexPlace::File);
        let options = IndexOptions {
            path: file.then(|| self.path.clone()),
            max_open: self.options.db_max_open,
            max_idle: if self.options.pooling_enabled { self.options.db_max_idle } else { 0 },
            lifetime: self.options.db_lifetime,
            synchronous_off: self.options.durability == record::Durability::UnsafeNone,
        };
        match &self.place {
            IndexPlace::Memory(Some(snapshot)) if !fresh => Index::open_serialized(snapshot, self.store_id),
            IndexPlace::Memory(_) => Index::open(options, self.store_id),
            IndexPlace::File => {
                if fresh {
                    Index::destroy(&self.path)?;
                }
                Index::open(options, self.store_id)
            }
        }
    }
}

/// What a start has found.
pub(super) struct Recovery {
    pub index: Index,
    pub writer: Writer,
    pub log: Log,
    pub replayed: Replayed,
}

/// Brings the index up to date with the log, or builds it anew when it cannot be read or does not fit.
pub(super) fn recover_index(fs: &Arc<dyn FileSystem>, log: &LogOptions, opener: &IndexOpener<'_>) -> Result<Recovery> {
    match opener.open(false) {
        Ok(index) => {
            let position = index.position()?.and_then(|position| LogPosition::decode(&position));
            match replay(fs, log, &index, position.as_ref()) {
                Ok((writer, log, replayed)) => return Ok(Recovery { index, writer, log, replayed }),
                Err(RecoverError::NoMatchingPosition) => {}
                // An index that fell back to before a compaction meets records without what they refer to.
                Err(RecoverError::Failed(Error::Index { .. })) => {}
                Err(RecoverError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Index { .. }) => {}
        Err(error) => return Err(error),
    }
    let index = opener.open(true)?;
    match replay(fs, log, &index, None) {
        Ok((writer, log, replayed)) => {
            // A new store has no index either, and nothing to build it from.
            let replayed = Replayed { index_rebuilt: replayed.records > 0, ..replayed };
            Ok(Recovery { index, writer, log, replayed })
        }
        Err(RecoverError::NoMatchingPosition) => Err(Error::corrupt(&log.dir, 0, "the log has no beginning")),
        Err(RecoverError::Failed(error)) => Err(error),
    }
}

fn replay(
    fs: &Arc<dyn FileSystem>,
    log: &LogOptions,
    index: &Index,
    from: Option<&LogPosition>,
) -> Result<(Writer, Log, Replayed), RecoverError> {
    let mut writer = index.writer()?;
    if from.is_none() {
        writer.begin_bulk()?;
    }
    let apply = |writer: &mut Writer, batches: &[RecoveredBatch]| match apply_recovered(writer, batches, &log.dir) {
        Err(Error::StorageFull) if from.is_some() => apply_one_by_one(index, writer, batches, &log.dir),
        done => done,
    };
    let mut waiting: Vec<RecoveredBatch> = Vec::new();
    let mut records = 0;
    let mut replayed = Replayed::default();
    let recovered = recover(Arc::clone(fs), log.clone(), from, &mut |batch| {
        replayed.batches += 1;
        replayed.records += batch.records.len() as u64;
        records += batch.records.len();
        waiting.push(batch);
        if records >= REPLAY_RECORDS {
            records = 0;
            apply(&mut writer, &std::mem::take(&mut waiting))?;
        }
        Ok(())
    })?;
    apply(&mut writer, &waiting)?;
    writer.end_bulk()?;
    replayed.torn_bytes = recovered.torn_bytes;
    Ok((writer, recovered.log, replayed))
}

/// For a disk without room for all batches in one transaction: each goes into the place that the index's write-ahead log
/// had for the one before.
fn apply_one_by_one(index: &Index, writer: &mut Writer, batches: &[RecoveredBatch], dir: &Path) -> Result<()> {
    for batch in batches.chunks(1) {
        match apply_recovered(writer, batch, dir) {
            Err(Error::StorageFull) => {
                index.checkpoint()?;
                apply_recovered(writer, batch, dir)?;
            }
            done => done?,
        }
    }
    Ok(())
}

fn apply_recovered(writer: &mut Writer, batches: &[RecoveredBatch], dir: &Path) -> Result<()> {
    let Some(last) = batches.last() else { return Ok(()) };
    let read: Vec<_> = batches.iter().flat_map(|batch| &batch.records).collect();
    let mut records = Vec::with_capacity(read.len());
    for recovered in &read {
        let decoded = record::decode(recovered.kind, &recovered.payload);
        records.push(decoded.map_err(|_| Error::corrupt(dir, recovered.frame_offset, "a record cannot be read"))?);
    }
    let applied: Vec<Applied<'_>> = read
        .iter()
        .zip(&records)
        .map(|(recovered, record)| Applied {
            sequence: recovered.sequence,
            kind: recovered.kind,
            record,
            payload: &recovered.payload,
            location: matches!(record, Record::Content { .. }).then(|| BlobLocation::Log {
                file: recovered.file,
                offset: recovered.frame_offset,
                length: (recovered.payload.len() - CONTENT_PREFIX) as u32,
            }),
        })
        .collect();
    writer.apply(&applied, &last.position.encode())
}
