//! Clients that put, append to, delete and read the same few objects of a bucket while others take snapshots of it, fork
//! and restore it. Some order of the operations must explain every answer: of two appends at one offset one is refused, no
//! read shows half an append, and a snapshot or fork shows what all operations before it left, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use orcas_checksum::Etag;
use orcas_decide::{Failure, Intent, ObjectAppend, Outcome, Refusal};
use orcas_engine::Handle;
use orcas_engine::scheduled::{Scheduled, leftovers};
use orcas_fs_testing::{SimDisk, SimRng};
use orcas_record::Bucket;
use parking_lot::Mutex;
use shuttle::thread;

use crate::client::{body, delete, put, put_of};
use crate::order::Calls;
use crate::stacks::{
    Answer, Asked, BUCKETS, BucketsState, FORKS, KEYS, MAIN, Pieces, SNAPSHOTS, etag_of, length_of, pieces_of,
};
use crate::world::{Manifests, SMALL_MAX, World, contents, environment};
use crate::{REBUILD_EVERY, asked_or, begin_to_reclaim, create_bucket, explore, reclaim_all, reclaim_beside};
use orcas_catalog::{ListObjects, ListPage, PinnedObject};

const SCHEDULES: u64 = 6_000;
/// Of eight operations, how many are on the layers of the bucket, unless a schedule has none.
const LAYER_OPERATIONS: u64 = 3;
/// Before the clients begin.
const OPERATIONS_BEFORE: u64 = 5;
/// What objects are made of: contents within the record of the object, in the log, and in chunks.
const SHORT: [&[usize]; 3] = [&[7, 0], &[0, 1, 4], &[7, 0, 2]];
/// One content needs a segment.
const SEGMENTED: &[usize] = &[5, 0];

/// What clients share without meeting at it.
#[derive(Default)]
struct SharedByClients {
    calls: Calls<BucketsState>,
    /// How long the objects of each bucket were when somebody last knew: where the next append begins.
    lengths: Mutex<[[u64; KEYS.len()]; BUCKETS.len()]>,
}

struct Client {
    handle: Handle,
    shared: Arc<SharedByClients>,
    contents: &'static [usize],
    layered: bool,
    rng: SimRng,
}

impl Client {
    fn new(
        handle: &Handle,
        shared: &Arc<SharedByClients>,
        contents: &'static [usize],
        layered: bool,
        seed: u64,
    ) -> Self {
        Self { handle: handle.clone(), shared: Arc::clone(shared), contents, layered, rng: SimRng::new(seed) }
    }

    fn run(mut self, operations: u64) {
        for _ in 0..operations {
            let asked = self.choose();
            self.ask(asked);
            if self.rng.below(3) == 0 {
                let (bucket, key) = (self.bucket(), self.key());
                match self.rng.below(3) {
                    0 => self.list(bucket),
                    _ => self.ask(Asked::Read { bucket, key }),
                }
            }
        }
    }

    fn below(&mut self, length: usize) -> usize {
        self.rng.below(length as u64) as usize
    }

    fn key(&mut self) -> usize {
        self.below(KEYS.len())
    }

    /// Mostly the one that the others are forks of.
    fn bucket(&mut self) -> usize {
        if self.layered && self.rng.below(3) == 0 { self.below(BUCKETS.len()) } else { MAIN }
    }

    fn choose(&mut self) -> Asked {
        if self.layered && self.rng.below(8) < LAYER_OPERATIONS {
            return self.choose_layers();
        }
        let (bucket, key) = (self.bucket(), self.key());
        let content = self.contents[self.below(self.contents.len())];
        match self.rng.below(8) {
            0 => Asked::Delete { bucket, key },
            1 | 2 => Asked::Put { bucket, key, content },
            _ => {
                let known = self.shared.lengths.lock()[bucket][key];
                // Seldom an offset that no object has.
                let offset = if self.rng.below(16) == 0 { known + 1 } else { known };
                Asked::Append { bucket, key, content, offset }
            }
        }
    }

    fn choose_layers(&mut self) -> Asked {
        let snapshot = self.below(SNAPSHOTS.len());
        match self.rng.below(8) {
            0..3 => Asked::Snapshot(snapshot),
            3 => Asked::Forget(snapshot),
            4 => Asked::Restore(snapshot),
            of => {
                let snapshot = (of == 5).then_some(snapshot);
                Asked::Fork { snapshot, bucket: FORKS.start + self.below(FORKS.len()) }
            }
        }
    }

    fn ask(&self, asked: Asked) {
        self.shared.calls.ask(asked, |asked| self.answer(asked));
    }

    fn answer(&self, asked: &Asked) -> Answer {
        let (at, key) = match *asked {
            Asked::Put { bucket, key, .. }
            | Asked::Append { bucket, key, .. }
            | Asked::Delete { bucket, key }
            | Asked::Read { bucket, key }
            | Asked::List { bucket, key } => (bucket, key),
            Asked::Snapshot(_) | Asked::Forget(_) | Asked::Restore(_) | Asked::Fork { .. } => (MAIN, 0),
        };
        let Some(bucket) = self.handle.bucket(BUCKETS[at].as_bytes()) else { return Answer::NoBucket };
        let answer = match asked {
            Asked::Read { .. } => Answer::Holds(self.read(&bucket, &Bytes::from(KEYS[key]))),
            _ => self.change(&bucket, asked),
        };
        let length = match &answer {
            Answer::Holds(found) => Some(found.as_deref().map_or(0, length_of)),
            Answer::Offset(size) | Answer::Made { size, .. } => Some(*size),
            Answer::Done | Answer::Listed(_) | Answer::NoBucket | Answer::NoSnapshot | Answer::Exists => None,
        };
        if let Some(length) = length {
            self.shared.lengths.lock()[at][key] = length;
        }
        answer
    }

    fn change(&self, bucket: &Bucket, asked: &Asked) -> Answer {
        match self.handle.execute(self.intent(bucket, asked)) {
            Ok(Outcome::Put(put)) => Answer::Made { etag: put.etag, size: put.size },
            Ok(_) => Answer::Done,
            Err(Failure::Refused(refusal)) => match refusal {
                Refusal::InvalidWriteOffset { size } => Answer::Offset(size),
                Refusal::NoSuchSnapshot => Answer::NoSnapshot,
                Refusal::SnapshotAlreadyExists | Refusal::BucketAlreadyOwnedByYou => Answer::Exists,
                other => panic!("{asked:?}: {other:?}"),
            },
            Err(other) => panic!("{asked:?}: {other:?}"),
        }
    }

    fn intent(&self, bucket: &Bucket, asked: &Asked) -> Intent {
        let name = |snapshot: usize| Bytes::from(SNAPSHOTS[snapshot]);
        match *asked {
            Asked::Put { key, content, .. } => put(&self.handle, bucket, KEYS[key].into(), &contents()[content]),
            Asked::Append { key, content, offset, .. } => self.append(bucket, KEYS[key].into(), content, offset),
            Asked::Delete { key, .. } => delete(bucket, KEYS[key].into()),
            Asked::Snapshot(snapshot) => Intent::CreateSnapshot { bucket: bucket.id, name: name(snapshot) },
            Asked::Forget(snapshot) => Intent::DeleteSnapshot { bucket: bucket.id, name: name(snapshot) },
            Asked::Restore(snapshot) => Intent::RestoreBucket { bucket: bucket.id, snapshot: name(snapshot) },
            Asked::Fork { snapshot, bucket: fork } => {
                Intent::ForkBucket { bucket: bucket.id, snapshot: snapshot.map(name), name: BUCKETS[fork].into() }
            }
            Asked::Read { .. } | Asked::List { .. } => unreachable!("no change"),
        }
    }

    fn append(&self, bucket: &Bucket, key: Bytes, content: usize, offset: u64) -> Intent {
        let bytes = &contents()[content];
        let body = match bytes.len() <= SMALL_MAX {
            true => self.handle.content().appended_body(bucket, Bytes::copy_from_slice(bytes)),
            false => body(&self.handle, bucket, bytes),
        };
        let put = put_of(bucket, key, bytes, body);
        Intent::AppendObject(Box::new(ObjectAppend { put, offset, user_metadata: false, declared: None }))
    }

    /// Reads an object to its end: what it holds stays, whatever becomes of the key.
    fn read(&self, bucket: &Bucket, key: &Bytes) -> Option<Pieces> {
        let found = match self.handle.try_object_in(bucket, key) {
            Some(found) => found,
            None => self.handle.object_in(bucket, key).unwrap(),
        }?;
        let pieces = pieces_of(&self.bytes(&found));
        assert_eq!(etag_of(&pieces), found.object.version.etag, "{pieces:?}");
        Some(pieces)
    }

    fn bytes(&self, found: &PinnedObject) -> Vec<u8> {
        let mut reader = self.handle.content().reader(found, 0, found.object.version.size - 1);
        let (mut bytes, mut piece) = (Vec::new(), vec![0; 5_000]);
        while let read @ 1.. = reader.read(&mut piece).unwrap() {
            bytes.extend_from_slice(&piece[..read]);
        }
        bytes
    }

    /// Lists a bucket, one key after the other.
    fn list(&self, bucket: usize) {
        self.shared.calls.ask_together(|| {
            let found = self.handle.bucket(BUCKETS[bucket].as_bytes()).map(|found| self.etags(&found));
            let answer = |key: usize| {
                let answer = found.as_ref().map_or(Answer::NoBucket, |found| Answer::Listed(found[key]));
                (Asked::List { bucket, key }, answer)
            };
            (0..KEYS.len()).map(answer).collect()
        });
    }

    fn etags(&self, bucket: &Bucket) -> [Option<Etag>; KEYS.len()] {
        let (prefix, mut etags) = (Bytes::new(), [None; KEYS.len()]);
        let mut list = ListObjects { bucket: bucket.id, prefix, delimiter: None, after: None, max_keys: 1 };
        loop {
            let mut page = ListPage::default();
            list.after = self.handle.list_objects_in(bucket, &list, &mut page).unwrap();
            for entry in page.entries {
                let key = KEYS.iter().position(|key| entry.key == *key).expect("a key of this test");
                assert!(etags[key].replace(entry.listed.etag).is_none(), "{:?} is listed twice", entry.key);
            }
            if list.after.is_none() {
                return etags;
            }
        }
    }

    /// Everything there is to see, for the judge. Snapshots are seen through forks and restores.
    fn look(&self) {
        for bucket in 0..BUCKETS.len() {
            (0..KEYS.len()).for_each(|key| self.ask(Asked::Read { bucket, key }));
            self.list(bucket);
        }
    }
}

/// What is made of the snapshots that are left is the last that is seen.
fn restore_all(watcher: &Client) {
    watcher.look();
    for snapshot in 0..SNAPSHOTS.len() {
        watcher.ask(Asked::Restore(snapshot));
        watcher.look();
    }
}

fn schedule(seed: u64) {
    let mut rng = SimRng::new(seed ^ 0x1a7e);
    let manifests = if rng.below(8) == 0 { Manifests::Segmented } else { Manifests::Short };
    let world = World::new(seed, manifests);
    let contents = match manifests {
        Manifests::Short => SHORT[rng.below(SHORT.len() as u64) as usize],
        Manifests::Segmented => SEGMENTED,
    };
    let layered = rng.below(3) > 0;
    let disk = SimDisk::new();
    let (store, mut reclamation) = Scheduled::open(world.options.clone(), environment(&disk, seed)).unwrap();
    let handle = store.handle().clone();
    create_bucket(&handle);
    let shared = Arc::new(SharedByClients::default());
    let client = |handle: &Handle, number: u64| Client::new(handle, &shared, contents, layered, seed ^ number << 40);
    client(&handle, 0).run(rng.below(OPERATIONS_BEFORE));
    begin_to_reclaim(&mut reclamation, &mut rng);
    let left = Arc::new(AtomicU64::new(world.clients));
    let for_reclamation = Arc::clone(&left);
    let reclaimer = thread::spawn(move || reclaim_beside(reclamation, &for_reclamation));
    let running: Vec<_> = (0..world.clients)
        .map(|number| {
            let client = client(&handle, number + 1);
            let (left, operations) = (Arc::clone(&left), world.operations);
            thread::spawn(move || {
                client.run(operations);
                left.fetch_sub(1, Ordering::Relaxed);
            })
        })
        .collect();
    running.into_iter().for_each(|client| client.join().unwrap());
    let mut reclamation = reclaimer.join().unwrap();
    client(&handle, 0).look();
    reclamation.refresh(true);
    reclaim_all(&handle, &mut reclamation);
    let found = leftovers(&handle).unwrap();
    assert!(found.is_empty(), "{found:#?}");
    drop((reclamation, handle));
    let store = if seed.is_multiple_of(REBUILD_EVERY) {
        store.close().unwrap();
        Scheduled::open(world.options, environment(&disk, seed)).unwrap().0
    } else {
        store
    };
    restore_all(&client(store.handle(), 0));
    store.close().unwrap();
    shared.calls.judge(&BucketsState::new());
}

/// One order of the operations explains every answer.
#[test]
fn appends_and_snapshots_are_steps_of_one_order() {
    explore(asked_or(SCHEDULES), schedule);
}
