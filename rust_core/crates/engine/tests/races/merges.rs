//! Somebody looks an object up while the layer that it is in is merged into the one below, which the cache still has an
//! older object of. What that one showed before it was replaced or deleted is no answer any more.

use bytes::Bytes;
use orcas_decide::Intent;
use orcas_engine::scheduled::{Reclamation, Scheduled};
use orcas_engine::{Handle, Step};
use orcas_fs::sim::SimDisk;
use orcas_record::Bucket;
use shuttle::thread;

use crate::client::{delete, put};
use crate::world::{LIMITS, Manifests, World, contents, environment};
use crate::{asked_or, catch_up, create_bucket, explore};

const SCHEDULES: u64 = 4_000;
/// The more there are, the longer a publication takes to reach the last of them.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "k"];
const STEPS: usize = 60;
/// The merge reaches a key while its reader is in the middle of one of these.
const LOOKUPS: usize = 24;
const READERS: usize = 3;

fn snapshot(handle: &Handle, bucket: &Bucket, name: &'static str) {
    handle.execute(Intent::CreateSnapshot { bucket: bucket.id, name: name.into() }).unwrap();
}

fn size_of(handle: &Handle, key: &'static str) -> Option<u64> {
    let bucket = handle.bucket(b"b").unwrap();
    let found = handle.object_in(&bucket, &Bytes::from(key)).unwrap();
    found.map(|found| found.object.version.size)
}

fn merge(mut reclamation: Reclamation) {
    for _ in 0..STEPS {
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

    let merging = thread::spawn(move || merge(reclamation));
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
