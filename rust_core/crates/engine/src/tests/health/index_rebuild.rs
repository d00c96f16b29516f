//! An index that is damaged, open or not, is built anew: nobody gets a wrong answer meanwhile, nothing acknowledged is
//! lost, and what takes its place says what the log says, row for row.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::super::support::{Store, environment, noise};
use crate::index_rebuild::mark::{MARK_NAME, REBUILT_NAME};
use crate::{Condition, Effort, Engine};
use orcas_base::error::Error;
use orcas_decide::{Failure, Precondition};
use orcas_index_testing::full_disk;
use orcas_record::Bucket;

const PAGE: u64 = 4096;
/// So long that a few hundred of them fill many pages.
const KEY: usize = 400;

pub(super) fn key(number: usize) -> String {
    format!("{number:06}{}", "k".repeat(KEY))
}

pub(super) fn value(number: usize, round: u64) -> Vec<u8> {
    noise(20 + number % 500, number as u64 * 1_000 + round)
}

/// A store with objects, some of them replaced and deleted, whose log was compacted; all of it in the index.
pub(super) fn store(objects: usize) -> (Store, std::sync::Arc<Bucket>) {
    let store = Store::with(|options| {
        options.durability = orcas_record::Durability::UnsafeNone;
        options.log_file_size = 256 << 10;
    });
    let bucket = store.bucket("b");
    for number in 0..objects {
        store.put(&bucket, &key(number), &value(number, 1)).unwrap();
        store.put(&bucket, &key(number), &value(number, 0)).unwrap();
        if number % 4 == 0 {
            store.put(&bucket, &format!("gone{number}"), b"content").unwrap();
            store.delete(&bucket, &format!("gone{number}")).unwrap();
        }
    }
    store.handle().reclaim(Effort::Compact).unwrap();
    (store, bucket)
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// Writes rubbish into every page of the file from `first` on, counted from 0, in steps.
pub(super) fn garble(path: &Path, first: u64, step: usize) -> usize {
    let file = open(path);
    let pages = file.metadata().unwrap().len() / PAGE;
    let hit = (first..pages).step_by(step);
    hit.clone().for_each(|page| file.write_all_at(&noise(64, page), page * PAGE + 1_000).unwrap());
    hit.count()
}

/// Waits until nothing is damaged any more.
fn wait_until_rebuilt(store: &Store) {
    let begun = Instant::now();
    while store.handle().health().condition != Condition::Ok {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", store.handle().health());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!store.path().join(MARK_NAME).exists());
    assert!(!store.path().join(REBUILT_NAME).exists());
}

/// Asks again while the index is being built anew.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, Error>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(Error::IndexDamaged { .. }) if begun.elapsed() < Duration::from_secs(60) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            answer => return answer.unwrap(),
        }
    }
}

pub(super) fn check(store: &Store, bucket: &Bucket, wanted: &BTreeMap<String, Vec<u8>>) {
    for (key, value) in wanted {
        let found = patiently(|| store.get(bucket, key));
        assert_eq!(found.as_deref(), Some(&value[..]), "{key:.10}");
    }
    wait_until_rebuilt(store);
    let listed: Vec<String> = store.list(bucket).iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
    assert_eq!(listed, wanted.keys().cloned().collect::<Vec<_>>());
}

/// What serves says what an index says that is built from the log now, row for row.
fn check_equal(store: &Store) {
    let shared = &store.handle().shared;
    // Nothing is moved between the two.
    let _pause = shared.catalog.reclaim_pause.begin();
    drop(store.handle().pin_for_backup().unwrap());
    let served = shared.catalog.index.dump().unwrap();
    let path = store.path().join("index.db");
    // While this is open its number is not given to another one.
    let _held = open(&path);
    let before = inode_of(&path);
    shared.index_rebuild.request(&"a test wants it".into());
    let begun = Instant::now();
    while [None, before].contains(&inode_of(&path)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody built one");
        std::thread::sleep(Duration::from_millis(2));
    }
    wait_until_rebuilt(store);
    let rebuilt = shared.catalog.index.dump().unwrap();
    assert!(served.lines().count() > 200);
    for (served, rebuilt) in served.lines().zip(rebuilt.lines()) {
        assert_eq!(served, rebuilt);
    }
    assert_eq!(served.lines().count(), rebuilt.lines().count());
}

pub(super) fn objects(range: std::ops::Range<usize>) -> BTreeMap<String, Vec<u8>> {
    range.map(|number| (key(number), value(number, 0))).collect()
}

/// Clients that write, delete, read and list while every page of the index is damaged.
#[test]
fn an_index_that_is_damaged_under_clients_is_replaced() {
    const OBJECTS: usize = 400;
    let (mut store, bucket) = store(OBJECTS);
    store.reopen();
    let wanted = Mutex::new(objects(0..OBJECTS));
    let (done, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (store, bucket, wanted, done, seen) = (&store, &bucket, &wanted, &done, &seen);
            scope.spawn(move || {
                for number in (OBJECTS + writer..).step_by(2).take(4_000) {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut put = store.small_put(bucket, &key(number), &value(number, 0));
                    // So that the decision needs the index.
                    put.precondition = Precondition { if_none_match_any: true, ..Precondition::default() };
                    match store.handle().execute(orcas_decide::Intent::PutObject(Box::new(put))) {
                        Ok(_) => drop(wanted.lock().unwrap().insert(key(number), value(number, 0))),
                        Err(Failure::Engine(Error::IndexDamaged { .. })) => {
                            seen.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                }
            });
        }
        let (store, bucket, done, seen) = (&store, &bucket, &done, &seen);
        scope.spawn(move || {
            for number in (0..OBJECTS).cycle() {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                match store.get(bucket, &key(number)) {
                    Ok(found) => assert_eq!(found, Some(value(number, 0)), "{number}"),
                    Err(Error::IndexDamaged { .. }) => drop(seen.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        let begun = Instant::now();
        // On a busy machine the index may be replaced before any client has run.
        while seen.load(Ordering::Relaxed) == 0 && begun.elapsed() < Duration::from_secs(60) {
            assert!(garble(&store.path().join("index.db"), 1, 1) > 50);
            // What the cache of objects has needs no index.
            store.handle().shared.catalog.cache.clear();
            patiently(|| store.handle().usage());
            wait_until_rebuilt(store);
        }
        std::thread::sleep(Duration::from_millis(50));
        done.store(true, Ordering::Relaxed);
    });
    assert!(seen.load(Ordering::Relaxed) > 0, "nobody met the damage");
    check(&store, &bucket, &wanted.lock().unwrap());
    check_equal(&store);
    store.reopen();
    check(&store, &bucket, &wanted.lock().unwrap());
}

/// Nobody reads; the applier comes upon the damage, and what it could not apply goes into the new index.
#[test]
fn damage_that_the_applier_meets_loses_nothing() {
    let (mut store, bucket) = store(300);
    store.reopen();
    wait_until_rebuilt(&store);
    garble(&store.path().join("index.db"), 1, 1);
    let mut wanted = objects(0..300);
    for number in 300..400 {
        // A decision that needs nothing of the index is taken; one that does is refused.
        patiently(|| store.put(&bucket, &key(number), &value(number, 0)).map_err(into_error));
        wanted.insert(key(number), value(number, 0));
    }
    check(&store, &bucket, &wanted);
    check_equal(&store);
    store.reopen();
    check(&store, &bucket, &wanted);
}

/// The pages of the write-ahead log are read without SQLite looking at their checksums.
#[test]
fn damage_in_the_write_ahead_log_is_found_under_way() {
    let (mut store, bucket) = store(50);
    store.reopen();
    let mut wanted = objects(0..50);
    for number in 50..300 {
        store.put(&bucket, &key(number), &value(number, 0)).unwrap();
        wanted.insert(key(number), value(number, 0));
    }
    store.handle().reclaim(Effort::Collect).unwrap();
    store.handle().shared.catalog.cache.clear();
    // Readers that are open have pages of their own.
    let wal = open(&store.path().join("index.db-wal"));
    let frames = (wal.metadata().unwrap().len() - 32) / (PAGE + 24);
    assert!(frames > 50);
    (0..frames).for_each(|frame| wal.write_all_at(&noise(64, frame), 32 + frame * (PAGE + 24) + 1_000).unwrap());
    patiently(|| store.handle().list_objects(&list(&bucket)).map(drop));
    // A checkpoint does not take them into the database.
    let _ = store.handle().shared.catalog.index.checkpoint();
    check(&store, &bucket, &wanted);
    check_equal(&store);
    store.reopen();
    check(&store, &bucket, &wanted);
}

fn into_error(failure: Failure) -> Error {
    match failure {
        Failure::Engine(error) => error,
        Failure::Refused(refusal) => panic!("{refusal:?}"),
    }
}

fn list(bucket: &Bucket) -> orcas_catalog::ListObjects {
    let (prefix, delimiter, after) = (Default::default(), None, None);
    orcas_catalog::ListObjects { bucket: bucket.id, prefix, delimiter, after, max_keys: 1_000 }
}

/// What a start reads is looked at; what it does not read is found by whoever needs it.
#[test]
fn damage_while_it_is_closed() {
    let (mut store, bucket) = store(300);
    let wanted = objects(0..300);
    let path = store.path().join("index.db");
    let blows: [fn(&Path); 7] = [
        |path| assert!(garble(path, 0, 1) > 50),
        |path| assert!(garble(path, 1, 1) > 50),
        |path| assert!(garble(path, 1, 7) > 7),
        |path| assert_eq!(garble(path, open(path).metadata().unwrap().len() / PAGE / 2, 1_000_000), 1),
        |path| open(path).set_len(open(path).metadata().unwrap().len() / PAGE / 2 * PAGE).unwrap(),
        |path| open(path).set_len(100).unwrap(),
        |path| std::fs::write(path, b"SQLite format 3\0 it says, and is none").unwrap(),
    ];
    for (number, blow) in blows.iter().enumerate() {
        store.close();
        blow(&path);
        store.open();
        check(&store, &bucket, &wanted);
        // A new one: it takes what comes.
        store.put(&bucket, "later", format!("{number}").as_bytes()).unwrap();
        store.delete(&bucket, "later").unwrap();
    }
    check_equal(&store);
}

#[test]
fn a_start_builds_what_was_found_damaged_before() {
    let (mut store, bucket) = store(100);
    store.close();
    File::create(store.path().join(MARK_NAME)).unwrap();
    std::fs::write(store.path().join(REBUILT_NAME), b"half of one").unwrap();
    let path = store.path().join("index.db");
    let before = inode_of(&path);
    // So that the number is not given to the new one.
    let _held = open(&path);
    store.open();
    assert_ne!(inode_of(&path), before);
    check(&store, &bucket, &objects(0..100));
}

/// The scrub looks at pages that nobody asks for.
#[test]
fn the_scrub_finds_a_damaged_page() {
    let (mut store, bucket) = store(300);
    store.close();
    let path = store.path().join("index.db");
    let pages = open(&path).metadata().unwrap().len() / PAGE;
    garble(&path, pages - 3, 1);
    store.change(|options| {
        options.scrub_bytes_per_sec = 1 << 30;
        // Otherwise what is known is looked up at once.
        options.ref_level = orcas_record::RefLevel::Off;
    });
    let before = inode_of(&path).unwrap();
    let _held = open(&path);
    store.open();
    store.handle().scrub().unwrap();
    let begun = Instant::now();
    while inode_of(&path).is_none_or(|now| now == before) {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody looked");
        std::thread::sleep(Duration::from_millis(5));
    }
    check(&store, &bucket, &objects(0..300));
}

fn inode_of(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|found| std::os::unix::fs::MetadataExt::ino(&found))
}

/// With the log damaged too there is nothing to build it from: the store says so and only reads.
#[test]
fn an_index_that_cannot_be_built_ends_writing() {
    let (mut store, bucket) = store(300);
    store.reopen();
    for log in std::fs::read_dir(store.path().join("log")).unwrap() {
        open(&log.unwrap().path()).write_all_at(&noise(500, 1), 6_000).unwrap();
    }
    garble(&store.path().join("index.db"), 1, 1);
    let begun = Instant::now();
    while !matches!(store.put(&bucket, "late", b"content"), Err(Failure::Engine(Error::ReadOnly { .. }))) {
        let _ = store.handle().list_objects(&list(&bucket));
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", store.handle().health());
        std::thread::sleep(Duration::from_millis(2));
    }
    let health = store.handle().health();
    let Condition::Damaged(cause) = health.condition else { panic!("{health:?}") };
    assert!(cause.reason.contains("orcas fsck") && !cause.detail.is_empty(), "{cause}");
    assert!(matches!(store.handle().pin_for_backup(), Err(Error::ReadOnly { .. })));
    assert!(matches!(store.try_close(), Err(Error::ReadOnly { .. })));
    // What the damaged index knows is still there for whoever looks for what is lost.
    assert!(store.path().join("index.db").exists() && store.path().join(MARK_NAME).exists());
    assert!(Engine::open(store.options.clone(), environment()).is_err());
    assert!(store.path().join("index.db").exists());
}

/// Without room on the disk the ballast goes, and what it gave is left to the new index.
#[test]
fn a_full_disk_has_the_ballast_for_the_new_index() {
    let (mut store, bucket) = store(300);
    store.change(|options| options.ballast = 16 << 20);
    store.reopen();
    store.handle().shared.fill_ballast();
    let ballast = store.path().join("ballast");
    assert!(ballast.exists());
    let refused = std::sync::Arc::new(AtomicUsize::new(0));
    let (counted, held) = (std::sync::Arc::clone(&refused), ballast.clone());
    full_disk::refuse(store.path().join(format!("{REBUILT_NAME}-wal")), move || {
        let full = held.exists();
        counted.fetch_add(usize::from(full), Ordering::Relaxed);
        full
    });
    garble(&store.path().join("index.db"), 1, 1);
    patiently(|| {
        // Whoever looks at the store would have the ballast made again.
        let condition = store.handle().health().condition;
        assert!(!matches!(&condition, Condition::Damaged(cause) if cause.reason.contains("no room")), "{condition:?}");
        store.handle().usage()
    });
    check(&store, &bucket, &objects(0..300));
    assert!(refused.load(Ordering::Relaxed) > 0, "there was room");
    assert!(ballast.exists(), "it comes back when there is room");
}

/// Without any room the store goes on as it is, says so, and tries again.
#[test]
fn a_disk_without_any_room_is_waited_for() {
    let (mut store, bucket) = store(300);
    store.reopen();
    wait_until_rebuilt(&store);
    let full = std::sync::Arc::new(AtomicBool::new(true));
    let rule = std::sync::Arc::clone(&full);
    full_disk::refuse(store.path().join(format!("{REBUILT_NAME}-wal")), move || rule.load(Ordering::Relaxed));
    garble(&store.path().join("index.db"), 1, 1);
    let begun = Instant::now();
    loop {
        let _ = store.handle().list_objects(&list(&bucket));
        if matches!(store.handle().health().condition, Condition::Damaged(cause) if cause.reason.contains("no room")) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", store.handle().health());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(store.handle().health().writable && store.path().join(MARK_NAME).exists());
    assert!(!store.path().join(REBUILT_NAME).exists(), "what was begun gives its room back");
    store.handle().shared.catalog.cache.clear();
    assert!(matches!(store.handle().list_objects(&list(&bucket)), Err(Error::IndexDamaged { .. })));
    full.store(false, Ordering::Relaxed);
    check(&store, &bucket, &objects(0..300));
    check_equal(&store);
}

/// A start looks for the last chunk of every pack; the page that has it may be the one that is damaged.
#[test]
fn a_start_that_meets_damage_while_it_compares_lengths_goes_on() {
    let mut store = Store::with(|options| {
        options.durability = orcas_record::Durability::UnsafeNone;
        options.chunk_size = 8 << 10;
        options.pack_size = 1 << 20;
    });
    let bucket = store.bucket("b");
    let wanted: BTreeMap<String, Vec<u8>> = (0..8).map(|number| (key(number), noise(600_000, number as u64))).collect();
    wanted.iter().for_each(|(key, value)| store.put(&bucket, key, value).unwrap());
    store.close();
    let path = store.path().join("index.db");
    let whole = std::fs::read(&path).unwrap();
    let pages = whole.len() as u64 / PAGE;
    let hit = (1..pages).find(|page| {
        std::fs::write(&path, &whole).unwrap();
        open(&path).write_all_at(&noise(64, *page), page * PAGE + 1_000).unwrap();
        only_lengths_are_unknown(&store)
    });
    assert!(hit.is_some(), "none of {pages} pages");
    let before = inode_of(&path);
    let _held = open(&path);
    store.open();
    let begun = Instant::now();
    while [None, before].contains(&inode_of(&path)) {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody was told");
        std::thread::sleep(Duration::from_millis(2));
    }
    check(&store, &bucket, &wanted);
    check_equal(&store);
}

/// Whether all that a start needs of the index can be read, but not the last chunk of some pack.
fn only_lengths_are_unknown(store: &Store) -> bool {
    let Ok(index) = store.index() else { return false };
    let reader = index.read().unwrap();
    let needed = reader.position().is_ok() && reader.log_files().is_ok() && reader.highest_pack().is_ok();
    let (Ok(packs), true, true) = (reader.packs(), needed, reader.buckets().is_ok()) else { return false };
    packs.into_iter().any(|pack| matches!(reader.last_chunk(pack), Err(Error::IndexDamaged { .. })))
}

/// A store that was killed, its write-ahead log damaged in front of what a checkpoint had moved already.
#[test]
fn a_mixture_of_two_states_is_not_opened() {
    let (mut store, bucket) = store(50);
    store.reopen();
    for number in 50..120 {
        store.put(&bucket, &key(number), &value(number, 0)).unwrap();
    }
    store.handle().reclaim(Effort::Collect).unwrap();
    store.handle().shared.catalog.index.checkpoint().unwrap();
    for number in 0..20 {
        store.delete(&bucket, &key(number)).unwrap();
    }
    store.handle().reclaim(Effort::Collect).unwrap();
    store.handle().shared.catalog.index.checkpoint().unwrap();
    let killed = tempfile::tempdir().unwrap();
    copy(store.path(), killed.path());
    let wal = open(&killed.path().join("index.db-wal"));
    wal.write_all_at(&noise(64, 1), 32 + 3 * (PAGE + 24) + 1_000).unwrap();
    let mut options = store.options.clone();
    options.data = killed.path().to_owned();
    let engine = Engine::open(options, environment()).unwrap();
    let page = engine.handle().list_objects(&list(&bucket)).unwrap();
    let listed: Vec<String> =
        page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.key).into_owned()).collect();
    assert_eq!(listed, objects(20..120).into_keys().collect::<Vec<_>>());
    engine.close().unwrap();
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.as_ref().unwrap().path(), to.join(entry.as_ref().unwrap().file_name()));
        if entry.is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry, &to);
        } else {
            std::fs::copy(&entry, &to).unwrap();
        }
    }
}
