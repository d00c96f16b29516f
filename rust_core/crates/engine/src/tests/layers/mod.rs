//! Snapshots, forks and restores against a map for each bucket, which a snapshot clones.

mod hidden;
mod history_merges;
mod mergeable;
mod merged_histories;
mod merges;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use super::super::Effort;
use super::check::fixture::check;
use super::support::{Store, noise};
use orcas_catalog::{ListObjects, ListPage};
use orcas_decide::{AttributeChange, Copy, CopyAttributes, CopyHeaders, Failure, Intent, Outcome, UpdateVersion};
use orcas_fs_testing::SimRng;
use orcas_fsck::FindingKind;
use orcas_record::{Bucket, DocumentKind};

type Objects = BTreeMap<String, Vec<u8>>;

#[derive(Clone, Default)]
struct Expected {
    objects: Objects,
    snapshots: BTreeMap<String, Objects>,
}

/// A store, and what it should hold.
struct World {
    store: Store,
    buckets: BTreeMap<String, Expected>,
    rng: SimRng,
    made: u64,
}

pub(super) fn get(store: &Store, bucket: &Bucket, key: &str) -> Option<Vec<u8>> {
    let handle = store.handle();
    let found = handle.object_in(bucket, &Bytes::copy_from_slice(key.as_bytes())).unwrap()?;
    let size = found.object.version.size;
    let mut reader = handle.content().reader(&found, 0, size.saturating_sub(1));
    let (mut out, mut at) = (vec![0; size as usize], 0);
    while at < out.len() {
        at += reader.read(&mut out[at..]).unwrap();
    }
    Some(out)
}

fn page(store: &Store, bucket: &Bucket, list: &ListObjects) -> (Vec<String>, Vec<String>, Option<Bytes>) {
    let mut page = ListPage::default();
    let next = store.handle().list_objects_in(bucket, list, &mut page).unwrap();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    (page.entries.iter().map(|entry| text(&entry.key)).collect(), page.prefixes.iter().map(text).collect(), next)
}

/// Keys and common prefixes, page by page.
pub(super) fn list(
    store: &Store,
    bucket: &Bucket,
    prefix: &str,
    delimited: bool,
    max_keys: usize,
) -> (Vec<String>, Vec<String>) {
    let delimiter = delimited.then(|| Bytes::from("/"));
    let prefix = Bytes::copy_from_slice(prefix.as_bytes());
    let mut list = ListObjects { bucket: bucket.id, prefix, delimiter, after: None, max_keys };
    let (mut keys, mut prefixes) = (Vec::new(), Vec::new());
    loop {
        let (more_keys, more_prefixes, next) = page(store, bucket, &list);
        assert!(more_keys.len() + more_prefixes.len() <= max_keys);
        keys.extend(more_keys);
        prefixes.extend(more_prefixes);
        list.after = next;
        if list.after.is_none() {
            return (keys, prefixes);
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let store = Store::with(|options| options.log_file_size = 1 << 20);
        Self { store, buckets: BTreeMap::new(), rng: SimRng::new(seed), made: 0 }
    }

    fn bucket(&self, name: &str) -> Arc<Bucket> {
        self.store.handle().bucket(name.as_bytes()).unwrap()
    }

    fn run(&self, intent: Intent) -> Result<Outcome, Failure> {
        self.store.handle().execute(intent)
    }

    fn pick<T: Clone>(&mut self, some: impl Iterator<Item = T>) -> Option<T> {
        let all: Vec<T> = some.collect();
        if all.is_empty() { None } else { Some(all[self.rng.below(all.len() as u64) as usize].clone()) }
    }

    fn some_bucket(&mut self) -> Option<String> {
        let names: Vec<String> = self.buckets.keys().cloned().collect();
        self.pick(names.into_iter())
    }

    fn some_key(&mut self) -> String {
        format!("{}/{}", self.rng.below(4), self.rng.below(8))
    }

    fn some_snapshot(&mut self, bucket: &str) -> Option<String> {
        let names: Vec<String> = self.buckets[bucket].snapshots.keys().cloned().collect();
        self.pick(names.into_iter())
    }

    fn change_object(&mut self, name: &str) {
        let (bucket, key, other) = (self.bucket(name), self.some_key(), self.some_key());
        match self.rng.below(8) {
            0..=3 => {
                self.made += 1;
                let length = [10, 300, 5_000][self.rng.below(3) as usize];
                let body = noise(length, self.made);
                self.store.put(&bucket, &key, &body).unwrap();
                self.objects(name).insert(key, body);
            }
            4 | 5 => {
                self.store.delete(&bucket, &key).unwrap();
                self.objects(name).remove(&key);
            }
            6 if key != other => {
                let moved = self.store.rename(&bucket, &key, &other);
                let objects = self.objects(name);
                assert_eq!(moved.is_ok(), objects.contains_key(&key));
                if let Some(body) = objects.remove(&key) {
                    objects.insert(other, body);
                }
            }
            _ => {
                let (key, change) = (key.into(), AttributeChange::Tags(vec![("k".into(), other.into())]));
                let _ = self.run(Intent::UpdateVersion(Box::new(UpdateVersion {
                    bucket: bucket.id,
                    key,
                    version: None,
                    change,
                })));
            }
        }
    }

    fn objects(&mut self, name: &str) -> &mut Objects {
        &mut self.buckets.get_mut(name).unwrap().objects
    }

    fn copy(&mut self, from: &str, to: &str) {
        let (source, key) = (self.some_key(), self.some_key());
        let copy = Copy {
            source: (self.bucket(from).id, source.clone().into(), None),
            source_conditions: Default::default(),
            bucket: self.bucket(to).id,
            key: key.clone().into(),
            modified_ms: None,
            precondition: Default::default(),
            headers: CopyHeaders::Replace(Box::default()),
            attributes: CopyAttributes::default(),
            checksum: None,
        };
        let copied = self.run(Intent::CopyObject(Box::new(copy)));
        let body = self.buckets[from].objects.get(&source).cloned();
        assert_eq!(copied.is_ok(), body.is_some(), "{copied:?}");
        if let Some(body) = body {
            self.objects(to).insert(key, body);
        }
    }

    /// Something with layers. What is refused changes nothing.
    fn change_layers(&mut self, name: &str) {
        let (id, action) = (self.bucket(name).id, self.rng.below(6));
        let snapshot = self.some_snapshot(name);
        match (action, snapshot) {
            (0 | 1, _) => {
                let new = format!("s{}", self.rng.below(4));
                if self.run(Intent::CreateSnapshot { bucket: id, name: new.clone().into() }).is_ok() {
                    let bucket = self.buckets.get_mut(name).unwrap();
                    assert!(bucket.snapshots.insert(new, bucket.objects.clone()).is_none());
                }
            }
            (2, snapshot) => {
                let new = format!("b{}", self.rng.below(6));
                let of = snapshot.filter(|_| self.rng.below(2) == 0);
                let fork =
                    Intent::ForkBucket { bucket: id, snapshot: of.clone().map(Bytes::from), name: new.clone().into() };
                if self.run(fork).is_ok() {
                    let source = &self.buckets[name];
                    let objects = of.map_or(&source.objects, |of| &source.snapshots[&of]).clone();
                    let fork = Expected { objects, ..Expected::default() };
                    assert!(self.buckets.insert(new, fork).is_none());
                }
            }
            (3, Some(snapshot)) => {
                self.run(Intent::RestoreBucket { bucket: id, snapshot: snapshot.clone().into() }).unwrap();
                let bucket = self.buckets.get_mut(name).unwrap();
                bucket.objects = bucket.snapshots[&snapshot].clone();
            }
            (4, Some(snapshot)) => {
                self.run(Intent::DeleteSnapshot { bucket: id, name: snapshot.clone().into() }).unwrap();
                self.buckets.get_mut(name).unwrap().snapshots.remove(&snapshot);
            }
            _ => {
                let expected = &self.buckets[name];
                let goes = expected.objects.is_empty() && expected.snapshots.is_empty();
                let answer = self.run(Intent::DeleteBucket { bucket: id });
                assert_eq!(answer.is_ok(), goes, "{name}: {answer:?}");
                if goes {
                    self.buckets.remove(name);
                }
            }
        }
    }

    /// Deletes a bucket with everything in it.
    fn clear(&mut self, name: &str) {
        let (bucket, expected) = (self.bucket(name), self.buckets.remove(name).unwrap());
        for snapshot in expected.snapshots.into_keys() {
            self.run(Intent::DeleteSnapshot { bucket: bucket.id, name: snapshot.into() }).unwrap();
        }
        for key in expected.objects.keys() {
            self.store.delete(&bucket, key).unwrap();
        }
        self.run(Intent::DeleteBucket { bucket: bucket.id }).unwrap();
    }

    fn compare(&mut self) {
        let names: Vec<String> = self.store.handle().buckets().iter().map(name_of).collect();
        assert_eq!(names, self.buckets.keys().cloned().collect::<Vec<_>>());
        for (name, expected) in &self.buckets {
            let bucket = self.bucket(name);
            let keys: Vec<String> = expected.objects.keys().cloned().collect();
            assert_eq!(list(&self.store, &bucket, "", false, 1 + self.made as usize % 9), (keys, vec![]), "{name}");
            let prefixes: BTreeSet<String> = expected.objects.keys().map(|key| key[..2].to_owned()).collect();
            let rolled = list(&self.store, &bucket, "", true, 2).1;
            assert_eq!(rolled, prefixes.into_iter().collect::<Vec<_>>(), "{name}");
            let within: Vec<String> = expected.objects.keys().filter(|key| key.starts_with("2/")).cloned().collect();
            assert_eq!(list(&self.store, &bucket, "2/", true, 3), (within, vec![]), "{name}");
            for key in (0..4).flat_map(|a| (0..8).map(move |b| format!("{a}/{b}"))) {
                assert!(get(&self.store, &bucket, &key).as_ref() == expected.objects.get(&key), "{name}/{key}");
            }
            let snapshots: Vec<String> = self.store.handle().snapshots(&bucket.name).iter().map(name_of).collect();
            let expected: Vec<String> =
                expected.snapshots.keys().map(|snapshot| format!("{name}@{snapshot}")).collect();
            assert_eq!(snapshots, expected);
        }
    }

    fn step(&mut self) {
        if self.buckets.len() < 2 {
            let name = format!("b{}", self.rng.below(6));
            if !self.buckets.contains_key(&name) {
                self.store.bucket(&name);
                self.buckets.insert(name, Expected::default());
            }
            return;
        }
        let name = self.some_bucket().unwrap();
        match self.rng.below(400) {
            0..=299 => self.change_object(&name),
            300..=319 => {
                let to = self.some_bucket().unwrap();
                self.copy(&name, &to);
            }
            320..=379 => self.change_layers(&name),
            380..=383 => self.clear(&name),
            384..=389 => self.compare(),
            390..=393 => drop(self.store.handle().reclaim(Effort::Collect).unwrap()),
            394 | 395 => self.store.reopen(),
            396 => drop(self.store.handle().reclaim(Effort::Compact).unwrap()),
            397 => self.store.check_rebuild(),
            _ => {
                self.store.close();
                let report = check(self.store.path());
                // A stop in the middle of reclamation leaves files that the next start removes.
                let expected = report.findings.iter().all(|finding| finding.kind == FindingKind::Leftover);
                assert!(report.is_clean() && expected, "{:#?}", report.findings);
                self.store.open();
            }
        }
    }
}

fn name_of(bucket: &Arc<Bucket>) -> String {
    String::from_utf8(bucket.name.to_vec()).unwrap()
}

#[test]
fn buckets_snapshots_and_forks_are_what_maps_are() {
    for seed in 1..=2 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..1_500 {
            world.step();
        }
        world.compare();
        world.store.check_rebuild();
        world.compare();
        for name in world.buckets.keys().cloned().collect::<Vec<_>>() {
            world.clear(&name);
        }
        world.store.handle().reclaim(Effort::Compact).unwrap();
        let usage = world.store.handle().usage().unwrap();
        assert_eq!((usage.totals.logical, usage.totals.stored, usage.totals.dead), (0, 0, 0));
        world.store.check_rebuild();
        world.store.close();
        let left = world.store.dump();
        assert!(
            !left.lines().any(|line| ["buckets ", "heads ", "history "].iter().any(|of| line.starts_with(of))),
            "{left}"
        );
    }
}

#[test]
fn uploads_and_documents_stay_with_their_bucket() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    let upload = store.create_upload(&bucket, "k");
    let part = store.put_part(&bucket, "k", upload, 1, b"content");
    store.put_document(&bucket, DocumentKind::Cors, "<C/>");
    let run = |store: &Store, intent| store.handle().execute(intent).unwrap();
    run(&store, Intent::CreateSnapshot { bucket: bucket.id, name: "s".into() });
    run(&store, Intent::ForkBucket { bucket: bucket.id, snapshot: None, name: "f".into() });
    store.reopen();
    let fork = store.handle().bucket(b"f").unwrap();
    assert_eq!(store.document(&fork, DocumentKind::Cors).as_deref(), Some("<C/>"));
    assert!(store.complete(&fork, "k", upload, &[part]).is_err());
    store.complete(&bucket, "k", upload, &[part]).unwrap();
    // A client that lost the answer asks again.
    store.complete(&bucket, "k", upload, &[part]).unwrap();
    let bucket = store.handle().bucket(b"b").unwrap();
    assert_eq!(get(&store, &bucket, "k").as_deref(), Some(&b"content"[..]));
    assert_eq!(get(&store, &fork, "k"), None);
    // What the deleted bucket leaves to its fork has no uploads and no documents.
    store.create_upload(&bucket, "open");
    store.delete(&bucket, "k").unwrap();
    run(&store, Intent::DeleteSnapshot { bucket: bucket.id, name: "s".into() });
    run(&store, Intent::DeleteBucket { bucket: bucket.id });
    assert!(store.handle().document(bucket.id, DocumentKind::Cors).is_none());
    store.bucket("b");
    store.check_rebuild();
    store.close();
    let report = check(store.path());
    assert!(report.is_clean() && report.findings.is_empty(), "{:#?}", report.findings);
    assert!(!store.dump().lines().any(|line| line.starts_with("uploads ")));
}

/// A key that a lower layer has is hidden all the time, by a delete marker or because its layer is no longer named. A
/// reader that meets the layers while they are emptied must not see it.
#[test]
fn nobody_sees_through_a_layer_that_is_being_removed() {
    let store = Store::new();
    let bucket = store.bucket("b");
    let run = |intent| store.handle().execute(intent).unwrap();
    let named = |name: &'static str| Bytes::from(name);
    run(Intent::CreateSnapshot { bucket: bucket.id, name: named("empty") });
    // Odd while the key may be seen.
    let phase = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut looks = 0_u64;
                while !done.load(Ordering::Acquire) {
                    let before = phase.load(Ordering::Acquire);
                    let present = store.handle().bucket(b"b").unwrap();
                    let seen =
                        get(&store, &present, "k").is_some() || !list(&store, &present, "", false, 5).0.is_empty();
                    if before.is_multiple_of(2) && phase.load(Ordering::Acquire) == before {
                        assert!(!seen, "after {looks} looks, in phase {before}");
                    }
                    looks += 1;
                }
            });
        }
        for round in 0..60 {
            phase.fetch_add(1, Ordering::AcqRel);
            store.put(&bucket, "k", &noise(300, round)).unwrap();
            run(Intent::CreateSnapshot { bucket: bucket.id, name: named("full") });
            store.delete(&bucket, "k").unwrap();
            phase.fetch_add(1, Ordering::AcqRel);
            run(Intent::RestoreBucket { bucket: bucket.id, snapshot: named("empty") });
            run(Intent::DeleteSnapshot { bucket: bucket.id, name: named("full") });
            if round % 4 == 0 {
                store.handle().reclaim(Effort::Collect).unwrap();
            }
        }
        done.store(true, Ordering::Release);
    });
}
