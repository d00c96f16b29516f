//! The log on a disk with little free space, or none.

use std::path::Path;
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{Fault, Operation, SimDisk, SimRandom};

use crate::*;

const MIB: u64 = 1 << 20;
const FILE: u64 = 8 * MIB;

fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir(Path::new("/log")).unwrap();
    disk
}

fn open(disk: &SimDisk) -> (Log, Vec<u64>) {
    try_open(disk).unwrap()
}

fn try_open(disk: &SimDisk) -> Result<(Log, Vec<u64>), RecoverError> {
    let options = LogOptions {
        established: false,
        dir: "/log".into(),
        store_id: [7; 16],
        commit_key: [9; 32],
        file_size: FILE,
        random: Arc::new(SimRandom::new(disk.steps())),
    };
    let mut sequences = Vec::new();
    let recovered = recover(Arc::new(disk.clone()), options, None, &mut |batch| {
        sequences.push(batch.position.sequence);
        Ok(())
    })?;
    let mut log = recovered.log;
    log.keep(&[])?;
    Ok((log, sequences))
}

fn append(log: &mut Log, sequence: u64, length: u64) -> Result<()> {
    let mut batch = Batch::new();
    for part in 0..length.div_ceil(MIB) {
        batch.push(sequence + part, 1, &[&vec![1; (length - part * MIB).min(MIB) as usize]]);
    }
    log.append(&mut batch, 0).map(drop)
}

fn length(disk: &SimDisk, log: &Log) -> u64 {
    disk.open(&log.files().path(log.position().file()), Open::Read).unwrap().len().unwrap()
}

#[test]
fn the_size_of_files_follows_the_free_space() {
    let disk = new_disk();
    disk.set_free_bytes(4 * FILE - 1);
    let (mut log, _) = open(&disk);
    assert_eq!(length(&disk, &log), 2 * MIB);
    append(&mut log, 1, MIB).unwrap();
    disk.set_free_bytes(4 * FILE);
    append(&mut log, 2, MIB).unwrap();
    assert_eq!(length(&disk, &log), FILE);
    // There is less room than was said: what found none leaves nothing behind.
    disk.set_free_bytes(MIB);
    disk.fail(Operation::Allocate, 1, Fault::NoSpace, false);
    log.spare_maker().make().unwrap();
    disk.fail(Operation::Allocate, 1, Fault::NoSpace, true);
    log.spare_maker().remove();
    assert!(matches!(log.spare_maker().make(), Err(Error::StorageFull)));
    disk.clear_faults();
    log.sync().unwrap();
    append(&mut log, 3, FILE).unwrap();
    assert_eq!(disk.list(Path::new("/log")).unwrap().len(), 3);
}

#[test]
fn a_batch_without_space_is_refused_and_needs_no_fail_over() {
    let disk = new_disk();
    disk.set_free_bytes(MIB);
    let (mut log, _) = open(&disk);
    append(&mut log, 1, 1000).unwrap();
    log.sync().unwrap();
    log.spare_maker().make().unwrap();
    disk.fail(Operation::Write, 2, Fault::NoSpace, true);
    assert!(matches!(append(&mut log, 2, 3 * MIB), Err(Error::StorageFull)));
    assert!(!log.needs_fail_over());
    disk.clear_faults();
    append(&mut log, 2, 1000).unwrap();
    append(&mut log, 3, 3 * MIB).unwrap();
    log.sync().unwrap();
    assert_eq!(open(&disk.kill()).1, [1, 2, 5]);
}

#[test]
fn a_start_uses_the_space_after_the_last_batch() {
    let disk = new_disk();
    let (mut log, _) = open(&disk);
    append(&mut log, 1, 1000).unwrap();
    log.sync().unwrap();
    // After a kill this one may stand in the page cache only.
    append(&mut log, 2, 1000).unwrap();
    let (before, path) = (log.position(), log.files().path(log.position().file()));
    let disk = disk.kill();
    disk.fail(Operation::Create, 1, Fault::NoSpace, false);
    // The process dies when the file is cut and the next one not made.
    disk.fail(Operation::Create, 2, Fault::Io, false);
    assert!(matches!(try_open(&disk), Err(RecoverError::Failed(Error::Io { .. }))));
    assert_eq!(disk.open(&path, Open::Read).unwrap().len().unwrap(), before.offset);
    let disk = disk.kill();
    disk.fail(Operation::Create, 1, Fault::NoSpace, false);
    assert_eq!(open(&disk).1, [1, 2]);
    assert_eq!(open(&disk.kill()).1, [1, 2]);
}
