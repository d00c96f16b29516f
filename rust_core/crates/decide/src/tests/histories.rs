//! Snapshots, forks and restores of buckets with versioning, against a model in which each of them is a copy.

use std::collections::BTreeMap;

use super::versions::{delete, delete_one};
use super::*;
use crate::buckets::layers;
use orcas_record::{ObjectLock, Versioning};

const KEYS: [&str; 3] = ["a", "b", "c"];

/// Of each key, the oldest first.
type Histories = BTreeMap<&'static str, Vec<Shown>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    id: VersionId,
    delete_marker: bool,
    size: u64,
    tags: usize,
}

#[derive(Clone)]
struct Model {
    versioning: Versioning,
    histories: Histories,
    snapshots: BTreeMap<&'static str, Histories>,
}

/// Xorshift, so that a seed says it all.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

impl Model {
    fn put(&mut self, key: &'static str, shown: Shown) {
        let history = self.histories.entry(key).or_default();
        history.retain(|other| other.id != shown.id);
        history.push(shown);
    }
}

struct Test {
    state: TestView,
    buckets: BTreeMap<BucketId, Model>,
    rng: Rng,
    forks: u64,
}

impl Test {
    /// What the rules say of one of the histories of a bucket must be what the model has.
    fn check(&self, what: &str) {
        for (id, model) in &self.buckets {
            let bucket = self.state.buckets[id].clone();
            for key in KEYS {
                let history = model.histories.get(key).cloned().unwrap_or_default();
                let of = |found: Option<Arc<Object>>| {
                    found.map(|object| Shown {
                        id: object.version.version_id,
                        delete_marker: object.version.delete_marker,
                        size: object.version.size,
                        tags: object.version.attributes.tags.len(),
                    })
                };
                let newest = layers::newest(&self.state, &bucket, key.as_bytes()).unwrap();
                assert_eq!(of(newest), history.last().cloned(), "{what}: the newest {key} of {id:?}");
                let object = layers::object(&self.state, &bucket, key.as_bytes()).unwrap();
                let current = history.last().filter(|newest| !newest.delete_marker);
                assert_eq!(of(object), current.cloned(), "{what}: the object {key} of {id:?}");
                let others = self.buckets.values().flat_map(|other| other.histories.get(key)).flatten();
                for version in others.map(|shown| shown.id).chain([VersionId::Null]) {
                    let found = layers::version(&self.state, &bucket, key.as_bytes(), version).unwrap();
                    let wanted = history.iter().find(|shown| shown.id == version);
                    assert_eq!(of(found).as_ref(), wanted, "{what}: {version:?} of {key} in {id:?}");
                }
            }
        }
    }

    fn run(&mut self, intent: Intent) -> Outcome {
        self.state.run(intent).expect("nothing refuses it")
    }

    fn step(&mut self) -> String {
        let ids: Vec<BucketId> = self.buckets.keys().copied().collect();
        let (id, key) = (self.rng.pick(&ids), self.rng.pick(&KEYS));
        let mut model = self.buckets[&id].clone();
        let name = self.rng.pick(&["s", "t", "u"]);
        let known = model.snapshots.contains_key(name);
        let choice = self.rng.below(20);
        let what = format!("{choice} of {key} in {id:?}, {name}");
        match choice {
            0..6 => {
                let size = 1 + self.rng.below(200);
                let Intent::PutObject(put) = put(key, size) else { unreachable!("a put") };
                let Outcome::Put(put) = self.run(Intent::PutObject(Box::new(PutObject { bucket: id, ..*put }))) else {
                    panic!("no put")
                };
                let id = put.version_id.unwrap_or(VersionId::Null);
                model.put(key, Shown { id, delete_marker: false, size, tags: 0 });
            }
            6..8 => {
                let entry = self.entry(key, None);
                let Outcome::Deleted(answers) = self.run(Intent::DeleteObjects { bucket: id, entries: vec![entry] })
                else {
                    panic!("no deletion")
                };
                match answers[0].as_ref().unwrap().version_id {
                    Some(id) => model.put(key, Shown { id, delete_marker: true, size: 0, tags: 0 }),
                    None => drop(model.histories.remove(key)),
                }
            }
            8..12 => {
                // Two of them at a time, so that a decision sees what it has done itself.
                let history = model.histories.get(key).cloned().unwrap_or_default();
                let ids: Vec<VersionId> = history.iter().map(|shown| shown.id).chain([VersionId::Null]).collect();
                let two = [self.rng.pick(&ids), self.rng.pick(&ids)];
                let entries = two.iter().map(|version| self.entry(key, Some(*version))).collect();
                self.run(Intent::DeleteObjects { bucket: id, entries });
                if let Some(history) = model.histories.get_mut(key) {
                    history.retain(|shown| !two.contains(&shown.id));
                }
            }
            12..14 => {
                let history = model.histories.get(key).cloned().unwrap_or_default();
                let able: Vec<VersionId> =
                    history.iter().filter(|shown| !shown.delete_marker).map(|shown| shown.id).collect();
                if !able.is_empty() {
                    let version = self.rng.pick(&able);
                    let tags = self.rng.below(4) as usize;
                    let names = (0..tags).map(|at| (Bytes::from(at.to_string()), Bytes::new())).collect();
                    let change = AttributeChange::Tags(names);
                    let update = UpdateVersion { bucket: id, key: key.into(), version: Some(version), change };
                    self.run(Intent::UpdateVersion(Box::new(update)));
                    let history = model.histories.get_mut(key).expect("it is not empty");
                    history.iter_mut().filter(|shown| shown.id == version).for_each(|shown| shown.tags = tags);
                }
            }
            14 => {
                let versioning = self.rng.pick(&[Versioning::Enabled, Versioning::Suspended]);
                self.run(Intent::UpdateBucket { bucket: id, change: BucketChange::Versioning(versioning) });
                model.versioning = versioning;
            }
            15 | 16 if !known => {
                self.run(Intent::CreateSnapshot { bucket: id, name: name.into() });
                model.snapshots.insert(name, model.histories.clone());
            }
            15 | 16 => {
                self.run(Intent::DeleteSnapshot { bucket: id, name: name.into() });
                model.snapshots.remove(name);
            }
            17 if known => {
                self.run(Intent::RestoreBucket { bucket: id, snapshot: name.into() });
                model.histories = model.snapshots[name].clone();
            }
            _ if self.buckets.len() < 4 => {
                self.forks += 1;
                let snapshot = Some(Bytes::from(name)).filter(|_| known && choice == 18);
                let histories = snapshot.as_ref().map_or(&model.histories, |_| &model.snapshots[name]).clone();
                let name = Bytes::from(format!("fork-{}", self.forks));
                let Outcome::Bucket(fork) = self.run(Intent::ForkBucket { bucket: id, snapshot, name }) else {
                    panic!("no fork")
                };
                let fork_model = Model { histories, snapshots: BTreeMap::new(), ..model.clone() };
                self.buckets.insert(fork.id, fork_model);
            }
            _ => {}
        }
        self.buckets.insert(id, model);
        what
    }

    fn entry(&self, key: &'static str, version: Option<VersionId>) -> DeleteEntry {
        DeleteEntry { key: key.into(), version, precondition: Precondition::default(), bypass: false }
    }
}

#[test]
fn layers_show_what_copies_would() {
    for seed in 1..=400 {
        let state = TestView::with_bucket();
        let model =
            Model { versioning: Versioning::Unversioned, histories: BTreeMap::new(), snapshots: BTreeMap::new() };
        let buckets = BTreeMap::from([(BUCKET, model)]);
        let mut test = Test { state, buckets, rng: Rng(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed)), forks: 0 };
        for step in 0..80 {
            let what = test.step();
            test.check(&format!("seed {seed}, step {step}: {what}"));
        }
        // Everything goes that the first bucket shows, and then the bucket, but not what the others show of it.
        let (id, model) = test.buckets.pop_first().expect("the first bucket");
        for (key, history) in &model.histories {
            let entries = history.iter().map(|shown| test.entry(key, Some(shown.id))).collect();
            if let Some(shown) = history.first() {
                assert_eq!(
                    refused(test.state.run(Intent::DeleteBucket { bucket: id })),
                    not_empty(&model),
                    "{shown:?}"
                );
            }
            test.run(Intent::DeleteObjects { bucket: id, entries });
        }
        for name in model.snapshots.keys() {
            test.run(Intent::DeleteSnapshot { bucket: id, name: (*name).into() });
        }
        test.run(Intent::DeleteBucket { bucket: id });
        test.check(&format!("seed {seed}, without the first bucket"));
    }
}

fn not_empty(model: &Model) -> Refusal {
    match model.snapshots.is_empty() {
        true => Refusal::BucketNotEmpty,
        false => Refusal::InvalidBucketState { reason: "The bucket has snapshots: delete them first." },
    }
}

/// A restore could remove a locked version. A fork keeps it, and its lock.
#[test]
fn a_bucket_with_object_lock_is_forked_and_not_restored() {
    let mut state = TestView::with_bucket();
    let update = |change| Intent::UpdateBucket { bucket: BUCKET, change };
    state.run(update(BucketChange::Versioning(Versioning::Enabled))).unwrap();
    state.run(update(BucketChange::ObjectLock(ObjectLock::default()))).unwrap();
    let Ok(Outcome::Put(put)) = state.run(put("a", 1)) else { panic!("no put") };
    let hold = |bucket, on| {
        let change = AttributeChange::LegalHold(on);
        let update = UpdateVersion { bucket, key: "a".into(), version: put.version_id, change };
        Intent::UpdateVersion(Box::new(update))
    };
    let delete = |bucket| {
        let (key, precondition) = ("a".into(), Precondition::default());
        Intent::DeleteObject { bucket, key, version: put.version_id, precondition, bypass: true }
    };
    state.run(hold(BUCKET, true)).unwrap();
    state.run(Intent::CreateSnapshot { bucket: BUCKET, name: "s".into() }).unwrap();
    let restore = Intent::RestoreBucket { bucket: BUCKET, snapshot: "s".into() };
    assert!(matches!(refused(state.run(restore)), Refusal::InvalidBucketState { .. }));
    let fork = Intent::ForkBucket { bucket: BUCKET, snapshot: Some("s".into()), name: "fork".into() };
    let Ok(Outcome::Bucket(fork)) = state.run(fork) else { panic!("no fork") };
    for bucket in [BUCKET, fork.id] {
        assert_eq!(refused(state.run(delete(bucket))), Refusal::ObjectLocked);
    }
    // What is released in one of them stays locked in the other.
    state.run(hold(fork.id, false)).unwrap();
    state.run(delete(fork.id)).unwrap();
    assert_eq!(refused(state.run(delete(BUCKET))), Refusal::ObjectLocked);
}

/// A snapshot keeps versions that were deleted by their ids since. What is behind them is looked for once in a decision.
#[test]
fn one_decision_passes_once_over_the_deleted_versions_of_a_key() {
    let mut state = TestView::versioned();
    let document = Bytes::from_static(b"<LifecycleConfiguration/>");
    let kind = DocumentKind::Lifecycle;
    state.run(Intent::PutDocument { bucket: BUCKET, kind, document: document.clone() }).unwrap();
    let ids: Vec<VersionId> = (1..=60).filter_map(|size| state.stored(size)).collect();
    let found: Vec<Arc<Object>> = state.versions(BUCKET, b"k").cloned().collect();
    state.run(Intent::CreateSnapshot { bucket: BUCKET, name: "s".into() }).unwrap();
    for id in &ids[30..] {
        state.run(delete_one(delete(Some(*id)))).unwrap();
    }

    state.newest_asked.set(0);
    let condition = Precondition { if_match: Some(EtagMatch::Any), ..Precondition::default() };
    let entry = DeleteEntry { precondition: condition, ..delete(None) };
    let decision = Intent::DeleteObjects { bucket: BUCKET, entries: vec![entry; 20] };
    state.run(decision).unwrap();
    assert!(state.newest_asked.get() < 70, "{}", state.newest_asked.get());
    // Only the first condition held.
    let marker = layers::newest(&state, &state.buckets[&BUCKET].clone(), b"k").unwrap().unwrap();
    state.run(delete_one(delete(Some(marker.version.version_id)))).unwrap();

    state.newest_asked.set(0);
    let place = |object: &Arc<Object>| ExpiredPlace::Noncurrent(object.version.version_id);
    let entry = |object: &Arc<Object>| ExpireEntry {
        key: "k".into(),
        sequence: object.sequence,
        place: place(object),
        tags: None,
    };
    let entries = found[..30].iter().rev().map(entry).collect();
    let expire = Expire { bucket: BUCKET, document, top: None, entries };
    let Ok(Outcome::Expired(expired)) = state.run(Intent::Expire(Box::new(expire))) else { panic!("not expired") };
    assert_eq!((expired.versions, expired.changed), (29, 1));
    assert!(state.newest_asked.get() < 70, "{}", state.newest_asked.get());
}
