//! Brings the index up to date with the log when a store is opened, or builds a new one beside the old one if that is
//! damaged, lost or does not match the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::health::faults::StorePart;
use crate::index_rebuild::mark::{REBUILT_NAME, is_marked, unmark};
use crate::options::EngineOptions;
use crate::state::EngineState;
use orcas_base::error::{Error, Result, StoreFault};
use orcas_catalog::BucketTable;
use orcas_fs::FileSystem;
use orcas_fsck::INDEX_NAME;
use orcas_index::{Applied, Index, IndexOptions, IndexPlace, Writer};
use orcas_log::{CONTENT_PREFIX, Log, LogOptions, LogPosition, RecoverError, RecoveredBatch, follow, recover};
use orcas_record::{self as record, BlobLocation, LogFileId, Record, Sequence};

/// Records that go into the index in one piece during a replay.
const REPLAY_RECORDS: usize = 16_384;

/// The work that a start had to do before it could serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Batches and records of the log that the index did not have.
    pub batches: u64,
    pub records: u64,
    /// Bytes behind the last batch that did not count: written, but never acknowledged.
    pub torn_bytes: u64,
    /// The index could not be used and was built from the log.
    pub index_rebuilt: bool,
    /// The last process did not close the store, whether there was anything to do or not.
    pub unclean: bool,
}

pub(crate) struct IndexOpener<'a> {
    pub options: &'a EngineOptions,
    pub place: IndexPlace,
    pub store_id: [u8; 16],
}

/// How an index at `path`, or in memory, is opened.
pub(crate) fn index_options(options: &EngineOptions, path: Option<PathBuf>) -> IndexOptions {
    IndexOptions {
        path,
        max_open: options.db_max_open_conns,
        max_idle: if options.pooling_enabled { options.db_max_idle_conns } else { 0 },
        lifetime: options.db_conn_max_lifetime,
        synchronous_off: options.durability == record::Durability::UnsafeNone,
    }
}

impl IndexOpener<'_> {
    fn path(&self) -> PathBuf {
        self.options.data.join(INDEX_NAME)
    }

    fn open(&self) -> Result<Index> {
        match &self.place {
            IndexPlace::Memory(Some(serialized)) => Index::open_serialized(serialized, self.store_id),
            IndexPlace::Memory(None) => Index::open(index_options(self.options, None), self.store_id),
            IndexPlace::File => self.open_at(self.path()),
        }
    }

    fn open_at(&self, path: PathBuf) -> Result<Index> {
        Index::open(index_options(self.options, Some(path)), self.store_id)
    }

    /// The index that is there, if it is not known to be damaged. What a start reads of it can be read.
    fn present(&self, fs: &dyn FileSystem) -> Result<Index> {
        if matches!(self.place, IndexPlace::File) {
            let data = &self.options.data;
            if fs.list(data)?.iter().any(|name| name.starts_with(REBUILT_NAME)) {
                // What a rebuild that did not come to its end has left.
                Index::destroy(&data.join(REBUILT_NAME))?;
            }
            if is_marked(fs, data)? {
                return Err(Error::IndexDamaged { reason: "the damage was found before the last shutdown".into() });
            }
        }
        let index = self.open()?;
        let reader = index.read()?;
        reader.position()?;
        reader.log_files()?;
        reader.packs()?;
        reader.highest_pack()?;
        drop(reader);
        load_buckets(&index)?;
        Ok(index)
    }
}

pub(crate) struct Recovery<L> {
    pub index: Index,
    pub writer: Writer,
    pub log: L,
    pub replayed: Replayed,
}

type Visit<'a> = &'a mut dyn FnMut(RecoveredBatch) -> Result<()>;

/// What passes the batches of a log after a position to a visitor, and what remains of the log then.
pub(crate) trait ReadLog: Sized {
    /// With the bytes of the torn tail.
    fn read(
        fs: Arc<dyn FileSystem>,
        log: LogOptions,
        applied: Option<&LogPosition>,
        visit: Visit<'_>,
    ) -> Result<(Self, u64), RecoverError>;
}

/// The log of this store, to be continued.
impl ReadLog for Log {
    fn read(
        fs: Arc<dyn FileSystem>,
        log: LogOptions,
        applied: Option<&LogPosition>,
        visit: Visit<'_>,
    ) -> Result<(Self, u64), RecoverError> {
        recover(fs, log, applied, visit).map(|recovered| (recovered.log, recovered.torn_bytes))
    }
}

/// The end of the copy of a log that another process continues.
impl ReadLog for LogPosition {
    fn read(
        fs: Arc<dyn FileSystem>,
        log: LogOptions,
        applied: Option<&LogPosition>,
        visit: Visit<'_>,
    ) -> Result<(Self, u64), RecoverError> {
        follow(fs, log, &[], applied, Sequence::MAX, visit).map(|end| (end, 0))
    }
}

/// Brings the index up to date with the log, or rebuilds it when it cannot be read or does not match the log.
pub(crate) fn recover_index<L: ReadLog>(
    fs: &Arc<dyn FileSystem>,
    log: &LogOptions,
    opener: &IndexOpener<'_>,
) -> Result<Recovery<L>> {
    // A new store has no index either, and nothing to build it from.
    let missing = matches!(opener.place, IndexPlace::File)
        && log.established
        && !fs.list(&opener.options.data)?.iter().any(|name| name == INDEX_NAME);
    if missing {
        // No warning, because a restored backup has no index.
        tracing::info!("The index is missing and is being rebuilt from the log");
    }
    let (damaged, reason) = match opener.present(&**fs) {
        Ok(index) => {
            let position = index.position()?.and_then(|position| LogPosition::decode(&position));
            match replay(fs, log, &index, position.as_ref()) {
                Ok((writer, log, replayed)) => {
                    let replayed = Replayed { index_rebuilt: missing && replayed.records > 0, ..replayed };
                    return Ok(Recovery { index, writer, log, replayed });
                }
                Err(RecoverError::NoMatchingPosition) => (false, "it does not fit the log".into()),
                // An index that fell back to before a compaction meets records without what they refer to.
                Err(RecoverError::Failed(Error::Index { reason })) => (false, reason),
                Err(RecoverError::Failed(Error::IndexDamaged { reason })) => (true, reason),
                Err(RecoverError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Index { reason }) => (false, reason),
        Err(Error::IndexDamaged { reason }) => (true, reason),
        Err(error) => return Err(error),
    };
    tracing::warn!(%reason, "The index cannot be used and is being rebuilt from the log");
    if !matches!(opener.place, IndexPlace::File) {
        let index = Index::open(index_options(opener.options, None), opener.store_id)?;
        let (writer, log, replayed) = rebuild(fs, log, &index)?;
        return Ok(Recovery { index, writer, log, replayed });
    }
    // Beside the old one: if the log is damaged too, the old index says what is lost.
    let (path, beside) = (opener.path(), opener.options.data.join(REBUILT_NAME));
    let build = || {
        let index = opener.open_at(beside.clone())?;
        let (writer, log, replayed) = rebuild(fs, log, &index)?;
        drop(writer);
        index.close()?;
        Ok((log, replayed))
    };
    let built = match build() {
        // Of two that were whole there is room for one.
        Err(Error::StorageFull) if !damaged => {
            Index::destroy(&beside)?;
            Index::destroy(&path)?;
            build()
        }
        built => built,
    };
    let (log, replayed) = built?;
    Index::put_in_place(&beside, &path)?;
    unmark(&**fs, &opener.options.data)?;
    let index = opener.open()?;
    let writer = index.writer()?;
    Ok(Recovery { index, writer, log, replayed })
}

/// Replays the whole log into an empty index.
fn rebuild<L: ReadLog>(fs: &Arc<dyn FileSystem>, log: &LogOptions, index: &Index) -> Result<(Writer, L, Replayed)> {
    match replay(fs, log, index, None) {
        Ok((writer, log, replayed)) => {
            // A new store has no index either, and nothing to build it from.
            let replayed = Replayed { index_rebuilt: replayed.records > 0, ..replayed };
            Ok((writer, log, replayed))
        }
        Err(RecoverError::NoMatchingPosition) => Err(Error::corrupt(&log.dir, 0, "the log has no beginning")),
        Err(RecoverError::Failed(error)) => Err(error),
    }
}

fn replay<L: ReadLog>(
    fs: &Arc<dyn FileSystem>,
    log: &LogOptions,
    index: &Index,
    from: Option<&LogPosition>,
) -> Result<(Writer, L, Replayed), RecoverError> {
    replay_with(log, index, from, &mut |visit| L::read(Arc::clone(fs), log.clone(), from, visit))
}

/// Replays the copy of a log into an empty index. The files `given_up` count as gone.
pub(crate) fn replay_copy(
    fs: &Arc<dyn FileSystem>,
    log: &LogOptions,
    given_up: &[LogFileId],
    until: Sequence,
    index: &Index,
) -> Result<(Writer, LogPosition, Replayed), RecoverError> {
    let mut read =
        |visit: Visit<'_>| follow(Arc::clone(fs), log.clone(), given_up, None, until, visit).map(|end| (end, 0));
    replay_with(log, index, None, &mut read)
}

type Read<'a, L> = &'a mut dyn FnMut(Visit<'_>) -> Result<(L, u64), RecoverError>;

fn replay_with<L>(
    log: &LogOptions,
    index: &Index,
    from: Option<&LogPosition>,
    read: Read<'_, L>,
) -> Result<(Writer, L, Replayed), RecoverError> {
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
    let (read, torn_bytes) = read(&mut |batch| {
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
    replayed.torn_bytes = torn_bytes;
    Ok((writer, read, replayed))
}

/// For a disk without room for all batches in one transaction: each goes into the place that the index's write-ahead
/// log had for the one before.
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

pub(crate) fn apply_recovered(writer: &mut Writer, batches: &[RecoveredBatch], dir: &Path) -> Result<()> {
    let Some(last) = batches.last() else { return Ok(()) };
    let read: Vec<_> = batches.iter().flat_map(|batch| &batch.records).collect();
    let mut records = Vec::with_capacity(read.len());
    for recovered in &read {
        let decoded = record::decode(recovered.kind, &recovered.payload);
        records.push(decoded.map_err(|_| recovered.corrupt(dir))?);
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
                at: recovered.at,
                length: (recovered.payload.len() - CONTENT_PREFIX) as u32,
            }),
        })
        .collect();
    writer.apply(&applied, &last.position.encode())
}

pub(crate) fn load_buckets(index: &Index) -> Result<BucketTable> {
    let mut table = BucketTable::default();
    for stored in index.read()?.buckets()? {
        match record::decode(stored.kind, &stored.record)? {
            Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => table.insert(Arc::new(bucket)),
            _ => return Err(Error::Record { reason: "the record of a bucket is of another type" }),
        }
    }
    for stored in index.read()?.documents()? {
        table.apply(&record::decode(stored.kind, &stored.record)?);
    }
    Ok(table)
}

/// Reports files that are shorter than what was stored in them: reads of that data fail, and the operator should not
/// learn of it from clients.
pub(crate) fn note_lengths(shared: &EngineState, logs_cut_short: &[PathBuf]) -> Result<()> {
    let reason = "a file is shorter than what was stored in it: run orcas fsck";
    if let Some(path) = logs_cut_short.first() {
        shared.faults.note_damage(StorePart::Log, StoreFault::new(reason, path.display().to_string()));
    }
    let reader = shared.catalog.index.read()?;
    for pack in reader.packs()? {
        let (last, length) = match reader.last_chunk(pack) {
            Ok(Some(last)) => last,
            Ok(None) => continue,
            // The thread that rebuilds the index has been told.
            Err(Error::IndexDamaged { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if shared.packs.is_cut_short(last, length)? {
            let path = shared.packs.path(pack);
            shared.faults.note_damage(StorePart::Packs, StoreFault::new(reason, path.display().to_string()));
        }
    }
    Ok(())
}
