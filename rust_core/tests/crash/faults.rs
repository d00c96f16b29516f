//! A disk that fails: EIO and ENOSPC at every kind of operation, once and for ever. What failed was not acknowledged,
//! what was acknowledged stays readable, the store goes on or says that it is read-only, and without the fault the
//! next start finds a legal state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orcas_decide::Precondition;
use orcas_engine::Stepper;
use orcas_fs_testing::{CrashPolicy, Fault, Operation};
use orcas_record::{BucketSettings, DocumentKind, Durability};

use crate::model::{Op, Payload};
use crate::store::{Run, Tally, events, is_fault, reclaim_everything};
use crate::workload::Workload;
use crate::{Seed, seeds, share};

/// Renames and removals happen only while a store opens.
const OPERATIONS: [Operation; 6] = [
    Operation::Create,
    Operation::Write,
    Operation::Allocate,
    Operation::SetLength,
    Operation::Sync,
    Operation::SyncDirectory,
];
const OPENING: [Operation; 3] = [Operation::Rename, Operation::Remove, Operation::Read];
const MODES: [Durability; 4] = [Durability::Sync, Durability::Interval, Durability::Buffered, Durability::UnsafeNone];
const SEEDS: u64 = 320;
/// One in so many steps is cut.
const CUT: u64 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Unharmed,
    Resumed,
    ReadOnly,
}

/// Which fault a seed is about.
fn plan(seed: u64) -> (Operation, Fault, bool, Durability) {
    let operation = OPERATIONS[(seed % 6) as usize];
    let fault = if (seed / 6).is_multiple_of(2) { Fault::Io } else { Fault::NoSpace };
    // Half of all runs in the mode that promises most.
    let mode = MODES[(seed / 24 % 8).saturating_sub(4) as usize];
    (operation, fault, (seed / 12).is_multiple_of(2), mode)
}

fn step(run: &mut Run, workload: &mut Workload) {
    let ops = workload.ops(run);
    run.round(ops);
    match run.rng.below(8) {
        0 => {
            // The next roll tries again.
            if let Err(error) = run.make_spare() {
                assert!(is_fault(&error), "{error}");
            }
        }
        1 => run.apply(),
        2 => run.idle(Duration::from_millis(200)),
        _ => {}
    }
    run.maybe_follow();
}

/// A new store, which half of all seeds encrypt, and whose events half of them keep.
fn begin_life(seed: u64, durability: Durability, tally: &Arc<Tally>, sparse: u64) -> Run {
    let mut run = Run::new(seed, durability, tally, sparse, |options| events::choose_beside_faults(seed, options));
    run.begin_following();
    run
}

/// This life ends, and the next one begins.
fn end_life(run: &mut Run) {
    run.follow_to_the_end();
    match run.rng.below(3) {
        0 => run.kill(),
        1 => run.crash(CrashPolicy::Scatter),
        _ => run.crash(CrashPolicy::Drop),
    }
    run.begin_following();
}

/// Whether an object can be put; makes a bucket for it if there is none.
fn put(run: &mut Run) -> bool {
    if run.model().buckets.is_empty() {
        run.round(vec![Op::CreateBucket { name: "one".into(), settings: BucketSettings::default() }]);
    }
    let known = run.model().buckets.values().filter_map(|held| Some((held.id?, held.has_quota())));
    let Some((bucket, has_quota)) = known.min_by_key(|(_, has_quota)| *has_quota) else { return false };
    if has_quota {
        let (kind, document) = (DocumentKind::Quota, Default::default());
        run.round(vec![Op::PutDocument { bucket, kind, document }]);
    }
    let before = run.model().text();
    let body = Payload::new(vec![7; 900].into());
    let precondition = Precondition::default();
    let key = "after".into();
    run.holds = false;
    run.round(vec![Op::Put { bucket, key, body, chunked: false, headers: Default::default(), precondition }]);
    run.holds = true;
    run.idle(Duration::from_millis(200));
    run.world.clock.advance(Duration::from_millis(1));
    run.model().text() != before
}

pub fn fail(seed: u64, tally: &Arc<Tally>) -> (String, End) {
    let _named = Seed(seed);
    let (operation, fault, for_ever, mode) = plan(seed);
    let mut run = begin_life(seed, mode, tally, CUT);
    let mixed = run.rng.below(2) == 0;
    let mut workload = Workload::new(mixed);
    workload.renames = !mixed;
    for _ in 0..4 {
        step(&mut run, &mut workload);
    }
    let nth = 1 + run.rng.below(match operation {
        Operation::Write => 24,
        Operation::Sync => 10,
        Operation::Allocate | Operation::SetLength => 1,
        _ => 3,
    });
    run.fail(operation, nth, fault, for_ever);
    for _ in 0..8 {
        step(&mut run, &mut workload);
        run.compare();
    }
    let struck = run.struck();
    run.repair_disk();
    let resumed = put(&mut run);
    run.compare();
    assert_eq!(resumed, !run.read_only(), "a store that is not read-only writes again once the fault is gone");
    if mode == Durability::Sync && !mixed && fault == Fault::NoSpace && operation == Operation::Create {
        assert!(resumed, "no room for a new file is no reason to stop for good");
    }
    let end = match (struck, resumed) {
        (false, _) => End::Unharmed,
        (true, true) => End::Resumed,
        (true, false) => End::ReadOnly,
    };
    end_life(&mut run);
    for _ in 0..3 {
        step(&mut run, &mut workload);
    }
    assert!(put(&mut run), "a store that was opened again writes");
    run.compare();
    run.follow_to_the_end();
    run.crash(CrashPolicy::Drop);
    let often = if for_ever { "for ever" } else { "once" };
    (format!("{operation:?} {fault:?} {often}"), end)
}

#[test]
fn a_failing_disk_loses_nothing_that_was_acknowledged() {
    let tally = Arc::new(Tally::default());
    let (seeds, asked) = seeds(1..=SEEDS / share() as u64);
    let mut ends: BTreeMap<String, BTreeMap<End, u64>> = BTreeMap::new();
    for seed in seeds {
        let (plan, end) = fail(seed, &tally);
        *ends.entry(plan).or_default().entry(end).or_default() += 1;
    }
    for (plan, ends) in &ends {
        println!("{plan}: {ends:?}");
        assert!(asked || share() > 1 || ends.keys().any(|end| *end != End::Unharmed), "{plan} never happened");
    }
    println!("{} distinct disk images", tally.images());
}

/// What reclamation does to the disk.
const RECLAIMING: [Operation; 7] = [
    Operation::Create,
    Operation::Read,
    Operation::Write,
    Operation::Punch,
    Operation::Sync,
    Operation::SyncDirectory,
    Operation::Remove,
];
const RECLAIM_SEEDS: u64 = 420;

/// A disk that fails while something is reclaimed, and whether it came to that.
pub fn reclaim(seed: u64, tally: &Arc<Tally>) -> (String, End) {
    let _named = Seed(seed);
    let operation = RECLAIMING[(seed % 7) as usize];
    let fault = if (seed / 7).is_multiple_of(2) { Fault::Io } else { Fault::NoSpace };
    let for_ever = (seed / 14).is_multiple_of(4);
    let mut run = begin_life(seed, MODES[(seed / 42 % 8).saturating_sub(4) as usize], tally, CUT);
    let mut workload = Workload::new(seed.is_multiple_of(2));
    for _ in 0..8 {
        step(&mut run, &mut workload);
        run.open_reader();
        run.reclaim(3);
    }
    // What dies from here on is there to be reclaimed when the disk begins to fail.
    for _ in 0..2 {
        step(&mut run, &mut workload);
    }
    run.apply();
    run.refresh(true);
    // Reclamation reads little where most buckets keep old versions.
    let nth = 1 + run.rng.below(if operation == Operation::Read { 8 } else { 2 });
    run.fail(operation, nth, fault, for_ever);
    for _ in 0..6 {
        run.reclaim(12);
        run.maybe_follow();
        run.refresh(false);
    }
    let struck = run.struck();
    run.repair_disk();
    run.finish_readers();
    run.compare();
    let resumed = put(&mut run);
    assert_eq!(resumed, !run.read_only(), "a store that is not read-only writes again once the fault is gone");
    if resumed {
        // What failed may stay as it is until the next start.
        if let Err(error) = reclaim_everything(&mut run.stepper) {
            assert!(struck && is_fault(&error), "{error}");
        }
        run.compare();
    }
    let end = match (struck, resumed) {
        (false, _) => End::Unharmed,
        (true, true) => End::Resumed,
        (true, false) => End::ReadOnly,
    };
    end_life(&mut run);
    step(&mut run, &mut workload);
    assert!(put(&mut run), "a store that was opened again writes");
    reclaim_everything(&mut run.stepper).unwrap();
    run.compare();
    run.follow_to_the_end();
    run.crash(CrashPolicy::Drop);
    let often = if for_ever { "for ever" } else { "once" };
    (format!("{operation:?} {fault:?} {often}"), end)
}

#[test]
fn a_disk_that_fails_during_reclamation_loses_nothing() {
    let tally = Arc::new(Tally::default());
    let (seeds, asked) = seeds(1..=RECLAIM_SEEDS / share() as u64);
    let mut ends: BTreeMap<String, BTreeMap<End, u64>> = BTreeMap::new();
    for seed in seeds {
        let (plan, end) = reclaim(seed, &tally);
        *ends.entry(plan).or_default().entry(end).or_default() += 1;
    }
    for (plan, ends) in &ends {
        println!("{plan}: {ends:?}");
        assert!(asked || share() > 1 || ends.keys().any(|end| *end != End::Unharmed), "{plan} never happened");
    }
    println!("{} distinct disk images", tally.images());
}

/// Opening a store meets the fault: it opens or says why not, and the next attempt finds everything.
#[test]
fn a_disk_that_fails_while_the_store_opens_is_an_error_and_no_loss() {
    let tally = Arc::new(Tally::default());
    for seed in 1..=12 {
        let _named = Seed(seed);
        let mut run = begin_life(seed, Durability::Sync, &tally, u64::MAX);
        let mut workload = Workload::new(true);
        for _ in 0..6 {
            step(&mut run, &mut workload);
        }
        for operation in OPERATIONS.into_iter().chain(OPENING) {
            for (fault, for_ever) in [(Fault::Io, false), (Fault::Io, true), (Fault::NoSpace, false)] {
                for nth in 1..20 {
                    let disk = run.disk.crash(&mut run.rng, CrashPolicy::Scatter);
                    disk.fail(operation, nth, fault, for_ever);
                    let opened = run.world.aside(nth).open(&disk, None);
                    let struck = disk.count(operation) >= nth;
                    if let Err(error) = &opened {
                        assert!(struck && is_fault(error), "{operation:?} {nth}: {error}");
                    }
                    drop::<Result<Stepper, _>>(opened);
                    disk.clear_faults();
                    let disk = disk.crash(&mut run.rng, CrashPolicy::Scatter);
                    run.check_start(&disk);
                    if !struck {
                        break;
                    }
                }
            }
        }
    }
}

/// Under the reserve nothing that needs room is taken, and everything else goes on.
#[test]
fn a_full_disk_refuses_bodies_and_takes_deletions() {
    let tally = Arc::new(Tally::default());
    let mut run = Run::new(1, Durability::Sync, &tally, u64::MAX, |options| options.disk_reserve = 1 << 20);
    assert!(put(&mut run));
    run.disk.set_free_bytes(1 << 19);
    assert!(!put(&mut run));
    let bucket = run.model().buckets.values().find_map(|bucket| bucket.id).unwrap();
    let delete = Op::Delete { bucket, key: "after".into(), precondition: Precondition::default() };
    run.round(vec![delete]);
    run.compare();
    assert!(run.model().buckets.values().all(|bucket| bucket.versions.is_empty()));
    run.disk.set_free_bytes(1 << 40);
    assert!(put(&mut run));
    run.compare();
}
