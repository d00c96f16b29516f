//! Repairs on a simulated disk: what was moved is found, what cannot be read just now is not given up, and a power cut
//! at any step leaves a store that the next repair brings to the same end.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::super::super::{Environment, IndexPlace, ReclaimLimits, Repaired, Step, repair_store};
use super::super::steps::Steps;
use super::super::support::{environment, noise, options};
use orcas_base::error::{Error, Result};
use orcas_fs::{File, FileSystem, Open};
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRng};
use orcas_fsck::CheckProgress;
use orcas_record::{self as record, Record};

const DATA: &str = "/data";
const OBJECTS: u64 = 12;
/// Every so many objects one stays.
const KEPT: u64 = 4;
const LENGTH: usize = 300_000;
const EAGER: ReclaimLimits =
    ReclaimLimits { live_max: 0.9, freed_min: 1, output_max: 1 << 40, compact: true, hurry: false };
/// Too many files are open.
const EMFILE: i32 = 24;

pub(super) fn steps(disk: &SimDisk) -> Steps {
    Steps::on(disk, |options| options.pack_size = 1 << 20)
}

fn key(number: u64) -> String {
    format!("object-{number}")
}

pub(super) fn reclaim_all(steps: &mut Steps) {
    steps.apply();
    steps.stepper().refresh_reclamation(false);
    while steps.stepper().reclaim(&EAGER).unwrap() != Step::Idle {
        steps.stepper().commit();
        steps.apply();
    }
}

/// Objects of two chunks and small ones. Of the large ones most were deleted, so that the others were moved together.
fn moved() -> SimDisk {
    let disk = SimDisk::new();
    disk.refuse_holes();
    let mut steps = steps(&disk);
    let bucket = steps.bucket("b");
    for number in 0..OBJECTS {
        steps.put(&bucket, &key(number), &noise(LENGTH, number));
        steps.put(&bucket, &format!("small-{number}"), &noise(2_000, 100 + number));
    }
    for number in (0..OBJECTS).filter(|number| number % KEPT != 0) {
        steps.delete(&bucket, &key(number));
    }
    reclaim_all(&mut steps);
    let packs = disk.list(&Path::new(DATA).join("chunks")).unwrap();
    assert!(!packs.contains(&format!("{:020}.pack", 1)), "{packs:?}");
    steps.put(&bucket, "last", &noise(2_000, 99));
    drop(steps);
    disk
}

/// Every file of log and packs.
fn files(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for dir in ["log", "chunks"] {
        let dir = Path::new(DATA).join(dir);
        for name in disk.list(&dir).unwrap() {
            let file = disk.open(&dir.join(&name), Open::Read).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            found.insert(dir.join(name), bytes);
        }
    }
    found
}

/// Changes a byte in the payload of the first record of the same kind as `like`; false where there is none.
pub(super) fn damage(disk: &SimDisk, like: &Record) -> bool {
    let wanted = record::encode(like, &mut Vec::new());
    let mut found = None;
    for (path, bytes) in files(disk).into_iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "log")) {
        let mut at = 4096;
        while at + 24 <= bytes.len() && matches!(bytes[at + 5], 1 | 2) {
            let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
            let table = if bytes[at + 5] == 1 { 4 * length.div_ceil(65_536) } else { 0 };
            if found.is_none() && (bytes[at + 4], bytes[at + 5]) == (wanted, 1) {
                found = Some((path.clone(), at + 24 + table + length - 1, bytes[at + 24 + table + length - 1]));
            }
            at = (at + 24 + table + length).next_multiple_of(8);
        }
    }
    let Some((path, at, byte)) = found else { return false };
    disk.open(&path, Open::Write).unwrap().write_at(at as u64, &[byte ^ 0x10]).unwrap();
    true
}

pub(super) fn repair(fs: Arc<dyn FileSystem>) -> Result<Repaired> {
    let environment = Environment { fs, index: IndexPlace::Memory(None), ..environment() };
    repair_store(options(Path::new(DATA)), environment, &CheckProgress::default(), true)
}

/// Keys that are lost.
fn lost(repaired: &Repaired) -> Vec<String> {
    let given_up = repaired.given_up.as_ref().unwrap();
    assert_eq!(given_up.losses.len() as u64, given_up.losses_total);
    given_up.losses.iter().map(|loss| String::from_utf8_lossy(&loss.key).into_owned()).collect()
}

fn assert_holds_all_but(disk: &SimDisk, lost: &[String]) {
    let steps = steps(&disk.snapshot());
    let bucket = steps.handle().bucket(b"b").unwrap();
    for number in 0..OBJECTS {
        for (key, length, seed) in [(key(number), LENGTH, number), (format!("small-{number}"), 2_000, 100 + number)] {
            if lost.contains(&key) || length == LENGTH && number % KEPT != 0 {
                continue;
            }
            assert!(steps.get(&bucket, &key) == noise(length, seed), "{key}");
        }
    }
}

/// The record that says where chunks moved to is gone: they are found by what they are.
#[test]
fn chunks_whose_move_is_lost_are_found_in_their_new_pack() {
    let disk = moved();
    assert!(damage(&disk, &Record::MoveChunks { moves: Vec::new() }), "nothing moved");
    let repaired = repair(Arc::new(disk.clone())).unwrap();
    assert_eq!(lost(&repaired), [""; 0], "{repaired:#?}");
    assert!(!repaired.given_up.unwrap().records.is_empty(), "the record is gone");
    assert!(repaired.report.is_clean(), "{:#?}", repaired.report);
    assert_holds_all_but(&disk, &[]);
}

/// Of a content that is damaged the objects are lost, and of nothing else.
fn damaged() -> (SimDisk, Vec<String>) {
    let disk = moved();
    let content = Record::Content {
        fingerprint: record::Fingerprint([0; 32]),
        shared: true,
        bytes: bytes::Bytes::new(),
        seal: None,
    };
    assert!(damage(&disk, &content));
    let once = disk.snapshot();
    let lost = lost(&repair(Arc::new(once.clone())).unwrap());
    assert_eq!(lost, ["small-0"]);
    assert_holds_all_but(&once, &lost);
    (disk, lost)
}

/// What a repair left that did not come to its end: the next one does, and gives up nothing more. Whether the first had
/// left it anything to do.
fn ends_the_same(disk: &SimDisk, expected: &[String], what: &str) -> bool {
    let repaired = repair(Arc::new(disk.clone())).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(repaired.report.is_clean(), "{what}: {:#?}", repaired.report);
    assert_holds_all_but(disk, expected);
    let unfinished = repaired.given_up.is_some();
    assert!(!unfinished || lost(&repaired) == expected, "{what}: {repaired:#?}");
    unfinished
}

#[test]
fn a_read_that_fails_once_costs_nothing() {
    let (disk, expected) = damaged();
    let whole = disk.snapshot();
    let reads = whole.count(Operation::Read);
    repair(Arc::new(whole.clone())).unwrap();
    for nth in 1..=whole.count(Operation::Read) - reads {
        let disk = disk.snapshot();
        disk.fail(Operation::Read, nth, Fault::Io, false);
        let repaired = repair(Arc::new(disk.clone()));
        disk.clear_faults();
        match repaired {
            Ok(repaired) => assert_eq!(lost(&repaired), expected, "read {nth}"),
            Err(Error::Io { .. }) => drop(ends_the_same(&disk, &expected, &format!("read {nth}"))),
            Err(error) => panic!("read {nth}: {error}"),
        }
    }
}

#[test]
fn a_power_cut_at_any_step_of_a_repair_costs_nothing() {
    let (disk, expected) = damaged();
    let mut rng = SimRng::new(1);
    let whole = disk.snapshot();
    let before = whole.steps();
    repair(Arc::new(whole.clone())).unwrap();
    let mut unfinished = 0;
    for step in 1..=whole.steps() - before {
        let (steps, after) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None)));
        let (counted, kept) = (Arc::clone(&steps), Arc::clone(&after));
        let disk = disk.snapshot();
        disk.on_step(move |_, disk| {
            if counted.fetch_add(1, Ordering::Relaxed) + 1 == step {
                *kept.lock() = Some(disk.snapshot());
            }
        });
        repair(Arc::new(disk)).unwrap();
        // What an open store does in the background takes more steps in one run than in another.
        let Some(reached) = after.lock().take() else { break };
        for policy in [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Scatter] {
            let left = reached.crash(&mut rng, policy);
            unfinished += u64::from(ends_the_same(&left, &expected, &format!("step {step}, {policy:?}")));
        }
    }
    assert!(unfinished > 0);
}

/// A disk on which one file cannot be opened, since too many are.
struct Crowded {
    disk: SimDisk,
    opened: AtomicU64,
    refused: u64,
}

impl FileSystem for Crowded {
    fn open(&self, path: &Path, mode: Open) -> Result<Arc<dyn File>> {
        if self.opened.fetch_add(1, Ordering::Relaxed) == self.refused {
            return Err(Error::io("open", path, io::Error::from_raw_os_error(EMFILE)));
        }
        self.disk.open(path, mode)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.disk.create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }
}

#[test]
fn a_file_that_cannot_be_opened_just_now_is_not_given_up() {
    let (disk, expected) = damaged();
    let mut stopped = 0;
    for refused in 0.. {
        let disk = disk.snapshot();
        let crowded = Arc::new(Crowded { disk: disk.clone(), opened: AtomicU64::new(0), refused });
        let repaired = repair(Arc::clone(&crowded) as Arc<dyn FileSystem>);
        if crowded.opened.load(Ordering::Relaxed) <= refused {
            break;
        }
        match repaired {
            Ok(repaired) => assert_eq!(lost(&repaired), expected, "open {refused}"),
            Err(Error::Io { .. }) => {
                stopped += 1;
                ends_the_same(&disk, &expected, &format!("open {refused}"));
            }
            Err(error) => panic!("open {refused}: {error}"),
        }
    }
    assert!(stopped > 10, "{stopped}");
}
