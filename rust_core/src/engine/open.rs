//! Opening a store and closing it: lock, keys, index, log, packs, threads, in this order. Everything that was
//! acknowledged is in the index or replayed into it before anybody is served.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::apply::Applier;
use super::buckets::BucketTable;
use super::cache::ObjectCache;
use super::check;
use super::commit::Committer;
use super::health::Troubles;
use super::keys::StoreKeys;
use super::mend::{self, Mending};
use super::overlay::Overlay;
use super::queue::{ApplyQueue, IntentQueue};
use super::reclaim::{self, Candidates, Requests};
use super::sharing::{Heads, fill};
use super::{EngineOptions, Environment, Handle, Shared, Task};
use crate::buffers::Buffers;
use crate::chunks::{PackOptions, Packs};
use crate::error::{Error, Result};
use crate::fs::FileSystem;
use crate::index::{Applied, BlobLocation, Index, IndexOptions, Writer};
use crate::log::{CONTENT_PREFIX, Log, LogFiles, LogOptions, LogPosition, RecoverError, RecoveredBatch, recover};
use crate::record::{self, Record};
use crate::sync::atomic::AtomicU64;
use crate::sync::{Mutex, RwLock};

/// Where the index lives.
#[derive(Clone)]
pub enum IndexPlace {
    /// `index.db` in the store's directory.
    File,
    /// In memory, from a state that `Index::serialize` took earlier.
    Memory(Option<Arc<Vec<u8>>>),
}

/// Records that go into the index in one piece during a replay.
const REPLAY_RECORDS: usize = 16_384;

/// The parts of an open store, before anything runs.
pub(super) struct Opened {
    pub shared: Arc<Shared>,
    pub committer: Committer,
    pub applier: Applier,
    pub logs: LogFiles,
    pub tasks: crossbeam_channel::Receiver<Task>,
    pub lock: Box<dyn Send + Sync>,
    pub replayed: Replayed,
}

/// What a start had to do before it could serve. All zero after the last process closed the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Batches and records of the log that the index did not have.
    pub batches: u64,
    pub records: u64,
    /// Bytes behind the last batch that did not count: written, but never acknowledged.
    pub torn_bytes: u64,
    /// The index could not be used and was built from the log.
    pub index_rebuilt: bool,
}

impl Replayed {
    /// The last process did not close the store.
    fn unclean(&self) -> bool {
        self.batches > 0 || self.torn_bytes > 0
    }
}

/// An open store with its threads. Closed when dropped.
pub struct Engine {
    handle: Handle,
    replayed: Replayed,
    threads: Vec<JoinHandle<()>>,
    maintenance: Option<JoinHandle<()>>,
    reclamation: Option<JoinHandle<()>>,
    mending: Option<JoinHandle<()>>,
    scrub: Option<JoinHandle<()>>,
    lock: Option<Box<dyn Send + Sync>>,
}

/// Tells those who wait for a thread when it panics, so that nobody waits for ever.
struct Watch {
    shared: Arc<Shared>,
    died: fn(&Shared),
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.died)(&self.shared);
        }
    }
}

impl Engine {
    /// Opens or creates the store. Blocking: it replays what the index does not have.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process has it, [`Error::Corrupt`], [`Error::Missing`] and [`Error::Foreign`]
    /// when something acknowledged could be lost by going on, [`Error::Version`] for another format.
    pub fn open(options: EngineOptions, environment: Environment) -> Result<Self> {
        let opened = open(options, environment)?;
        let Opened { shared, committer, applier, logs, tasks, lock, replayed } = opened;
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
            spawned.map_err(|source| Error::io("starting a thread", &shared.options.data, source))
        };
        let for_tasks = Arc::clone(&shared);
        let maintenance = spawn("orcas-upkeep", Box::new(move || maintain(&for_tasks, &tasks, replayed.unclean())))?;
        let watched = |died: fn(&Shared), run: Box<dyn FnOnce() + Send>| -> Box<dyn FnOnce() + Send> {
            let watch = Watch { shared: Arc::clone(&shared), died };
            Box::new(move || {
                let _watch = watch;
                run();
            })
        };
        let threads = vec![
            spawn("orcas-commit", watched(Shared::writing_died, Box::new(move || committer.run())))?,
            spawn("orcas-apply", watched(Shared::writing_died, Box::new(move || applier.run())))?,
        ];
        let for_reclamation = Arc::clone(&shared);
        let (for_scrub, scrubbed) = (Arc::clone(&shared), logs.clone());
        let scrub = spawn("orcas-scrub", Box::new(move || check::run_scrub(&for_scrub, &scrubbed)))?;
        let (for_mending, mended) = (Arc::clone(&shared), logs.clone());
        let mending = spawn("orcas-mend", watched(mend::died, Box::new(move || mend::run(&for_mending, &mended))))?;
        let reclaim = Box::new(move || reclaim::run(&for_reclamation, logs));
        let reclamation = spawn("orcas-reclaim", watched(|shared| shared.reclaim.died(), reclaim))?;
        shared.request(Task::Spare);
        shared.request(Task::Heads);
        Ok(Self {
            handle: Handle { shared },
            replayed,
            threads,
            maintenance: Some(maintenance),
            reclamation: Some(reclamation),
            mending: Some(mending),
            scrub: Some(scrub),
            lock: Some(lock),
        })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// Refuses new work, makes everything queued durable, brings the index up to date and gives the lock back.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when something acknowledged in a weaker mode than `sync` could not be written.
    pub fn close(mut self) -> Result<()> {
        self.shut();
        self.handle.shared.check_writable()
    }

    fn shut(&mut self) {
        let shared = &self.handle.shared;
        shared.scrub.stop();
        if let Some(scrub) = self.scrub.take() {
            let _ = scrub.join();
        }
        // It waits for the applier, so it ends before that does.
        shared.mending.stop();
        if let Some(mending) = self.mending.take() {
            let _ = mending.join();
        }
        // It waits for commits, so it ends before they do.
        shared.reclaim.stop();
        if let Some(reclamation) = self.reclamation.take() {
            let _ = reclamation.join();
        }
        shared.intents.close();
        // The committer is first in the list: the applier's queue is complete when it has ended.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
            shared.applies.close();
        }
        if let Some(maintenance) = self.maintenance.take() {
            let _ = shared.tasks.send(Task::Stop);
            let _ = maintenance.join();
            // Without it the next start replays nothing either: the index is complete. With it everything stands in one file,
            // whose pages a start can look at.
            let _ = shared.index.truncate_wal();
        }
        self.lock = None;
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut();
    }
}

/// The upkeep thread: what may take long and nobody waits for.
fn maintain(shared: &Shared, tasks: &crossbeam_channel::Receiver<Task>, unclean: bool) {
    if unclean {
        // What is found is told to whoever builds it anew.
        let _ = shared.index.quick_check();
    }
    for task in tasks {
        match task {
            // Without a spare file the next roll makes one itself, or fails its batch.
            Task::Spare => drop(shared.spares.make()),
            // A later one will do as well; meanwhile the WAL grows.
            Task::Checkpoint => drop(shared.index.checkpoint()),
            // Without the filter everything counts as maybe known.
            Task::Heads => drop(fill(shared)),
            Task::Stop => return,
        }
    }
}

pub(super) fn open(options: EngineOptions, environment: Environment) -> Result<Opened> {
    let Environment { fs, clock, random, index: place } = environment;
    let data = options.data.clone();
    fs.create_dir(&data)?;
    let lock = fs.lock(&data.join("store.lock"))?;
    let (log_dir, chunk_dir) = (data.join("log"), data.join("chunks"));
    fs.create_dir(&log_dir)?;
    fs.create_dir(&chunk_dir)?;
    fs.sync_dir(&data)?;
    let new = fs.list(&log_dir)?.is_empty();
    if new {
        // Before the first log file: a store whose own name is lost in a power cut is lost whole.
        let parent = data.parent().filter(|parent| !parent.as_os_str().is_empty());
        fs.sync_dir(parent.unwrap_or(Path::new(".")))?;
    }
    let keys = StoreKeys::open(&fs, &data, &*random, new)?;
    let store_id = keys.store_id;
    let log_options = LogOptions {
        // Packs too are made only once there is a log, and without it all of them would be removed as unborn.
        established: keys.established || !fs.list(&chunk_dir)?.is_empty(),
        dir: log_dir,
        store_id,
        commit_key: keys.commit_key,
        file_size: options.log_file_size,
        random: Arc::clone(&random),
    };
    let opener = IndexOpener { options: &options, place, store_id };
    let Recovery { index, writer, mut log, replayed } = recover_index(&fs, &log_options, &opener)?;
    let compacted = index.read()?.log_files()?;
    log.keep(&compacted.iter().map(|row| (row.file, row.first, row.last)).collect::<Vec<_>>())?;
    keys.establish(&fs, &data)?;
    let packs = {
        let options =
            PackOptions { dir: chunk_dir, store_id, pack_size: options.pack_size, random: Arc::clone(&random) };
        let next_number = index.read()?.highest_pack()? + 1;
        Packs::open(Arc::clone(&fs), options, &index.read()?.packs()?, next_number)?
    };
    let (sender, tasks) = crossbeam_channel::bounded(64);
    let mending = Arc::new(Mending::default());
    let asked = Arc::clone(&mending);
    index.on_damage(move |reason| asked.request(reason));
    let buffers = Buffers::new(options.pooling_enabled);
    let shared = Arc::new(Shared {
        buckets: RwLock::new(Arc::new(load_buckets(&index)?)),
        log_reader: log.reader().using(Arc::clone(&buffers)),
        spares: log.spare_maker(),
        fs,
        clock,
        random,
        keys,
        scopes: Mutex::new(HashMap::new()),
        intents: IntentQueue::default(),
        applies: ApplyQueue::new(log.position()),
        candidates: Candidates::default(),
        pins: Arc::default(),
        reclaim: Requests::default(),
        scrub: check::Scrub::default(),
        overlay: RwLock::new(Overlay::default()),
        cache: ObjectCache::new(),
        epochs: Arc::default(),
        leaving: Arc::default(),
        holds: Arc::default(),
        mending,
        heads: Heads::default(),
        held: Arc::default(),
        buffers,
        index,
        packs,
        troubles: Troubles::default(),
        tasks: sender,
        since_checkpoint: AtomicU64::new(0),
        options,
    });
    let logs = log.files();
    let committer = Committer::new(Arc::clone(&shared), log);
    let applier = Applier::new(Arc::clone(&shared), writer);
    Ok(Opened { shared, committer, applier, logs, tasks, lock, replayed })
}

struct IndexOpener<'a> {
    options: &'a EngineOptions,
    place: IndexPlace,
    store_id: [u8; 16],
}

/// How an index at `path`, or in memory, is opened.
pub(super) fn index_options(options: &EngineOptions, path: Option<PathBuf>) -> IndexOptions {
    IndexOptions {
        path,
        max_open: options.db_max_open,
        max_idle: if options.pooling_enabled { options.db_max_idle } else { 0 },
        lifetime: options.db_lifetime,
        synchronous_off: options.durability == record::Durability::UnsafeNone,
    }
}

impl IndexOpener<'_> {
    fn path(&self) -> PathBuf {
        self.options.data.join("index.db")
    }

    fn open(&self) -> Result<Index> {
        match &self.place {
            IndexPlace::Memory(Some(snapshot)) => Index::open_serialized(snapshot, self.store_id),
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
            if fs.list(data)?.iter().any(|name| name.starts_with(mend::REBUILT_NAME)) {
                // What a rebuild that did not come to its end has left.
                Index::destroy(&data.join(mend::REBUILT_NAME))?;
            }
            if mend::is_marked(fs, data)? {
                return Err(Error::IndexDamaged { reason: "that was found out before the last stop".into() });
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

struct Recovery {
    index: Index,
    writer: Writer,
    log: Log,
    replayed: Replayed,
}

/// Brings the index up to date with the log, or builds it anew when it cannot be read or does not fit.
fn recover_index(fs: &Arc<dyn FileSystem>, log: &LogOptions, opener: &IndexOpener<'_>) -> Result<Recovery> {
    let mut damaged = false;
    match opener.present(&**fs) {
        Ok(index) => {
            let position = index.position()?.and_then(|position| LogPosition::decode(&position));
            match replay(fs, log, &index, position.as_ref()) {
                Ok((writer, log, replayed)) => return Ok(Recovery { index, writer, log, replayed }),
                Err(RecoverError::NoMatchingPosition) => {}
                // An index that fell back to before a compaction meets records without what they refer to.
                Err(RecoverError::Failed(Error::Index { .. })) => {}
                Err(RecoverError::Failed(Error::IndexDamaged { .. })) => damaged = true,
                Err(RecoverError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Index { .. }) => {}
        Err(Error::IndexDamaged { .. }) => damaged = true,
        Err(error) => return Err(error),
    }
    if !matches!(opener.place, IndexPlace::File) {
        let index = Index::open(index_options(opener.options, None), opener.store_id)?;
        let (writer, log, replayed) = rebuild(fs, log, &index)?;
        return Ok(Recovery { index, writer, log, replayed });
    }
    // Beside the old one: should the log be damaged too, that one says what is lost.
    let (path, beside) = (opener.path(), opener.options.data.join(mend::REBUILT_NAME));
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
    mend::unmark(&**fs, &opener.options.data)?;
    let index = opener.open()?;
    let writer = index.writer()?;
    Ok(Recovery { index, writer, log, replayed })
}

/// Replays the whole log into an empty index.
fn rebuild(fs: &Arc<dyn FileSystem>, log: &LogOptions, index: &Index) -> Result<(Writer, Log, Replayed)> {
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
            apply_recovered(&mut writer, &std::mem::take(&mut waiting), &log.dir)?;
        }
        Ok(())
    })?;
    apply_recovered(&mut writer, &waiting, &log.dir)?;
    writer.end_bulk()?;
    replayed.torn_bytes = recovered.torn_bytes;
    Ok((writer, recovered.log, replayed))
}

pub(super) fn apply_recovered(writer: &mut Writer, batches: &[RecoveredBatch], dir: &Path) -> Result<()> {
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

fn load_buckets(index: &Index) -> Result<BucketTable> {
    let mut table = BucketTable::default();
    for stored in index.read()?.buckets()? {
        match record::decode(stored.kind, &stored.record)? {
            Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => table.insert(Arc::new(bucket)),
            _ => return Err(Error::Record { reason: "the record of a bucket is of another type" }),
        }
    }
    Ok(table)
}
