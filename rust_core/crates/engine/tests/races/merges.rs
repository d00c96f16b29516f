//! Somebody looks an object up while the layer that it is in is merged into the one below, which the cache still has an
//! older object of. What that one showed before it was replaced or deleted is no answer any more. With versioning, a
//! merge removes and changes versions of the lower layer.

use bytes::Bytes;
use orcas_decide::{AttributeChange, BucketChange, Intent, Outcome, UpdateVersion};
use orcas_engine::scheduled::{Reclamation, Scheduled};
use orcas_engine::{Handle, Step};
use orcas_fs_testing::SimDisk;
use orcas_record::{Bucket, VersionId, Versioning};
use shuttle::thread;

use crate::client::{delete, put};
use crate::world::{LIMITS, Manifests, World, contents, environment};
use crate::{asked_or, catch_up, create_bucket, explore};
use orcas_catalog::{ListVersions, ListedVersion, VersionSink};

const SCHEDULES: u64 = 4_000;
const HISTORIES_SCHEDULES: u64 = 2_000;
/// The more there are, the longer a publication takes to reach the last of them.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "k"];
const STEPS: usize = 60;
/// The merge reaches a key while its reader is in the middle of one of these.
const LOOKUPS: usize = 24;
const READERS: usize = 3;
const HISTORIES_STEPS: usize = 120;

fn snapshot(handle: &Handle, bucket: &Bucket, name: &'static str) {
    handle.execute(Intent::CreateSnapshot { bucket: bucket.id, name: name.into() }).unwrap();
}

fn size_of(handle: &Handle, key: &'static str) -> Option<u64> {
    let bucket = handle.bucket(b"b").unwrap();
    let found = handle.object_in(&bucket, &Bytes::from(key)).unwrap();
    found.map(|found| found.object.version.size)
}

fn merge(mut reclamation: Reclamation, steps: usize) {
    for _ in 0..steps {
        match reclamation.step(&LIMITS).unwrap() {
            Step::Worked { .. } => {}
            Step::Waiting => thread::yield_now(),
            Step::Idle => return,
        }
    }
}

fn schedule(seed: u64) {
    let world = World::new(seed, Manifests::Short);
    let (store, reclamation) = Scheduled::open(world.options, environment(&SimDisk::new(), seed)).unwrap();
    let handle = store.handle().clone();
    let bucket = create_bucket(&handle);
    let (old, new) = (&contents()[0], &contents()[1]);
    let put_all = |content: &[u8]| {
        KEYS.iter().for_each(|key| drop(handle.execute(put(&handle, &bucket, (*key).into(), content)).unwrap()));
    };
    put_all(old);
    catch_up(&handle);
    // From the index into the cache.
    KEYS.iter().for_each(|key| assert_eq!(size_of(&handle, key), Some(old.len() as u64)));
    snapshot(&handle, &bucket, "first");
    let replaced = seed.is_multiple_of(2);
    if replaced {
        put_all(new);
    } else {
        KEYS.iter().for_each(|key| drop(handle.execute(delete(&bucket, (*key).into())).unwrap()));
    }
    snapshot(&handle, &bucket, "second");
    handle.execute(Intent::DeleteSnapshot { bucket: bucket.id, name: "first".into() }).unwrap();
    catch_up(&handle);
    let layers = handle.bucket(b"b").unwrap().layers.len();
    assert_eq!(layers, 3);

    let merging = thread::spawn(move || merge(reclamation, STEPS));
    let expected = replaced.then_some(new.len() as u64);
    let readers: Vec<_> = KEYS[KEYS.len() - READERS..]
        .iter()
        .map(|key| {
            let handle = handle.clone();
            thread::spawn(move || (0..LOOKUPS).for_each(|_| assert_eq!(size_of(&handle, key), expected)))
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    merging.join().unwrap();
    KEYS.iter().for_each(|key| assert_eq!(size_of(&handle, key), expected));
    drop(handle);
    store.close().unwrap();
}

#[test]
fn a_merge_brings_back_nothing_that_the_cache_has() {
    explore(asked_or(SCHEDULES), schedule);
}

/// What somebody finds out about a key.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    current: Option<u64>,
    /// The size of the oldest version, and how many tags it has.
    oldest: Option<(u64, usize)>,
    listed: Vec<VersionId>,
}

struct OfKey(&'static str, Vec<VersionId>);

impl VersionSink for OfKey {
    fn version(&mut self, version: &ListedVersion<'_>) {
        if version.key == self.0.as_bytes() {
            self.1.push(version.id);
        }
    }

    fn prefix(&mut self, _: &[u8]) {}

    fn restart(&mut self) {
        self.1.clear();
    }
}

fn see(handle: &Handle, key: &'static str, oldest: VersionId) -> Seen {
    let bucket = handle.bucket(b"b").unwrap();
    let found = handle.version_in(&bucket, &Bytes::from(key), oldest).unwrap();
    let prefix = Bytes::from(key);
    let list = ListVersions { bucket: bucket.id, prefix, delimiter: None, after: None, max_keys: 10 };
    let mut listed = OfKey(key, Vec::new());
    handle.list_versions_in(&bucket, &list, &mut listed).unwrap();
    Seen {
        current: size_of(handle, key),
        oldest: found.map(|found| (found.object.version.size, found.object.version.attributes.tags.len())),
        listed: listed.1,
    }
}

/// Of each key a version from before the first snapshot is removed or tagged after it, and others are put.
fn schedule_of_histories(seed: u64) {
    let world = World::new(seed, Manifests::Short);
    let (store, reclamation) = Scheduled::open(world.options, environment(&SimDisk::new(), seed)).unwrap();
    let handle = store.handle().clone();
    let bucket = create_bucket(&handle);
    let run = |intent| handle.execute(intent).unwrap();
    run(Intent::UpdateBucket { bucket: bucket.id, change: BucketChange::Versioning(Versioning::Enabled) });
    let put_one = |key: &'static str, content: usize| match run(put(&handle, &bucket, key.into(), &contents()[content]))
    {
        Outcome::Put(put) => put.version_id.unwrap(),
        other => panic!("{other:?}"),
    };
    let keys = &KEYS[KEYS.len() - READERS..];
    let oldest: Vec<VersionId> = keys.iter().map(|key| put_one(key, 0)).collect();
    let second: Vec<VersionId> = keys.iter().map(|key| put_one(key, 1)).collect();
    snapshot(&handle, &bucket, "first");
    let removed = seed.is_multiple_of(2);
    for (key, id) in keys.iter().zip(&oldest) {
        let (key, version) = (Bytes::from(*key), Some(*id));
        if removed {
            let precondition = Default::default();
            run(Intent::DeleteObject { bucket: bucket.id, key, version, precondition, bypass: false });
        } else {
            let change = AttributeChange::Tags(vec![("k".into(), "v".into())]);
            run(Intent::UpdateVersion(Box::new(UpdateVersion { bucket: bucket.id, key, version, change })));
        }
    }
    let third: Vec<VersionId> = keys.iter().map(|key| put_one(key, 1)).collect();
    let fourth: Vec<VersionId> = keys.iter().map(|key| put_one(key, 0)).collect();
    snapshot(&handle, &bucket, "second");
    run(Intent::DeleteSnapshot { bucket: bucket.id, name: "first".into() });
    catch_up(&handle);

    let merging = thread::spawn(move || merge(reclamation, HISTORIES_STEPS));
    let size = contents()[0].len() as u64;
    let expected = |at: usize| {
        let left = (!removed).then_some(oldest[at]);
        let listed = [fourth[at], third[at], second[at]].into_iter().chain(left).collect();
        Seen { current: Some(size), oldest: left.map(|_| (size, 1)), listed }
    };
    let expected: Vec<Seen> = (0..READERS).map(expected).collect();
    let readers: Vec<_> = (0..READERS)
        .map(|at| {
            let (handle, key, oldest, expected) = (handle.clone(), keys[at], oldest[at], expected[at].clone());
            thread::spawn(move || (0..LOOKUPS / 2).for_each(|_| assert_eq!(see(&handle, key, oldest), expected)))
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    merging.join().unwrap();
    expected
        .iter()
        .zip(keys)
        .zip(&oldest)
        .for_each(|((expected, key), id)| assert_eq!(see(&handle, key, *id), *expected));
    assert_eq!(handle.bucket(b"b").unwrap().lower(), [bucket.id]);
    drop(handle);
    store.close().unwrap();
}

#[test]
fn a_merge_of_histories_shows_no_version_as_it_was() {
    explore(asked_or(HISTORIES_SCHEDULES), schedule_of_histories);
}
