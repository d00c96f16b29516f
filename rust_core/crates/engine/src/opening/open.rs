//! Opening a store and closing it: lock, ballast, directories, keys, index and log, which is replayed, packs, threads, in
//! this order. Everything that was acknowledged is in the index or replayed into it before the first request.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::recover::{IndexOpener, Recovery, Replayed, load_buckets, note_lengths, recover_index};
use crate::clock::Clock;
use crate::commit::Committer;
use crate::commit::apply::Applier;
use crate::commit::queue::{ApplyQueue, IntentQueue};
use crate::content::Content;
use crate::content::encrypting::ObjectKeys;
use crate::content::seal_ids::SealIds;
use crate::events::{self, EventQueue, Follower};
use crate::handle::Handle;
use crate::health::faults::Faults;
use crate::health::space::DiskSpace;
use crate::index_rebuild::{self, RebuildRequests};
use crate::lifecycle::{self, LifecycleOptions, LifecycleRequests};
use crate::metrics::EngineMetrics;
use crate::options::{EngineOptions, Environment};
use crate::quotas::Quotas;
use crate::reclaim::{self, ReclaimRequests};
use crate::scrub::{self, ScrubStatus};
use crate::state::EngineState;
use crate::upkeep::{Upkeep, UpkeepTask};
use orcas_base::buffers::Buffers;
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::{AtomicBool, Ordering};
use orcas_catalog::{BucketTable, Catalog, fill_prefix_hash_filter};
use orcas_chunks::{PackOptions, Packs};
use orcas_fs::scratch::ScratchDir;
use orcas_fs::{FileSystem, Random};
use orcas_index::Index;
use orcas_journal::{JournalFiles, JournalOptions};
use orcas_log::{Log, LogFiles, LogOptions, LogPosition, LogReader, SpareMaker};
use orcas_store::ballast::Ballast;
use orcas_store::{StoreKeys, closed};

/// The parts of an open store, before anything runs.
pub(crate) struct Opened {
    pub shared: Arc<EngineState>,
    pub committer: Committer,
    pub applier: Applier,
    pub follower: Option<Follower>,
    pub logs: LogFiles,
    pub tasks: crossbeam_channel::Receiver<UpkeepTask>,
    pub lock: Box<dyn Send + Sync>,
    pub replayed: Replayed,
}

/// An open store with its threads. Closed when dropped.
pub struct Engine {
    handle: Handle,
    replayed: Replayed,
    threads: Threads,
    lock: Option<Box<dyn Send + Sync>>,
    /// Neither opened for salvage nor a standby.
    took_writes: bool,
    /// The directory of the index of a store that was opened for salvage.
    _scratch: Option<ScratchDir>,
}

/// The threads of an open store. A store that was opened for salvage has none, a standby has two.
#[derive(Default)]
struct Threads {
    committer: Option<JoinHandle<()>>,
    applier: Option<JoinHandle<()>>,
    upkeep: Option<JoinHandle<()>>,
    reclamation: Option<JoinHandle<()>>,
    index_rebuild: Option<JoinHandle<()>>,
    scrub: Option<JoinHandle<()>>,
    lifecycle: Option<JoinHandle<()>>,
    events: Option<JoinHandle<()>>,
}

/// Reports that a thread has panicked, so that nothing waits for it for ever.
struct Watch {
    shared: Arc<EngineState>,
    died: fn(&EngineState),
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
        let Opened { shared, committer, applier, follower, logs, tasks, lock, replayed } = opened;
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| spawn(name, &shared, run);
        let handle = Handle { shared: Arc::clone(&shared) };
        // If one of its threads cannot be started, dropping it ends those that were.
        let threads = Threads::default();
        let mut engine = Self { handle, replayed, threads, lock: Some(lock), took_writes: true, _scratch: None };
        let threads = &mut engine.threads;
        let for_tasks = Arc::clone(&shared);
        let upkeep = spawn("orcas-upkeep", Box::new(move || run_upkeep(&for_tasks, &tasks, replayed.unclean)))?;
        threads.upkeep = Some(upkeep);
        let watched = |died: fn(&EngineState), run: Box<dyn FnOnce() + Send>| -> Box<dyn FnOnce() + Send> {
            let watch = Watch { shared: Arc::clone(&shared), died };
            Box::new(move || {
                let _watch = watch;
                run();
            })
        };
        let commit = watched(EngineState::writing_died, Box::new(move || committer.run()));
        threads.committer = Some(spawn("orcas-commit", commit)?);
        let apply = watched(EngineState::writing_died, Box::new(move || applier.run()));
        threads.applier = Some(spawn("orcas-apply", apply)?);
        let (for_reclamation, for_scrub, scrubbed) = (Arc::clone(&shared), Arc::clone(&shared), logs.clone());
        let scrub = Box::new(move || scrub::run(&for_scrub, &scrubbed));
        threads.scrub = Some(spawn("orcas-scrub", watched(|shared| shared.scrub.queue.stop(), scrub))?);
        let (for_rebuild, rebuild_logs) = (Arc::clone(&shared), logs.clone());
        let rebuild = Box::new(move || index_rebuild::run(&for_rebuild, &rebuild_logs));
        threads.index_rebuild = Some(spawn("orcas-rebuild", watched(index_rebuild::died, rebuild))?);
        let reclaim = Box::new(move || reclaim::run(&for_reclamation, logs));
        threads.reclamation = Some(spawn("orcas-reclaim", watched(|shared| shared.reclaim.queue.died(), reclaim))?);
        let follow = follower.map(|follower| {
            let for_events = Arc::clone(&shared);
            let run = Box::new(move || events::run(&for_events, follower));
            spawn("orcas-events", watched(|shared| shared.events.died(), run))
        });
        threads.events = follow.transpose()?;
        if shared.space.ballast.is_short() {
            // Before anybody else takes the room that was just made.
            let _ = shared.space.make_spare();
            shared.fill_ballast();
        }
        for task in [UpkeepTask::Spare, UpkeepTask::Ballast, UpkeepTask::PrefixHashes] {
            shared.upkeep.request(task);
        }
        Ok(engine)
    }

    /// A standby with the threads of its index. Reads only.
    pub(super) fn following(
        shared: Arc<EngineState>,
        applier: Applier,
        tasks: crossbeam_channel::Receiver<UpkeepTask>,
        lock: Box<dyn Send + Sync>,
        replayed: Replayed,
    ) -> Result<Self> {
        let handle = Handle { shared: Arc::clone(&shared) };
        let threads = Threads::default();
        let mut engine = Self { handle, replayed, threads, lock: Some(lock), took_writes: false, _scratch: None };
        let watch = Watch { shared: Arc::clone(&shared), died: EngineState::writing_died };
        let apply = move || {
            let _watch = watch;
            applier.run();
        };
        let for_tasks = Arc::clone(&shared);
        let upkeep = move || run_upkeep(&for_tasks, &tasks, true);
        engine.threads.applier = Some(spawn("orcas-apply", &shared, Box::new(apply))?);
        engine.threads.upkeep = Some(spawn("orcas-upkeep", &shared, Box::new(upkeep))?);
        Ok(engine)
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// From now on lifecycle rules are applied on request. Call it once, for a store that takes writes.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start_lifecycle(&mut self, options: LifecycleOptions) -> Result<()> {
        let shared = Arc::clone(&self.handle.shared);
        let died = |shared: &EngineState| shared.lifecycle.queue.died();
        let watch = Watch { shared: Arc::clone(&shared), died };
        shared.lifecycle.start(options.day_ms);
        let run = move || {
            let watch = watch;
            lifecycle::run(&watch.shared, &options);
        };
        let spawned = std::thread::Builder::new().name("orcas-lifecycle".to_owned()).spawn(run);
        self.threads.lifecycle =
            Some(spawned.map_err(|source| Error::io("starting a thread", &shared.options.data, source))?);
        Ok(())
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
        match self.took_writes {
            true => self.handle.shared.faults.check_writable(),
            false => Ok(()),
        }
    }

    fn shut(&mut self) {
        let (shared, threads) = (&self.handle.shared, &mut self.threads);
        shared.scrub.queue.stop();
        join(&mut threads.scrub);
        // It waits for commits and for the applier, so it ends before they do.
        shared.lifecycle.queue.stop();
        join(&mut threads.lifecycle);
        // It waits for the applier, so it ends before that does.
        shared.index_rebuild.stop();
        join(&mut threads.index_rebuild);
        // It waits for commits, so it ends before they do.
        shared.reclaim.queue.stop();
        join(&mut threads.reclamation);
        shared.intents.close();
        join(&mut threads.committer);
        // Complete when the committer has ended.
        shared.applies.close();
        join(&mut threads.applier);
        shared.events.close();
        join(&mut threads.events);
        if threads.upkeep.is_some() {
            shared.upkeep.stop();
            join(&mut threads.upkeep);
            // Without it the next start replays nothing either: the index is complete. With it everything stands in one
            // file, whose pages a start can look at.
            let emptied = shared.catalog.index.truncate_wal();
            let _ = emptied.inspect_err(|error| tracing::warn!(%error, "The index was closed with a write-ahead log"));
            // From what the log has just given back: the next start may find nothing else.
            shared.space.ballast.fill(0);
            if shared.faults.check_writable().is_ok()
                && let Err(error) = closed::mark(&*shared.fs, &shared.options.data)
            {
                tracing::warn!(%error, "The next start will not know that the store was closed");
            }
        }
        self.lock = None;
    }
}

fn spawn(name: &str, shared: &EngineState, run: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|source| Error::io("starting a thread", &shared.options.data, source))
}

fn join(thread: &mut Option<JoinHandle<()>>) {
    if let Some(thread) = thread.take() {
        let _ = thread.join();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut();
    }
}

/// The upkeep thread: slow work that nothing waits for.
fn run_upkeep(shared: &EngineState, tasks: &crossbeam_channel::Receiver<UpkeepTask>, unclean: bool) {
    if unclean {
        // Damage is reported to the thread that rebuilds the index.
        if let Err(error) = shared.catalog.index.quick_check()
            && !matches!(error, Error::IndexDamaged { .. })
        {
            tracing::warn!(%error, "The index could not be checked after a crash: run `orcas fsck`");
        }
    }
    for task in tasks {
        match task {
            // Without a spare file the next roll makes one itself, or fails its batch.
            UpkeepTask::Spare => drop(shared.space.make_spare()),
            UpkeepTask::Ballast => shared.fill_ballast(),
            // A later one will do as well; meanwhile the WAL grows.
            UpkeepTask::Checkpoint => drop(shared.catalog.index.checkpoint().inspect_err(
                |error| tracing::warn!(%error, "A checkpoint of the index failed: its write-ahead log grows"),
            )),
            // Without the filter everything counts as maybe known.
            UpkeepTask::PrefixHashes => drop(fill_prefix_hash_filter(&shared.catalog).inspect_err(
                |error| tracing::warn!(%error, "The filter of known content could not be filled: uploads cost more"),
            )),
            UpkeepTask::Stop => return,
        }
    }
}

pub(crate) fn open(options: EngineOptions, environment: Environment) -> Result<Opened> {
    let Environment { fs, clock, random, index: place } = environment;
    let data = options.data.clone();
    fs.create_dir(&data)?;
    let lock = fs.lock(&data.join("store.lock"))?;
    let ballast = Ballast::open(Arc::clone(&fs), &data, options.ballast)?;
    ballast.make_room_if_short();
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
    let was_closed = closed::is_marked(&*fs, &data)?;
    let keys = StoreKeys::open(&fs, &data, &*random, new)?;
    let store_id = keys.store_id;
    let log_options = LogOptions {
        // Packs too are made only once there is a log, and without it all of them would be removed as unrecorded.
        established: keys.established || !fs.list(&chunk_dir)?.is_empty(),
        dir: log_dir,
        store_id,
        commit_key: keys.commit_key,
        file_size: options.log_file_size,
        random: Arc::clone(&random),
    };
    let opener = IndexOpener { options: &options, place, store_id };
    let recovered = match recover_index::<Log>(&fs, &log_options, &opener) {
        Err(Error::StorageFull) if ballast.give_up() => recover_index(&fs, &log_options, &opener),
        done => done,
    };
    let Recovery { index, writer, mut log, replayed } = recovered?;
    let replayed = Replayed { unclean: !new && !was_closed, ..replayed };
    if was_closed {
        closed::unmark(&*fs, &data)?;
    }
    let compacted = index.read()?.log_files()?;
    let cut_short = log.keep(&compacted.iter().map(|row| (row.file, row.first, row.last)).collect::<Vec<_>>())?;
    keys.establish(&fs, &data)?;
    let packs = {
        let options =
            PackOptions { dir: chunk_dir, store_id, pack_size: options.pack_size, random: Arc::clone(&random) };
        let highest = index.read()?.highest_pack()?;
        Packs::open(Arc::clone(&fs), options, &index.read()?.packs()?, highest)?
    };
    let (upkeep, tasks) = Upkeep::pair();
    let shared = assemble(
        options,
        Assembly {
            buckets: load_buckets(&index)?,
            logs: Some(log.files()),
            log_reader: log.reader(),
            spares: log.spare_maker(),
            position: log.position(),
            fs,
            clock,
            random,
            keys,
            index,
            packs,
            ballast,
            upkeep,
        },
    );
    if !planted::is(Bug::LengthsNotCompared) {
        note_lengths(&shared, &cut_short)?;
    }
    let logs = log.files();
    let committer = Committer::new(Arc::clone(&shared), log);
    let applier = Applier::new(Arc::clone(&shared), writer);
    let follower = Follower::new(&shared, &logs).map(Follower::prepared);
    Ok(Opened { shared, committer, applier, follower, logs, tasks, lock, replayed })
}

/// The parts of a store, before anything runs.
pub(crate) struct Assembly {
    pub fs: Arc<dyn FileSystem>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub keys: StoreKeys,
    pub index: Index,
    /// None in a store that only reads.
    pub logs: Option<LogFiles>,
    pub log_reader: LogReader,
    pub spares: SpareMaker,
    pub packs: Packs,
    pub ballast: Ballast,
    pub buckets: BucketTable,
    /// The end of the log.
    pub position: LogPosition,
    pub upkeep: Upkeep,
}

pub(super) fn assemble(options: EngineOptions, parts: Assembly) -> Arc<EngineState> {
    let Assembly { fs, clock, random, keys, upkeep, .. } = parts;
    let index_rebuild = Arc::new(RebuildRequests::default());
    let asked = Arc::clone(&index_rebuild);
    parts.index.on_damage(move |reason| asked.request(reason));
    let journal = options.events.map(|events| {
        JournalFiles::new(JournalOptions {
            fs: Arc::clone(&fs),
            dir: options.data.join(orcas_journal::DIRECTORY),
            store_id: keys.store_id,
            random: Arc::clone(&random),
            retention_ms: events.retention_ms,
            max_bytes: events.max_bytes,
        })
    });
    let (catalog, packs) = (Arc::new(Catalog::new(parts.index, parts.buckets)), Arc::new(parts.packs));
    catalog.published.store(parts.position.sequence, Ordering::Release);
    let (faults, metrics) = (Arc::<Faults>::default(), Arc::<EngineMetrics>::default());
    let space = Arc::new(DiskSpace {
        fs: Arc::clone(&fs),
        data: options.data.clone(),
        reserve: options.disk_reserve,
        ballast: parts.ballast,
        spares: parts.spares,
        upkeep: upkeep.clone(),
    });
    let buffers = Buffers::new(options.pooling_enabled);
    let content = Arc::new(Content {
        chunk_size: options.chunk_size,
        ref_level: options.ref_level,
        keys: ObjectKeys::new(Arc::clone(&random)),
        seal_ids: SealIds::default(),
        store_keys: keys.clone(),
        scopes: Mutex::default(),
        catalog: Arc::clone(&catalog),
        faults: Arc::clone(&faults),
        space: Arc::clone(&space),
        metrics: Arc::clone(&metrics),
        log_reader: parts.log_reader.using(Arc::clone(&buffers)),
        buffers,
        held: Arc::default(),
        packs: Arc::clone(&packs),
    });
    Arc::new(EngineState {
        options,
        fs,
        clock,
        random,
        keys,
        catalog,
        content,
        packs,
        intents: IntentQueue::default(),
        applies: ApplyQueue::new(parts.position.clone()),
        events: EventQueue::new(journal, parts.position),
        quotas: Quotas::default(),
        reclaim: ReclaimRequests::default(),
        scrub: ScrubStatus::default(),
        lifecycle: LifecycleRequests::default(),
        index_rebuild,
        logs: parts.logs,
        upkeep,
        space,
        faults,
        metrics,
        moving: AtomicBool::new(false),
    })
}

/// An engine that only reads, without threads: whatever is asked of one is refused. `scratch` is where the index is.
pub(crate) fn read_only(
    options: EngineOptions,
    parts: Assembly,
    lock: Box<dyn Send + Sync>,
    scratch: ScratchDir,
    reason: &'static str,
) -> Engine {
    let shared = assemble(EngineOptions { events: None, ..options }, parts);
    shared.faults.stop_writing(reason.into());
    shared.intents.close();
    shared.applies.close();
    shared.reclaim.queue.stop();
    Engine {
        handle: Handle { shared },
        threads: Threads::default(),
        lock: Some(lock),
        replayed: Replayed::default(),
        took_writes: false,
        _scratch: Some(scratch),
    }
}
