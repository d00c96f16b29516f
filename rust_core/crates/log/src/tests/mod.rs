//! The log on a real file system: batches are found again, and damaged or forged ones are not.

mod compaction;
mod compaction_crashes;
mod compaction_refusals;
mod crashes;
mod full_disk;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orcas_base::error::Error;
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{CrashPolicy, Operation, SimDisk, SimRng};

use super::encoding::{COMMIT_FRAME, FILE_HEADER as FILE_START};
use super::*;

fn options(dir: &Path) -> LogOptions {
    LogOptions {
        established: false,
        dir: dir.to_owned(),
        store_id: [7; 16],
        commit_key: [9; 32],
        file_size: 64 * 1024,
        random: Arc::new(SystemRandom),
    }
}

fn open_at(
    options: LogOptions,
    applied: Option<&LogPosition>,
) -> Result<(Recovered, Vec<RecoveredBatch>), RecoverError> {
    let mut batches = Vec::new();
    let mut recovered = recover(Arc::new(RealFileSystem), options, applied, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    recovered.log.keep(&[])?;
    Ok((recovered, batches))
}

fn open(dir: &Path) -> (Recovered, Vec<RecoveredBatch>) {
    open_at(options(dir), None).unwrap()
}

fn open_error(dir: &Path, applied: Option<&LogPosition>) -> Error {
    match open_at(options(dir), applied) {
        Err(RecoverError::Failed(error)) => error,
        other => panic!("expected a refusal, found {:?}", other.map(|(_, batches)| batches.len())),
    }
}

fn payload(sequence: u64, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u64 * 31 + sequence) as u8).collect()
}

/// Appends and syncs batches of one record. Returns the end of each.
fn write(log: &mut Log, sequences: std::ops::RangeInclusive<u64>, length: usize) -> Vec<LogPosition> {
    let mut batch = Batch::new();
    sequences
        .map(|sequence| {
            batch.clear();
            batch.push(sequence, 3, &[&payload(sequence, length)]);
            let appended = log.append(&mut batch, sequence - 1).unwrap();
            log.sync().unwrap();
            appended.position
        })
        .collect()
}

fn check(batches: &[RecoveredBatch], sequences: std::ops::RangeInclusive<u64>, length: usize) {
    let found: Vec<u64> = batches.iter().flat_map(|batch| &batch.records).map(|record| record.sequence).collect();
    assert_eq!(found, sequences.collect::<Vec<_>>());
    for record in batches.iter().flat_map(|batch| &batch.records) {
        assert_eq!((record.kind, &record.payload[..]), (3, &payload(record.sequence, length)[..]));
    }
}

#[test]
fn batches_come_back_in_order_across_files_and_openings() {
    let dir = tempfile::tempdir().unwrap();
    let (mut recovered, batches) = open(dir.path());
    assert!(batches.is_empty());
    write(&mut recovered.log, 1..=100, 3000);
    assert!(recovered.log.position().file > 4);
    drop(recovered);
    let (mut recovered, batches) = open(dir.path());
    check(&batches, 1..=100, 3000);
    assert_eq!((recovered.last_sequence, recovered.torn_bytes, recovered.reappended_batches), (100, 0, 1));
    write(&mut recovered.log, 101..=120, 3000);
    drop(recovered);
    let (recovered, batches) = open(dir.path());
    check(&batches, 1..=120, 3000);
    assert_eq!(recovered.last_sequence, 120);
}

#[test]
fn contents_are_read_where_recovery_and_append_say() {
    let dir = tempfile::tempdir().unwrap();
    let (mut recovered, _) = open(dir.path());
    let content = payload(5, 300_000);
    let mut batch = Batch::new();
    batch.push(1, 1, &[b"before"]);
    let frame = batch.push(2, 4, &[&[8; 32], &content]);
    let appended = recovered.log.append(&mut batch, 0).unwrap();
    recovered.log.sync().unwrap();
    let length_of_content = content.len() as u32;
    let check = |reader: &LogReader, at: LogLocation| {
        for (start, length) in [(0, 300_000), (0, 1), (65_503, 2), (65_504, 65_536), (200_000, 100_000), (300_000, 0)] {
            let mut buf = vec![0; length];
            reader.read_content(at, length_of_content, start as u32, &mut buf).unwrap();
            assert_eq!(buf, &content[start..start + length]);
            if reader.try_read_content(at, length_of_content, start as u32, &mut buf).unwrap() {
                assert_eq!(buf, &content[start..start + length]);
            }
        }
        assert!(matches!(reader.read_content(at, length_of_content, 300_000, &mut [0]), Err(Error::Corrupt { .. })));
    };
    check(&recovered.log.reader(), appended.at.record(frame));
    drop(recovered);
    let (recovered, batches) = open(dir.path());
    let record = &batches[0].records[1];
    check(&recovered.log.reader(), record.at);
}

/// Changes the bytes of a file. Returns the old ones.
fn damage(dir: &Path, file: u64, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let path = file_path(dir, file);
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    change(&mut bad);
    std::fs::write(&path, bad).unwrap();
    good
}

fn copy_dir(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    to
}

/// Three batches of one record in file 1, nothing in any other.
fn three_batches() -> (tempfile::TempDir, Vec<LogPosition>) {
    let dir = tempfile::tempdir().unwrap();
    let small = LogOptions { file_size: 8192, ..options(dir.path()) };
    let (mut recovered, _) = open_at(small, None).unwrap();
    let ends = write(&mut recovered.log, 1..=3, 100);
    assert_eq!(ends[2].file, 1);
    (dir, ends)
}

#[test]
fn a_tail_torn_at_any_byte_is_dropped_and_nothing_before_it() {
    let (dir, ends) = three_batches();
    for at in ends[1].offset..ends[2].offset {
        for how in ["zeros", "cut", "flip"] {
            let dir = copy_dir(dir.path());
            damage(dir.path(), 1, |bytes| match how {
                "zeros" if bytes[at as usize..].iter().any(|byte| *byte != 0) => bytes[at as usize..].fill(0),
                "cut" => bytes.truncate(at as usize),
                _ => bytes[at as usize] ^= 0x20,
            });
            let (recovered, batches) = open(dir.path());
            check(&batches, 1..=2, 100);
            drop(recovered);
            check(&open(dir.path()).1, 1..=2, 100);
        }
    }
}

#[test]
fn damage_to_what_had_been_applied_does_not_stop_a_start() {
    let (dir, ends) = three_batches();
    // Where only the last commit record could tell that the batch was there, nobody can tell.
    let last_commit = ends[2].offset - COMMIT_FRAME as u64;
    for at in (ends[0].offset..ends[2].offset).step_by(7) {
        let dir = copy_dir(dir.path());
        damage(dir.path(), 1, |bytes| bytes[at as usize] ^= 1);
        if at >= last_commit {
            assert!(matches!(open_error(dir.path(), Some(&ends[2])), Error::Corrupt { .. }), "byte {at}");
        } else {
            let (recovered, batches) = open_at(options(dir.path()), Some(&ends[2])).unwrap();
            assert_eq!((batches.len(), recovered.last_sequence), (0, 3), "byte {at}");
        }
        if at < ends[1].offset {
            check(&open_at(options(dir.path()), Some(&ends[1])).unwrap().1, 3..=3, 100);
        }
    }
}

#[test]
fn after_a_clean_end_no_damage_is_taken_for_a_torn_tail() {
    let (dir, ends) = three_batches();
    let (mut recovered, _) = open(dir.path());
    let last = write(&mut recovered.log, 4..=4, 100).remove(0);
    recovered.log.close(&last);
    drop(recovered);
    let path = file_path(dir.path(), last.file);
    let length = std::fs::metadata(&path).unwrap().len();
    assert_eq!(length, last.offset);
    for at in FILE_START..length {
        let dir = copy_dir(dir.path());
        damage(dir.path(), last.file, |bytes| bytes[at as usize] ^= 4);
        assert!(matches!(open_error(dir.path(), None), Error::Corrupt { .. }), "byte {at}");
        // The index has it all.
        let (recovered, batches) = open_at(options(dir.path()), Some(&last)).unwrap();
        assert_eq!((batches.len(), recovered.log.position().sequence), (0, 4), "byte {at}");
    }
    check(&open(dir.path()).1, 1..=4, 100);
    check(&open_at(options(dir.path()), Some(&ends[1])).unwrap().1, 3..=4, 100);
}

#[test]
fn damage_to_either_copy_of_a_header_is_repaired() {
    let (dir, _) = three_batches();
    let good = std::fs::read(file_path(dir.path(), 1)).unwrap();
    for at in (0..164).chain(2048..2048 + 164) {
        let dir = copy_dir(dir.path());
        damage(dir.path(), 1, |bytes| bytes[at] ^= 0x40);
        check(&open(dir.path()).1, 1..=3, 100);
        assert_eq!(std::fs::read(file_path(dir.path(), 1)).unwrap()[..4096], good[..4096], "byte {at}");
    }
    for at in 0..164 {
        let dir = copy_dir(dir.path());
        damage(dir.path(), 1, |bytes| {
            bytes[at] ^= 0x40;
            bytes[2048 + at] ^= 0x40;
        });
        open_error(dir.path(), None);
    }
    // Files of earlier versions have one copy.
    damage(dir.path(), 1, |bytes| bytes[2048..2048 + 264].fill(0));
    check(&open(dir.path()).1, 1..=3, 100);
}

#[test]
fn a_flipped_bit_before_durable_batches_stops_the_start_at_any_byte() {
    let (dir, ends) = three_batches();
    for at in 4096..ends[1].offset as usize {
        let good = damage(dir.path(), 1, |bytes| bytes[at] ^= 0x40);
        // The commit record of batch 3 says that batch 2 was durable, that of batch 2 the same of batch 1.
        assert!(matches!(open_error(dir.path(), None), Error::Corrupt { .. }), "byte {at}");
        damage(dir.path(), 1, |bytes| *bytes = good);
    }
    check(&open(dir.path()).1, 1..=3, 100);
}

#[test]
fn a_flipped_bit_in_a_closed_file_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (mut recovered, _) = open(dir.path());
    let ends = write(&mut recovered.log, 1..=60, 3000);
    drop(recovered);
    let last_in_first = ends.iter().rfind(|end| end.file == 1).unwrap();
    for at in (4096..last_in_first.offset as usize).step_by(509) {
        let good = damage(dir.path(), 1, |bytes| bytes[at] ^= 2);
        assert!(matches!(open_error(dir.path(), None), Error::Corrupt { .. }), "byte {at}");
        damage(dir.path(), 1, |bytes| *bytes = good);
    }
    // Bytes behind the end that the successor names are void.
    damage(dir.path(), 1, |bytes| bytes[last_in_first.offset as usize..].fill(0xee));
    check(&open(dir.path()).1, 1..=60, 3000);
}

#[test]
fn records_inside_a_clients_content_never_count() {
    let (dir, ends) = three_batches();
    let stolen = std::fs::read(file_path(dir.path(), 1)).unwrap()[4096..ends[2].offset as usize].to_vec();
    let (mut recovered, _) = open(dir.path());
    let mut batch = Batch::new();
    // Every alignment, so that one copy stands where frames may begin.
    let content: Vec<u8> = (0..8).flat_map(|shift| [&vec![0; shift][..], &stolen].concat()).collect();
    batch.push(4, 3, &[&payload(4, 100)]);
    let first = recovered.log.append(&mut batch, 3).unwrap();
    batch.clear();
    batch.push(5, 3, &[&content]);
    let torn = recovered.log.append(&mut batch, 3).unwrap();
    recovered.log.sync().unwrap();
    drop(recovered);
    damage(dir.path(), torn.at.file, |bytes| bytes[torn.at.start as usize + 1] ^= 1);
    let (recovered, batches) = open(dir.path());
    check(&batches, 1..=4, 100);
    assert_eq!(recovered.torn_bytes.next_multiple_of(8), torn.position.offset - first.position.offset);
    // The same with bytes of the very file they are found in.
    drop(recovered);
    let (dir, ends) = three_batches();
    damage(dir.path(), 1, |bytes| {
        let (from, to) = (ends[0].offset as usize, ends[2].offset as usize);
        let copy = bytes[from..to].to_vec();
        bytes[to + 8..to + 8 + copy.len()].copy_from_slice(&copy);
    });
    check(&open(dir.path()).1, 1..=3, 100);
}

#[test]
fn missing_foreign_and_swapped_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (mut recovered, _) = open(dir.path());
    let ends = write(&mut recovered.log, 1..=60, 3000);
    drop(recovered);
    let last = ends[59].file;
    assert_eq!(last, 4);
    let hidden = dir.path().join("hidden");
    for number in 1..last {
        std::fs::rename(file_path(dir.path(), number), &hidden).unwrap();
        match open_error(dir.path(), None) {
            Error::Missing { path } => assert_eq!(path, file_path(dir.path(), number)),
            other => panic!("{other}"),
        }
        std::fs::rename(&hidden, file_path(dir.path(), number)).unwrap();
    }
    // The last file is known to be missing from the applied position.
    std::fs::rename(file_path(dir.path(), last), &hidden).unwrap();
    assert!(matches!(open_error(dir.path(), Some(&ends[59])), Error::Missing { .. }));
    std::fs::rename(&hidden, file_path(dir.path(), last)).unwrap();

    for other in [
        LogOptions { store_id: [1; 16], ..options(dir.path()) },
        LogOptions { commit_key: [1; 32], ..options(dir.path()) },
    ] {
        assert!(matches!(open_at(other, None), Err(RecoverError::Failed(Error::Foreign { .. }))));
    }
    let bytes = std::fs::read(file_path(dir.path(), 2)).unwrap();
    let good = damage(dir.path(), 3, |file| *file = bytes);
    assert!(matches!(open_error(dir.path(), None), Error::Foreign { .. }));
    damage(dir.path(), 3, |file| *file = good);
    check(&open(dir.path()).1, 1..=60, 3000);
}

#[test]
fn spare_files_and_other_names_are_ignored() {
    let (dir, _) = three_batches();
    std::fs::write(file_path(dir.path(), 2), vec![0; 8192]).unwrap();
    std::fs::write(file_path(dir.path(), 9), b"").unwrap();
    std::fs::write(dir.path().join("notes.log"), b"?").unwrap();
    let (recovered, batches) = open(dir.path());
    check(&batches, 1..=3, 100);
    assert_eq!(recovered.log.position().file, 10);
    assert!(!file_path(dir.path(), 2).exists() && !file_path(dir.path(), 9).exists());
}

#[test]
fn starts_without_writes_leave_no_files_behind() {
    let (dir, ends) = three_batches();
    let mut last = ends[2].clone();
    for start in 0..8 {
        let (_, batches) = open_at(options(dir.path()), Some(&last).filter(|_| start % 4 < 2)).unwrap();
        last = batches.last().map_or(last, |batch| batch.position.clone());
        assert!(std::fs::read_dir(dir.path()).unwrap().count() <= 3);
    }
}

#[test]
fn replay_continues_after_any_applied_position() {
    let dir = tempfile::tempdir().unwrap();
    let (mut recovered, _) = open(dir.path());
    let ends = write(&mut recovered.log, 1..=60, 3000);
    drop(recovered);
    for end in &ends {
        let dir = copy_dir(dir.path());
        let (recovered, batches) = open_at(options(dir.path()), Some(end)).unwrap();
        check(&batches, end.sequence + 1..=60, 3000);
        let ends_now: Vec<LogPosition> = batches.iter().map(|batch| batch.position.clone()).collect();
        let position = recovered.log.position();
        drop(recovered);
        // Where the replay ended is a position too, and so is every batch that was appended again.
        for at in ends_now.iter().rev().take(2).chain([&position]) {
            let (_, rest) = open_at(options(dir.path()), Some(at)).unwrap();
            check(&rest, at.sequence + 1..=60, 3000);
        }
    }
    let other = LogPosition { chain: [1; 32], ..ends[30].clone() };
    assert!(matches!(open_at(options(dir.path()), Some(&other)), Err(RecoverError::NoMatchingPosition)));
    let inside = LogPosition { offset: ends[30].offset - 8, ..ends[30].clone() };
    assert!(matches!(open_at(options(dir.path()), Some(&inside)), Err(RecoverError::NoMatchingPosition)));
}

#[test]
fn a_record_that_is_too_large_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut recovered, _) = open(dir.path());
    let before = recovered.log.position();
    let mut batch = Batch::new();
    batch.push(1, 3, &[&vec![0; FRAME_PAYLOAD_MAX + 1]]);
    assert!(matches!(recovered.log.append(&mut batch, 0), Err(Error::Record { .. })));
    assert_eq!(recovered.log.position(), before);
    batch.clear();
    batch.push(1, 3, &[&payload(1, FRAME_PAYLOAD_MAX)]);
    recovered.log.append(&mut batch, 0).unwrap();
    recovered.log.sync().unwrap();
    drop(recovered);
    check(&open(dir.path()).1, 1..=1, FRAME_PAYLOAD_MAX);
}

#[test]
fn a_spare_made_by_another_thread_is_taken_by_the_roll() {
    let dir = tempfile::tempdir().unwrap();
    let (mut recovered, _) = open(dir.path());
    let maker = recovered.log.spare_maker();
    std::thread::spawn(move || maker.make()).join().unwrap().unwrap();
    assert!(recovered.log.spare_maker().is_coming());
    write(&mut recovered.log, 1..=30, 3000);
    assert!(!recovered.log.spare_maker().is_coming());
    assert_eq!(recovered.log.position().file, 2);
    drop(recovered);
    check(&open(dir.path()).1, 1..=30, 3000);
}

/// Making a file takes as long as the disk needs to write it, and a commit asks in that time.
#[test]
fn asking_whether_a_spare_is_being_made_does_not_block() {
    let disk = SimDisk::new();
    disk.create_dir(Path::new("/log")).unwrap();
    let recovered = recover(Arc::new(disk.clone()), options(Path::new("/log")), None, &mut |_| Ok(())).unwrap();
    let maker = recovered.log.spare_maker();
    let (asking, told) = (maker.clone(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&told);
    disk.on_step(move |_, _| {
        let (asking, (sender, answer)) = (asking.clone(), std::sync::mpsc::channel());
        std::thread::spawn(move || sender.send(asking.is_coming()));
        assert_eq!(answer.recv_timeout(Duration::from_secs(10)), Ok(true));
        counted.fetch_add(1, Ordering::Relaxed);
    });
    assert!(!maker.is_coming());
    maker.make().unwrap();
    assert!(told.load(Ordering::Relaxed) > 2);
}

/// How often the last of two rolls reserves space while batches of one record of `length` are synced one by one.
fn reserved_by_a_roll(disk: &SimDisk, log: &mut Log, sequence: &mut u64, length: usize) -> u64 {
    let mut reserved = 0;
    // The first roll is made for what came before as well.
    for _ in 0..2 {
        let before = disk.count(Operation::Allocate);
        let file = log.position().file;
        while log.position().file == file {
            *sequence += 1;
            write(log, *sequence..=*sequence, length);
        }
        reserved = disk.count(Operation::Allocate) - before;
    }
    reserved
}

#[test]
fn zeros_are_written_for_small_syncs_only() {
    let disk = SimDisk::new();
    disk.create_dir(Path::new("/log")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let options = || LogOptions { file_size: 512 * 1024, ..options(Path::new("/log")) };
    let mut log = recover(Arc::new(disk.clone()), options(), None, &mut |_| Ok(())).unwrap().log;
    let mut sequence = 0;
    assert_eq!(reserved_by_a_roll(&disk, &mut log, &mut sequence, 300), 0);
    assert_eq!(reserved_by_a_roll(&disk, &mut log, &mut sequence, 3_000), 1);
    let end = disk.open(&log.files().path(log.position().file()), Open::Read).unwrap().len().unwrap();
    assert_eq!(end, 512 * 1024);
    assert_eq!(reserved_by_a_roll(&disk, &mut log, &mut sequence, 300), 0);
    let after = disk.crash(&mut SimRng::new(1), CrashPolicy::Drop);
    assert_eq!(recover(Arc::new(after), options(), None, &mut |_| Ok(())).unwrap().last_sequence, sequence);
}

#[test]
fn positions_survive_encoding() {
    let position = LogPosition { file: 3, offset: 1 << 40, chain: [5; 32], sequence: 77 };
    assert_eq!(LogPosition::decode(&position.encode()), Some(position.clone()));
    assert_eq!(LogPosition::decode(&position.encode()[1..]), None);
}
