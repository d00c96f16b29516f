//! Compaction of the log on a simulated disk that loses power at any step of it, or of the recovery that follows.
//!
//! The oracle is an index built from the records: the location of each, and the compacted files in force. It must find
//! every acknowledged record that counts, whenever the power was lost, whichever older state of the index survived, and
//! however many of the replaced files had been removed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use orcas_base::error::Result;
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRandom, SimRng};

use crate::chain::{Link, LogDirectory};
use crate::encoding::{HEADER_ENCODED, Header};
use crate::*;

const POLICIES: [CrashPolicy; 4] = [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter];
const DATA: u8 = 4;
const REPLACE: u8 = 9;

fn options(seed: u64) -> LogOptions {
    LogOptions {
        established: false,
        dir: "/log".into(),
        store_id: [7; 16],
        commit_key: [9; 32],
        file_size: 4096 + 3 * 1024,
        random: Arc::new(SimRandom::new(seed)),
    }
}

fn payload(sequence: Sequence) -> Vec<u8> {
    let mut rng = SimRng::new(sequence);
    let length = CONTENT_PREFIX as u64 + rng.below(500);
    (0..length).map(|_| rng.next() as u8).collect()
}

/// The part of an index that the log needs. An older state catches up by a replay.
#[derive(Clone, Default)]
struct Index {
    position: Option<LogPosition>,
    places: BTreeMap<Sequence, LogLocation>,
    compacted: BTreeMap<LogFileId, (Sequence, Sequence)>,
}

/// The record of a replacement: the file, its range, and the new locations of records.
struct Replacement {
    log: (LogFileId, Sequence, Sequence),
    moves: Vec<(Sequence, LogLocation)>,
}

impl Replacement {
    fn encode(&self) -> Vec<u8> {
        let (file, first, last) = self.log;
        let moves = self.moves.iter().flat_map(|(sequence, at)| [*sequence, codec::in_log_parts(*at).1]);
        [codec::log_file_number(file), first, last].into_iter().chain(moves).flat_map(u64::to_le_bytes).collect()
    }

    fn decode(payload: &[u8]) -> Self {
        let words: Vec<u64> = payload.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let moves = words[3..].chunks(2).map(|pair| (pair[0], codec::in_log(words[0], pair[1]))).collect();
        Self { log: (codec::log_file(words[0]), words[1], words[2]), moves }
    }
}

impl Index {
    fn apply(&mut self, batch: &RecoveredBatch) {
        for record in &batch.records {
            if record.kind == DATA {
                assert_eq!(record.payload, payload(record.sequence), "record {}", record.sequence);
                self.places.insert(record.sequence, record.at);
            } else {
                self.replace(&Replacement::decode(&record.payload));
            }
        }
        self.position = Some(batch.position.clone());
    }

    fn replace(&mut self, replacement: &Replacement) {
        let (file, first, last) = replacement.log;
        self.compacted.retain(|_, range| range.0 < first || last < range.1);
        self.compacted.insert(file, (first, last));
        self.places.extend(replacement.moves.iter().copied());
    }

    fn in_force(&self) -> Vec<(LogFileId, Sequence, Sequence)> {
        self.compacted.iter().map(|(file, (first, last))| (*file, *first, *last)).collect()
    }
}

/// The records that were acknowledged up to some moment.
#[derive(Clone, Default)]
struct Acknowledged {
    /// Acknowledged data records that still count.
    live: BTreeSet<Sequence>,
    /// All states of the index so far.
    index_states: Vec<Index>,
}

/// Opens the log as the engine does, with the surviving `index`, or without one if that does not match. Also returns the
/// steps of the disk before files were removed.
fn open(disk: &SimDisk, seed: u64, index: &Index) -> Result<(Log, Index, u64), RecoverError> {
    match replay(disk, seed, index.clone()) {
        Err(RecoverError::NoMatchingPosition) => replay(disk, seed, Index::default()),
        done => done,
    }
}

fn replay(disk: &SimDisk, seed: u64, mut index: Index) -> Result<(Log, Index, u64), RecoverError> {
    let from = index.position.clone();
    let mut last = from.as_ref().map_or(0, |position| position.sequence);
    let recovered = recover(Arc::new(disk.clone()), options(seed), from.as_ref(), &mut |batch| {
        for record in &batch.records {
            assert!(record.sequence > last, "{} behind {last}", record.sequence);
            last = record.sequence;
        }
        assert!(batch.position.sequence >= last);
        index.apply(&batch);
        Ok(())
    });
    let mut log = recovered?.log;
    let steps = disk.steps();
    log.keep(&index.in_force())?;
    Ok((log, index, steps))
}

fn check(disk: &SimDisk, log: &Log, index: &Index, acknowledged: &Acknowledged) {
    let reader = log.reader();
    for sequence in &acknowledged.live {
        let expected = payload(*sequence);
        let at = *index.places.get(sequence).unwrap_or_else(|| panic!("record {sequence} is gone"));
        let length = (expected.len() - CONTENT_PREFIX) as u32;
        let mut content = vec![0; length as usize];
        reader.read_content(at, length, 0, &mut content).unwrap();
        assert_eq!(content, expected[CONTENT_PREFIX..]);
    }
    let mut expected: Vec<LogFileId> = log.files().closed().iter().map(|closed| closed.file).collect();
    expected.push(log.position().file());
    expected.sort_unstable();
    let numbers = disk.list(Path::new("/log")).unwrap();
    let found: Vec<LogFileId> = numbers.iter().filter_map(|name| file_number(name)).map(codec::log_file).collect();
    assert_eq!(found, expected, "files that are not in force are left");
    let compacted: Vec<LogFileId> =
        log.files().closed().iter().filter(|closed| closed.compacted).map(|closed| closed.file).collect();
    assert_eq!(compacted.iter().copied().collect::<BTreeSet<_>>(), index.compacted.keys().copied().collect());
    for (before, after) in log.files().closed().iter().zip(log.files().closed().iter().skip(1)) {
        assert_eq!(before.last + 1, after.first);
    }
}

/// Writes and compacts a log, following the rules that the engine must follow.
struct Driver {
    disk: SimDisk,
    log: Log,
    acknowledged: Arc<Mutex<Acknowledged>>,
    index: Index,
    next: Sequence,
    /// Replaced files that are not removed yet.
    replaced: Vec<LogFileId>,
}

impl Driver {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new();
        disk.create_dir(Path::new("/log")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        let (log, index, _) = open(&disk, seed, &Index::default()).unwrap();
        let acknowledged = Acknowledged { index_states: vec![Index::default()], ..Acknowledged::default() };
        Self { disk, log, acknowledged: Arc::new(Mutex::new(acknowledged)), index, next: 1, replaced: Vec::new() }
    }

    /// One batch, synced and applied.
    fn commit(&mut self, records: &[(u8, Vec<u8>)]) {
        let mut batch = Batch::new();
        let first = self.next;
        let frames: Vec<BatchFrame> =
            (first..).zip(records).map(|(sequence, (kind, payload))| batch.push(sequence, *kind, &[payload])).collect();
        self.next += records.len() as u64;
        let Appended { at, position } = self.log.append(&mut batch, first - 1).unwrap();
        self.log.sync().unwrap();
        let records = (first..).zip(records).zip(frames).map(|((sequence, (kind, payload)), frame)| RecoveredRecord {
            sequence,
            kind: *kind,
            payload: payload.clone().into(),
            at: at.record(frame),
        });
        self.index.apply(&RecoveredBatch { position, records: records.collect() });
        let mut acknowledged = self.acknowledged.lock();
        acknowledged.live.extend((first..self.next).filter(|sequence| self.index.places.contains_key(sequence)));
        acknowledged.index_states.push(self.index.clone());
    }

    fn write(&mut self, rng: &mut SimRng) {
        let records: Vec<(u8, Vec<u8>)> =
            (self.next..self.next + 1 + rng.below(3)).map(|sequence| (DATA, payload(sequence))).collect();
        self.commit(&records);
    }

    /// Makes some records dead, and sometimes all of a range.
    fn make_records_dead(&mut self, rng: &mut SimRng) {
        let whole = (rng.below(3) == 0).then(|| rng.below(self.next));
        let mut acknowledged = self.acknowledged.lock();
        acknowledged
            .live
            .retain(|sequence| rng.below(4) > 0 && whole.is_none_or(|from| !(from..from + 30).contains(sequence)));
    }

    /// Rewrites the run; `None` when the disk failed.
    fn rewrite(&self, run: &[LogFileId]) -> Option<(CompactedLog, Replacement)> {
        let files = self.log.files();
        let mut compaction = files.compact(run).ok()?;
        let number = compaction.file();
        let live = self.acknowledged.lock().live.clone();
        let mut moves = Vec::new();
        for file in run {
            let scanned = files.scan(*file, &mut |batch| {
                for record in batch.records {
                    // A replacement counts until its file is itself replaced.
                    let counts = match record.kind {
                        DATA => live.contains(&record.sequence),
                        _ => self.index.compacted.contains_key(&Replacement::decode(&record.payload).log.0),
                    };
                    if counts {
                        let at = compaction.push(record.sequence, record.kind, &[&record.payload])?;
                        moves.extend((record.kind == DATA).then_some((record.sequence, at)));
                    }
                }
                Ok(())
            });
            scanned.ok()?;
        }
        let done = compaction.finish().ok()?;
        assert_eq!(done.file, number);
        let log = (done.file, done.first, done.last);
        Some((done, Replacement { log, moves }))
    }

    fn compact(&mut self, rng: &mut SimRng, fault: bool) -> bool {
        let closed = self.log.files().closed();
        let start = rng.below(closed.len() as u64) as usize;
        let end = (start + 1 + rng.below(5) as usize).min(closed.len());
        let run: Vec<LogFileId> = closed[start..end].iter().map(|closed| closed.file).collect();
        if fault {
            let kinds = [Operation::Write, Operation::Sync, Operation::SyncDirectory, Operation::Create];
            self.disk.fail(kinds[rng.below(4) as usize], 1 + rng.below(2), Fault::Io, false);
            self.disk.fail(Operation::Remove, 1, Fault::Io, false);
        }
        let rewritten = self.rewrite(&run);
        self.disk.clear_faults();
        let Some((compacted, replacement)) = rewritten else { return false };
        let files = self.log.files();
        if rng.below(4) == 0 {
            files.remove(compacted.file).unwrap();
            return false;
        }
        self.commit(&[(REPLACE, replacement.encode())]);
        files.replace(&compacted);
        assert!(compacted.replaced == run && files.closed().iter().any(|closed| closed.file == compacted.file));
        self.replaced.extend(compacted.replaced);
        true
    }

    fn clean(&mut self, rng: &mut SimRng) {
        while !self.replaced.is_empty() && rng.below(6) > 0 {
            let file = self.replaced.swap_remove(rng.below(self.replaced.len() as u64) as usize);
            self.log.files().remove(file).unwrap();
        }
    }
}

type Images = Arc<Mutex<Vec<(SimDisk, Acknowledged)>>>;

fn record_images(disk: &SimDisk, acknowledged: &Arc<Mutex<Acknowledged>>) -> Images {
    let images = Images::default();
    let (sink, acknowledged) = (Arc::clone(&images), Arc::clone(acknowledged));
    disk.on_step(move |_, disk| {
        let acknowledged = acknowledged.lock().clone();
        sink.lock().push((disk.snapshot(), acknowledged));
    });
    images
}

fn assert_files_with_headers_are_complete(disk: &SimDisk) {
    let directory = LogDirectory::new(Arc::new(disk.clone()), options(0));
    for number in disk.list(Path::new("/log")).unwrap().iter().filter_map(|name| file_number(name)) {
        let file = disk.open(&file_path(Path::new("/log"), number), Open::Read).unwrap();
        let mut encoded = [0; HEADER_ENCODED];
        if file.read_at(0, &mut encoded).is_err() {
            continue;
        }
        if let Ok(Header::Compacted(header)) =
            Header::decode(&encoded, &directory.keys, &directory.options.store_id, number)
        {
            let link = Link { end: header.end.clone(), header: Header::Compacted(header) };
            link.replay(&mut directory.scanner(&link.header).unwrap(), &mut |_| Ok(())).unwrap();
        }
    }
}

/// Loses power at `image`, recovers and removes files, loses power again at some step of that, and recovers again.
fn check_image(image: &SimDisk, acknowledged: &Acknowledged, rng: &mut SimRng) {
    let policy = POLICIES[rng.below(4) as usize];
    let disk = if rng.below(5) == 0 { image.kill() } else { image.crash(rng, policy) };
    assert_files_with_headers_are_complete(&disk);
    let states = acknowledged.index_states.len() as u64;
    let survived = match rng.below(3) {
        0 => &acknowledged.index_states[0],
        1 => &acknowledged.index_states[rng.below(states) as usize],
        _ => &acknowledged.index_states[(states - 1 - rng.below(states.min(3))) as usize],
    };
    let images = record_images(&disk, &Arc::default());
    let (log, index, steps) = open(&disk, rng.next(), survived).unwrap();
    check(&disk, &log, &index, acknowledged);
    drop(log);
    let images = images.lock();
    let chosen = rng.below(images.len() as u64);
    let (cut, _) = &images[chosen as usize];
    let policy = POLICIES[rng.below(4) as usize];
    let cut = cut.crash(rng, policy);
    let again = if chosen < steps || rng.below(2) == 0 { survived } else { &index };
    let (log, index, _) = open(&cut, rng.next(), again).unwrap();
    check(&cut, &log, &index, acknowledged);
}

fn run_seed(seed: u64, faults: bool) -> usize {
    let mut rng = SimRng::new(seed);
    let mut driver = Driver::new(seed);
    let images = record_images(&driver.disk, &driver.acknowledged);
    let mut replaced = 0;
    for _ in 0..6 {
        (0..10).for_each(|_| driver.write(&mut rng));
        driver.make_records_dead(&mut rng);
        images.lock().clear();
        for _ in 0..3 {
            let fault = faults && rng.below(2) == 0;
            replaced += usize::from(driver.compact(&mut rng, fault));
            driver.clean(&mut rng);
        }
        for (image, acknowledged) in images.lock().iter() {
            check_image(image, acknowledged, &mut rng);
        }
    }
    replaced
}

/// A sync of the directory that fails loses the name of the new file, whatever the next one says.
#[test]
fn a_compaction_fails_if_a_sync_of_the_directory_failed_meanwhile() {
    let (mut rng, mut driver) = (SimRng::new(1), Driver::new(1));
    (0..60).for_each(|_| driver.write(&mut rng));
    let closed: Vec<LogFileId> = driver.log.files().closed().iter().map(|closed| closed.file).collect();
    let (replacing, replacement) = driver.rewrite(&closed[..1]).unwrap();
    driver.commit(&[(REPLACE, replacement.encode())]);
    driver.log.files().replace(&replacing);
    let compaction = driver.log.files().compact(&closed[2..3]).unwrap();
    driver.disk.fail(Operation::SyncDirectory, 1, Fault::Io, false);
    assert!(driver.log.files().remove(closed[0]).is_err());
    driver.disk.clear_faults();
    assert!(compaction.finish().is_err());
    assert!(driver.rewrite(&closed[2..3]).is_some());
}

#[test]
fn no_power_loss_during_a_compaction_loses_a_record_that_counts() {
    let replaced: usize = (0..12)
        .map(|seed| {
            println!("seed {seed}");
            run_seed(seed, false)
        })
        .sum();
    assert!(replaced > 100, "{replaced}");
}

#[test]
fn no_disk_fault_during_a_compaction_loses_a_record_that_counts() {
    let replaced: usize = (500..512)
        .map(|seed| {
            println!("seed {seed}");
            run_seed(seed, true)
        })
        .sum();
    assert!(replaced > 60, "{replaced}");
}
