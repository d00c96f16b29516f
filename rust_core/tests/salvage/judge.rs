//! A damaged store is salvaged, and every answer is held against what was stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_engine::{
    Environment, Handle, IndexPlace, ListObjects, PinnedObject, SalvageReport, SystemClock, salvage_store,
};
use orcas_fs::sim::{SimDisk, SimRandom, SimRng};
use orcas_fs::{FileSystem, Open};
use orcas_record::{BucketId, Sequence};

use crate::damage::{Index, Plan};
use crate::places::{Frame, Places, Range};
use crate::store::{Built, INDEX, WAL, disk_with, options};
use crate::versions::Looking;

const OWNER: &str = "root";
/// Bytes of a frame that say which record it is.
const FRAME_HEADER: usize = 24;

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
    /// Objects that are missing or stale, which nobody can know: their records have left no trace.
    pub traceless: u64,
    /// Versions of buckets that keep them, as they were stored last.
    pub versions: u64,
    /// Those that were given with tags or locks of an earlier time, which was said.
    pub older_attributes: u64,
    /// Stores of which not one record was left.
    pub nothing: u64,
    /// Stores that were served from their index.
    pub from_index: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        let Self { stores, given, untouched, lost, stale, traceless, .. } = other;
        self.stores += stores;
        self.given += given;
        self.untouched += untouched;
        self.lost += lost;
        self.stale += stale;
        self.traceless += traceless;
        self.versions += other.versions;
        self.older_attributes += other.older_attributes;
        self.nothing += other.nothing;
        self.from_index += other.from_index;
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
        let places = Places::of(Arc::new(disk.clone()), home.path(), &built.files);
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
        salvage_store(options(home, self.built.size), environment, &Bytes::from_static(OWNER.as_bytes()))
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
        let files = damaged(&self.built.files, plan);
        let disk = disk_with(home.path());
        write_files(&disk, home.path(), &files);
        let before = disk.steps();
        let salvaged = self.open(&disk, home.path(), plan);
        let left = |range: &Range| self.is_left(plan, range);
        let damage = Damage { plan, files: &files, known: self.known(plan) };
        tally.stores += 1;
        let (engine, report) = match salvaged {
            Ok(salvaged) => salvaged,
            Err(error) if self.places.records.iter().any(|frame| left(&frame.place)) => {
                return Err(format!("not opened: {error}"));
            }
            Err(_) => {
                tally.nothing += 1;
                return Ok(nothing());
            }
        };
        tally.from_index += u64::from(report.source == orcas_engine::SalvageSource::Index);
        self.judge_proofs(plan, &report)?;
        let handle = engine.handle();
        let seen = self.look(&handle, &report, &damage, tally)?;
        let looking =
            Looking { handle: &handle, built: &self.built, report: &report, damage: &damage, places: &self.places };
        self.look_at_versions(&looking, &left, tally)?;
        drop(handle);
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
            if report.is_whole() {
                if !self.places.last.get(&(*bucket, key.clone())).is_some_and(|frame| damage.leaves_no_trace(frame)) {
                    return Err(format!("{}/{key:?} is not there, and nothing is said", self.names[bucket]));
                }
                tally.traceless += 1;
            }
        }
        engine.close().map_err(|error| error.to_string())?;
        if disk.steps() != before {
            // Reads are no steps.
            return Err("something was written".to_owned());
        }
        Ok(report)
    }

    fn look_at_versions(
        &self,
        looking: &Looking<'_>,
        left: &dyn Fn(&Range) -> bool,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let is_kept = |name: &str| self.built.versions.keys().any(|(full, _)| full.starts_with(&format!("{name}/")));
        for bucket in looking.handle.buckets().iter().filter(|bucket| is_kept(&self.names[&bucket.id])) {
            let shown = String::from_utf8_lossy(&bucket.name);
            looking.look((bucket.id, &self.names[&bucket.id], &shown), &mut seen, tally)?;
        }
        looking.complete(&seen, &|range| left(range), &|bucket| is_kept(&self.names[&bucket]))
    }

    fn is_left(&self, plan: &Plan, (file, from, until): &Range) -> bool {
        !plan.hits(&self.built.files, file, *from, *until)
    }

    /// The last record of which anything is left that says that it was there: the header of its frame, or one of a file.
    fn known(&self, plan: &Plan) -> Sequence {
        let frames = self.places.records.iter().map(|Frame { sequence, place: (file, from, _) }| {
            let header = (file.clone(), *from, from + FRAME_HEADER);
            (*sequence, header)
        });
        let headers = self.places.headers.iter().map(|frame| (frame.sequence, frame.place.clone()));
        let left = frames.chain(headers).filter(|(_, place)| self.is_left(plan, place));
        left.map(|(sequence, _)| sequence).max().unwrap_or(0)
    }

    /// Records count as proven only where they, and the commit record of their batch, are as they were written.
    fn judge_proofs(&self, plan: &Plan, report: &SalvageReport) -> Result<(), String> {
        let whole = self.places.batches.iter().filter(|batch| self.is_left(plan, &batch.commit));
        let proven: usize =
            whole.map(|batch| batch.records.iter().filter(|place| self.is_left(plan, place)).count()).sum();
        let most = if report.keys { proven as u64 } else { 0 };
        match report.authenticated <= most {
            true => Ok(()),
            false => Err(format!("{} records are said to be proven, {most} are", report.authenticated)),
        }
    }

    /// Reads every object that is shown; the names of those that are given as they were stored last.
    fn look(
        &self,
        handle: &Handle,
        report: &SalvageReport,
        damage: &Damage<'_>,
        tally: &mut Tally,
    ) -> Result<BTreeSet<(BucketId, Bytes)>, String> {
        let (mut seen, mut doubtful) = (BTreeSet::new(), 0);
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
                } else if self.built.former.get(&full).is_some_and(|all| all.contains(&bytes)) {
                    tally.stale += 1;
                    match self.places.last.get(&(bucket.id, key)).is_some_and(|frame| damage.leaves_no_trace(frame)) {
                        true => tally.traceless += 1,
                        false => doubtful += 1,
                    }
                    if doubtful > report.doubtful {
                        return Err(format!("{full} is what it was before, and nothing is said"));
                    }
                } else {
                    return Err(format!("{full}: wrong bytes (seed {})", damage.plan.seed));
                }
            }
        }
        Ok(seen)
    }
}

/// What was done to a store, and what is left of it.
pub struct Damage<'a> {
    pub plan: &'a Plan,
    files: &'a BTreeMap<String, Vec<u8>>,
    /// The last record of which anything says that it was there.
    known: Sequence,
}

impl Damage<'_> {
    /// Whether nobody can tell that this record ever was: the index is gone, nothing leads to the last log file, and zeros
    /// are what a file ends with.
    pub fn leaves_no_trace(&self, frame: &Frame) -> bool {
        let (file, from, _) = &frame.place;
        let rest = self.files.get(file).and_then(|bytes| bytes.get(*from..)).unwrap_or_default();
        self.plan.index != Index::Kept && frame.sequence > self.known && rest.iter().all(|byte| *byte == 0)
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

/// The files as the plan leaves them.
fn damaged(files: &BTreeMap<String, Vec<u8>>, plan: &Plan) -> BTreeMap<String, Vec<u8>> {
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
    left
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

pub fn read(handle: &Handle, found: &PinnedObject) -> Result<Vec<u8>> {
    let size = found.object.version.size;
    let mut reader = handle.reader(found, 0, size.saturating_sub(1));
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(bytes),
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}
