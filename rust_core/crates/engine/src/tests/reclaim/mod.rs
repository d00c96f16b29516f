//! Reclamation through the engine's interface: space comes back, nothing that counts is lost, readers go on.

mod failures;
mod sharing;

use super::super::{Effort, ReclaimLimits, Step};
use super::steps::{CHUNK, Steps};
use super::support::{Store, noise};
use orcas_record::Bucket;

/// Bytes of the files in a directory of the store.
fn bytes_in(store: &Store, name: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(store.path().join(name)).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

fn fill(store: &Store, bucket: &Bucket, count: u64, length: usize) {
    for n in 0..count {
        store.put(bucket, &format!("{n:05}"), &noise(length, n)).unwrap();
    }
}

fn check(store: &Store, bucket: &Bucket, kept: impl Iterator<Item = u64>, length: usize) {
    for n in kept {
        assert!(store.get(bucket, &format!("{n:05}")).unwrap() == Some(noise(length, n)), "object {n}");
    }
}

#[test]
fn deleted_contents_leave_the_log() {
    let mut store = Store::with(|options| options.log_file_size = 1 << 20);
    let bucket = store.bucket("b");
    fill(&store, &bucket, 1_000, 10_000);
    let before = bytes_in(&store, "log");
    for n in (0..1_000).filter(|n| n % 10 != 0) {
        store.delete(&bucket, &format!("{n:05}")).unwrap();
    }
    store.handle().reclaim(Effort::Compact).unwrap();
    let done = store.handle().reclaim_progress().total;
    assert_eq!((done.blobs, done.condemned_bytes), (900, 9_000_000));
    let after = bytes_in(&store, "log");
    // A tenth of the bytes, the file in use and the spare one.
    assert!(after < before / 10 + (3 << 20), "{before} bytes before, {after} after");
    for _ in 0..2 {
        check(&store, &bucket, (0..1_000).step_by(10), 10_000);
        assert_eq!(store.list(&bucket).len(), 100);
        store.check_rebuild();
    }
    // What was compacted is compacted again.
    for n in (0..1_000).step_by(20) {
        store.delete(&bucket, &format!("{n:05}")).unwrap();
    }
    store.handle().reclaim(Effort::Compact).unwrap();
    check(&store, &bucket, (10..1_000).step_by(20), 10_000);
    store.check_rebuild();
    check(&store, &bucket, (10..1_000).step_by(20), 10_000);
}

#[test]
fn overwritten_objects_leave_only_their_last_state() {
    let mut store = Store::with(|options| options.log_file_size = 1 << 20);
    let bucket = store.bucket("b");
    for round in 0..30 {
        for n in 0..50 {
            store
                .put(&bucket, &format!("{n:05}"), &noise(if n % 2 == 0 { 100 } else { 3_000 }, round * 100 + n))
                .unwrap();
        }
        if round % 7 == 0 {
            store.handle().reclaim(Effort::Compact).unwrap();
        }
    }
    for _ in 0..2 {
        for n in 0..50 {
            let wanted = noise(if n % 2 == 0 { 100 } else { 3_000 }, 2_900 + n);
            assert!(store.get(&bucket, &format!("{n:05}")).unwrap() == Some(wanted));
        }
        store.handle().reclaim(Effort::Compact).unwrap();
        store.check_rebuild();
    }
}

#[test]
fn deleted_chunks_leave_the_packs() {
    let mut store = Store::with(|options| options.chunk_size = 100_000);
    let bucket = store.bucket("b");
    fill(&store, &bucket, 60, 350_000);
    let before = bytes_in(&store, "chunks");
    for n in (0..60).filter(|n| n % 6 != 0) {
        store.delete(&bucket, &format!("{n:05}")).unwrap();
    }
    store.handle().reclaim(Effort::Compact).unwrap();
    let after = bytes_in(&store, "chunks");
    assert!(after < before / 5, "{before} bytes before, {after} after");
    check(&store, &bucket, (0..60).step_by(6), 350_000);
    store.check_rebuild();
    check(&store, &bucket, (0..60).step_by(6), 350_000);
    for n in (0..60).step_by(6) {
        store.delete(&bucket, &format!("{n:05}")).unwrap();
    }
    store.handle().reclaim(Effort::Compact).unwrap();
    assert!(bytes_in(&store, "chunks") < 100_000);
    store.check_rebuild();
}

#[test]
fn a_reader_in_flight_keeps_its_bytes() {
    let mut store = Store::with(|options| {
        options.log_file_size = 1 << 20;
        options.chunk_size = 100_000;
    });
    let bucket = store.bucket("b");
    fill(&store, &bucket, 200, 10_000);
    store.put(&bucket, "large", &noise(1_000_000, 7)).unwrap();
    let handle = store.handle();
    let large = handle.object(bucket.id, &bytes::Bytes::from_static(b"large")).unwrap().unwrap();
    let small = handle.object(bucket.id, &bytes::Bytes::from_static(b"00007")).unwrap().unwrap();
    let mut reader = handle.content().reader(&large, 0, 999_999);
    let mut read = vec![0; 1_000_000];
    let mut filled = reader.read(&mut read[..10]).unwrap();
    for n in 0..200 {
        store.delete(&bucket, &format!("{n:05}")).unwrap();
    }
    store.delete(&bucket, "large").unwrap();
    std::thread::scope(|scope| {
        let reclaim = scope.spawn(|| store.handle().reclaim(Effort::Compact).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(500));
        let mut content = vec![0; 10_000];
        assert_eq!(handle.content().reader(&small, 0, 9_999).read(&mut content).unwrap(), 10_000);
        assert!(content == noise(10_000, 7));
        while filled < read.len() {
            filled += reader.read(&mut read[filled..]).unwrap();
        }
        assert!(read == noise(1_000_000, 7));
        drop((reader, small, large));
        reclaim.join().unwrap();
        assert_eq!(store.handle().reclaim_progress().total.blobs, 210);
    });
    store.check_rebuild();
}

/// Rewrites nothing.
const CONDEMN: ReclaimLimits =
    ReclaimLimits { live_max: 0.0, freed_min: 1, output_max: 0, compact: false, hurry: false };

/// Every step there is something to do for, with a commit and a transaction of the index after each.
fn reclaim_what_is_dead(steps: &mut Steps) {
    for _ in 0..100 {
        if matches!(steps.stepper().reclaim(&CONDEMN).unwrap(), Step::Idle) {
            return;
        }
        steps.stepper().commit();
        steps.apply();
    }
}

/// The second object names the content before it is chosen and is in the index only after that; its reader comes
/// after the readers that the choice waits for.
#[test]
fn a_reader_of_content_that_came_back_before_it_was_chosen_goes_on() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let bytes = noise(2 * CHUNK, 1);
    let blobs = steps.put(&bucket, "first", &bytes);
    steps.delete(&bucket, "first");
    steps.apply();
    assert_eq!(steps.put(&bucket, "second", &bytes), blobs);
    steps.stepper().reclaim(&CONDEMN).unwrap();
    assert_eq!(steps.stepper().reclaiming(), Some("barrier"));
    steps.stepper().commit();
    steps.apply();
    steps.stepper().reclaim(&CONDEMN).unwrap();
    let found = steps.handle().object(bucket.id, &bytes::Bytes::from_static(b"second")).unwrap().unwrap();
    let mut reader = steps.handle().content().reader(&found, 0, bytes.len() as u64 - 1);
    drop(found);
    steps.delete(&bucket, "second");
    steps.apply();
    reclaim_what_is_dead(&mut steps);
    let (mut read, mut buf) = (Vec::new(), vec![0; CHUNK]);
    while read.len() < bytes.len() {
        let length = reader.read(&mut buf).unwrap();
        read.extend_from_slice(&buf[..length]);
    }
    assert!(read == bytes);
    drop(reader);
    reclaim_what_is_dead(&mut steps);
    assert_eq!(blobs.iter().map(|blob| steps.refs(*blob)).collect::<Vec<_>>(), [None, None]);
}

#[test]
fn content_that_comes_back_is_stored_again() {
    let mut store = Store::with(|options| options.chunk_size = 100_000);
    let bucket = store.bucket("b");
    for round in 1..=3 {
        for (key, length) in [("small", 5_000), ("large", 300_000)] {
            store.put(&bucket, key, &noise(length, 1)).unwrap();
            assert!(store.get(&bucket, key).unwrap() == Some(noise(length, 1)));
            store.delete(&bucket, key).unwrap();
        }
        store.handle().reclaim(Effort::Collect).unwrap();
        assert_eq!(store.handle().reclaim_progress().total.blobs, 4 * round);
    }
    store.check_rebuild();
}
