//! A damaged store is salvaged, and every answer is held against what was stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_engine::{Environment, Found, Handle, IndexPlace, ListObjects, SalvageReport, SystemClock, salvage_store};
use orcas_fs::sim::{SimDisk, SimRandom, SimRng};
use orcas_fs::{FileSystem, Open};
use orcas_record::BucketId;

use crate::damage::{Index, Plan};
use crate::places::Places;
use crate::store::{Built, INDEX, WAL, disk_with, options};

const OWNER: &str = "root";

#[derive(Debug, Default)]
pub struct Tally {
    pub stores: u64,
    /// Objects whose bytes were given, and were those that were stored last.
    pub given: u64,
    /// Objects that nothing of the damage had hit.
    pub untouched: u64,
    /// Objects that were not given, all of them reported.
    pub lost: u64,
    /// What had been deleted or replaced by a record that is gone, said to be in doubt.
    pub stale: u64,
    /// Stores of which not one record was left.
    pub nothing: u64,
    /// Stores that were served from their index.
    pub from_index: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        let Self { stores, given, untouched, lost, stale, nothing, from_index } = other;
        self.stores += stores;
        self.given += given;
        self.untouched += untouched;
        self.lost += lost;
        self.stale += stale;
        self.nothing += nothing;
        self.from_index += from_index;
    }
}

pub struct Bench {
    pub built: Built,
    places: Places,
    /// Names of buckets by id.
    names: BTreeMap<BucketId, String>,
}

impl Bench {
    pub fn new(built: Built) -> Self {
        let home = tempfile::tempdir().unwrap();
        let disk = disk_with(home.path());
        write_files(&disk, home.path(), &built.files);
        let places = Places::of(Arc::new(disk.clone()), home.path(), &built.files["store.keys"]);
        let mut bench = Self { built, places, names: BTreeMap::new() };
        let plan = Plan { index: Index::Missing, ..Plan::nothing() };
        let (engine, _) = bench.open(&disk, home.path(), &plan).unwrap();
        let buckets = engine.handle().buckets();
        let name = |bucket: &[u8]| String::from_utf8_lossy(bucket).into_owned();
        bench.names = buckets.iter().map(|bucket| (bucket.id, name(&bucket.name))).collect();
        bench
    }

    pub fn objects(&self) -> u64 {
        self.built.objects.len() as u64
    }

    fn open(&self, disk: &SimDisk, home: &Path, plan: &Plan) -> Result<(orcas_engine::Engine, SalvageReport)> {
        self.write_index(home, plan);
        let environment = Environment {
            fs: Arc::new(disk.clone()),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SimRandom::new(7)),
            index: IndexPlace::File,
        };
        salvage_store(options(home), environment, &Bytes::from_static(OWNER.as_bytes()))
    }

    fn write_index(&self, home: &Path, plan: &Plan) {
        let mut rng = SimRng::new(plan.seed ^ 0x1d3f);
        for (name, bytes) in &self.built.index {
            let mut bytes = bytes.clone();
            match plan.index {
                Index::Kept => {}
                Index::Missing => continue,
                Index::WithoutWal if name == WAL => continue,
                Index::WithoutWal => {}
                Index::Garbled(count) => (0..count).for_each(|_| {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 + rng.below(255) as u8;
                }),
                Index::Cut => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            }
            assert!(name == INDEX || name == WAL);
            std::fs::write(home.join(name), bytes).unwrap();
        }
    }

    /// Damages a copy of the store as planned and salvages it.
    ///
    /// # Errors
    /// What is wrong with what came out.
    pub fn run(&self, plan: &Plan, tally: &mut Tally) -> Result<SalvageReport, String> {
        // The index is a real file, so every run has a directory of its own; the disk has the same names in it.
        let home = tempfile::tempdir().unwrap();
        let disk = damaged(home.path(), &self.built.files, plan);
        let before = disk.steps();
        let salvaged = self.open(&disk, home.path(), plan);
        let left = |range: &(String, usize, usize)| !plan.hits(&self.built.files, &range.0, range.1, range.2);
        tally.stores += 1;
        let (engine, report) = match salvaged {
            Ok(salvaged) => salvaged,
            Err(error) if self.places.records.iter().any(left) => return Err(format!("not opened: {error}")),
            Err(_) => {
                tally.nothing += 1;
                return Ok(nothing());
            }
        };
        tally.from_index += u64::from(report.source == orcas_engine::SalvageSource::Index);
        let seen = self.look(&engine.handle(), &report, plan, tally)?;
        for ((bucket, key), ranges) in &self.places.objects {
            let whole = ranges.iter().all(left);
            tally.untouched += u64::from(whole);
            if seen.contains(&(*bucket, key.clone())) {
                continue;
            }
            if whole {
                return Err(format!("{}/{key:?} is whole and was missed", self.names[bucket]));
            }
            tally.lost += 1;
            if report.is_whole() && !self.nobody_can_know(plan) {
                return Err(format!("{}/{key:?} is not there, and nothing is said", self.names[bucket]));
            }
        }
        engine.close().map_err(|error| error.to_string())?;
        if disk.steps() != before {
            // Reads are no steps.
            return Err("something was written".to_owned());
        }
        Ok(report)
    }

    /// Whether the end of the log is gone in a way that leaves no trace, and the index with it: nothing leads to the last
    /// file, and zeros are what a file ends with. The last but one ends where the last one says.
    fn nobody_can_know(&self, plan: &Plan) -> bool {
        let gone = |name: &String| {
            let zeroed =
                |(file, _, bytes): &(String, usize, Vec<u8>)| file == name && bytes.iter().all(|byte| *byte == 0);
            plan.removed.contains(name) || plan.cut.contains_key(name) || plan.written.iter().any(zeroed)
        };
        let logs: Vec<&String> = self.built.files.keys().filter(|name| name.starts_with("log/")).collect();
        plan.index != Index::Kept && logs.into_iter().rev().take(2).any(gone)
    }

    /// Reads every object that is shown; the names of those that are given as they were stored last.
    fn look(
        &self,
        handle: &Handle,
        report: &SalvageReport,
        plan: &Plan,
        tally: &mut Tally,
    ) -> Result<BTreeSet<(BucketId, Bytes)>, String> {
        let mut seen = BTreeSet::new();
        for bucket in handle.buckets() {
            let shown = String::from_utf8_lossy(&bucket.name).into_owned();
            let Some(name) = self.names.get(&bucket.id) else { return Err(format!("bucket {shown} never was")) };
            if shown != *name && !report.made_up.contains(&shown) {
                return Err(format!("bucket {name} is called {shown}"));
            }
            for key in keys(handle, bucket.id)? {
                let full = format!("{name}/{}", String::from_utf8_lossy(&key));
                let found = handle.object(bucket.id, &key).map_err(|error| error.to_string())?;
                let Some(found) = found else { return Err(format!("{full} is listed and not there")) };
                let Ok(bytes) = read(handle, &found) else {
                    let listed = report.losses.iter().any(|loss| loss.bucket == shown && loss.key == key);
                    if !listed {
                        return Err(format!("{full} cannot be read, and nothing is said"));
                    }
                    continue;
                };
                if self.built.objects.get(&full) == Some(&bytes) {
                    tally.given += 1;
                    seen.insert((bucket.id, key));
                } else if self.built.former.get(&full).is_some_and(|all| all.contains(&bytes))
                    && (report.doubtful > 0 || self.nobody_can_know(plan))
                {
                    tally.stale += 1;
                } else {
                    return Err(format!("{full}: wrong bytes (seed {})", plan.seed));
                }
            }
        }
        Ok(seen)
    }
}

/// What is told of a store of which nothing is left.
fn nothing() -> SalvageReport {
    SalvageReport {
        keys: false,
        source: orcas_engine::SalvageSource::Log,
        findings: Vec::new(),
        findings_total: 0,
        losses: Vec::new(),
        losses_total: 0,
        whole: 0,
        whole_bytes: 0,
        records: 0,
        authenticated: 0,
        gone: Vec::new(),
        gone_total: 1,
        doubtful: 0,
        named: Vec::new(),
        deleted: 0,
        made_up: Vec::new(),
        log_files: 0,
        packs: 0,
        seconds: 0.0,
    }
}

fn write_files(disk: &SimDisk, home: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for dir in ["log", "chunks"] {
        disk.create_dir(&home.join(dir)).unwrap();
    }
    for (name, bytes) in files {
        let file = disk.open(&home.join(name), Open::Create).unwrap();
        file.write_at(0, bytes).unwrap();
    }
}

/// The store as the plan leaves it.
fn damaged(home: &Path, files: &BTreeMap<String, Vec<u8>>, plan: &Plan) -> SimDisk {
    let disk = disk_with(home);
    let mut left = files.clone();
    for (name, at, bytes) in &plan.written {
        if let Some(file) = left.get_mut(name) {
            file[*at..at + bytes.len()].copy_from_slice(bytes);
        }
    }
    for (name, length) in &plan.cut {
        if let Some(file) = left.get_mut(name) {
            file.truncate(*length);
        }
    }
    left.retain(|name, _| !plan.removed.contains(name));
    write_files(&disk, home, &left);
    disk
}

fn keys(handle: &Handle, bucket: BucketId) -> Result<Vec<Bytes>, String> {
    let mut list = ListObjects { bucket, prefix: Bytes::new(), delimiter: None, after: None, max_keys: 100 };
    let mut keys = Vec::new();
    loop {
        let page = handle.list_objects(&list).map_err(|error| format!("no list: {error}"))?;
        keys.extend(page.entries.into_iter().map(|entry| entry.key));
        list.after = page.next;
        if list.after.is_none() {
            return Ok(keys);
        }
    }
}

fn read(handle: &Handle, found: &Found) -> Result<Vec<u8>> {
    let size = found.object.version.size;
    let mut reader = handle.reader(found, 0, size.saturating_sub(1));
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(bytes),
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}
