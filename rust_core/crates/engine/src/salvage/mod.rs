//! Opens what is left of a store for reading, whatever is missing: log files, packs, headers, keys, the index.
//!
//! Invariants. Nothing in the store's directory is written: the file system refuses it, and the index is a private one.
//! Only intact records and blocks are served, and before the first request every object was read and compared with its
//! entity tag. Objects that are incomplete are listed, and so are those that a lost record may have deleted or
//! replaced.

mod verify;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::options::{EngineOptions, Environment, IndexPlace};
use crate::opening::open::{Engine, ReadOnlyParts, read_only};
use crate::opening::recover::load_buckets;
use orcas_base::error::{Error, Result};
use orcas_catalog::BucketTable;
use orcas_chunks::{self as chunks, PackOptions, PackSalvage};
use orcas_fs::FileSystem;
use orcas_fs::read_only::ReadOnlyFileSystem;
use orcas_fs::scratch::ScratchDir;
use orcas_fsck::{Base, FINDINGS_MAX, Finding, FindingKind, INDEX_NAME, Loss, ReplayOutcome, replay_rest};
use orcas_index::{Index, IndexOptions};
use orcas_log::{self as log, LogOptions, LogPosition, LogReader, LogSalvage};
use orcas_record::Sequence;
use orcas_store::StoreKeys;

const WAL_SUFFIX: &str = "-wal";
const COPY_NAME: &str = "present.db";
const REBUILT_NAME: &str = "rebuilt.db";
/// An index of a log that is not larger is built in memory, bytes.
const IN_MEMORY_MAX: u64 = 256 << 20;
/// What writes are told.
const REASON: &str = "it was opened for salvage";

/// The source of what is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SalvageSource {
    /// From the records of the log alone.
    Log,
    /// From the index, which was whole, and the records behind it.
    Index,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct SalvageReport {
    /// Whether the store's keys are there. Without them records cannot be authenticated: only checksums are verified.
    pub keys: bool,
    pub source: SalvageSource,
    pub findings: Vec<Finding>,
    pub findings_total: u64,
    /// Versions that cannot be read whole, ordered by the sequence of their records.
    pub losses: Vec<Loss>,
    pub losses_total: u64,
    /// Objects that can be read whole, with the older versions of them, and their bytes.
    pub whole: u64,
    pub whole_bytes: u64,
    /// Records that were read, and those of them whose batch proves that this store wrote it.
    pub records: u64,
    pub authenticated: u64,
    /// Records that are gone, first to last.
    pub gone: Vec<(Sequence, Sequence)>,
    pub gone_total: u64,
    /// Objects that may have been deleted or replaced by a record that is gone.
    pub doubtful: u64,
    /// Those of them that such a record seems to name.
    pub named: Vec<(String, Bytes)>,
    /// Versions that had been deleted for sure, although the record that deleted them is gone; they are not shown.
    pub deleted: u64,
    /// Names of buckets that were made up because the real ones are gone.
    pub made_up: Vec<String>,
    pub log_files: u64,
    pub packs: u64,
    pub seconds: f64,
}

impl SalvageReport {
    /// Everything is there.
    pub fn is_whole(&self) -> bool {
        self.losses_total == 0 && self.gone_total == 0 && self.findings.iter().all(|finding| !finding.kind.is_damage())
    }
}

/// What is known of a store before its records are read.
struct Site {
    fs: Arc<dyn FileSystem>,
    keys: Option<StoreKeys>,
    store_id: [u8; 16],
    findings: Vec<Finding>,
}

/// Opens a store for reading. `owner` is shown as the owner of every bucket. Blocking: it reads everything.
///
/// # Errors
/// [`Error::Missing`] when there is no store, [`Error::Locked`] when it is open elsewhere, [`Error::Corrupt`] when not
/// one record is left, and what kept the salvage from going on.
pub fn salvage_store(
    options: EngineOptions,
    environment: Environment,
    owner: &Bytes,
) -> Result<(Engine, SalvageReport)> {
    let started = Instant::now();
    let fs: Arc<dyn FileSystem> = Arc::new(ReadOnlyFileSystem::new(Arc::clone(&environment.fs)));
    let data = options.data.clone();
    let lock = lock(&*fs, &data)?;
    let mut site = Site::survey(fs, &data)?;
    let scratch = ScratchDir::new()?;
    let (log_dir, pack_dir) = (data.join("log"), data.join("chunks"));
    let commit_key = site.keys.as_ref().map(|keys| keys.commit_key);
    let log = LogSalvage::survey(Arc::clone(&site.fs), &log_dir, site.store_id, commit_key.as_ref())?;
    site.find(FindingKind::LogFile, &log.findings);
    let present = site.present_index(&environment.index, &data, &scratch);
    let place = Place { scratch: &scratch, in_memory: log.bytes() <= IN_MEMORY_MAX, store_id: site.store_id };
    let (index, source, mut outcome) = choose(&log, present, &place, &options, owner)?;
    site.findings.append(&mut outcome.findings);
    let packs = PackSalvage::survey(&*site.fs, &pack_dir, site.store_id)?;
    site.find(FindingKind::Pack, &packs.findings);
    let pack_count = packs.count();
    let log_options = LogOptions {
        dir: log_dir,
        store_id: site.store_id,
        commit_key: commit_key.unwrap_or_default(),
        file_size: options.log_file_size,
        established: true,
        random: Arc::clone(&environment.random),
    };
    let pack_options = PackOptions {
        dir: pack_dir,
        store_id: site.store_id,
        pack_size: options.pack_size,
        random: Arc::clone(&environment.random),
    };
    let parts = ReadOnlyParts {
        log_reader: LogReader::salvaged(Arc::clone(&site.fs), log_options.clone(), log.seals()),
        spares: log.spare_maker(log_options),
        packs: packs.open(Arc::clone(&site.fs), pack_options),
        keys: site.keys.clone().unwrap_or_else(|| StoreKeys::lost(site.store_id)),
        buckets: buckets_of(&index, owner)?,
        fs: Arc::clone(&site.fs),
        index,
        lock,
        scratch,
        reason: REASON,
    };
    let has_keys = site.keys.is_some();
    let engine = read_only(options, environment, parts);
    let verified = verify::run(&engine.handle(), &outcome)?;
    let findings_total = site.findings.len() as u64;
    site.findings.truncate(FINDINGS_MAX);
    let report = SalvageReport {
        keys: has_keys,
        source,
        findings: site.findings,
        findings_total,
        losses: verified.losses,
        losses_total: verified.losses_total,
        whole: verified.whole,
        whole_bytes: verified.whole_bytes,
        records: outcome.counted.records,
        authenticated: outcome.counted.authenticated,
        gone_total: outcome.gone.iter().map(|(first, last)| last - first + 1).sum(),
        gone: outcome.gone,
        doubtful: verified.doubtful,
        named: verified.named,
        deleted: verified.deleted,
        made_up: outcome.made_up,
        log_files: outcome.counted.files,
        packs: pack_count,
        seconds: started.elapsed().as_secs_f64(),
    };
    Ok((engine, report))
}

/// Where a private index goes.
struct Place<'a> {
    scratch: &'a ScratchDir,
    in_memory: bool,
    store_id: [u8; 16],
}

/// The lock is only asked for where there is something of a store.
fn lock(fs: &dyn FileSystem, data: &Path) -> Result<Box<dyn Send + Sync>> {
    let of_store = |name: &String| ["log", "chunks", "store.keys", "store.keys.copy", INDEX_NAME].contains(&&name[..]);
    if !fs.list(data).is_ok_and(|names| names.iter().any(of_store)) {
        return Err(Error::Missing { path: data.join("log") });
    }
    fs.lock(&data.join("store.lock"))
}

/// The index from which the store is served: that of the log, unless the log lacks something that the store's own index
/// still knows.
fn choose(
    log: &LogSalvage,
    present: Option<(Index, LogPosition)>,
    place: &Place<'_>,
    options: &EngineOptions,
    owner: &Bytes,
) -> Result<(Index, SalvageSource, ReplayOutcome)> {
    let index = place.new_index(options)?;
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

impl Place<'_> {
    fn new_index(&self, options: &EngineOptions) -> Result<Index> {
        let path = (!self.in_memory).then(|| self.scratch.path().join(REBUILT_NAME));
        Index::open(index_options(options, path), self.store_id)
    }
}

fn index_options(options: &EngineOptions, path: Option<std::path::PathBuf>) -> IndexOptions {
    IndexOptions {
        path,
        max_open: options.db_max_open,
        max_idle: options.db_max_idle,
        lifetime: options.db_lifetime,
        synchronous_off: true,
    }
}

/// All buckets as `owner`'s: whoever salvages a store sees all of it.
fn buckets_of(index: &Index, owner: &Bytes) -> Result<BucketTable> {
    let found = load_buckets(index)?;
    let mut table = found.clone();
    for bucket in found.all() {
        let bucket = orcas_record::Bucket { owner: owner.clone(), ..(**bucket).clone() };
        table.insert(Arc::new(bucket));
    }
    Ok(table)
}

impl Site {
    fn survey(fs: Arc<dyn FileSystem>, data: &Path) -> Result<Self> {
        let mut ids: HashMap<[u8; 16], u64> = log::store_ids(&*fs, &data.join("log"))?;
        for (id, count) in chunks::store_ids(&*fs, &data.join("chunks"))? {
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
        Ok(Self { fs, keys, store_id, findings })
    }

    fn find(&mut self, kind: FindingKind, found: &[(std::path::PathBuf, String)]) {
        self.findings.extend(found.iter().map(|(path, detail)| Finding {
            kind,
            place: path.display().to_string(),
            detail: detail.clone(),
        }));
    }

    /// A private copy of the store's index, and the last record that it has applied.
    fn present_index(&mut self, place: &IndexPlace, data: &Path, scratch: &ScratchDir) -> Option<(Index, LogPosition)> {
        let opened = match place {
            IndexPlace::Memory(None) => return None,
            IndexPlace::Memory(Some(snapshot)) => Index::open_serialized(snapshot, self.store_id),
            IndexPlace::File => {
                let copied = scratch.copy_in(&data.join(INDEX_NAME), COPY_NAME).and_then(|copied| {
                    let wal = format!("{INDEX_NAME}{WAL_SUFFIX}");
                    scratch.copy_in(&data.join(wal), &format!("{COPY_NAME}{WAL_SUFFIX}"))?;
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
        match found {
            Ok(found) => found,
            Err(error) => {
                let detail = format!("the index cannot be read: {error}");
                self.findings.push(Finding { kind: FindingKind::Index, place: INDEX_NAME.to_owned(), detail });
                None
            }
        }
    }
}

/// Readers of the copy: as many as requests may need at a time.
fn copy_options(scratch: &ScratchDir) -> IndexOptions {
    IndexOptions {
        path: Some(scratch.path().join(COPY_NAME)),
        max_open: 32,
        max_idle: 8,
        lifetime: std::time::Duration::MAX,
        synchronous_off: true,
    }
}
