//! A dead content is referred to again just before reclamation chooses it, and loses that reference while reclamation waits
//! for the readers that it knows of. Whoever found it in between is not one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use orcas_engine::scheduled::Scheduled;
use orcas_fs_testing::{SimDisk, SimRng};
use shuttle::thread;

use crate::client::{Reading, delete, put};
use crate::world::{Manifests, World, contents, environment};
use crate::{asked_or, catch_up, create_bucket, explore, reclaim_beside};

const SCHEDULES: u64 = 1_500;
const ROUNDS: u64 = 4;
/// Turns that others get at most: before the content is found, and before the last of it is read.
const BEFORE_FINDING: u64 = 40;
const BEFORE_READING: u64 = 80;

fn wait(rng: &mut SimRng, turns: u64) {
    (0..rng.below(turns)).for_each(|_| thread::yield_now());
}

fn schedule(seed: u64) {
    let mut rng = SimRng::new(seed);
    let world = World::new(seed, Manifests::Short);
    let (store, mut reclamation) = Scheduled::open(world.options, environment(&SimDisk::new(), seed)).unwrap();
    let handle = store.handle().clone();
    let bucket = create_bucket(&handle);
    let (key, other, content) = (Bytes::from("k"), Bytes::from("other"), rng.below(2) as usize);
    handle.execute(put(&handle, &bucket, other.clone(), &contents()[1 - content])).unwrap();
    handle.execute(put(&handle, &bucket, key.clone(), &contents()[content])).unwrap();
    handle.execute(delete(&bucket, key.clone())).unwrap();
    catch_up(&handle);

    reclamation.refresh(true);
    let left = Arc::new(AtomicU64::new(1));
    let clients_left = Arc::clone(&left);
    let reclaiming = thread::spawn(move || reclaim_beside(reclamation, &clients_left));
    let find = |key: &Bytes| handle.object(bucket.id, key).unwrap().expect("it was just put");
    for _ in 0..ROUNDS {
        // Until this reader ends, nothing that was chosen meanwhile is condemned.
        let earlier = find(&other);
        handle.execute(put(&handle, &bucket, key.clone(), &contents()[content])).unwrap();
        wait(&mut rng, BEFORE_FINDING);
        let reading = Reading::new(&handle, find(&key));
        handle.execute(delete(&bucket, key.clone())).unwrap();
        catch_up(&handle);
        drop(earlier);
        wait(&mut rng, BEFORE_READING);
        assert_eq!(reading.finish(), content);
    }
    left.store(0, Ordering::Relaxed);
    drop(reclaiming.join().unwrap());
    drop((bucket, handle));
    store.close().unwrap();
}

#[test]
fn a_content_that_dies_twice_is_there_for_its_last_reader() {
    explore(asked_or(SCHEDULES), schedule);
}
