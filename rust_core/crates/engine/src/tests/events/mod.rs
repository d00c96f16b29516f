//! Events: each change once and in order, whatever happens in between.

mod causes;
mod layers;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::super::{Change, ChangeKind, EventOptions, Handle, JournalCursor, Place};
use super::steps::Steps;
use super::support::{Store, noise};
use crate::{EngineOptions, ReclaimLimits, Step};
use orcas_base::error::Error;
use orcas_decide::{BucketChange, Intent, Outcome, Precondition, PutObject};
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRng};
use orcas_record::{Bucket, Durability, Versioning};

pub(super) const EVENTS: Option<EventOptions> = Some(EventOptions { retention_ms: 3_600_000, max_bytes: 64 << 20 });

pub(super) fn read(handle: &Handle, cursor: JournalCursor) -> (Vec<Change>, bool) {
    let mut reader = handle.read_events(cursor).unwrap();
    let (mut changes, mut lost) = (Vec::new(), false);
    loop {
        let read = reader.read(10_000).unwrap();
        lost |= read.lost;
        if read.events.is_empty() && !read.lost {
            return (changes, lost);
        }
        changes.extend(read.events);
    }
}

fn named(changes: &[Change]) -> Vec<(ChangeKind, String)> {
    changes.iter().map(|change| (change.kind, String::from_utf8_lossy(&change.key).into_owned())).collect()
}

fn delete(bucket: &Bucket, key: &str) -> Intent {
    let key = Bytes::copy_from_slice(key.as_bytes());
    Intent::DeleteObject { bucket: bucket.id, key, precondition: Precondition::default(), version: None, bypass: false }
}

fn small(options: &mut EngineOptions) {
    options.events = EVENTS;
    options.log_file_size = 64 << 10;
}

#[test]
fn every_change_is_an_event_in_order_also_after_a_restart() {
    let mut store = Store::with(|options| options.events = EVENTS);
    let bucket = store.bucket("b");
    store.put(&bucket, "a", &noise(1_000, 1)).unwrap();
    store.put(&bucket, "a", &noise(100_000, 2)).unwrap();
    store.rename(&bucket, "a", "z").unwrap();
    store.delete(&bucket, "missing").unwrap();
    let upload = store.create_upload(&bucket, "m");
    let part = store.put_part(&bucket, "m", upload, 1, &noise(70_000, 3));
    store.complete(&bucket, "m", upload, &[part]).unwrap();
    store.delete(&bucket, "m").unwrap();
    store.reopen();
    let enable = Intent::UpdateBucket { bucket: bucket.id, change: BucketChange::Versioning(Versioning::Enabled) };
    store.handle().execute(enable).unwrap();
    store.put(&bucket, "v", b"1").unwrap();
    store.delete(&bucket, "v").unwrap();
    let empty = store.bucket("empty");
    store.handle().execute(Intent::DeleteBucket { bucket: empty.id }).unwrap();
    store.reopen();
    let (changes, lost) = read(&store.handle(), JournalCursor::Oldest);
    use ChangeKind::{BucketCreated, BucketRemoved, Completed, Marked, Removed, Renamed, Stored};
    let expected = [
        (BucketCreated, ""),
        (Stored, "a"),
        (Stored, "a"),
        (Renamed, "z"),
        (Removed, "a"),
        (Completed, "m"),
        (Removed, "m"),
        (Stored, "v"),
        (Marked, "v"),
        (BucketCreated, ""),
        (BucketRemoved, ""),
    ];
    assert_eq!(named(&changes), expected.map(|(kind, key)| (kind, key.to_owned())));
    assert!(!lost);
    assert!(changes.is_sorted_by(|one, next| one.place < next.place), "places ascend");
    assert_eq!(changes[2].content.map(|(size, _)| size), Some(100_000));
    assert!(changes[6].version.is_none() && changes[7].version.is_some(), "versions have names from then on");
    assert!(changes.iter().skip(9).all(|change| change.bucket_name == "empty"));
    let middle = changes[4].place;
    assert_eq!(read(&store.handle(), JournalCursor::After(middle)).0, changes[5..]);
    let time_ms = changes[7].time_ms;
    assert_eq!(read(&store.handle(), JournalCursor::Since(time_ms)).0.last(), changes.last());
}

#[test]
fn the_event_of_a_replica_has_the_time_at_which_it_came() {
    let mut store = Store::with(|options| options.events = EVENTS);
    let bucket = store.bucket("b");
    store.put(&bucket, "before", b"1").unwrap();
    let put = PutObject { modified_ms: Some(1_000), ..store.small_put(&bucket, "replica", b"2") };
    let outcome = store.handle().execute(Intent::PutObject(Box::new(put))).unwrap();
    assert!(matches!(outcome, Outcome::Put(put) if put.modified_ms == 1_000));
    store.reopen();
    let (changes, _) = read(&store.handle(), JournalCursor::Oldest);
    assert_eq!(changes.len(), 3);
    assert!(changes.is_sorted_by_key(|change| change.time_ms), "{changes:?}");
}

#[test]
fn a_layered_bucket_shows_what_clients_see() {
    let store = Store::with(|options| options.events = EVENTS);
    let bucket = store.bucket("b");
    store.put(&bucket, "kept", b"1").unwrap();
    store.put(&bucket, "gone", b"2").unwrap();
    let snapshot = Intent::CreateSnapshot { bucket: bucket.id, name: Bytes::from_static(b"s") };
    store.handle().execute(snapshot).unwrap();
    store.delete(&bucket, "gone").unwrap();
    store.put(&bucket, "new", b"3").unwrap();
    store.handle().shared.events.settle(Duration::from_secs(10));
    let (changes, _) = read(&store.handle(), JournalCursor::Oldest);
    use ChangeKind::{BucketCreated, Removed, Stored};
    let expected = [(BucketCreated, ""), (Stored, "kept"), (Stored, "gone"), (Removed, "gone"), (Stored, "new")];
    assert_eq!(named(&changes), expected.map(|(kind, key)| (kind, key.to_owned())));
    assert!(changes.iter().all(|change| change.bucket_name == "b" && change.version.is_none()));
}

#[test]
fn what_no_sync_is_to_cover_is_an_event_when_everybody_sees_it() {
    let store = Store::with(|options| {
        options.events = EVENTS;
        options.durability = Durability::UnsafeNone;
    });
    let bucket = store.bucket("b");
    let expected = [(ChangeKind::BucketCreated, ""), (ChangeKind::Stored, "k"), (ChangeKind::Stored, "l")];
    for (count, key) in [(2, "k"), (3, "l")] {
        store.put(&bucket, key, b"1").unwrap();
        store.handle().shared.events.settle(Duration::from_secs(10));
        let (changes, lost) = read(&store.handle(), JournalCursor::Oldest);
        let expected: Vec<_> = expected[..count].iter().map(|(kind, key)| (*kind, (*key).to_owned())).collect();
        assert_eq!((named(&changes), lost), (expected, false));
    }
}

/// What a life of the store is expected to have had of events.
struct Expected {
    acknowledged: Vec<(ChangeKind, String)>,
    /// Perhaps, because it was under way.
    next: Option<(ChangeKind, String)>,
}

fn follow(steps: &mut Steps, hurry: bool) -> Result<(), Error> {
    steps.stepper().follow_events(hurry)
}

fn step(steps: &mut Steps, rng: &mut SimRng, bucket: &Bucket, n: u64, expected: &Mutex<Expected>) {
    let key = format!("key-{}", rng.below(6));
    let is_there = steps.handle().object(bucket.id, &Bytes::copy_from_slice(key.as_bytes())).unwrap().is_some();
    let kind = if is_there && rng.below(3) == 0 { ChangeKind::Removed } else { ChangeKind::Stored };
    expected.lock().unwrap().next = Some((kind, key.clone()));
    match kind {
        ChangeKind::Removed => steps.run(delete(bucket, &key)).map(drop).unwrap(),
        _ => drop(steps.put(bucket, &key, &noise(4_000, n))),
    }
    let mut expected = expected.lock().unwrap();
    let done = expected.next.take();
    expected.acknowledged.extend(done);
}

#[test]
fn no_crash_loses_or_repeats_or_reorders_an_event() {
    for seed in 0..4 {
        let mut rng = SimRng::new(seed);
        let disk = SimDisk::new();
        let mut steps = Steps::on(&disk, small);
        let bucket = steps.bucket("b");
        let acknowledged = vec![(ChangeKind::BucketCreated, String::new())];
        let expected = Arc::new(Mutex::new(Expected { acknowledged, next: None }));
        let captures = Arc::new(Mutex::new(Vec::new()));
        let (for_hook, kept) = (Arc::clone(&expected), Arc::clone(&captures));
        let mut count = 0;
        disk.on_step(move |_, disk| {
            count += 1;
            if count % 7 == 0 {
                let Expected { acknowledged, next } = &*for_hook.lock().unwrap();
                kept.lock().unwrap().push((disk.snapshot(), acknowledged.clone(), next.clone()));
            }
        });
        for n in 0..60 {
            step(&mut steps, &mut rng, &bucket, n, &expected);
            if rng.below(3) == 0 {
                steps.apply();
            }
            if rng.below(4) == 0 {
                let hurry = rng.below(2) == 0;
                follow(&mut steps, hurry).unwrap();
            }
            if rng.below(6) == 0 {
                reclaim(&mut steps);
            }
        }
        drop(steps);
        let captures = std::mem::take(&mut *captures.lock().unwrap());
        assert!(captures.len() > 20, "{} captures", captures.len());
        for (at, (disk, acknowledged, next)) in captures.into_iter().enumerate() {
            let policy = [CrashPolicy::Drop, CrashPolicy::Scatter][at % 2];
            let mut after = Steps::on(&disk.crash(&mut SimRng::new(at as u64), policy), small);
            follow(&mut after, at % 3 == 0).unwrap();
            let (changes, lost) = read(after.handle(), JournalCursor::Oldest);
            assert!(!lost, "seed {seed}, capture {at}");
            let mut possible = acknowledged.clone();
            possible.extend(next);
            let found = named(&changes);
            let fits = found == acknowledged || found == possible;
            assert!(fits, "seed {seed}, capture {at}: {found:?}, expected {possible:?}");
            assert!(changes.is_sorted_by(|one, next| one.place < next.place), "seed {seed}, capture {at}");
        }
    }
}

/// Everything that is worth it, with the file in use.
fn reclaim(steps: &mut Steps) {
    steps.apply();
    steps.stepper().refresh_reclamation(true);
    steps.stepper().commit();
    steps.apply();
    let limits = ReclaimLimits { live_max: 0.97, freed_min: 1, output_max: u64::MAX, compact: true, hurry: true };
    for _ in 0..200 {
        match steps.stepper().reclaim(&limits).unwrap() {
            Step::Idle => return,
            Step::Worked { .. } | Step::Waiting => {
                steps.stepper().commit();
                steps.apply();
            }
        }
    }
}

fn compacted(steps: &Steps) -> usize {
    steps.shared().catalog.index.read().unwrap().log_files().unwrap().len()
}

#[test]
fn the_log_keeps_what_the_journal_does_not_have() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, small);
    let bucket = steps.bucket("b");
    for n in 0..30 {
        steps.put(&bucket, "same", &noise(9_000, n));
    }
    reclaim(&mut steps);
    assert_eq!(compacted(&steps), 0, "nothing was followed");
    follow(&mut steps, true).unwrap();
    reclaim(&mut steps);
    assert!(compacted(&steps) > 0);
    let (changes, lost) = read(steps.handle(), JournalCursor::Oldest);
    assert_eq!((changes.len(), lost), (31, false));
}

#[test]
fn a_journal_that_cannot_be_written_follows_later() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |options| {
        small(options);
        // So that segments end, too.
        options.events = Some(EventOptions { retention_ms: 3_600_000, max_bytes: 1 });
    });
    let bucket = steps.bucket("b");
    for n in 0..900 {
        steps.put(&bucket, &format!("{n:03}"), &noise(1_000, 0));
        if n % 10 == 0 {
            let operation = [Operation::Write, Operation::Sync, Operation::Create, Operation::SetLength][n / 10 % 4];
            disk.fail(operation, 1, [Fault::NoSpace, Fault::Io][n / 10 % 2], true);
            let _ = follow(&mut steps, n % 20 == 0);
            disk.clear_faults();
        }
        if n % 30 == 29 {
            follow(&mut steps, true).unwrap();
        }
    }
    let (changes, lost) = read(steps.handle(), JournalCursor::After(Place::default()));
    // The oldest segments are gone, and nothing else is.
    assert!(lost);
    let keys: Vec<String> = changes.iter().map(|change| String::from_utf8_lossy(&change.key).into_owned()).collect();
    let expected: Vec<String> = (900 - keys.len()..900).map(|n| format!("{n:03}")).collect();
    assert_eq!(keys, expected);
    assert!((1..900).contains(&keys.len()), "{} events", keys.len());
}

#[test]
fn the_log_does_not_wait_for_a_journal_for_ever_and_readers_learn_what_is_missing() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, small);
    let bucket = steps.bucket("b");
    steps.put(&bucket, "first", &noise(1_000, 0));
    follow(&mut steps, true).unwrap();
    let place = steps.handle().events_now();
    for n in 0..60 {
        steps.put(&bucket, "same", &noise(9_000, n));
    }
    reclaim(&mut steps);
    assert_eq!(compacted(&steps), 0, "the journal may catch up");
    // As its thread says after an error.
    steps.shared().events.note_failure(Some("the disk is full".into()));
    reclaim(&mut steps);
    assert!(compacted(&steps) > 0);
    steps.reopen();
    follow(&mut steps, true).unwrap();
    steps.put(&bucket, "last", &noise(1_000, 0));
    follow(&mut steps, true).unwrap();
    assert_eq!(steps.handle().events_state().unwrap().failed, None);
    let (changes, lost) = read(steps.handle(), JournalCursor::After(place));
    assert!(lost);
    assert_eq!(named(&changes), [(ChangeKind::Stored, "last".to_owned())]);
    let (all, lost) = read(steps.handle(), JournalCursor::Oldest);
    assert!(lost, "also who reads from the beginning");
    assert_eq!(named(&all).len(), 3);
}

#[test]
fn a_journal_of_another_state_of_the_store_begins_anew() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, small);
    let bucket = steps.bucket("b");
    let before = disk.snapshot();
    steps.put(&bucket, "lost with the log", &noise(1_000, 0));
    follow(&mut steps, true).unwrap();
    let (id, place) = (steps.handle().journal_id(), steps.handle().events_now());
    drop(steps);
    // An older log beside a newer journal.
    for name in disk.list(Path::new("/data/log")).unwrap() {
        let path = Path::new("/data/log").join(&name);
        disk.remove(&path).unwrap();
        if let Ok(old) = before.open(&path, Open::Read) {
            let mut bytes = vec![0; old.len().unwrap() as usize];
            old.read_at(0, &mut bytes).unwrap();
            disk.open(&path, Open::Create).unwrap().write_at(0, &bytes).unwrap();
        }
    }
    let mut steps = Steps::on(&disk, small);
    follow(&mut steps, true).unwrap();
    assert_ne!(steps.handle().journal_id(), id);
    steps.put(&bucket, "new", &noise(1_000, 0));
    follow(&mut steps, true).unwrap();
    let (changes, _) = read(steps.handle(), JournalCursor::Oldest);
    assert_eq!(named(&changes), [(ChangeKind::Stored, "new".to_owned())]);
    assert!(changes[0].place <= place, "the same sequences come again, so only the id tells");
}

#[test]
fn a_long_backlog_goes_into_many_segments_of_which_the_newest_stay() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |options| {
        options.events = Some(EventOptions { retention_ms: 3_600_000, max_bytes: 1 });
    });
    let bucket = steps.bucket("b");
    follow(&mut steps, true).unwrap();
    for n in 0..4_200 {
        steps.put(&bucket, &format!("{n:04}"), b"");
    }
    steps.reopen();
    follow(&mut steps, true).unwrap();
    let (changes, lost) = read(steps.handle(), JournalCursor::After(Place::default()));
    assert!(lost, "the journal may not be that large");
    assert_eq!(changes.last().map(|change| &change.key[..]), Some(&b"4199"[..]));
}

#[test]
fn below_the_reserve_the_oldest_events_give_way() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |options| {
        small(options);
        options.events = Some(EventOptions { retention_ms: 3_600_000, max_bytes: 512 << 10 });
        options.disk_reserve = 1 << 20;
    });
    let bucket = steps.bucket("b");
    let key = |n: u64| format!("{n:0>1000}");
    for n in 0..200 {
        steps.put(&bucket, &key(n), &noise(300, n));
        if n % 20 == 0 {
            follow(&mut steps, false).unwrap();
        }
    }
    follow(&mut steps, true).unwrap();
    let (changes, lost) = read(steps.handle(), JournalCursor::Oldest);
    assert_eq!((changes.len(), lost), (201, false));
    disk.set_free_bytes(0);
    steps.run(delete(&bucket, &key(0))).unwrap();
    follow(&mut steps, true).unwrap();
    let (kept, lost) = read(steps.handle(), JournalCursor::After(changes[0].place));
    assert!(lost, "whoever was behind is told");
    assert!((1..100).contains(&kept.len()), "{} events are left", kept.len());
    assert_eq!(kept.last().map(|change| change.kind), Some(ChangeKind::Removed));
}

/// Nobody writes any more, and old events go all the same when somebody asks.
#[test]
fn old_events_go_on_request() {
    let mut store = Store::with(|options| {
        options.events = Some(EventOptions { retention_ms: 400, max_bytes: 64 << 20 });
    });
    let bucket = store.bucket("b");
    store.put(&bucket, "k", b"1").unwrap();
    let handle = store.handle();
    handle.expire_events().unwrap();
    assert!(!read(&handle, JournalCursor::Oldest).0.is_empty());
    // The segment becomes old, and later so does what is in it.
    std::thread::sleep(Duration::from_millis(60));
    handle.expire_events().unwrap();
    std::thread::sleep(Duration::from_millis(450));
    handle.expire_events().unwrap();
    assert!(read(&handle, JournalCursor::Oldest).0.is_empty());
    store.close();
    assert!(matches!(handle.expire_events(), Err(Error::Closed)));
}
