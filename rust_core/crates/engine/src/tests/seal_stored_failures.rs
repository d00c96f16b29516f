//! Sealing what is stored that is interrupted, or meets something it cannot seal.

use std::sync::Arc;

use super::super::SealProgress;
use super::super::seal_stored::first_batch;
use super::seal_stored::{is_sealed, seen, shown};
use super::sealing::OneKey;
use super::steps::Steps;
use super::support::{Store, noise};
use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::Ordering;
use orcas_decide::{BucketChange, Intent};
use orcas_fs::sim::{CrashPolicy, SimDisk, SimRng};
use orcas_record::Versioning;

#[test]
fn what_cannot_be_read_stays_and_keeps_nothing_else() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    let contents: Vec<Vec<u8>> = (0..3).map(|seed| noise(3_000, seed)).collect();
    for (at, content) in contents.iter().enumerate() {
        store.put(&bucket, &format!("k{at}"), content).unwrap();
    }
    store.close();
    for entry in std::fs::read_dir(store.path().join("log")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = memchr::memmem::find(&bytes, &contents[1]) {
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
        }
    }
    store.open();
    store.handle().use_keys(OneKey::new(7));
    let report = store.seal_stored();
    assert_eq!((report.versions, report.unreadable, report.left.blobs), (2, 1, 1), "{report:?}");
    for at in [0, 2] {
        assert_eq!(store.get(&bucket, &format!("k{at}")).unwrap().as_ref(), Some(&contents[at]));
    }
    assert!(store.get(&bucket, "k1").is_err());
    // Its file cannot be rewritten, which is said.
    assert!(report.left.files);
}

#[test]
fn of_a_key_with_too_many_versions_the_newest_are_sealed() {
    let mut store = Store::new();
    store.handle().use_keys(OneKey::new(7));
    let bucket = store.versioned("b");
    for n in 0..110 {
        store.put(&bucket, "k", &noise(if n % 3 == 0 { 3_000 } else { 30 }, n)).unwrap();
    }
    let before = store.seen(bucket.id);
    let report = store.seal_stored();
    assert_eq!((report.versions, report.too_long), (100, 1), "{report:?}");
    for _ in 0..2 {
        let after = store.seen(bucket.id);
        assert!(is_sealed(&after[..100]) && !is_sealed(&after[100..]));
        assert!(shown(after) == shown(before.clone()));
        store.check_rebuild();
        store.handle().use_keys(OneKey::new(7));
    }
}

#[test]
fn a_power_cut_leaves_every_key_sealed_or_as_it_was() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |options| options.log_file_size = 3 << 20);
    steps.handle().use_keys(OneKey::new(7));
    let bucket = steps.bucket("b");
    for (name, size) in [("inline", 100), ("content", 3_000), ("chunks", 400_000)] {
        let put = steps.intent(&bucket, name, &noise(size, size as u64));
        steps.run(put).unwrap();
    }
    let change = BucketChange::Versioning(Versioning::Enabled);
    steps.run(Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
    for n in 0..3 {
        let put = steps.intent(&bucket, "content", &noise(200 + n, 1_000 + n as u64));
        steps.run(put).unwrap();
    }
    steps.apply();
    let before = seen(steps.handle(), bucket.id);
    let images = Arc::new(Mutex::new(Vec::new()));
    let (found, mut rng) = (Arc::clone(&images), SimRng::new(1));
    disk.on_step(move |_, disk| {
        let policies = [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter];
        found.lock().extend(policies.map(|policy| disk.crash(&mut rng, policy)));
    });
    let intent = first_batch(steps.handle(), &bucket).unwrap().unwrap();
    steps.run(intent).unwrap();
    disk.on_step(|_, _| {});
    let images = std::mem::take(&mut *images.lock());
    let mut sealed = 0;
    for image in &images {
        let steps = Steps::on(image, |options| options.log_file_size = 3 << 20);
        steps.handle().use_keys(OneKey::new(7));
        let after = seen(steps.handle(), bucket.id);
        assert!(shown(after.clone()) == shown(before.clone()));
        // One batch, so all or none.
        assert!(is_sealed(&after) || after == before);
        sealed += usize::from(is_sealed(&after));
    }
    assert!(0 < sealed && sealed < images.len(), "{sealed} of {}", images.len());
    assert!(is_sealed(&seen(steps.handle(), bucket.id)));
}

#[test]
fn a_run_that_is_cancelled_is_continued_by_the_next() {
    let store = Store::new();
    store.handle().use_keys(OneKey::new(7));
    let bucket = store.bucket("b");
    for n in 0..50 {
        store.put(&bucket, &format!("k{n}"), &noise(3_000, n)).unwrap();
    }
    let progress = SealProgress::default();
    progress.cancelled.store(true, Ordering::Relaxed);
    let report = store.handle().seal_stored(&progress).unwrap();
    assert!(report.cancelled && report.versions == 0 && report.left.blobs == 50, "{report:?}");
    assert_eq!(store.seal_stored().versions, 50);
}
