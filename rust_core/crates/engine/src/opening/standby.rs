//! A standby: an open store for reading, whose files are copied from a store in use, and whose index follows their log.
//!
//! Invariants. Only the index is written here. Whoever copies the files makes them durable before [`Standby::follow`] is
//! called, and what the log names before the log. A file that the other store has given up is removed when nothing in
//! the index leads to it and every reader from before is gone.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::open::{Assembly, Engine, assemble};
use super::recover::{IndexOpener, Recovery, index_options, load_buckets, note_lengths, recover_index, replay_copy};
use crate::commit::apply::Applier;
use crate::commit::queue::{AppendedBatch, Sequenced};
use crate::index_rebuild::mark::REBUILT_NAME;
use crate::options::{EngineOptions, Environment};
use crate::state::EngineState;
use crate::upkeep::{Upkeep, UpkeepTask};
use orcas_base::error::{Error, Result};
use orcas_catalog::{BucketTable, Moved, Overlay};
use orcas_chunks::{PackOptions, Packs, pack_name, pack_named, place_of};
use orcas_fs::{GivenUp, Random};
use orcas_index::Index;
use orcas_log::{
    BatchLocation, FILE_SIZE, LogOptions, LogPosition, LogReader, RecoverError, RecoveredBatch, SpareMaker, follow,
    log_named,
};
use orcas_record::{self as record, Cause, Durability, LogFileId, Record, Sequence};
use orcas_store::StoreKeys;
use orcas_store::ballast::Ballast;

/// What writes are told.
const REASON: &str = "it is a standby, and writes go to the server that it follows";

/// What the log names in packs, behind a place of it.
pub struct NamedChunks {
    /// The end of the log.
    pub end: LogPosition,
    /// Names of packs within the store, with the bytes that hold all that is named: from, to. `None`: to the end of what
    /// there is.
    pub ranges: BTreeMap<String, (u64, Option<u64>)>,
}

/// Reads a copied log behind `from`, or all of it if that place is gone, for what the records behind `after` name in packs.
/// `given_up` are files that the other store does not have any more. Needs no open store. Blocking.
///
/// Packs are written at several places at once, so what lies between the chunks that were named so far may be unwritten
/// still: it counts, and is to be copied, when it is named.
///
/// # Errors
/// What reading the log ran into.
pub fn chunks_named(
    environment: &Environment,
    data: &Path,
    given_up: &[String],
    from: Option<&LogPosition>,
    after: Sequence,
) -> Result<NamedChunks> {
    let Environment { fs, random, .. } = environment;
    let log = copied_log(&StoreKeys::open(fs, data, &**random, false)?, data, random);
    let gone: Vec<LogFileId> = given_up.iter().filter_map(|name| log_of(name)).collect();
    let mut ranges: BTreeMap<String, (u64, Option<u64>)> = BTreeMap::new();
    let mut name = |at, length: Option<u32>| {
        let (pack, start, end) = place_of(at, length.unwrap_or(0));
        let range = ranges.entry(format!("chunks/{}", pack_name(pack))).or_insert((start, Some(end)));
        range.0 = range.0.min(start);
        range.1 = length.and(range.1).map(|former| former.max(end));
    };
    let mut visit = |batch: RecoveredBatch| {
        for read in batch.records.iter().filter(|read| read.sequence > after) {
            match record::decode(read.kind, &read.payload).map_err(|_| read.corrupt(&log.dir))? {
                Record::Chunk { at, length, .. } => name(at, Some(length)),
                Record::MoveChunks { moves } => moves.iter().for_each(|moved| name(moved.to, None)),
                _ => {}
            }
        }
        Ok(())
    };
    let all = Sequence::MAX;
    let end = match follow(Arc::clone(fs), log.clone(), &gone, from, all, &mut visit) {
        Err(RecoverError::NoMatchingPosition) => follow(Arc::clone(fs), log.clone(), &gone, None, all, &mut visit),
        done => done,
    };
    match end {
        Ok(end) => Ok(NamedChunks { end, ranges }),
        Err(RecoverError::NoMatchingPosition) => Err(Error::Missing { path: log.dir }),
        Err(RecoverError::Failed(error)) => Err(error),
    }
}

fn copied_log(keys: &StoreKeys, data: &Path, random: &Arc<dyn Random>) -> LogOptions {
    LogOptions {
        established: true,
        dir: data.join("log"),
        store_id: keys.store_id,
        commit_key: keys.commit_key,
        file_size: FILE_SIZE,
        random: Arc::clone(random),
    }
}

/// The part of a standby that follows the log. One caller drives it.
pub struct Standby {
    shared: Arc<EngineState>,
    log: LogOptions,
    /// The end of the last batch that was published.
    reached: LogPosition,
    /// What the other store no longer has, with the epoch whose readers may still use it.
    given_up: Vec<(u64, GivenUp)>,
}

impl Engine {
    /// Opens the copy of a store for reading. Blocking: it brings the index up to date with the log that is there, or
    /// builds it.
    ///
    /// # Errors
    /// As of [`Engine::open`]. A copy that is not complete is [`Error::Missing`] or [`Error::Corrupt`].
    pub fn open_standby(options: EngineOptions, environment: Environment) -> Result<(Self, Standby)> {
        let Environment { fs, clock, random, index: place } = environment;
        let options = EngineOptions { events: None, ..options };
        let data = options.data.clone();
        let lock = fs.lock(&data.join("store.lock"))?;
        let keys = StoreKeys::open(&fs, &data, &*random, false)?;
        let log = copied_log(&keys, &data, &random);
        let opener = IndexOpener { options: &options, place, store_id: keys.store_id };
        let Recovery { index, writer, log: reached, replayed } = recover_index::<LogPosition>(&fs, &log, &opener)?;
        let packs = PackOptions {
            dir: data.join("chunks"),
            store_id: keys.store_id,
            pack_size: options.pack_size,
            random: Arc::clone(&random),
        };
        let (upkeep, tasks) = Upkeep::pair();
        let parts = Assembly {
            buckets: load_buckets(&index)?,
            logs: None,
            log_reader: LogReader::of(Arc::clone(&fs), log.clone()),
            spares: SpareMaker::unused(&fs, &log),
            packs: Packs::copied(Arc::clone(&fs), packs),
            ballast: Ballast::none(Arc::clone(&fs), &data),
            position: reached.clone(),
            fs,
            clock,
            random,
            keys,
            index,
            upkeep,
        };
        let shared = assemble(options, parts);
        shared.faults.stop_writing(REASON.into());
        shared.intents.close();
        shared.reclaim.queue.stop();
        note_lengths(&shared, &[])?;
        let applier = Applier::new(Arc::clone(&shared), writer);
        let engine = Self::following(Arc::clone(&shared), applier, tasks, lock, replayed)?;
        shared.upkeep.request(UpkeepTask::PrefixHashes);
        Ok((engine, Standby { shared, log, reached, given_up: Vec::new() }))
    }
}

fn log_of(name: &str) -> Option<LogFileId> {
    name.strip_prefix("log/").and_then(log_named)
}

impl Standby {
    /// Publishes what the copy of the log has beyond the last call, up to the record `until`. Returns the sequence of the
    /// last record, which is behind that if the index was rebuilt. `given_up` is what the other store did not have any more
    /// when it had published that record. Blocking.
    ///
    /// # Errors
    /// [`Error::StorageFull`] when the index cannot follow. What reading the log ran into.
    pub fn follow(&mut self, given_up: GivenUp, until: Sequence) -> Result<Sequence> {
        for name in &given_up.anew {
            self.given_up.iter_mut().for_each(|(_, earlier)| earlier.keep(name));
            log_of(name).inspect(|file| self.shared.content.log_reader.forget_file(*file));
        }
        let gone = self.gone_with(&given_up);
        let (fs, log, from) = (Arc::clone(&self.shared.fs), self.log.clone(), self.reached.clone());
        let stalled = self.shared.applies.stalled();
        let followed = match stalled {
            Some(Error::IndexDamaged { .. }) => Err(RecoverError::NoMatchingPosition),
            _ => follow(fs, log, &gone, Some(&from), until, &mut |batch| self.publish(batch)),
        };
        match followed {
            Ok(end) => self.reached = end,
            Err(RecoverError::NoMatchingPosition) => self.rebuild(&gone, until)?,
            Err(RecoverError::Failed(error)) => return Err(error),
        }
        if !given_up.is_empty() {
            // Until then the index may lead to them.
            self.shared.applies.wait_for(self.reached.sequence)?;
            self.shared.catalog.cache.clear();
            self.given_up.push((self.shared.catalog.epochs.end(), given_up));
        }
        while self.given_up.first().is_some_and(|(epoch, _)| self.shared.catalog.epochs.is_over(*epoch)) {
            let (_, gone) = self.given_up.remove(0);
            self.give_up(&gone)?;
        }
        Ok(self.reached.sequence)
    }

    /// Whether the copy of the log has nothing beyond what was published, and the other store acknowledges only what is
    /// durable, as far as the options and all buckets say. Blocking.
    ///
    /// # Errors
    /// What reading the log ran into.
    pub fn shows_all(&self) -> Result<bool> {
        let buckets = self.shared.catalog.buckets.load();
        let weaker = |durability: Durability| durability != Durability::Sync;
        if weaker(self.shared.options.durability)
            || buckets.all().any(|bucket| bucket.settings.durability.is_some_and(weaker))
        {
            return Ok(false);
        }
        let (fs, log, gone) = (Arc::clone(&self.shared.fs), self.log.clone(), self.gone_with(&GivenUp::default()));
        let mut shows_all = true;
        match follow(fs, log, &gone, Some(&self.reached), Sequence::MAX, &mut |_| {
            shows_all = false;
            Ok(())
        }) {
            Ok(_) => Ok(shows_all),
            Err(RecoverError::NoMatchingPosition) => Ok(false),
            Err(RecoverError::Failed(error)) => Err(error),
        }
    }

    /// Files of the log that the other store does not have any more.
    fn gone_with(&self, given_up: &GivenUp) -> Vec<LogFileId> {
        let all = self.given_up.iter().map(|(_, given_up)| given_up).chain([given_up]);
        all.flat_map(|given_up| &given_up.files).filter_map(|name| log_of(name)).collect()
    }

    fn publish(&mut self, batch: RecoveredBatch) -> Result<()> {
        let shared = &self.shared;
        shared.applies.wait_for_room(&*shared.clock);
        if let Some(stall) = shared.applies.stalled() {
            return Err(stall);
        }
        let at = BatchLocation::of(&batch);
        let mut buckets = Arc::clone(&shared.catalog.buckets.load());
        let (mut published, mut moved) = (Overlay::default(), Moved::default());
        let mut records = Vec::with_capacity(batch.records.len());
        for read in &batch.records {
            // A slice would keep the whole block of the log.
            let payload = Bytes::copy_from_slice(&read.payload);
            let decoded = record::decode_caused(read.kind, &payload);
            let (record, cause) = decoded.map_err(|_| read.corrupt(&self.log.dir))?;
            let puts = matches!(record, Record::PutVersion(_) | Record::MoveVersion { .. });
            moved.prefix |= matches!(record, Record::MoveVersion { .. });
            moved.layer |= puts && matches!(cause, Cause::Engine | Cause::Sealing);
            if BucketTable::concerns(&record) {
                Arc::make_mut(&mut buckets).apply(&record);
            }
            published.insert(read.sequence, &record, &buckets);
            let payload = if matches!(record, Record::Content { .. }) { Bytes::new() } else { payload };
            let (sequence, kind, frame) = (read.sequence, read.kind, at.frame_of(read));
            records.push(Arc::new(Sequenced { sequence, kind, record, cause, payload, frame }));
        }
        let shown = records.iter().map(|record| (record.sequence, &record.record));
        if shared.catalog.publish(shown, &published, &buckets, moved) {
            shared.upkeep.request(UpkeepTask::PrefixHashes);
        }
        let position = batch.position;
        let bytes = position.bytes() - at.byte();
        self.reached = position.clone();
        shared.applies.push(AppendedBatch { records, at, position, bytes, bulk: false });
        Ok(())
    }

    /// Builds another index from the log, and shows what it has: this one is damaged, or the log was rewritten beyond what
    /// it has.
    fn rebuild(&mut self, gone: &[LogFileId], until: Sequence) -> Result<()> {
        let shared = &self.shared;
        tracing::warn!("The index of the standby does not fit the log any more, and is being rebuilt from it");
        let path = shared.options.data.join(REBUILT_NAME);
        Index::destroy(&path)?;
        let index = Index::open(index_options(&shared.options, Some(path.clone())), shared.keys.store_id)?;
        let (writer, end, _) = match replay_copy(&shared.fs, &self.log, gone, until, &index) {
            Ok(built) => built,
            Err(RecoverError::NoMatchingPosition) => return Err(Error::Missing { path: self.log.dir.clone() }),
            Err(RecoverError::Failed(error)) => return Err(error),
        };
        drop(writer);
        let buckets = load_buckets(&index)?;
        index.close()?;
        shared.applies.halt()?;
        let replaced = shared.catalog.index.replace(&path).map(|()| {
            shared.applies.restart(end.clone());
            shared.catalog.restart(buckets, end.sequence);
        });
        shared.applies.release();
        replaced?;
        self.reached = end;
        shared.upkeep.request(UpkeepTask::PrefixHashes);
        Ok(())
    }

    /// Gives up everything that is left: nobody reads the store any more.
    ///
    /// # Errors
    /// What removing or changing a file ran into.
    pub fn finish(mut self) -> Result<()> {
        std::mem::take(&mut self.given_up).iter().try_for_each(|(_, given_up)| self.give_up(given_up))
    }

    fn give_up(&self, given_up: &GivenUp) -> Result<()> {
        given_up.files.iter().try_for_each(|name| self.remove(name))?;
        given_up.shorten(&*self.shared.fs, &self.shared.options.data)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let gone = match name.split_once('/') {
            Some(("log", name)) => log_named(name).map(|file| self.shared.content.log_reader.remove(file)),
            Some(("chunks", name)) => pack_named(name).map(|pack| self.shared.packs.retire(pack)),
            _ => None,
        };
        match gone {
            Some(Err(Error::Io { source, .. })) if source.kind() == ErrorKind::NotFound => Ok(()),
            Some(gone) => gone,
            None => Ok(()),
        }
    }
}
