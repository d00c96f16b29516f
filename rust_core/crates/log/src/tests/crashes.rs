//! The log on a simulated disk that fails and loses power, also during recovery.
//!
//! The oracle: recovery visits a prefix of some history that contains every acknowledged batch. A failed batch belongs to
//! a history of its own, which ends where the log continued without it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use orcas_base::error::{Error, Result};
use orcas_fs::FileSystem;
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRandom, SimRng};

use crate::*;

const FILE: u64 = 4096 + 6 * 1024;
const POLICIES: [CrashPolicy; 4] = [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter];

/// The batches that recovery must or may find. A batch has an id that is never used twice, unlike its sequences.
#[derive(Clone, Default)]
struct ExpectedBatches {
    acknowledged: Vec<(u64, LogPosition)>,
    /// Appended after the acknowledged ones, not synced yet.
    open: Vec<(u64, LogPosition)>,
    /// Histories that ended in a failure.
    failed: Vec<Vec<u64>>,
}

impl ExpectedBatches {
    fn fail(&mut self, unwritten: Option<u64>) {
        let mut history: Vec<u64> = self.acknowledged.iter().chain(&self.open).map(|(id, _)| *id).collect();
        history.extend(unwritten);
        self.failed.push(history);
        self.open.clear();
    }

    /// `found` are the batches visited after the first `skipped` acknowledged ones.
    fn allows(&self, skipped: usize, found: &[u64]) -> bool {
        let acknowledged: Vec<u64> = self.acknowledged.iter().map(|(id, _)| *id).collect();
        let all = [&acknowledged[..skipped], found].concat();
        let mut present = acknowledged.clone();
        present.extend(self.open.iter().map(|(id, _)| *id));
        all.starts_with(&acknowledged)
            && (present.starts_with(&all) || self.failed.iter().any(|history| history.starts_with(&all)))
    }
}

fn options(seed: u64) -> LogOptions {
    LogOptions {
        established: false,
        dir: "/log".into(),
        store_id: [7; 16],
        commit_key: [9; 32],
        file_size: FILE,
        random: Arc::new(SimRandom::new(seed)),
    }
}

fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir(Path::new("/log")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn open(disk: &SimDisk, seed: u64, applied: Option<&LogPosition>) -> Result<(Log, Vec<RecoveredBatch>), RecoverError> {
    let mut batches = Vec::new();
    let mut recovered = recover(Arc::new(disk.clone()), options(seed), applied, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    recovered.log.keep(&[])?;
    Ok((recovered.log, batches))
}

fn payload(id: u64, index: u64) -> Vec<u8> {
    let mut out = vec![id as u8; CONTENT_PREFIX];
    out[..8].copy_from_slice(&id.to_le_bytes());
    let mut rng = SimRng::new(id * 64 + index);
    let length = if rng.below(4) == 0 { rng.below(3000) } else { rng.below(300) };
    out.extend((0..length).map(|_| rng.next() as u8));
    out
}

fn records(id: u64) -> u64 {
    1 + id % 3
}

/// The ids of the batches, after every record of each was compared and read through the reader.
fn ids(log: &Log, batches: &[RecoveredBatch]) -> Vec<u64> {
    let reader = log.reader();
    batches
        .iter()
        .map(|batch| {
            let id = u64::from_le_bytes(batch.records[0].payload[..8].try_into().unwrap());
            assert_eq!(batch.records.len() as u64, records(id));
            for (index, record) in batch.records.iter().enumerate() {
                let expected = payload(id, index as u64);
                assert_eq!(record.payload, expected);
                let length = (expected.len() - CONTENT_PREFIX) as u32;
                let mut content = vec![0; length as usize];
                reader.read_content(record.at, length, 0, &mut content).unwrap();
                assert_eq!(content, expected[CONTENT_PREFIX..]);
            }
            id
        })
        .collect()
}

/// Writes a log, following the rules that the engine must follow.
struct Driver {
    log: Log,
    expected: Arc<Mutex<ExpectedBatches>>,
    next_id: u64,
    end: LogPosition,
    durable: u64,
}

impl Driver {
    fn new(disk: &SimDisk, seed: u64) -> Self {
        let (log, _) = open(disk, seed, None).unwrap();
        Self { end: log.position(), log, expected: Arc::default(), next_id: 1, durable: 0 }
    }

    /// Opens the log again with an index of the first `kept` acknowledged batches. The batches that recovery visits count as
    /// acknowledged from now on.
    fn reopen(self, disk: &SimDisk, seed: u64, kept: usize) -> Self {
        let mut acknowledged = self.expected.lock().acknowledged.clone();
        acknowledged.truncate(kept);
        let (log, batches) =
            open(disk, seed ^ self.next_id, acknowledged.last().map(|(_, position)| position)).unwrap();
        let found = ids(&log, &batches);
        assert!(self.expected.lock().allows(kept, &found));
        acknowledged.extend(found.into_iter().zip(batches).map(|(id, batch)| (id, batch.position)));
        let end = log.position();
        let expected = ExpectedBatches { acknowledged, ..ExpectedBatches::default() };
        Self { durable: end.sequence, log, expected: Arc::new(Mutex::new(expected)), end, ..self }
    }

    fn append(&mut self) {
        let id = self.next_id;
        self.next_id += 1;
        let mut batch = Batch::new();
        let first = self.log.position().sequence + 1;
        for index in 0..records(id) {
            batch.push(first + index, 1, &[&payload(id, index)]);
        }
        // While it is written it may already be on the disk.
        self.expected.lock().open.push((id, self.log.position()));
        let done = self.log.append(&mut batch, self.durable);
        let mut expected = self.expected.lock();
        expected.open.pop();
        match done {
            Ok(appended) => expected.open.push((id, appended.position)),
            Err(_) => {
                expected.fail(Some(id));
                drop(expected);
                self.fail_over();
            }
        }
    }

    fn sync(&mut self) {
        if self.log.sync().is_err() {
            self.expected.lock().fail(None);
            return self.fail_over();
        }
        let mut expected = self.expected.lock();
        let open = std::mem::take(&mut expected.open);
        if let Some((_, last)) = open.last() {
            self.end = last.clone();
            self.durable = last.sequence;
        }
        expected.acknowledged.extend(open);
    }

    fn fail_over(&mut self) {
        for _ in 0..20 {
            if self.log.fail_over(&self.end).is_ok() {
                return;
            }
        }
        panic!("a transient fault lasted");
    }

    fn run(&mut self, rng: &mut SimRng, operations: usize) {
        for _ in 0..operations {
            match rng.below(8) {
                0..=3 => self.append(),
                4 => drop(self.log.spare_maker().make()),
                _ => self.sync(),
            }
        }
    }
}

type Images = Arc<Mutex<Vec<(SimDisk, ExpectedBatches)>>>;

/// Records the disk after every write, sync and directory operation, with the batches expected then.
fn record_images(disk: &SimDisk, expected: &Arc<Mutex<ExpectedBatches>>) -> Images {
    let images = Images::default();
    let (sink, expected) = (Arc::clone(&images), Arc::clone(expected));
    disk.on_step(move |_, disk| {
        let expected = expected.lock().clone();
        sink.lock().push((disk.snapshot(), expected));
    });
    images
}

/// Loses power at `image`, recovers, loses power again during recovery, and recovers again.
fn check_image(image: &SimDisk, expected: &ExpectedBatches, rng: &mut SimRng, distinct: &mut BTreeSet<u128>) {
    let policy = POLICIES[rng.below(4) as usize];
    let disk = if rng.below(5) == 0 { image.kill() } else { image.crash(rng, policy) };
    distinct.insert(disk.fingerprint());
    let skipped = rng.below(expected.acknowledged.len() as u64 + 1) as usize;
    let skipped = if rng.below(2) == 0 { 0 } else { skipped };
    let applied = skipped.checked_sub(1).map(|last| expected.acknowledged[last].1.clone());
    let images = record_images(&disk, &Arc::default());
    let (log, batches) = open(&disk, rng.next(), applied.as_ref()).unwrap();
    let found = ids(&log, &batches);
    assert!(expected.allows(skipped, &found), "{policy:?}: {found:?} behind {skipped}");
    drop(log);

    // Whatever was visited is durable now.
    let again = disk.crash(rng, CrashPolicy::Drop);
    let (log, batches) = open(&again, rng.next(), applied.as_ref()).unwrap();
    assert_eq!(ids(&log, &batches), found);
    if let Some(last) = batches.last() {
        assert!(open(&again, rng.next(), Some(&last.position)).unwrap().1.is_empty());
    }

    let images = images.lock();
    let (cut, _) = &images[rng.below(images.len() as u64) as usize];
    let policy = POLICIES[rng.below(4) as usize];
    let cut = cut.crash(rng, policy);
    distinct.insert(cut.fingerprint());
    let (log, batches) = open(&cut, rng.next(), applied.as_ref()).unwrap();
    let second = ids(&log, &batches);
    assert!(expected.allows(skipped, &second), "after a cut in recovery: {second:?} behind {skipped}");
}

/// Counts of the events of a run.
#[derive(Default)]
struct Met {
    acknowledged: usize,
    failures: usize,
    /// Log files that were reserved and not filled.
    reserved: u64,
}

/// One store that is opened several times, each time until a power loss or a kill. Every moment is checked.
fn run_seed(seed: u64, faults: bool, distinct: &mut BTreeSet<u128>) -> Met {
    let mut rng = SimRng::new(seed);
    let mut disk = new_disk();
    let mut driver = Driver::new(&disk, seed);
    let mut met = Met::default();
    for _ in 0..3 {
        let images = record_images(&disk, &driver.expected);
        for _ in 0..if faults { 2 } else { 0 } {
            let kinds = [Operation::Write, Operation::Sync, Operation::Create, Operation::SyncDirectory];
            let kind = [Operation::Sync, kinds[rng.below(4) as usize]][rng.below(2) as usize];
            let fault = if rng.below(2) == 0 { Fault::Io } else { Fault::NoSpace };
            disk.fail(kind, 1 + rng.below(12), fault, false);
            disk.fail(Operation::Allocate, 1 + rng.below(6), fault, false);
        }
        driver.run(&mut rng, 30);
        for (image, expected) in images.lock().iter() {
            check_image(image, expected, &mut rng, distinct);
        }
        met.failures += driver.expected.lock().failed.len();
        met.reserved += disk.count(Operation::Allocate);
        let policy = POLICIES[rng.below(4) as usize];
        if rng.below(3) == 0 && !driver.log.needs_fail_over() {
            driver.sync();
            let end = driver.log.position();
            driver.log.close(&end);
        }
        disk = if rng.below(2) == 0 { disk.kill() } else { disk.crash(&mut rng, policy) };
        let kept = rng.below(driver.expected.lock().acknowledged.len() as u64 + 1);
        driver = driver.reopen(&disk, seed, kept as usize);
    }
    met.acknowledged = driver.expected.lock().acknowledged.len();
    met
}

#[test]
fn no_power_loss_loses_what_was_acknowledged() {
    let mut distinct = BTreeSet::new();
    let (mut acknowledged, mut reserved) = (0, 0);
    for seed in 0..24 {
        let met = run_seed(seed, false, &mut distinct);
        acknowledged += met.acknowledged;
        reserved += met.reserved;
    }
    assert!(acknowledged > 200 && distinct.len() > 2000, "{acknowledged} {}", distinct.len());
    assert!(reserved > 20, "only {reserved} files were reserved");
}

#[test]
fn no_power_loss_around_a_disk_fault_loses_or_restores_a_batch() {
    let mut distinct = BTreeSet::new();
    let failed: usize = (1000..1016).map(|seed| run_seed(seed, true, &mut distinct).failures).sum();
    assert!(failed > 15, "only {failed} failures were met");
}

#[test]
fn a_failed_batch_is_gone_once_its_successor_is_acknowledged() {
    for (seed, operation) in [Operation::Sync, Operation::Write].into_iter().enumerate() {
        let disk = new_disk();
        let mut driver = Driver::new(&disk, seed as u64);
        (0..3).for_each(|_| driver.append());
        driver.sync();
        disk.fail(operation, 1, Fault::Io, false);
        driver.append();
        driver.sync();
        assert_eq!(driver.expected.lock().failed.len(), 1);
        driver.append();
        driver.sync();
        let acknowledged: Vec<u64> = driver.expected.lock().acknowledged.iter().map(|(id, _)| *id).collect();
        assert_eq!(acknowledged, [1, 2, 3, 5]);
        for after in [disk.kill(), disk.crash(&mut SimRng::new(1), CrashPolicy::Keep)] {
            let (log, batches) = open(&after, 5, None).unwrap();
            assert_eq!(ids(&log, &batches), acknowledged);
        }
    }
}

#[test]
fn a_file_that_failed_is_not_synced_again() {
    let disk = new_disk();
    let mut driver = Driver::new(&disk, 1);
    driver.append();
    disk.fail(Operation::Sync, 1, Fault::Io, false);
    assert!(driver.log.sync().is_err());
    assert!(driver.log.needs_fail_over());
    let syncs = disk.count(Operation::Sync);
    assert!(driver.log.sync().is_err());
    assert!(driver.log.append(&mut Batch::new(), 0).is_err());
    assert_eq!(disk.count(Operation::Sync), syncs);
}

#[test]
fn a_full_disk_refuses_the_roll_and_keeps_the_log_in_order() {
    let disk = new_disk();
    let mut driver = Driver::new(&disk, 1);
    let mut batch = Batch::new();
    let mut sequence = 0;
    disk.fail(Operation::Create, 1, Fault::NoSpace, true);
    let refused = loop {
        sequence += 1;
        batch.clear();
        batch.push(sequence, 1, &[&[0; 700]]);
        if let Err(error) = driver.log.append(&mut batch, 0) {
            break error;
        }
    };
    assert!(matches!(refused, Error::StorageFull));
    // Nothing is wrong with the present file: what is in it stays, and a smaller batch still finds room.
    assert!(!driver.log.needs_fail_over());
    batch.clear();
    batch.push(sequence, 1, &[&[1; 8]]);
    driver.log.append(&mut batch, 0).unwrap();
    disk.clear_faults();
    batch.clear();
    batch.push(sequence + 1, 1, &[&[1; 700]]);
    driver.log.append(&mut batch, 0).unwrap();
    driver.log.sync().unwrap();
    let (_, batches) = open(&disk.crash(&mut SimRng::new(1), CrashPolicy::Drop), 2, None).unwrap();
    let found: Vec<u64> = batches.iter().map(|batch| batch.position.sequence).collect();
    assert_eq!(found, (1..=sequence + 1).collect::<Vec<_>>());
}

#[test]
fn recovery_reports_every_fault_and_can_be_repeated() {
    let disk = new_disk();
    let mut driver = Driver::new(&disk, 1);
    driver.run(&mut SimRng::new(4), 60);
    driver.append();
    let expected = driver.expected.lock().clone();
    let kinds = [
        Operation::Create,
        Operation::Read,
        Operation::Write,
        Operation::Sync,
        Operation::SyncDirectory,
        Operation::Remove,
    ];
    let mut met = 0;
    for (kind, nth, fault) in kinds
        .into_iter()
        .flat_map(|kind| (1..10).flat_map(move |nth| [(kind, nth, Fault::Io), (kind, nth, Fault::NoSpace)]))
    {
        let disk = disk.kill();
        disk.fail(kind, nth, fault, false);
        let Err(error) = open(&disk, 9, None) else { continue };
        met += 1;
        assert!(matches!(error, RecoverError::Failed(Error::Io { .. } | Error::StorageFull)), "{error}");
        let (log, batches) = open(&disk, 10, None).unwrap();
        assert!(expected.allows(0, &ids(&log, &batches)));
    }
    assert!(met > 20, "{met}");
}
