//! Sealing what is stored that is interrupted, or meets something it cannot seal.

use std::sync::Arc;

use bytes::Bytes;

use super::super::super::SealProgress;
use super::super::super::seal_stored::first_batch;
use super::super::sealing::OneKey;
use super::super::sealing::stored::{is_sealed, seen, shown};
use super::super::steps::Steps;
use super::super::support::{Store, noise};
use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::Ordering;
use orcas_catalog::ListParts;
use orcas_checksum::{Etag, Md5Hasher};
use orcas_decide::{BucketChange, Complete, CompletePart, Intent, Outcome, Precondition, PutPart};
use orcas_fs_testing::{CrashPolicy, SimDisk, SimRng};
use orcas_record::{Attributes, Bucket, Encryption, Part, Upload, UploadId, Versioning};

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
    store.handle().keys().set(OneKey::new(7));
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
    store.handle().keys().set(OneKey::new(7));
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
        store.handle().keys().set(OneKey::new(7));
    }
}

/// Seals the first batch, and returns what a power cut at each of its steps leaves.
fn crashes_of_first_batch(disk: &SimDisk, steps: &mut Steps, bucket: &Bucket) -> Vec<SimDisk> {
    let images = Arc::new(Mutex::new(Vec::new()));
    let (found, mut rng) = (Arc::clone(&images), SimRng::new(1));
    disk.on_step(move |_, disk| {
        let policies = [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter];
        found.lock().extend(policies.map(|policy| disk.crash(&mut rng, policy)));
    });
    let intent = first_batch(steps.handle(), bucket).unwrap().unwrap();
    steps.run(intent).unwrap();
    disk.on_step(|_, _| {});
    std::mem::take(&mut *images.lock())
}

#[test]
fn a_power_cut_leaves_every_key_sealed_or_as_it_was() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |options| options.log_file_size = 3 << 20);
    steps.handle().keys().set(OneKey::new(7));
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
    let images = crashes_of_first_batch(&disk, &mut steps, &bucket);
    let mut sealed = 0;
    for image in &images {
        let steps = Steps::on(image, |options| options.log_file_size = 3 << 20);
        steps.handle().keys().set(OneKey::new(7));
        let after = seen(steps.handle(), bucket.id);
        assert!(shown(after.clone()) == shown(before.clone()));
        // One batch, so all or none.
        assert!(is_sealed(&after) || after == before);
        sealed += usize::from(is_sealed(&after));
    }
    assert!(0 < sealed && sealed < images.len(), "{sealed} of {}", images.len());
    assert!(is_sealed(&seen(steps.handle(), bucket.id)));
}

/// Uploads and their parts, without what sealing changes, and whether all of them are sealed, or none.
fn uploads(steps: &Steps, ids: &[UploadId]) -> (Vec<(Upload, Vec<Part>)>, bool) {
    let mut sealed = Vec::new();
    let of = |id: &UploadId| {
        let upload = Upload::clone(&steps.shared().catalog.open_upload(*id).unwrap().unwrap());
        let list = ListParts { upload: *id, after: 0, max_parts: 1_000 };
        let found = steps.handle().list_parts(list).unwrap().entries;
        let parts: Vec<_> = found.iter().map(|part| Part { manifest: Vec::new(), ..Part::clone(part) }).collect();
        sealed.push(upload.attributes.encryption == Some(Encryption::Managed));
        let attributes = Attributes { encryption: None, ..upload.attributes.clone() };
        (Upload { attributes, ..upload }, parts)
    };
    let found = ids.iter().map(of).collect();
    assert!(sealed.iter().all(|it| *it == sealed[0]), "one batch, so all or none: {sealed:?}");
    (found, sealed[0])
}

#[test]
fn a_power_cut_leaves_every_upload_sealed_or_as_it_was() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |options| options.log_file_size = 3 << 20);
    steps.handle().keys().set(OneKey::new(7));
    let bucket = steps.bucket("b");
    let contents: [Vec<u8>; 3] = [100, 3_000, 400_000].map(|size| noise(size, size as u64));
    let mut ids = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let (key, headers, attributes) = (Bytes::from(format!("k{at}")), Default::default(), Default::default());
        let create = Intent::CreateUpload { bucket: bucket.id, key: key.clone(), headers, attributes, checksum: None };
        let Ok(Outcome::Upload(upload)) = steps.run(create) else { panic!("no upload") };
        let (size, md5, body) = (content.len() as u64, Md5Hasher::digest(content), steps.body(&bucket, content));
        let (bucket, number, checksum, computed) = (bucket.id, 1, None, None);
        let put = PutPart { bucket, key, upload, number, size, md5, checksum, computed, body };
        steps.run(Intent::PutPart(Box::new(put))).unwrap();
        ids.push(upload);
    }
    steps.apply();
    let (before, is_sealed) = uploads(&steps, &ids);
    assert!(!is_sealed);
    let images = crashes_of_first_batch(&disk, &mut steps, &bucket);
    let mut sealed = 0;
    for image in &images {
        let mut steps = Steps::on(image, |options| options.log_file_size = 3 << 20);
        steps.handle().keys().set(OneKey::new(7));
        let (after, is_sealed) = uploads(&steps, &ids);
        assert!(after == before);
        sealed += usize::from(is_sealed);
        for (at, content) in contents.iter().enumerate() {
            let md5 = Md5Hasher::digest(content);
            let complete = Complete {
                bucket: bucket.id,
                key: Bytes::from(format!("k{at}")),
                upload: ids[at],
                parts: vec![CompletePart { number: 1, md5, checksum: None }],
                checksum_type: None,
                checksum: None,
                size: None,
                modified_ms: None,
                precondition: Precondition::default(),
            };
            steps.run(Intent::CompleteUpload(Box::new(complete))).unwrap();
            assert!(steps.get(&bucket, &format!("k{at}")) == *content);
            let version = &steps.object(&bucket, &format!("k{at}")).version;
            assert_eq!(Some(version.etag), Etag::multipart([&md5]));
            assert_eq!(version.attributes.encryption.is_some(), is_sealed);
        }
    }
    assert!(0 < sealed && sealed < images.len(), "{sealed} of {}", images.len());
}

#[test]
fn a_run_that_is_cancelled_is_continued_by_the_next() {
    let store = Store::new();
    store.handle().keys().set(OneKey::new(7));
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
