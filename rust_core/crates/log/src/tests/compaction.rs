//! Compacted files on a real file system: what they cover, what is refused, where a replay may begin.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_fs::FileSystem;
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_fs_testing::SimDisk;

use crate::*;

pub(super) type InForce = [(LogFileId, Sequence, Sequence)];

const LENGTH: usize = 3000;

pub(super) fn options(dir: &Path) -> LogOptions {
    LogOptions {
        established: true,
        dir: dir.to_owned(),
        store_id: [7; 16],
        commit_key: [9; 32],
        file_size: 16 * 1024,
        random: Arc::new(SystemRandom),
    }
}

fn payload(sequence: Sequence, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i * 31 + sequence * 7) as u8).collect()
}

/// Replays the log after `applied`, then calls `Log::keep`.
pub(super) fn open_at(
    dir: &Path,
    applied: Option<&LogPosition>,
    in_force: &InForce,
) -> Result<(Log, Vec<RecoveredBatch>), RecoverError> {
    let mut batches = Vec::new();
    let mut recovered = recover(Arc::new(RealFileSystem), options(dir), applied, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    recovered.log.keep(in_force)?;
    Ok((recovered.log, batches))
}

pub(super) fn open(dir: &Path, in_force: &InForce) -> (Log, Vec<RecoveredBatch>) {
    open_at(dir, None, in_force).unwrap()
}

/// Appends and syncs batches of one record.
fn write(log: &mut Log, sequences: std::ops::RangeInclusive<u64>) -> Vec<LogPosition> {
    let mut batch = Batch::new();
    sequences
        .map(|sequence| {
            batch.clear();
            batch.push(sequence, 4, &[&payload(sequence, LENGTH)]);
            let appended = log.append(&mut batch, sequence - 1).unwrap();
            log.sync().unwrap();
            appended.position
        })
        .collect()
}

/// Thirty records of one batch each over ten files, three in each; the last file is empty.
pub(super) fn ten_files() -> (tempfile::TempDir, Log, Vec<LogPosition>) {
    let dir = tempfile::tempdir().unwrap();
    let fresh = LogOptions { established: false, ..options(dir.path()) };
    let mut log = recover(Arc::new(RealFileSystem), fresh, None, &mut |_| Ok(())).unwrap().log;
    log.keep(&[]).unwrap();
    let ends = write(&mut log, 1..=30);
    log.roll().unwrap();
    assert_eq!(log.files().closed().len(), 10);
    (dir, log, ends)
}

pub(super) fn path_of(dir: &Path, file: LogFileId) -> PathBuf {
    file_path(dir, codec::log_file_number(file))
}

pub(super) fn files(log: &Log) -> Vec<LogFileId> {
    log.files().closed().iter().map(|closed| closed.file).collect()
}

/// Replaces a run by a compacted file with the records that count.
pub(super) fn compact(log: &Log, run: &[LogFileId], counts: impl Fn(Sequence) -> bool) -> CompactedLog {
    let files = log.files();
    let mut compaction = files.compact(run).unwrap();
    for file in run {
        files
            .scan(*file, &mut |batch| {
                for record in batch.records.iter().filter(|record| counts(record.sequence)) {
                    compaction.push(record.sequence, record.kind, &[&record.payload[..7], &record.payload[7..]])?;
                }
                Ok(())
            })
            .unwrap();
    }
    compaction.finish().unwrap()
}

pub(super) fn in_force(compacted: &CompactedLog) -> (LogFileId, Sequence, Sequence) {
    (compacted.file, compacted.first, compacted.last)
}

pub(super) fn sequences(batches: &[RecoveredBatch]) -> Vec<Sequence> {
    for record in batches.iter().flat_map(|batch| &batch.records) {
        assert_eq!((record.kind, &record.payload[..]), (4, &payload(record.sequence, LENGTH)[..]));
    }
    batches.iter().flat_map(|batch| &batch.records).map(|record| record.sequence).collect()
}

pub(super) fn even(sequence: Sequence) -> bool {
    sequence.is_multiple_of(2)
}

pub(super) fn copy_dir(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    to
}

pub(super) fn on_disk(dir: &Path) -> BTreeSet<LogFileId> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| file_number(name.to_str().unwrap())).map(codec::log_file).collect()
}

#[test]
fn a_run_is_replaced_by_what_counts_of_it() {
    let (dir, log, _) = ten_files();
    let run = &files(&log)[2..6];
    let compacted = compact(&log, run, even);
    assert_eq!((compacted.first, compacted.last, &compacted.replaced[..]), (7, 18, run));
    assert_eq!(compacted.bytes, std::fs::metadata(log.files().path(compacted.file)).unwrap().len());
    assert_eq!(log.files().closed().len(), 10);
    log.files().replace(&compacted);
    let closed = log.files().closed();
    let ranges: Vec<_> = closed.iter().map(|closed| (closed.first, closed.last, closed.compacted)).collect();
    let expected = [(1, 3), (4, 6), (7, 18), (19, 21), (22, 24), (25, 27), (28, 30)];
    assert_eq!(ranges, expected.map(|(first, last)| (first, last, first == 7)));
    assert_eq!((closed[2].file, closed[2].bytes), (compacted.file, compacted.bytes));

    // Records are read under the new number at the offsets that the scan and the recovery tell.
    let reader = log.reader();
    let mut found = Vec::new();
    log.files()
        .scan(compacted.file, &mut |batch| {
            found.push(batch);
            Ok(())
        })
        .unwrap();
    assert_eq!(sequences(&found), [8, 10, 12, 14, 16, 18]);
    let length = (LENGTH - CONTENT_PREFIX) as u32;
    for record in found.iter().flat_map(|batch| &batch.records) {
        let mut content = vec![0; length as usize];
        assert_eq!(record.at.file(), compacted.file);
        reader.read_content(record.at, length, 0, &mut content).unwrap();
        assert_eq!(content, payload(record.sequence, LENGTH)[CONTENT_PREFIX..]);
    }
    // Old places can be read until the old files go.
    let old = codec::in_log(codec::log_file_number(run[0]), 4096);
    let mut content = vec![0; length as usize];
    reader.read_content(old, length, 0, &mut content).unwrap();
    assert_eq!(content, payload(7, LENGTH)[CONTENT_PREFIX..]);
    for file in &compacted.replaced {
        log.files().remove(*file).unwrap();
    }
    assert!(matches!(reader.read_content(old, length, 0, &mut content), Err(Error::Missing { .. })));
    drop(log);
    let (log, batches) = open(dir.path(), &[in_force(&compacted)]);
    assert_eq!(sequences(&batches), (1..=30).filter(|n| !(7..=18).contains(n) || even(*n)).collect::<Vec<_>>());
    assert_eq!(log.files().closed(), closed);
    assert_eq!(log.position().sequence, 30);
}

#[test]
fn a_replacement_without_a_record_leaves_no_trace() {
    let (dir, log, _) = ten_files();
    let compacted = compact(&log, &files(&log)[..4], even);
    drop(log);
    assert!(on_disk(dir.path()).contains(&compacted.file));
    let (log, batches) = open(dir.path(), &[]);
    assert_eq!(sequences(&batches), (1..=30).collect::<Vec<_>>());
    assert!(!on_disk(dir.path()).contains(&compacted.file));
    let unfinished = log.files().compact(&files(&log)[..4]).unwrap();
    let number = unfinished.file();
    assert!(number > compacted.file && on_disk(dir.path()).contains(&number));
    drop(unfinished);
    assert!(!on_disk(dir.path()).contains(&number));
    assert!(log.files().compact(&files(&log)[..4]).is_ok());
}

#[test]
fn runs_in_which_nothing_counts_need_no_records() {
    let (dir, mut log, ends) = ten_files();
    let all = files(&log);
    let mut kept = Vec::new();
    for run in [&all[..2], &all[4..5], &all[8..]] {
        let compacted = compact(&log, run, |_| false);
        log.files().replace(&compacted);
        run.iter().for_each(|file| log.files().remove(*file).unwrap());
        kept.push(in_force(&compacted));
    }
    write(&mut log, 31..=32);
    drop(log);
    let (log, batches) = open(dir.path(), &kept);
    let counting: Vec<u64> = (7..=12).chain(16..=24).chain(31..=32).collect();
    assert_eq!(sequences(&batches), counting);
    // Also all of them as one, and behind every place that is still there.
    let closed = files(&log);
    let whole = compact(&log, &closed, |_| false);
    log.files().replace(&whole);
    closed.iter().for_each(|file| log.files().remove(*file).unwrap());
    // The last batch was not known to be durable and stands in the last file anew.
    assert_eq!((whole.first, whole.last), (1, 31));
    drop(log);
    let (log, batches) = open_at(dir.path(), None, &[in_force(&whole)]).unwrap();
    assert_eq!(sequences(&batches), [32]);
    assert_eq!(log.position().sequence, 32);
    drop(log);
    for applied in [&LogPosition::ORIGIN, &ends[29]] {
        let gone = open_at(dir.path(), Some(applied), &[in_force(&whole)]).map(|(_, batches)| sequences(&batches));
        assert!(matches!(gone, Err(RecoverError::NoMatchingPosition)), "{gone:?}");
    }
}

#[test]
fn any_part_of_the_replaced_files_may_be_gone() {
    let (dir, log, _) = ten_files();
    let all = files(&log);
    let first = compact(&log, &all[1..3], even);
    log.files().replace(&first);
    let second = compact(&log, &[first.file, all[3]], |n| n % 4 == 0);
    log.files().replace(&second);
    drop(log);
    let old = [all[1], all[2], all[3], first.file];
    let alive: Vec<u64> = (1..=30).filter(|n| !(4..=12).contains(n) || n % 4 == 0).collect();
    for gone in 0..16_usize {
        let dir = copy_dir(dir.path());
        let files = old.iter().enumerate().filter(|(bit, _)| gone & (1 << bit) != 0);
        files.for_each(|(_, file)| std::fs::remove_file(path_of(dir.path(), *file)).unwrap());
        for _ in 0..2 {
            let (_, batches) = open(dir.path(), &[in_force(&second)]);
            let found = sequences(&batches);
            assert!(found.is_sorted() && alive.iter().all(|n| found.contains(n)), "{gone:b}: {found:?}");
        }
        let left: BTreeSet<LogFileId> = on_disk(dir.path());
        assert!(left.contains(&second.file) && old.iter().all(|file| !left.contains(file)), "{gone:b}: {left:?}");
    }
    // As long as the older state is whole it may be in force as well.
    for (kept, expected) in [(vec![], vec![]), (vec![in_force(&first)], vec![first.file])] {
        let dir = copy_dir(dir.path());
        let (log, batches) = open(dir.path(), &kept);
        assert_eq!(sequences(&batches), (1..=30).collect::<Vec<_>>());
        let closed = log.files().closed();
        let compacted: Vec<LogFileId> = closed.iter().filter(|one| one.compacted).map(|one| one.file).collect();
        assert_eq!(compacted, expected);
        drop(log);
        let (_, batches) = open(dir.path(), &kept);
        assert!(sequences(&batches).len() == 30 - 3 * expected.len());
    }
}

#[test]
fn a_replay_begins_anywhere_after_what_was_compacted() {
    let (dir, mut log, mut ends) = ten_files();
    ends.extend(write(&mut log, 31..=32));
    let all = files(&log);
    let compacted = compact(&log, &all[2..6], even);
    log.files().replace(&compacted);
    drop(log);
    let kept = [in_force(&compacted)];
    let places = || std::iter::once(LogPosition::ORIGIN).chain(ends.iter().cloned());
    for applied in places() {
        let dir = copy_dir(dir.path());
        let (_, batches) = open_at(dir.path(), Some(&applied), &kept).unwrap();
        assert_eq!(sequences(&batches), (applied.sequence + 1..=32).collect::<Vec<_>>());
    }
    compacted.replaced.iter().for_each(|file| std::fs::remove_file(path_of(dir.path(), *file)).unwrap());
    for applied in places() {
        let dir = copy_dir(dir.path());
        match open_at(dir.path(), Some(&applied), &kept) {
            Ok((_, batches)) => {
                assert!(applied.sequence >= 18);
                assert_eq!(sequences(&batches), (applied.sequence + 1..=32).collect::<Vec<_>>());
                // Every place that a replay tells is one to go on from.
                for (at, batch) in batches.iter().enumerate().rev() {
                    let (_, rest) = open_at(dir.path(), Some(&batch.position), &kept).unwrap();
                    assert_eq!(sequences(&rest), sequences(&batches[at + 1..]));
                }
            }
            Err(RecoverError::NoMatchingPosition) => assert!(applied.sequence < 18),
            Err(error) => panic!("{error}"),
        }
    }
    let (_, batches) = open(dir.path(), &kept);
    let expected = (1..=32).filter(|n| !(7..=18).contains(n) || even(*n));
    assert_eq!(sequences(&batches), expected.collect::<Vec<_>>());
    // The end of the compacted file is the end of what it stands for, however often that is compacted.
    let end = batches.iter().find(|batch| batch.position.sequence == 18).unwrap();
    assert_eq!(end.position, ends[17]);
}

#[test]
fn no_replay_begins_inside_a_compacted_file() {
    let (dir, log, _) = ten_files();
    let run = &files(&log)[..3];
    let mut compaction = log.files().compact(run).unwrap();
    let big = |sequence| payload(sequence, 700_000);
    let places: Vec<LogLocation> = (1..=9).map(|n| compaction.push(n, 4, &[&big(n)]).unwrap()).collect();
    let bytes = compaction.bytes();
    let compacted = compaction.finish().unwrap();
    assert_eq!(bytes, compacted.bytes);
    log.files().replace(&compacted);
    run.iter().for_each(|file| log.files().remove(*file).unwrap());
    drop(log);
    let kept = [in_force(&compacted)];
    let (_, batches) = open(dir.path(), &kept);
    let records: Vec<_> = batches.iter().flat_map(|batch| &batch.records).take(9).collect();
    assert_eq!(records.iter().map(|record| record.at).collect::<Vec<_>>(), places);
    assert!((1..=9).zip(&records).all(|(n, record)| record.payload == big(n)));
    let inside = batches.iter().filter(|batch| batch.position.file() == compacted.file).count();
    assert!(inside >= 3);
    for at in 0..=inside {
        let rest = open_at(dir.path(), Some(&batches[at].position), &kept).map(|(_, rest)| rest.len());
        match rest {
            Ok(rest) => assert_eq!((at, rest), (inside, batches.len() - at - 1)),
            Err(RecoverError::NoMatchingPosition) => assert!(at < inside),
            Err(error) => panic!("{error}"),
        }
        let stranger = LogPosition { chain: [1; 32], ..batches[at].position.clone() };
        let refused = open_at(dir.path(), Some(&stranger), &kept).map(|(_, batches)| batches.len());
        assert!(matches!(refused, Err(RecoverError::NoMatchingPosition)), "{at}: {refused:?}");
    }
}

#[test]
fn a_roll_closes_what_was_written() {
    let (dir, mut log, _) = ten_files();
    let before = log.position();
    log.roll().unwrap();
    assert_eq!((log.position(), log.files().closed().len()), (before, 10));
    write(&mut log, 31..=31);
    assert_eq!(log.files().closed().len(), 10);
    log.roll().unwrap();
    let last = log.files().closed().pop().unwrap();
    assert_eq!((last.first, last.last, last.compacted), (31, 31, false));
    assert_eq!(last.bytes, std::fs::metadata(log.files().path(last.file)).unwrap().len());
    // A file that is given up ends where the log went on without its tail, or is no file of the log at all.
    let end = write(&mut log, 32..=32).remove(0);
    let mut batch = Batch::new();
    batch.push(33, 4, &[&payload(33, LENGTH)]);
    log.append(&mut batch, 32).unwrap();
    for _ in 0..3 {
        log.fail_over(&end).unwrap();
    }
    log.sync().unwrap();
    let last = log.files().closed().pop().unwrap();
    assert_eq!((last.file, last.first, last.last, last.bytes), (end.file(), 32, 32, end.offset));
    write(&mut log, 33..=34);
    let closed = log.files().closed();
    drop(log);
    let (log, batches) = open(dir.path(), &[]);
    assert_eq!(sequences(&batches), (1..=34).collect::<Vec<_>>());
    assert_eq!(log.files().closed()[..closed.len()], closed);
}

#[test]
fn contents_of_more_files_than_may_be_open_are_read() {
    let disk = SimDisk::new();
    disk.create_dir(Path::new("/log")).unwrap();
    let small = LogOptions { established: false, file_size: 4096 + 1024, ..options(Path::new("/log")) };
    let mut log = recover(Arc::new(disk), small, None, &mut |_| Ok(())).unwrap().log;
    let mut batch = Batch::new();
    let length = (600 - CONTENT_PREFIX) as u32;
    let places: Vec<LogLocation> = (1..=600)
        .map(|sequence| {
            batch.clear();
            let frame = batch.push(sequence, 4, &[&payload(sequence, 600)]);
            log.append(&mut batch, 0).unwrap().at.record(frame)
        })
        .collect();
    let file = |at: LogLocation| codec::in_log_parts(at).0;
    assert!(file(places[0]) + 500 < file(places[599]));
    let reader = log.reader();
    let numbered: Vec<(u64, &LogLocation)> = (1..).zip(&places).collect();
    for (sequence, place) in numbered.iter().chain(numbered.iter().rev()).copied() {
        let mut content = vec![0; length as usize];
        reader.read_content(*place, length, 0, &mut content).unwrap();
        assert_eq!(content, payload(sequence, 600)[CONTENT_PREFIX..]);
    }
}

#[test]
fn no_number_is_given_twice() {
    let (_dir, mut log, _) = ten_files();
    log.spare_maker().make().unwrap();
    let all = files(&log);
    let first = compact(&log, &all[..1], even);
    let second = compact(&log, &all[1..2], even);
    log.files().replace(&first);
    write(&mut log, 31..=36);
    let mut numbers = files(&log);
    numbers.extend([second.file, all[0], log.position().file()]);
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len());
}
