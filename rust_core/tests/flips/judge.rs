//! One flipped byte: what the check says of it, and what a store shows that is opened with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::Error;
use orcas_engine::{IndexPlace, Stepper, repair_store};
use orcas_fs::{File, FileSystem, Open};
use orcas_fs_testing::SimDisk;

use crate::buckets;
use crate::observe::{Observed, Seen, compare};
use crate::store::{Built, INDEX, disk_with, environment, open, options};
use orcas_fsck::{CheckOptions, CheckProgress, CheckReport, check_store};

/// What a store shows.
#[derive(Debug)]
pub enum Effect {
    Refused(Error),
    Opened(Seen),
}

impl Effect {
    /// Whether anybody could notice.
    pub fn is_seen(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Opened(seen) => seen.errors > 0 || self.is_wrong(),
        }
    }

    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::Opened(seen) if !seen.wrong.is_empty() || !seen.absent.is_empty() || seen.held > 0)
    }
}

/// What the check says.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing at all.
    Nothing,
    /// Something about the file.
    Named,
    /// Something, but not about the file.
    Elsewhere(String),
    Failed(String),
}

pub struct FlipResult {
    pub said: Said,
    /// With the index as it was, and with one that is built from the log.
    pub kept: Option<Effect>,
    pub rebuilt: Option<Effect>,
}

/// What a repair makes of a store that does not open, once it may lose something.
#[derive(Debug)]
pub struct Repair {
    /// What the store shows then, or why it does not open even so.
    pub effect: Effect,
    /// Keys of the objects and parts that the byte hits: what a check says that has the index to tell by.
    pub hit: BTreeSet<String>,
    /// Whether the byte is in a record that only brings content: then nothing but what it hits may change.
    pub content_only: bool,
    /// Of a byte in a record about a bucket: objects that are in no bucket any more.
    pub missing: Option<Vec<String>>,
}

/// A built store on disks from which each flip gets its own copy.
pub struct Bench<'a> {
    pub built: &'a Built,
    /// Where the index really is, so that a check finds it.
    place: tempfile::TempDir,
    disk: SimDisk,
    pub state: Observed,
    /// The same store with its index, whatever the other one has.
    whole: Scratch,
}

impl<'a> Bench<'a> {
    /// Also proves that the store is in order while no byte is flipped. `indexed` is whether the check finds an index.
    pub fn new(built: &'a Built, indexed: bool) -> Self {
        let place = tempfile::tempdir().unwrap();
        let disk = disk_with(place.path());
        for dir in ["log", "chunks"] {
            disk.create_dir(&place.path().join(dir)).unwrap();
        }
        for (name, bytes) in &built.files {
            let path = place.path().join(name);
            let file = disk.open(&path, Open::Create).unwrap();
            file.write_at(0, bytes).unwrap();
            file.sync_data().unwrap();
            disk.sync_dir(path.parent().unwrap()).unwrap();
        }
        if indexed {
            write_index(place.path(), &built.index);
        }
        let whole = scratch(built);
        write_index(&whole.path, &built.index);
        let mut bench = Self { built, place, disk, state: Observed::default(), whole };
        bench.state = bench.observe();
        bench
    }

    fn observe(&self) -> Observed {
        let mut states = [None, Some(Arc::clone(&self.built.snapshot))].map(|index| {
            let stepper =
                open(&self.disk.snapshot(), self.place.path(), self.built.size, IndexPlace::Memory(index)).unwrap();
            crate::observe::observe(stepper.handle())
        });
        assert_eq!(states[0], states[1]);
        for (name, bytes) in &self.built.objects {
            let (_, key) = name.split_once('/').unwrap();
            let held = states[0].items.iter().any(|((_, k, _), item)| k == key.as_bytes() && *item.bytes == *bytes);
            assert!(held, "{name} is not in the store");
        }
        let report = self.check(&self.disk).unwrap();
        assert!(report.is_clean(), "{report:#?}");
        std::mem::take(&mut states[0])
    }

    fn check(&self, disk: &SimDisk) -> Result<CheckReport, Error> {
        check(disk, self.place.path())
    }

    /// Flips bits of one byte of a file of log, packs or keys.
    pub fn flip(&self, name: &str, offset: usize, mask: u8) -> FlipResult {
        let byte = self.built.files[name][offset] ^ mask;
        self.change(name, &|file| file.write_at(offset as u64, &[byte]).unwrap())
    }

    /// Changes a file of log, packs or keys.
    pub fn change(&self, name: &str, change: &dyn Fn(&dyn File)) -> FlipResult {
        let disk = self.disk.snapshot();
        let file = disk.open(&self.place.path().join(name), Open::Write).unwrap();
        change(&*file);
        file.sync_data().unwrap();
        let said = said(self.check(&disk.snapshot()), name);
        let show = |index| {
            Some(match open(&disk.snapshot(), self.place.path(), self.built.size, IndexPlace::Memory(index)) {
                Ok(stepper) => Effect::Opened(compare(stepper.handle(), &self.state)),
                Err(error) => Effect::Refused(error),
            })
        };
        FlipResult { said, kept: show(Some(Arc::clone(&self.built.snapshot))), rebuilt: show(None) }
    }

    /// Flips bits of one byte of a file of the index, in the directory `scratch` of its own.
    pub fn flip_index(&self, scratch: &Scratch, name: &str, offset: usize, mask: u8) -> FlipResult {
        let mut index = self.built.index.clone();
        if let Some(byte) = index.get_mut(name).and_then(|bytes| bytes.get_mut(offset)) {
            *byte ^= mask;
        }
        write_index(&scratch.path, &index);
        let said = said(check(&scratch.disk.snapshot(), &scratch.path), INDEX);
        let kept = match open(&scratch.disk.snapshot(), &scratch.path, self.built.size, IndexPlace::File) {
            Ok(stepper) => Effect::Opened(compare(stepper.handle(), &self.state)),
            Err(error) => Effect::Refused(error),
        };
        FlipResult { said, kept: Some(kept), rebuilt: None }
    }

    /// The same store in another place, for whoever changes its index.
    pub fn scratch(&self) -> Scratch {
        scratch(self.built)
    }

    /// A copy of the disk, with bits of one byte of a file flipped.
    fn flipped(&self, (disk, data): (&SimDisk, &Path), name: &str, offset: usize, mask: u8) -> SimDisk {
        let disk = disk.snapshot();
        let file = disk.open(&data.join(name), Open::Write).unwrap();
        file.write_at(offset as u64, &[self.built.files[name][offset] ^ mask]).unwrap();
        disk
    }

    /// Repairs a store without an index in which bits of one byte of a log file are flipped, and opens it.
    ///
    /// # Errors
    /// As for the repair, or when it does not open even so.
    fn repaired(&self, name: &str, offset: usize, mask: u8) -> Result<Stepper, Error> {
        let place = self.place.path();
        let disk = self.flipped((&self.disk, place), name, offset, mask);
        let environment = environment(&disk, IndexPlace::Memory(None));
        repair_store(options(place, self.built.size), environment, &CheckProgress::default(), true)?;
        open(&disk, place, self.built.size, IndexPlace::Memory(None))
    }

    /// What such a repair comes to.
    pub fn repair(&self, name: &str, offset: usize, mask: u8) -> Repair {
        let disk = self.flipped((&self.whole.disk, &self.whole.path), name, offset, mask);
        let told = check(&disk, &self.whole.path).unwrap();
        let hit = told.losses.iter().map(|loss| String::from_utf8_lossy(&loss.key).into_owned()).collect();
        let kind = kind_at(&self.built.files[name], offset);
        let mut missing = None;
        let effect = match self.repaired(name, offset, mask) {
            Ok(stepper) => {
                let of_bucket = kind.is_some_and(|kind| buckets::KINDS.contains(&kind));
                missing = of_bucket.then(|| buckets::missing(stepper.handle(), self.built, &self.state));
                Effect::Opened(compare(stepper.handle(), &self.state))
            }
            Err(error) => Effect::Refused(error),
        };
        Repair { effect, hit, content_only: is_content_only(&self.built.files[name], offset), missing }
    }
}

/// A frame of a log file.
pub struct Frame {
    pub kind: u8,
    class: u8,
    pub payload: std::ops::Range<usize>,
    end: usize,
}

/// The frames of a whole log file.
pub fn frames(bytes: &[u8]) -> Vec<Frame> {
    let (mut at, mut frames) = (4096, Vec::new());
    while at + 24 <= bytes.len() && bytes[at + 5] != 0 {
        let (kind, class) = (bytes[at + 4], bytes[at + 5]);
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let table = if class == 1 { 4 * length.div_ceil(65_536) } else { 0 };
        let payload = at + 24 + table..at + 24 + table + length;
        at = payload.end.next_multiple_of(8);
        frames.push(Frame { kind, class, payload, end: at });
    }
    frames
}

/// The kind of the record at `offset` of a whole log file.
fn kind_at(bytes: &[u8], offset: usize) -> Option<u8> {
    let found = frames(bytes).into_iter().find(|frame| offset < frame.end)?;
    (found.class == 1).then_some(found.kind)
}

/// Whether the frame at `offset` of a whole log file is a commit record, or brings a content, a chunk or a segment.
fn is_content_only(bytes: &[u8], offset: usize) -> bool {
    let found = frames(bytes).into_iter().find(|frame| offset < frame.end);
    found.is_some_and(|frame| frame.class == 2 || [4, 5, 6, 15].contains(&frame.kind))
}

fn scratch(built: &Built) -> Scratch {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk_with(dir.path());
    for sub in ["log", "chunks"] {
        disk.create_dir(&dir.path().join(sub)).unwrap();
    }
    for (name, bytes) in &built.files {
        let file = disk.open(&dir.path().join(name), Open::Create).unwrap();
        file.write_at(0, bytes).unwrap();
    }
    Scratch { path: dir.path().to_owned(), disk, _dir: dir }
}

pub struct Scratch {
    pub path: PathBuf,
    pub disk: SimDisk,
    _dir: tempfile::TempDir,
}

pub fn write_index(dir: &Path, index: &BTreeMap<String, Vec<u8>>) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(dir.join(format!("{INDEX}{suffix}")));
    }
    for (name, bytes) in index {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
}

pub fn check(disk: &SimDisk, data: &Path) -> Result<CheckReport, Error> {
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let options = CheckOptions { read_content: true, threads: 1, bytes_per_sec: 0 };
    check_store(&fs, data, &options, None, &CheckProgress::default())
}

/// Whether a place in a report is in this file: by its name, or by its number.
fn is_in(place: &str, name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let number = file.trim_end_matches(".log").trim_start_matches('0');
    let words = place.replace(',', " ");
    let found = words.split(' ').any(|word| word == name || word.rsplit('/').next() == Some(file));
    found || file.ends_with(".log") && place.starts_with(&format!("log file {number},"))
}

fn said(report: Result<CheckReport, Error>, name: &str) -> Said {
    let report = match report {
        Ok(report) => report,
        Err(error) => return Said::Failed(error.to_string()),
    };
    if report.findings.iter().any(|finding| is_in(&finding.place, name)) {
        return Said::Named;
    }
    if report.is_clean() && report.findings.is_empty() {
        return Said::Nothing;
    }
    Said::Elsewhere(format!("{:?} {:?}", report.index, report.findings.first()))
}
