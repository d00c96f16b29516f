//! Quotas against a model, and under a race.

mod counting;
mod rooms;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::support::{Store, noise};
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    AttributeChange, BucketChange, Copy, CopyAttributes, CopyHeaders, Failure, Intent, Outcome, Precondition, Quota,
    QuotaOf, Refusal, UpdateVersion,
};
use orcas_fs_testing::SimRng;
use orcas_record::{Bucket, DocumentKind, UploadId, Versioning};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const LIMIT: Quota = Quota { bytes: Some(20_000), versions: Some(6) };

fn set(store: &Store, bucket: &Bucket, bytes: Option<u64>, versions: Option<u64>) {
    store.handle().set_quota(bucket.id, Quota { bytes, versions }).unwrap();
}

fn owners(store: &Store, quota: Quota) {
    store.handle().set_owner_quotas([(Bytes::from_static(b"root"), quota)].into());
}

/// Bytes and versions of a bucket, when nothing is under way.
fn held(store: &Store, bucket: &Bucket) -> (u64, u64) {
    let handle = store.handle();
    handle.wait_until_applied().unwrap();
    let (buckets, _) = handle.bucket_usage().unwrap();
    let found = buckets.into_iter().find(|it| it.id == bucket.id.0).unwrap();
    (found.logical, found.objects + found.history)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Failure>) -> QuotaOf {
    match result {
        Err(Failure::Refused(Refusal::QuotaExceeded { of, .. })) => of,
        other => panic!("{other:?}"),
    }
}

fn copy(store: &Store, bucket: &Bucket, from: &str, to: &str) -> Result<Outcome, Failure> {
    let copy = Copy {
        source: (bucket.id, Bytes::copy_from_slice(from.as_bytes()), None),
        source_conditions: Default::default(),
        bucket: bucket.id,
        key: Bytes::copy_from_slice(to.as_bytes()),
        modified_ms: None,
        precondition: Precondition::default(),
        headers: CopyHeaders::default(),
        attributes: CopyAttributes::default(),
        checksum: None,
    };
    store.handle().execute(Intent::CopyObject(Box::new(copy)))
}

fn abort(store: &Store, bucket: &Bucket, key: &str, upload: UploadId) {
    let key = Bytes::copy_from_slice(key.as_bytes());
    store.handle().execute(Intent::AbortUpload { bucket: bucket.id, key, upload, idle_since_ms: None }).unwrap();
}

/// Size and MD5 of a part.
type OnlyPart = (u64, [u8; 16]);

/// What a bucket should hold.
#[derive(Default)]
struct Model {
    /// Sizes of the versions of each key, `None` for a delete marker; the newest last.
    versions: BTreeMap<&'static str, Vec<Option<u64>>>,
    /// The only part of each open upload.
    uploads: Vec<(UploadId, Option<OnlyPart>)>,
    versioned: bool,
}

impl Model {
    fn held(&self) -> (u64, u64) {
        let versions: Vec<u64> = self.versions.values().flatten().map(|size| size.unwrap_or(0)).collect();
        let parts: u64 = self.uploads.iter().filter_map(|(_, part)| *part).map(|(size, _)| size).sum();
        (versions.iter().sum::<u64>() + parts, versions.len() as u64)
    }

    fn current(&self, key: &str) -> Option<u64> {
        self.versions.get(key)?.last().copied().flatten()
    }

    fn put(&mut self, key: &'static str, size: Option<u64>) {
        let versions = self.versions.entry(key).or_default();
        if !self.versioned {
            versions.clear();
        }
        versions.push(size);
    }

    /// Whether LIMIT allows to go from `before` to `after`.
    fn allows(before: (u64, u64), after: (u64, u64)) -> bool {
        (after.0 <= before.0 || after.0 <= 20_000) && (after.1 <= before.1 || after.1 <= 6)
    }
}

/// Does something at random, and checks that it is refused exactly if the model says so.
fn step(store: &Store, bucket: &Bucket, model: &mut Model, rng: &mut SimRng, seed: u64) {
    let key = KEYS[rng.below(4) as usize];
    let before = model.held();
    let size = [10, 700, 5_000, 9_000][rng.below(4) as usize];
    let mut after = Model { versions: model.versions.clone(), uploads: model.uploads.clone(), ..*model };
    let done = match rng.below(8) {
        0..3 => {
            after.put(key, Some(size));
            store.put(bucket, key, &noise(size as usize, seed))
        }
        3 => {
            match model.current(key) {
                _ if model.versioned => after.put(key, None),
                Some(_) => drop(after.versions.remove(key)),
                None => {}
            }
            assert!(store.delete(bucket, key).is_ok());
            *model = after;
            return;
        }
        4 => {
            let to = KEYS[rng.below(4) as usize];
            let Some(size) = model.current(key).filter(|_| to != key) else { return };
            after.put(to, Some(size));
            copy(store, bucket, key, to).map(drop)
        }
        5 => {
            after.uploads.push((store.create_upload(bucket, "a"), None));
            Ok(())
        }
        6 => {
            let Some((upload, part)) = after.uploads.last_mut() else { return };
            let bytes = noise(size as usize, seed);
            *part = Some((size, Md5Hasher::digest(&bytes)));
            store.try_put_part(bucket, "a", *upload, 1, &bytes).map(drop)
        }
        _ => {
            let Some((upload, part)) = after.uploads.pop() else { return };
            match part {
                Some((size, md5)) if rng.below(2) == 0 => {
                    after.put("a", Some(size));
                    store.complete(bucket, "a", upload, &[(1, md5)]).map(drop)
                }
                _ => {
                    abort(store, bucket, "a", upload);
                    *model = after;
                    return;
                }
            }
        }
    };
    if Model::allows(before, after.held()) {
        done.unwrap();
        *model = after;
    } else {
        refusal(done);
    }
}

#[test]
fn every_write_is_refused_exactly_when_it_would_exceed_the_quota() {
    for seed in 0..12 {
        let mut store = Store::new();
        let bucket = store.bucket("b");
        let mut model = Model { versioned: seed % 3 == 0, ..Model::default() };
        if model.versioned {
            let change = BucketChange::Versioning(Versioning::Enabled);
            store.handle().execute(Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
        }
        let mut rng = SimRng::new(seed);
        if seed % 2 == 0 {
            set(&store, &bucket, LIMIT.bytes, LIMIT.versions);
        } else {
            owners(&store, LIMIT);
        }
        for at in 0..60 {
            step(&store, &bucket, &mut model, &mut rng, seed * 1000 + at);
            if at % 20 == 19 {
                assert_eq!(held(&store, &bucket), model.held(), "seed {seed}");
                store.reopen();
                if seed % 2 == 1 {
                    owners(&store, LIMIT);
                }
            }
        }
    }
}

#[test]
fn racing_writers_fill_a_quota_exactly() {
    let store = Store::new();
    let (one, other) = (store.bucket("one"), store.bucket("other"));
    set(&store, &one, Some(1_000), None);
    owners(&store, Quota { bytes: None, versions: Some(17) });
    let stored = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, stored, buckets) = (&store, Arc::clone(&stored), [&one, &other]);
            scope.spawn(move || {
                for at in 0..6 {
                    let bucket = (thread + at) % 2;
                    match store.put(buckets[bucket], &format!("{thread}/{at}"), &noise(100, at as u64)) {
                        Ok(()) => drop(stored[bucket].fetch_add(1, Ordering::Relaxed)),
                        refused => drop(refusal(refused)),
                    }
                }
            });
        }
    });
    let [in_one, in_other] = [0, 1].map(|at| stored[at].load(Ordering::Relaxed) as u64);
    assert_eq!(in_one + in_other, 17);
    assert!(in_one <= 10);
    assert_eq!(held(&store, &one), (100 * in_one, in_one));
    assert_eq!(held(&store, &other), (100 * in_other, in_other));
}

#[test]
fn forks_and_restores_count_what_they_bring() {
    let store = Store::new();
    let handle = store.handle();
    let source = store.bucket("source");
    let run = |intent| handle.execute(intent);
    store.put(&source, "a", &noise(600, 1)).unwrap();
    let name = Bytes::from_static(b"s");
    run(Intent::CreateSnapshot { bucket: source.id, name: name.clone() }).unwrap();
    owners(&store, Quota { bytes: Some(1_000), versions: None });
    let fork = || Intent::ForkBucket { bucket: source.id, snapshot: None, name: Bytes::from_static(b"fork") };
    assert_eq!(refusal(run(fork())), QuotaOf::OwnerBytes);
    owners(&store, Quota { bytes: Some(1_300), versions: None });
    run(fork()).unwrap();
    let fork = handle.bucket(b"fork").unwrap();
    assert_eq!(refusal(store.put(&fork, "b", &noise(200, 2))), QuotaOf::OwnerBytes);
    store.put(&fork, "b", &noise(100, 2)).unwrap();
    owners(&store, Quota::default());
    // What the snapshot has is still below, so restoring it brings nothing.
    store.delete(&source, "a").unwrap();
    set(&store, &source, Some(500), None);
    assert_eq!(held(&store, &source).0, 600);
    let restore = |name: &Bytes| run(Intent::RestoreBucket { bucket: source.id, snapshot: name.clone() });
    restore(&name).unwrap();
    assert_eq!(refusal(store.put(&source, "c", b"x")), QuotaOf::BucketBytes);
    // What came after it is not below any more, and may not come back beyond the quota.
    set(&store, &source, None, None);
    store.put(&source, "later", &noise(900, 3)).unwrap();
    let later = Bytes::from_static(b"later");
    run(Intent::CreateSnapshot { bucket: source.id, name: later.clone() }).unwrap();
    restore(&name).unwrap();
    assert_eq!(held(&store, &source).0, 600);
    set(&store, &source, Some(1_400), None);
    assert_eq!(refusal(restore(&later).map(drop)), QuotaOf::BucketBytes);
    owners(&store, Quota { bytes: Some(2_000), versions: None });
    set(&store, &source, Some(1_500), None);
    assert_eq!(refusal(restore(&later).map(drop)), QuotaOf::OwnerBytes);
    owners(&store, Quota::default());
    restore(&later).unwrap();
    assert_eq!(held(&store, &source).0, 1_500);
    assert_eq!(refusal(store.put(&source, "c", b"x")), QuotaOf::BucketBytes);
}

/// Whatever becomes of a version that a snapshot has, it stays one version. New attributes refer to its content once more.
#[test]
fn what_is_said_of_a_version_below_is_no_version() {
    let store = Store::new();
    let (handle, bucket) = (store.handle(), store.bucket("b"));
    let run = |intent| handle.execute(intent).unwrap();
    run(Intent::UpdateBucket { bucket: bucket.id, change: BucketChange::Versioning(Versioning::Enabled) });
    let mut ids = Vec::new();
    for size in [100, 200, 300] {
        store.put(&bucket, "k", &noise(size, 1)).unwrap();
        ids.push(handle.object(bucket.id, &"k".into()).unwrap().unwrap().object.version.version_id);
    }
    run(Intent::CreateSnapshot { bucket: bucket.id, name: "s".into() });
    set(&store, &bucket, Some(1_000), Some(4));
    let usage = || {
        handle.wait_until_applied().unwrap();
        let (buckets, _) = handle.bucket_usage().unwrap();
        (buckets[0].objects, buckets[0].bytes, buckets[0].history, buckets[0].logical)
    };
    assert_eq!(usage(), (1, 300, 2, 600));
    let delete = |id| {
        let (key, precondition) = ("k".into(), Precondition::default());
        Intent::DeleteObject { bucket: bucket.id, key, precondition, version: Some(id), bypass: false }
    };
    run(delete(ids[0]));
    assert_eq!(usage(), (1, 300, 2, 600));
    let tag = |id, value: &'static str| {
        let change = AttributeChange::Tags(vec![("t".into(), value.into())]);
        let update = UpdateVersion { bucket: bucket.id, key: "k".into(), version: Some(id), change };
        Intent::UpdateVersion(Box::new(update))
    };
    run(tag(ids[1], "first"));
    run(tag(ids[1], "second"));
    assert_eq!(usage(), (1, 300, 2, 800));
    // The quota counts the same.
    assert_eq!(refusal(store.put(&bucket, "k", &noise(201, 2))), QuotaOf::BucketBytes);
    store.put(&bucket, "k", &noise(10, 2)).unwrap();
    assert_eq!(refusal(store.put(&bucket, "k", &noise(10, 3))), QuotaOf::BucketVersions);
    // An object that was replaced after the snapshot counts as one.
    assert_eq!(usage(), (2, 310, 2, 810));
    run(delete(ids[1]));
    assert_eq!(usage(), (2, 310, 2, 610));
    // A restore gives up what is said, too.
    run(tag(ids[2], "third"));
    assert_eq!(usage(), (2, 310, 2, 910));
    run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "s".into() });
    assert_eq!(usage(), (1, 300, 2, 600));
    store.put(&bucket, "k", &noise(400, 2)).unwrap();
    assert_eq!(refusal(store.put(&bucket, "k", b"")), QuotaOf::BucketVersions);
    // No quota refuses new attributes, whatever they count.
    set(&store, &bucket, Some(1), None);
    assert_eq!(refusal(store.put(&bucket, "k", b"a")), QuotaOf::BucketBytes);
    run(tag(ids[1], "fourth"));
}

#[test]
fn a_quota_holds_from_its_setting_on_and_survives() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    for at in 0..5 {
        store.put(&bucket, &at.to_string(), &noise(100, at)).unwrap();
    }
    set(&store, &bucket, Some(400), Some(50));
    assert_eq!(refusal(store.put(&bucket, "0", &noise(101, 9))), QuotaOf::BucketBytes);
    // What is there may be replaced, and become less.
    store.put(&bucket, "0", &noise(100, 9)).unwrap();
    store.delete(&bucket, "1").unwrap();
    store.reopen();
    assert_eq!(store.handle().quota(bucket.id), Quota { bytes: Some(400), versions: Some(50) });
    assert_eq!(refusal(store.put(&bucket, "1", b"x")), QuotaOf::BucketBytes);
    store.check_rebuild();
    assert_eq!(refusal(store.put(&bucket, "1", b"x")), QuotaOf::BucketBytes);
    set(&store, &bucket, None, None);
    assert_eq!(store.document(&bucket, DocumentKind::Quota).as_deref(), Some(""));
    store.put(&bucket, "1", &noise(10_000, 3)).unwrap();
}
