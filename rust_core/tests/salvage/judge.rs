//! A damaged store is salvaged, and every answer is held against what was stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_engine::{Environment, Handle, IndexPlace, SalvageReport, SystemClock, salvage_store};
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{SimDisk, SimRandom, SimRng};
use orcas_record::{Bucket, BucketId, Sequence};

use crate::damage::{Index, Plan};
use crate::places::{Frame, Places, Range};
use crate::store::{Built, INDEX, WAL, disk_with, options};
use crate::versions::{self, Looking};
use orcas_catalog::{ListObjects, ListPage, PinnedObject};

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
    /// Names of buckets by id. A layer has that of a bucket whose snapshots or stack have it.
    names: BTreeMap<BucketId, String>,
    /// The objects that buckets show: their layers and keys, each with the layers above in which the key was changed.
    shown: BTreeMap<Name, BTreeSet<BucketId>>,
    /// Of buckets with several.
    layers: BTreeSet<BucketId>,
    /// The versions that buckets with layers and versioning show, and where everything stands that says so.
    histories: BTreeMap<versions::Name, Vec<Range>>,
}

/// An object or a change of one: the bucket or layer, and the key.
type Name = (BucketId, Bytes);

impl Bench {
    pub fn new(built: Built) -> Self {
        let home = tempfile::tempdir().unwrap();
        let disk = disk_with(home.path());
        write_files(&disk, home.path(), &built.files);
        let places = Places::of(Arc::new(disk.clone()), home.path(), &built.files);
        let (names, shown, layers, histories) = Default::default();
        let mut bench = Self { built, places, names, shown, layers, histories };
        let plan = Plan { index: Index::Missing, ..Plan::nothing() };
        let (engine, _) = bench.open(&disk, home.path(), &plan).unwrap();
        let handle = engine.handle();
        let name = |bucket: &[u8]| String::from_utf8_lossy(bucket).into_owned();
        for bucket in handle.buckets() {
            let snapshots = handle.snapshots(&bucket.name);
            for layer in bucket.stack().iter().chain(snapshots.iter().flat_map(|snapshot| &snapshot.layers)) {
                bench.names.entry(*layer).or_insert_with(|| name(&bucket.name));
            }
            bench.layers.extend(&bucket.layers);
            if bucket.amendments().is_some() {
                bench.see_histories(&handle, &bucket);
            } else {
                bench.see_shown(&handle, &bucket);
            }
        }
        // Those of layers that were given up, `bucket#id`, tell which bucket they were made for.
        for (id, full) in &bench.places.layer_names {
            let bucket = full.split_once('#').expect("the name of a layer").0;
            bench.names.entry(*id).or_insert_with(|| bucket.to_owned());
        }
        // A bucket may be a layer of its forks.
        bench.names.extend(handle.buckets().iter().map(|bucket| (bucket.id, name(&bucket.name))));
        bench
    }

    fn see_shown(&mut self, handle: &Handle, bucket: &Bucket) {
        for key in keys(handle, bucket).unwrap() {
            let layer = handle.object_in(bucket, &key).unwrap().unwrap().object.version.bucket;
            let above = bucket.stack().iter().copied().take_while(|above| *above != layer);
            self.shown.entry((layer, key)).or_default().extend(above);
        }
    }

    fn see_histories(&mut self, handle: &Handle, bucket: &Bucket) {
        for (key, id) in versions::list(handle, bucket).unwrap() {
            let stated = bucket.layers.iter().filter_map(|layer| self.places.versions.get(&(*layer, key.clone(), id)));
            let ranges = stated.flatten().chain(self.places.buckets.iter().map(|frame| &frame.place));
            self.histories.insert((bucket.id, key.clone(), id), ranges.cloned().collect());
        }
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
        let reached: BTreeSet<BucketId> = stacks(&handle).flat_map(|(_, stack)| stack).collect();
        let looking =
            Looking { handle: &handle, built: &self.built, report: &report, damage: &damage, places: &self.places };
        self.look_at_versions(&looking, &left, tally)?;
        drop(handle);
        self.judge_missing(&Found { seen, reached, left: &left, damage: &damage, report: &report }, tally)?;
        engine.close().map_err(|error| error.to_string())?;
        if disk.steps() != before {
            // Reads are no steps.
            return Err("something was written".to_owned());
        }
        Ok(report)
    }

    /// Every object of which nothing was hit is there, and what is not there was said.
    fn judge_missing(&self, found: &Found<'_>, tally: &mut Tally) -> Result<(), String> {
        let Found { damage, report, .. } = found;
        let shown = |name: &Name| self.shown.get(name);
        for (name, ranges) in &self.places.objects {
            let Some(above) = shown(name) else { continue };
            let whole = ranges.iter().all(found.left);
            tally.untouched += u64::from(whole);
            if found.seen.contains(name) {
                continue;
            }
            let full = format!("{}/{:?}", self.names[&name.0], name.1);
            // What was done to the key last, in any layer that counts.
            let last: Vec<_> = above
                .iter()
                .chain([&name.0])
                .filter_map(|layer| self.places.last.get(&(*layer, name.1.clone())))
                .collect();
            let whole = whole && last.iter().all(|frame| (found.left)(&frame.place));
            let buckets_whole = self.places.buckets.iter().all(|frame| (found.left)(&frame.place));
            // A lost record of a layer may hide it behind another state of the key.
            if whole && (buckets_whole || !self.layers.contains(&name.0) || !found.reached.contains(&name.0)) {
                return Err(format!("{full} is whole and was missed"));
            }
            tally.lost += 1;
            if report.is_whole() {
                let buckets = self.places.buckets.iter().filter(|frame| !(found.left)(&frame.place));
                if !last.into_iter().chain(buckets).any(|frame| damage.leaves_no_trace(frame)) {
                    return Err(format!("{full} is not there, and nothing is said"));
                }
                tally.traceless += 1;
            }
        }
        Ok(())
    }

    fn look_at_versions(
        &self,
        looking: &Looking<'_>,
        left: &dyn Fn(&Range) -> bool,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let is_kept = |name: &str| self.built.versions.keys().any(|(full, _)| full.starts_with(&format!("{name}/")));
        let with_versions = |bucket: &&Arc<Bucket>| self.names.get(&bucket.id).is_some_and(|name| is_kept(name));
        for bucket in looking.handle.buckets().iter().filter(with_versions) {
            looking.look((bucket, &self.names[&bucket.id]), &mut seen, tally)?;
        }
        // Those of layers are looked for in the buckets that show them.
        let alone = |bucket| is_kept(&self.names[&bucket]) && !self.layers.contains(&bucket);
        let alone = self.places.versions.iter().filter(|((bucket, _, _), _)| alone(*bucket));
        versions::complete(&seen, &|range| left(range), alone.chain(&self.histories))
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
            // One that is made up for a layer whose bucket is lost.
            let id = match report.made_up.contains(&shown) {
                true => bucket.stack().iter().find(|layer| self.names.contains_key(layer)),
                false => Some(&bucket.id),
            };
            let Some(name) = id.and_then(|id| self.names.get(id)) else {
                return Err(format!("bucket {shown} never was"));
            };
            if shown != *name && !report.made_up.contains(&shown) {
                return Err(format!("bucket {name} is called {shown}"));
            }
            for key in keys(handle, &bucket)? {
                let full = format!("{name}/{}", String::from_utf8_lossy(&key));
                let found = handle.object_in(&bucket, &key).map_err(|error| error.to_string())?;
                let Some(found) = found else { return Err(format!("{full} is listed and not there")) };
                let Ok(bytes) = read(handle, &found) else {
                    if !is_said(handle, report, &found) {
                        return Err(format!("{full} cannot be read, and nothing is said"));
                    }
                    continue;
                };
                if self.built.objects.get(&full) == Some(&bytes) {
                    tally.given += 1;
                    seen.insert((found.object.version.bucket, key));
                } else if self.built.former.get(&full).is_some_and(|all| all.contains(&bytes)) {
                    tally.stale += 1;
                    let last = |layer: &BucketId| self.places.last.get(&(*layer, key.clone()));
                    let mut last = bucket.stack().iter().filter_map(last).chain(&self.places.buckets);
                    match last.any(|frame| damage.leaves_no_trace(frame)) {
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

/// What came out of a damaged store.
struct Found<'a> {
    /// Objects that are given as they were stored last, by their layers.
    seen: BTreeSet<Name>,
    /// The layers that buckets and their snapshots have.
    reached: BTreeSet<BucketId>,
    left: &'a dyn Fn(&Range) -> bool,
    damage: &'a Damage<'a>,
    report: &'a SalvageReport,
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

/// Names and layers of the buckets and of their snapshots.
fn stacks(handle: &Handle) -> impl Iterator<Item = (String, Vec<BucketId>)> {
    let with_snapshots = |bucket: Arc<Bucket>| {
        let snapshots = handle.snapshots(&bucket.name);
        snapshots.into_iter().chain([bucket])
    };
    let name = |bucket: &Bucket| String::from_utf8_lossy(&bucket.name).into_owned();
    handle.buckets().into_iter().flat_map(with_snapshots).map(move |bucket| (name(&bucket), bucket.stack().to_vec()))
}

/// Whether what cannot be read is reported: by the name of one of the buckets and snapshots that share it.
pub fn is_said(handle: &Handle, report: &SalvageReport, found: &PinnedObject) -> bool {
    let version = &found.object.version;
    let sharing = stacks(handle).filter(|(_, stack)| stack.contains(&version.bucket));
    let names: Vec<String> = sharing.map(|(name, _)| name).collect();
    report.losses.iter().any(|loss| loss.key == version.key && names.contains(&loss.bucket))
}

fn keys(handle: &Handle, bucket: &Bucket) -> Result<Vec<Bytes>, String> {
    let prefix = Bytes::new();
    let mut list = ListObjects { bucket: bucket.id, prefix, delimiter: None, after: None, max_keys: 100 };
    let mut keys = Vec::new();
    loop {
        let mut page = ListPage::default();
        let next = handle.list_objects_in(bucket, &list, &mut page);
        list.after = next.map_err(|error| format!("no list: {error}"))?;
        keys.extend(page.entries.into_iter().map(|entry| entry.key));
        if list.after.is_none() {
            return Ok(keys);
        }
    }
}

pub fn read(handle: &Handle, found: &PinnedObject) -> Result<Vec<u8>> {
    let size = found.object.version.size;
    let mut reader = handle.content().reader(found, 0, size.saturating_sub(1));
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok(bytes),
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}
