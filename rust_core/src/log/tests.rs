//! The log on a real file system: what goes in comes out, and what was tampered with does not.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::fs::real::{RealFileSystem, SystemRandom};

use super::*;

fn options(dir: &Path) -> LogOptions {
    LogOptions {
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
    let recovered = recover(Arc::new(RealFileSystem), options, applied, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok((recovered, batches))
}

fn open(dir: &Path) -> (Recovered, Vec<RecoveredBatch>) {
    open_at(options(dir), None).unwrap()
}

#[allow(dead_code)]
fn open_error(dir: &Path, applied: Option<&LogPosition>) -> Error {
    match open_at(options(dir), applied) {
        Err(RecoverError::Failed(error)) => error,
        other => panic!("expected a refusal, found {:?}", other.map(|(_, batches)| batches.len())),
    }
}

fn payload(sequence: u64, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u64 * 31 + sequence) as u8).collect()
}

/// Appends one record a batch, each synced; returns where each batch ended.
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
    let offset = appended.start + u64::from(frame);
    let location = ContentLocation { file: appended.file, offset, length: content.len() as u32 };
    let check = |reader: &LogReader, location: &ContentLocation| {
        for (start, length) in [(0, 300_000), (0, 1), (65_503, 2), (65_504, 65_536), (200_000, 100_000), (300_000, 0)] {
            let mut buf = vec![0; length];
            reader.read_content(location, start as u32, &mut buf).unwrap();
            assert_eq!(buf, &content[start..start + length]);
            if reader.try_read_content(location, start as u32, &mut buf).unwrap() {
                assert_eq!(buf, &content[start..start + length]);
            }
        }
        assert!(matches!(reader.read_content(location, 300_000, &mut [0]), Err(Error::Corrupt { .. })));
    };
    check(&recovered.log.reader(), &location);
    drop(recovered);
    let (recovered, batches) = open(dir.path());
    let record = &batches[0].records[1];
    check(&recovered.log.reader(), &ContentLocation { file: record.file, offset: record.frame_offset, ..location });
}
