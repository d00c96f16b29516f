//! Moving a prefix: all or nothing, for readers, for other writers and after a crash.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;

use super::super::steps::Steps;
use super::super::support::{Store, noise};
use orcas_base::error::Error;
use orcas_decide::{AttributeChange, Failure, Intent, MovePrefix, Outcome, Refusal, UpdateVersion};
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRng};
use orcas_record::{Bucket, Durability};

fn request(from: &Bucket, from_prefix: &'static str, to: &Bucket, prefix: &'static str) -> MovePrefix {
    MovePrefix {
        from_bucket: from.id,
        from_prefix: Bytes::from_static(from_prefix.as_bytes()),
        bucket: to.id,
        prefix: Bytes::from_static(prefix.as_bytes()),
        overwrite: false,
        limit: 100_000,
    }
}

/// Inline, in the log, in packs.
fn body(number: usize) -> Vec<u8> {
    noise([10, 700, 90_000][number % 3], number as u64)
}

fn fill(store: &Store, bucket: &Bucket, prefix: &str, count: usize) -> BTreeMap<String, Vec<u8>> {
    let put = |number| {
        let (key, value) = (format!("{prefix}{number:05}"), body(number));
        store.put(bucket, &key, &value).unwrap();
        (key, value)
    };
    (0..count).map(put).collect()
}

fn check(store: &Store, bucket: &Bucket, wanted: &BTreeMap<String, Vec<u8>>) {
    let listed: Vec<String> = store.list(bucket).iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
    assert_eq!(listed, wanted.keys().cloned().collect::<Vec<_>>());
    for (key, value) in wanted {
        assert_eq!(store.get(bucket, key).unwrap().as_ref(), Some(value), "{key}");
    }
}

fn renamed(wanted: &BTreeMap<String, Vec<u8>>, from: &str, to: &str) -> BTreeMap<String, Vec<u8>> {
    wanted.iter().map(|(key, value)| (format!("{to}{}", key.strip_prefix(from).unwrap()), value.clone())).collect()
}

#[test]
fn objects_get_another_prefix_and_keep_everything_else() {
    let mut store = Store::new();
    let (bucket, other) = (store.bucket("b"), store.bucket("c"));
    let wanted = fill(&store, &bucket, "from/", 60);
    let mut beside = fill(&store, &bucket, "from.", 2);
    beside.extend(fill(&store, &bucket, "from0", 2));
    drop(store.handle().pin_for_backup().unwrap());
    // Partly in the index, partly not.
    store.put(&bucket, "from/00003", &body(3)).unwrap();
    store.delete(&bucket, "from/00005").unwrap();
    store.put(&bucket, "from/00005", &body(5)).unwrap();
    let moved = store.handle().move_prefix(&request(&bucket, "from/", &bucket, "to/")).unwrap();
    assert_eq!(moved, (60, wanted.values().map(|value| value.len() as u64).sum()));
    let mut all = renamed(&wanted, "from/", "to/");
    all.extend(beside.clone());
    check(&store, &bucket, &all);
    // At once once more, into another bucket.
    assert_eq!(store.handle().move_prefix(&request(&bucket, "to/", &other, "")).unwrap().0, 60);
    check(&store, &bucket, &beside);
    check(&store, &other, &renamed(&wanted, "from/", ""));
    store.check_rebuild();
    check(&store, &bucket, &beside);
    check(&store, &other, &renamed(&wanted, "from/", ""));
}

fn refused<T: std::fmt::Debug>(answer: Result<T, Failure>) -> Refusal {
    match answer {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_moved_is_refused_and_stays() {
    let store = Store::new();
    let (bucket, other) = (store.bucket("b"), store.bucket_of("c", "another owner"));
    let wanted = fill(&store, &bucket, "a/", 3);
    let attempt = |request: MovePrefix| refused(store.handle().move_prefix(&request));
    for (from, to) in [("a/", "a/"), ("a/", "a/b/"), ("a/", "a"), ("", "b/"), ("a/", "")] {
        assert!(matches!(attempt(request(&bucket, from, &bucket, to)), Refusal::InvalidRequest { .. }), "{from} {to}");
    }
    assert_eq!(attempt(request(&bucket, "none/", &bucket, "b/")), Refusal::NoSuchKey);
    assert!(matches!(attempt(request(&bucket, "a/", &other, "")), Refusal::InvalidRequest { .. }), "another owner");
    let few = MovePrefix { limit: 2, ..request(&bucket, "a/", &bucket, "b/") };
    assert_eq!(attempt(few), Refusal::TooManyObjects { limit: 2 });
    let long = MovePrefix { prefix: "x".repeat(1_020).into(), ..request(&bucket, "a/", &bucket, "") };
    assert_eq!(attempt(long), Refusal::KeyTooLong);
    store.put(&bucket, "b/00001", b"there").unwrap();
    assert_eq!(attempt(request(&bucket, "a/", &bucket, "b/")), Refusal::DestinationNotEmpty);
    let mut all = wanted.clone();
    all.insert("b/00001".to_owned(), b"there".to_vec());
    check(&store, &bucket, &all);
    // Unless that is asked for: then an object under the same key is replaced, and another one stays.
    store.put(&bucket, "b/other", b"stays").unwrap();
    let overwrite = MovePrefix { overwrite: true, ..request(&bucket, "a/", &bucket, "b/") };
    assert_eq!(store.handle().move_prefix(&overwrite).unwrap().0, 3);
    let mut all = renamed(&wanted, "a/", "b/");
    all.insert("b/other".to_owned(), b"stays".to_vec());
    check(&store, &bucket, &all);
}

#[test]
fn attributes_that_change_after_the_lookup_are_not_lost() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    steps.put(&bucket, "a/1", &noise(300, 1));
    steps.apply();
    let tag = |value: &'static str| {
        let change = AttributeChange::Tags(vec![("tag".into(), value.into())]);
        Intent::UpdateVersion(Box::new(UpdateVersion { bucket: bucket.id, key: "a/1".into(), version: None, change }))
    };
    let moved = request(&bucket, "a/", &bucket, "b/");
    let early = steps.handle().move_intent(&moved).unwrap();
    steps.run(tag("1")).unwrap();
    assert_eq!(refused(steps.run(early)), Refusal::SourceChanged);
    // In one batch with the change, and with the change not yet in the index.
    for value in ["2", "3"] {
        let early = steps.handle().move_intent(&moved).unwrap();
        let (tagged, answer) = (steps.submit(tag(value)), steps.submit(early));
        steps.stepper().commit();
        tagged.answer().unwrap();
        assert_eq!(refused(answer.answer()), Refusal::SourceChanged);
    }
    let now = steps.handle().move_intent(&moved).unwrap();
    assert!(matches!(steps.run(now), Ok(Outcome::Moved { objects: 1, bytes: 300 })));
    for _ in 0..2 {
        assert_eq!(steps.object(&bucket, "b/1").version.attributes.tags, [("tag".into(), "3".into())]);
        steps.apply();
    }
}

#[test]
fn what_is_written_between_the_lookup_and_the_move_moves_as_well() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    for key in ["a/1", "a/2", "a/3"] {
        steps.put(&bucket, key, &noise(300, 1));
    }
    let early = steps.handle().move_intent(&request(&bucket, "a/", &bucket, "b/")).unwrap();
    steps.delete(&bucket, "a/1");
    steps.put(&bucket, "a/2", &noise(400, 2));
    steps.apply();
    // In the batch of the move.
    let put = steps.intent(&bucket, "a/0", &noise(500, 3));
    let (put, moved) = (steps.submit(put), steps.submit(early));
    steps.stepper().commit();
    put.answer().unwrap();
    assert!(matches!(moved.answer(), Ok(Outcome::Moved { objects: 3, bytes: 1_200 })));
    for (key, length) in [("b/0", 500), ("b/2", 400), ("b/3", 300)] {
        assert_eq!(steps.get(&bucket, key).len(), length);
    }
    assert!(steps.handle().object(bucket.id, &"a/2".into()).unwrap().is_none());
}

const COUNT: usize = 40;

fn crashable(disk: &SimDisk) -> Steps {
    Steps::on(disk, |options| options.log_file_size = 64 << 10)
}

fn crashable_with_objects(disk: &SimDisk) -> (Steps, Arc<Bucket>) {
    let mut steps = crashable(disk);
    let bucket = steps.bucket("b");
    for number in 0..COUNT {
        steps.put(&bucket, &format!("from/{number:05}"), &noise(600, number as u64));
    }
    steps.apply();
    (steps, bucket)
}

/// How many objects have each prefix; every object is whole.
fn counts(steps: &Steps, bucket: &Bucket) -> [usize; 2] {
    ["from/", "to/"].map(|prefix| {
        let found = (0..COUNT).filter(|number| {
            let key = Bytes::from(format!("{prefix}{number:05}"));
            let there = steps.handle().object(bucket.id, &key).unwrap().is_some();
            assert!(!there || steps.get(bucket, std::str::from_utf8(&key).unwrap()) == noise(600, *number as u64));
            there
        });
        found.count()
    })
}

#[test]
fn after_a_crash_at_any_point_all_objects_have_been_moved_or_none() {
    let disk = SimDisk::new();
    let (mut steps, bucket) = crashable_with_objects(&disk);
    let images = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&images);
    disk.on_step(move |_, disk| kept.lock().push(disk.snapshot()));
    let moved = steps.handle().move_intent(&request(&bucket, "from/", &bucket, "to/")).unwrap();
    assert!(matches!(steps.run(moved), Ok(Outcome::Moved { objects: 40, .. })));
    disk.on_step(|_, _| {});
    images.lock().push(disk.snapshot());
    let images = std::mem::take(&mut *images.lock());
    let mut seen = [0, 0];
    for image in &images {
        for (policy, seeds) in [(CrashPolicy::Drop, 1), (CrashPolicy::Keep, 1), (CrashPolicy::Scatter, 24)] {
            for seed in 0..seeds {
                let after = crashable(&image.crash(&mut SimRng::new(seed), policy));
                match counts(&after, &bucket) {
                    [COUNT, 0] => seen[0] += 1,
                    [0, COUNT] => seen[1] += 1,
                    other => panic!("{policy:?} {seed}: {other:?}"),
                }
            }
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?} of {} images", images.len());
    // It was acknowledged, so it stays.
    let last = images.last().unwrap().crash(&mut SimRng::new(0), CrashPolicy::Drop);
    assert_eq!(counts(&crashable(&last), &bucket), [0, COUNT]);
}

#[test]
fn a_move_that_cannot_be_written_moves_nothing() {
    for operation in [Operation::Write, Operation::Sync] {
        let disk = SimDisk::new();
        let (mut steps, bucket) = crashable_with_objects(&disk);
        let moved = request(&bucket, "from/", &bucket, "to/");
        disk.fail(operation, 1, Fault::Io, false);
        let intent = steps.handle().move_intent(&moved).unwrap();
        assert!(matches!(steps.run(intent), Err(Failure::Engine(Error::Io { .. }))), "{operation:?}");
        assert_eq!(counts(&steps, &bucket), [COUNT, 0]);
        let intent = steps.handle().move_intent(&moved).unwrap();
        steps.run(intent).unwrap();
        assert_eq!(counts(&steps, &bucket), [0, COUNT]);
    }
}

#[test]
fn a_list_shows_a_prefix_before_or_after_its_move() {
    let store = Store::with(|options| options.durability = Durability::UnsafeNone);
    let bucket = store.bucket("b");
    fill(&store, &bucket, "0/", 300);
    let over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let done = Arc::clone(&over);
        let (store, bucket) = (&store, &bucket);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let list = orcas_catalog::ListObjects {
                    bucket: bucket.id,
                    prefix: Bytes::new(),
                    delimiter: None,
                    after: None,
                    max_keys: 1_000,
                };
                let page = store.handle().list_objects(&list).unwrap();
                let first = page.entries[0].key[0];
                assert_eq!(page.entries.len(), 300);
                assert!(page.entries.iter().all(|entry| entry.key[0] == first));
            }
        });
        for turn in 0..20u8 {
            let name = |turn: u8| Bytes::from(vec![b'0' + turn, b'/']);
            let moved =
                MovePrefix { from_prefix: name(turn), prefix: name(turn + 1), ..request(bucket, "", bucket, "") };
            assert_eq!(store.handle().move_prefix(&moved).unwrap().0, 300);
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
#[ignore = "a measurement, which takes a minute"]
fn how_long_a_move_takes_and_what_others_wait() {
    let store = Store::with(|options| {
        options.durability = Durability::UnsafeNone;
        options.log_file_size = 64 << 20;
    });
    let bucket = store.bucket("b");
    for number in 0..100_000 {
        store.put(&bucket, &format!("from/{number:06}/some-object-with-a-name"), &noise(300, number)).unwrap();
    }
    drop(store.handle().pin_for_backup().unwrap());
    let over = Arc::new(AtomicBool::new(false));
    let (store, bucket) = (&store, &bucket);
    std::thread::scope(|scope| {
        let watch = |ask: Box<dyn Fn() + Send>| {
            let done = Arc::clone(&over);
            scope.spawn(move || {
                let mut longest = 0.0f64;
                while !done.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    ask();
                    longest = longest.max(begun.elapsed().as_secs_f64());
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                longest
            })
        };
        let (reading, writing) = (store.handle(), store.handle());
        let id = bucket.id;
        let read = watch(Box::new(move || drop(reading.object(id, &"other".into()).unwrap())));
        let document = move || Intent::PutDocument {
            bucket: id,
            kind: orcas_record::DocumentKind::Tagging,
            document: Bytes::from_static(b"x"),
        };
        let write = watch(Box::new(move || drop(writing.execute(document()).unwrap())));
        for (from, to) in [("from/", "to/"), ("to/", "from/")] {
            let begun = Instant::now();
            let moved = request(bucket, from, bucket, to);
            assert_eq!(store.handle().move_prefix(&moved).unwrap().0, 100_000);
            println!("moved in {:.3} s", begun.elapsed().as_secs_f64());
        }
        drop(store.handle().pin_for_backup().unwrap());
        over.store(true, Ordering::Relaxed);
        println!("longest read {:.3} s, longest write {:.3} s", read.join().unwrap(), write.join().unwrap());
    });
}
