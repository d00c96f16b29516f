//! Reclamation after something went wrong: a commit that failed, a request that ended early, damage, bodies that were
//! given up. What is dead still goes in the end, and nothing waits for ever.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::super::super::reclaim::on_demand;
use super::super::super::{Effort, Engine, ReclaimLimits, Step};
use super::super::steps::{CHUNK, Steps};
use super::super::support::{environment, noise, options};
use crate::commit::queue::Stall;
use orcas_base::error::{Error, Result};
use orcas_decide::Intent;
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRng};
use orcas_record::placement::codec;
use orcas_record::{BlobLocation, RefLevel};

const SMALL: usize = 5_000;
const COLLECT: ReclaimLimits =
    ReclaimLimits { live_max: 0.0, freed_min: 1, output_max: 0, compact: false, hurry: false };
const COMPACT: ReclaimLimits =
    ReclaimLimits { live_max: 0.9, freed_min: 1, output_max: 1 << 40, compact: true, hurry: false };

/// Reclaims until nothing is left to do or `until` is under way; commits and applies after each step.
fn drive(steps: &mut Steps, policy: &ReclaimLimits, until: Option<&str>) -> Result<()> {
    for _ in 0..400 {
        let done = steps.stepper().reclaim(policy)?;
        if until.is_some() && steps.stepper().reclaiming() == until || done == Step::Idle {
            return Ok(());
        }
        steps.stepper().commit();
        steps.apply();
    }
    panic!("no end: {:?}", steps.stepper().reclaiming());
}

fn allocated(steps: &Steps) -> u64 {
    steps.shared().packs.files().unwrap().iter().map(|file| file.allocated).sum()
}

#[test]
fn the_limit_of_a_request_that_ended_early_ends_with_it() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    steps.put(&bucket, "one", &noise(SMALL, 1));
    steps.apply();
    let shared = Arc::clone(steps.shared());
    // For a moment the disk has no room for the index.
    shared.applies.stall(Stall::Space);
    let answer = on_demand(&shared, &mut steps.stepper().reclaimer, Effort::Collect);
    assert!(matches!(answer, Err(Error::StorageFull)));
    steps.stepper().reclaimer.unlimited();
    steps.put(&bucket, "two", &noise(SMALL, 2));
    steps.apply();
    drive(&mut steps, &COLLECT, None).unwrap();
    let blobs = steps.put(&bucket, "three", &noise(SMALL, 3));
    steps.delete(&bucket, "three");
    steps.apply();
    drive(&mut steps, &COLLECT, None).unwrap();
    assert_eq!(steps.refs(blobs[0]), None);
}

#[test]
fn what_was_submitted_goes_on_when_the_barrier_of_a_request_fails() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |_| {});
    let bucket = steps.bucket("b");
    steps.put(&bucket, "a", &noise(2 * CHUNK, 1));
    steps.delete(&bucket, "a");
    steps.apply();
    drive(&mut steps, &COLLECT, Some("RetirePack")).unwrap();
    assert_eq!(steps.stepper().reclaiming(), Some("RetirePack"));
    // Durable, not applied. Somebody asks for a reclamation, and the round of its barrier fails.
    steps.stepper().commit();
    steps.stepper().refresh_reclamation(false);
    disk.fail(Operation::Sync, 1, Fault::Io, false);
    let intent = steps.intent(&bucket, "x", &noise(SMALL, 2));
    assert!(steps.run(intent).is_err());
    steps.apply();
    assert!(steps.stepper().reclaim(&COLLECT).is_err());
    steps.put(&bucket, "y", &noise(SMALL, 3));
    steps.apply();
    drive(&mut steps, &COLLECT, None).unwrap();
    assert_eq!(steps.shared().packs.files().unwrap(), []);
}

/// The record may be on the disk all the same, so until a restart neither the old files nor the new one may go.
#[test]
fn files_whose_replacement_failed_are_left_alone_and_the_others_compacted() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |options| options.log_file_size = 128 << 10);
    let bucket = steps.bucket("b");
    let fill = |steps: &mut Steps, from: u64| {
        for n in from..from + 100 {
            steps.put(&bucket, &format!("{n}"), &noise(SMALL, n));
        }
        for n in (from..from + 100).filter(|n| n % 10 != 0) {
            steps.delete(&bucket, &format!("{n}"));
        }
        steps.apply();
    };
    fill(&mut steps, 0);
    drive(&mut steps, &COMPACT, Some("ReplaceLog")).unwrap();
    assert_eq!(steps.stepper().reclaiming(), Some("ReplaceLog"));
    disk.fail(Operation::Sync, 1, Fault::Io, false);
    steps.stepper().commit();
    assert!(steps.stepper().reclaim(&COMPACT).is_err());
    let before = steps.handle().reclaim_progress().total.log_files;
    for round in 1..4 {
        fill(&mut steps, 100 * round);
        steps.stepper().refresh_reclamation(true);
        drive(&mut steps, &COMPACT, None).unwrap();
    }
    assert!(steps.handle().reclaim_progress().total.log_files > before + 4);
    for reopened in [false, true] {
        for n in (0..400).step_by(10) {
            assert!(steps.get(&bucket, &format!("{n}")) == noise(SMALL, n), "object {n}, {reopened}");
        }
        steps.reopen();
    }
    steps.stepper().refresh_reclamation(true);
    drive(&mut steps, &COMPACT, None).unwrap();
}

#[test]
fn requests_that_wait_when_the_store_closes_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(options(dir.path()), environment()).unwrap();
    let hold = engine.handle().pin_for_backup().unwrap();
    let (sender, answers) = channel();
    for _ in 0..3 {
        let (handle, sender) = (engine.handle(), sender.clone());
        std::thread::spawn(move || sender.send(handle.reclaim(Effort::Collect)));
    }
    // The first of them waits for the hold, the others for the first.
    while !engine.handle().reclaim_progress().requested {
        std::thread::yield_now();
    }
    engine.close().unwrap();
    for _ in 0..3 {
        let answer = answers.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
    }
    drop(hold);
}

#[test]
fn packs_of_bodies_that_were_given_up_go_while_the_store_is_open() {
    let mut steps = Steps::with(|options| options.pack_size = 1 << 20);
    let bucket = steps.bucket("b");
    steps.put(&bucket, "a", &noise(CHUNK, 1));
    let body = |steps: &Steps, seed| {
        let mut writer = steps.handle().content().body_writer(&bucket, &Default::default(), 2 << 20).unwrap();
        writer.write(&noise((2 << 20) - 1, seed), &mut ()).unwrap();
        writer
    };
    (100..108).for_each(|seed| drop(body(&steps, seed)));
    let mut kept = body(&steps, 200);
    steps.apply();
    assert!(steps.packed() > 16 << 20);
    steps.stepper().refresh_reclamation(false);
    drive(&mut steps, &COLLECT, None).unwrap();
    assert!(steps.packed() < 5 << 20, "{} bytes are left", steps.packed());
    // One that goes on loses nothing.
    let bytes = noise(2 << 20, 200);
    kept.write(&bytes[(2 << 20) - 1..], &mut ()).unwrap();
    let put = Steps::put_of(&bucket, "kept", &bytes, kept.finish().unwrap());
    steps.run(Intent::PutObject(Box::new(put))).unwrap();
    steps.apply();
    steps.stepper().refresh_reclamation(false);
    drive(&mut steps, &COLLECT, None).unwrap();
    steps.reopen();
    assert!(steps.get(&bucket, "kept") == bytes && steps.get(&bucket, "a") == noise(CHUNK, 1));
}

/// Until a later sync a power cut can bring the batch back, and with it objects that name what was given up.
#[test]
fn what_a_failed_batch_named_goes_only_when_the_batch_cannot_come_back() {
    // The batch has packs of its own, or its chunks stand beside others.
    for pack_size in [1 << 20, 64 << 20] {
        let disk = SimDisk::new();
        let open = |disk: &SimDisk| Steps::on(disk, |options| options.pack_size = pack_size);
        let (kept, failed) = (noise(2 * CHUNK, 1), noise(2 << 20, 2));
        let mut steps = open(&disk);
        let bucket = steps.bucket("b");
        steps.put(&bucket, "kept", &kept);
        steps.apply();
        let intent = steps.intent(&bucket, "failed", &failed);
        disk.fail(Operation::Sync, 1, Fault::Io, false);
        assert!(steps.run(intent).is_err());
        let before = allocated(&steps);
        steps.stepper().refresh_reclamation(false);
        drive(&mut steps, &COLLECT, None).unwrap();
        assert!(allocated(&steps) < before - (1 << 20), "{before} bytes before, {} after", allocated(&steps));
        for seed in 0..64 {
            let again = open(&disk.crash(&mut SimRng::new(seed), CrashPolicy::Scatter));
            assert!(again.get(&bucket, "kept") == kept, "seed {seed}");
            let found = again.handle().object(bucket.id, &bytes::Bytes::from_static(b"failed")).unwrap();
            assert!(found.is_none() || again.get(&bucket, "failed") == failed, "seed {seed}");
        }
    }
}

#[test]
fn a_pack_that_somebody_wrote_into_when_it_was_sealed_is_looked_at_again() {
    let mut steps = Steps::with_level(RefLevel::Off);
    let bucket = steps.bucket("b");
    steps.put(&bucket, "a", &noise(8 * CHUNK, 1));
    let bytes = noise(CHUNK, 2);
    let mut writer = steps.handle().content().body_writer(&bucket, &Default::default(), CHUNK as u64).unwrap();
    writer.write(&bytes[..70_000], &mut ()).unwrap();
    steps.delete(&bucket, "a");
    steps.apply();
    drive(&mut steps, &COLLECT, None).unwrap();
    writer.write(&bytes[70_000..], &mut ()).unwrap();
    let put = Steps::put_of(&bucket, "b", &bytes, writer.finish().unwrap());
    steps.run(Intent::PutObject(Box::new(put))).unwrap();
    steps.apply();
    drive(&mut steps, &COLLECT, None).unwrap();
    let kept = allocated(&steps);
    steps.advance(Duration::from_secs(601));
    drive(&mut steps, &COLLECT, None).unwrap();
    assert!(allocated(&steps) < kept && allocated(&steps) < 2 * CHUNK as u64, "{kept}, {}", allocated(&steps));
    assert!(steps.get(&bucket, "b") == bytes);
}

#[test]
fn beside_a_damaged_log_file_the_others_are_compacted() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |options| options.log_file_size = 128 << 10);
    let bucket = steps.bucket("b");
    for n in 0..200 {
        steps.put(&bucket, &format!("{n:03}"), &noise(SMALL, n));
    }
    for n in 0..190 {
        steps.delete(&bucket, &format!("{n:03}"));
    }
    steps.apply();
    let dir = Path::new("/data/log");
    let files = |disk: &SimDisk| disk.list(dir).unwrap();
    let before = files(&disk).len();
    let damaged = files(&disk)[1].clone();
    disk.open(&dir.join(&damaged), Open::Write).unwrap().write_at(60_000, &[0x55]).unwrap();
    steps.stepper().refresh_reclamation(false);
    let errors = (0..10).filter(|_| drive(&mut steps, &COMPACT, None).is_err()).count();
    // The damage is met once; nobody tries again by itself.
    assert_eq!(errors, 1);
    let after = files(&disk);
    assert!(after.len() < before - 3 && after.contains(&damaged), "{before} files before, {after:?} after");
    // Who asks is told of it, after everything else is done.
    for n in 190..196 {
        steps.delete(&bucket, &format!("{n:03}"));
    }
    steps.apply();
    for n in 196..200 {
        assert!(steps.get(&bucket, &format!("{n:03}")) == noise(SMALL, n));
    }
}

#[test]
fn a_damaged_chunk_is_not_moved_again_and_again() {
    let disk = SimDisk::new();
    disk.refuse_holes();
    let mut steps = Steps::on(&disk, |options| options.pack_size = 8 << 20);
    let bucket = steps.bucket("b");
    steps.put(&bucket, "a", &noise(8 * CHUNK, 1));
    let blobs = steps.put(&bucket, "b", &noise(4 * CHUNK, 2));
    steps.delete(&bucket, "a");
    steps.apply();
    let place = steps.shared().catalog.index.read().unwrap().blob(blobs[3]).unwrap();
    let Some(BlobLocation::Pack { at, .. }) = place else { panic!("{place:?}") };
    let file = disk.open(&steps.shared().packs.path(at.pack()), Open::Write).unwrap();
    file.write_at(codec::chunk_parts(at).1 + 100_000, &[0x55; 3]).unwrap();
    let before = steps.packed();
    let errors = (0..20).filter(|_| drive(&mut steps, &COMPACT, None).is_err()).count();
    assert_eq!(errors, 1);
    assert!(steps.packed() < before + 4 * CHUNK as u64, "{before} bytes before, {} after", steps.packed());
}
