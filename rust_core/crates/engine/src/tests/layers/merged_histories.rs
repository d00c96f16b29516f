//! Merges of layers of buckets with versioning: whatever batch was the last one, all buckets and snapshots show what they
//! showed before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::super::super::Step;
use super::super::layers::merges::{LIMITS, forget, fork, snapshot};
use super::super::steps::Steps;
use orcas_base::error::Result;
use orcas_catalog::{ListObjects, ListPage, ListVersions, ListedVersion, VersionSink};
use orcas_decide::{AttributeChange, BucketChange, Failure, Intent, Outcome, UpdateVersion, find_newest, find_version};
use orcas_fs_testing::{SimDisk, SimRng};
use orcas_record::{Bucket, BucketRole, LayerKind, Object, Version, VersionId, Versioning};

const KEYS: [&str; 3] = ["a", "b/1", "b/2"];

/// An entry of a list.
pub(super) type Entry = (String, VersionId, bool, bool, u64);

#[derive(Default)]
pub(super) struct Entries(pub Vec<Entry>);

impl VersionSink for Entries {
    fn version(&mut self, version: &ListedVersion<'_>) {
        let key = String::from_utf8(version.key.to_vec()).unwrap();
        self.0.push((key, version.id, version.is_latest, version.delete_marker, version.listed.size));
    }

    fn prefix(&mut self, _: &[u8]) {}

    fn restart(&mut self) {
        self.0.clear();
    }
}

/// What a bucket or a snapshot shows, in words: its lists, each version by every id that its key ever had anywhere, and
/// the newest version of each key.
type Shown = BTreeMap<String, String>;

type Found = Option<Arc<Object>>;

/// Which layer has a version does not matter.
fn described(version: &Version) -> String {
    let Version { delete_marker, modified_ms, size, etag, attributes, manifest, .. } = version;
    let made = attributes.tags.first().map(|(_, made)| made);
    format!("{} {delete_marker} {modified_ms} {size} {etag:?} {made:?} {manifest:?}", number(version.version_id))
}

/// A short name of a version: the sequence of the record that brought it first.
fn number(id: VersionId) -> u64 {
    match id {
        VersionId::Null => 0,
        VersionId::Named(id) => u64::from_be_bytes(id[..8].try_into().unwrap()),
    }
}

struct World {
    steps: Steps,
    rng: SimRng,
    ids: BTreeMap<&'static str, BTreeSet<VersionId>>,
    made: u64,
    gets_versioning: bool,
    /// Kinds of layers that were merged.
    merged: Vec<(LayerKind, LayerKind)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut steps = Steps::on(&SimDisk::new(), |_| {});
        steps.bucket("b0");
        let ids = KEYS.iter().map(|key| (*key, BTreeSet::from([VersionId::Null]))).collect();
        Self { steps, rng: SimRng::new(seed), ids, made: 0, gets_versioning: true, merged: Vec::new() }
    }

    fn run(&mut self, intent: Intent) -> std::result::Result<Outcome, Failure> {
        let submitted = self.steps.submit(intent);
        // A batch of a merge ends its round.
        while !submitted.is_answered() {
            self.steps.stepper().commit();
        }
        submitted.answer()
    }

    fn pick<T: Clone>(&mut self, some: &[T]) -> Option<T> {
        if some.is_empty() { None } else { Some(some[self.rng.below(some.len() as u64) as usize].clone()) }
    }

    fn some_bucket(&mut self) -> Arc<Bucket> {
        let buckets = self.steps.handle().buckets();
        self.pick(&buckets).unwrap()
    }

    fn snapshots(&self) -> Vec<Arc<Bucket>> {
        let buckets = Arc::clone(&self.steps.shared().catalog.buckets.load());
        buckets.of_any_role().filter(|bucket| bucket.role == BucketRole::Snapshot).cloned().collect()
    }

    /// The name of a snapshot of the bucket.
    fn some_snapshot(&mut self, bucket: &Bucket) -> Option<String> {
        let buckets = Arc::clone(&self.steps.shared().catalog.buckets.load());
        let begin = bucket.name.len() + 1;
        let names = buckets.snapshots_of(&bucket.name).map(|it| String::from_utf8(it.name[begin..].to_vec()).unwrap());
        let names: Vec<String> = names.collect();
        self.pick(&names)
    }

    fn some_version(&mut self, key: &'static str) -> VersionId {
        let ids: Vec<VersionId> = self.ids[key].iter().copied().collect();
        // Null versions matter most.
        if self.rng.below(3) == 0 { VersionId::Null } else { self.pick(&ids).unwrap() }
    }

    fn delete(&mut self, bucket: &Bucket, key: &str, version: Option<VersionId>) {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let precondition = Default::default();
        self.run(Intent::DeleteObject { bucket: bucket.id, key, precondition, version, bypass: false }).unwrap();
    }

    fn put(&mut self, bucket: &Bucket, key: &'static str) {
        self.made += 1;
        let length = [10, 300][self.rng.below(2) as usize] + self.made as usize;
        let put = self.steps.intent(bucket, key, &vec![7; length]);
        self.run(put).unwrap();
    }

    fn change(&mut self) {
        let bucket = self.some_bucket();
        let key = self.pick(&KEYS).unwrap();
        match self.rng.below(100) {
            0..=34 => self.put(&bucket, key),
            35..=39 => self.delete(&bucket, key, None),
            40..=59 => {
                let version = Some(self.some_version(key));
                self.delete(&bucket, key, version);
            }
            60..=74 => {
                self.made += 1;
                let change = AttributeChange::Tags(vec![("made".into(), self.made.to_string().into())]);
                let version = Some(self.some_version(key));
                let update = UpdateVersion { bucket: bucket.id, key: key.into(), version, change };
                let _ = self.run(Intent::UpdateVersion(Box::new(update)));
            }
            75..=77 if self.gets_versioning => {
                let versioning = [Versioning::Enabled, Versioning::Suspended][self.rng.below(2) as usize];
                let change = BucketChange::Versioning(versioning);
                self.run(Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
            }
            75..=92 => self.change_layers(&bucket),
            93..=97 => self.steps.apply(),
            98 => self.steps.reopen(),
            _ => drop(self.steps.stepper().reclaim(&LIMITS).unwrap()),
        }
        self.note_ids(&bucket);
    }

    /// What is refused changes nothing.
    fn change_layers(&mut self, bucket: &Bucket) {
        let (id, kept) = (bucket.id, self.some_snapshot(bucket));
        match (self.rng.below(12), kept) {
            (0..=6, _) => {
                let name = format!("s{}", self.made);
                let _ = self.run(snapshot(bucket, &name));
            }
            (7 | 8, kept) if self.steps.handle().buckets().len() < 4 => {
                let name = format!("b{}", self.made);
                let _ = self.run(fork(bucket, kept.as_deref().filter(|_| self.made.is_multiple_of(2)), &name));
            }
            (9, Some(kept)) => drop(self.run(Intent::RestoreBucket { bucket: id, snapshot: kept.into() }).unwrap()),
            (10, Some(kept)) => drop(self.run(forget(bucket, &kept)).unwrap()),
            (11, _) if self.steps.handle().buckets().len() > 2 => self.clear(bucket),
            _ => {}
        }
    }

    /// Deletes a bucket with everything in it. Layers may stay for others.
    fn clear(&mut self, bucket: &Bucket) {
        while let Some(kept) = self.some_snapshot(bucket) {
            self.run(forget(bucket, &kept)).unwrap();
        }
        let versions = if bucket.versioning == Versioning::Unversioned { 1 } else { usize::MAX };
        for key in KEYS {
            for id in self.ids[key].clone().into_iter().take(versions) {
                self.delete(bucket, key, Some(id));
            }
        }
        self.run(Intent::DeleteBucket { bucket: bucket.id }).unwrap();
    }

    fn list_versions(&self, bucket: &Bucket, max_keys: usize) -> Vec<Entry> {
        let (prefix, mut all) = (Bytes::new(), Vec::new());
        let mut list = ListVersions { bucket: bucket.id, prefix, delimiter: None, after: None, max_keys };
        loop {
            let mut entries = Entries::default();
            let next = self.steps.handle().list_versions_in(bucket, &list, &mut entries).unwrap();
            all.append(&mut entries.0);
            match next {
                Some(next) => list.after = Some(next),
                None => return all,
            }
        }
    }

    fn note_ids(&mut self, bucket: &Bucket) {
        let Some(bucket) = self.steps.handle().bucket(&bucket.name) else { return };
        for (key, id, ..) in self.list_versions(&bucket, 1_000) {
            let key = KEYS.iter().find(|it| **it == key).unwrap();
            self.ids.get_mut(key).unwrap().insert(id);
        }
    }

    fn shown(&mut self) -> BTreeMap<String, Shown> {
        let name_of = |bucket: &Bucket| String::from_utf8(bucket.name.to_vec()).unwrap();
        let max_keys = 1 + self.rng.below(7) as usize;
        let (handle, shared) = (self.steps.handle(), self.steps.shared());
        let mut all = BTreeMap::new();
        for bucket in handle.buckets() {
            let (prefix, mut page) = (Bytes::new(), ListPage::default());
            let list = ListObjects { bucket: bucket.id, prefix, delimiter: None, after: None, max_keys: 1_000 };
            handle.list_objects_in(&bucket, &list, &mut page).unwrap();
            let objects: Vec<_> = page.entries.iter().map(|entry| (&entry.key, entry.listed.size)).collect();
            let mut shown = Shown::from([("objects".into(), format!("{objects:?}"))]);
            for (at, (key, id, is_latest, delete_marker, size)) in
                self.list_versions(&bucket, max_keys).into_iter().enumerate()
            {
                let entry = format!("{key} {} {is_latest} {delete_marker} {size}", number(id));
                shown.insert(format!("listed {at}"), entry);
            }
            let by_id = |key: &Bytes, id| Ok(handle.version_in(&bucket, key, id)?.map(|found| found.object));
            let newest = |key: &Bytes| Ok(handle.object_in(&bucket, key)?.map(|found| found.object));
            self.look_up(&mut shown, &by_id, &newest);
            all.insert(name_of(&bucket), shown);
        }
        for snapshot in self.snapshots() {
            let mut shown = Shown::new();
            let layers = &snapshot.layers;
            let by_id =
                |key: &Bytes, id| Ok(find_version(&*shared.catalog, layers, key, id)?.map(|found| found.object));
            let newest = |key: &Bytes| Ok(find_newest(&*shared.catalog, layers, key)?.map(|found| found.object));
            self.look_up(&mut shown, &by_id, &newest);
            all.insert(name_of(&snapshot), shown);
        }
        all
    }

    fn look_up(
        &self,
        shown: &mut Shown,
        by_id: &dyn Fn(&Bytes, VersionId) -> Result<Found>,
        newest: &dyn Fn(&Bytes) -> Result<Found>,
    ) {
        let mut note = |name: String, found: Found| {
            shown.extend(found.map(|found| (name, described(&found.version))));
        };
        for (key, ids) in &self.ids {
            let name = Bytes::from_static(key.as_bytes());
            note(format!("newest of {key}"), newest(&name).unwrap());
            ids.iter().for_each(|id| note(format!("{key} {}", number(*id)), by_id(&name, *id).unwrap()));
        }
    }

    /// The versions of a key in each layer.
    fn stored(&self) -> String {
        let buckets = Arc::clone(&self.steps.shared().catalog.buckets.load());
        let mut all = String::new();
        for bucket in buckets.of_any_role() {
            let start = orcas_catalog::VersionStart::From(Bytes::new());
            let (rows, _) =
                orcas_catalog::scan_versions(&self.steps.shared().catalog, bucket.id, &start, 1_000).unwrap();
            let rows: Vec<_> = rows.iter().map(|row| (&row.key, number(row.id), row.delete_marker)).collect();
            let layers: Vec<_> = bucket.layers.iter().map(|layer| layer.0).collect();
            let Bucket { id, name, role, versioning, .. } = &**bucket;
            all += &format!("{} {name:?} {role:?} {versioning:?} {layers:?}: {rows:?}\n", id.0);
        }
        all
    }

    fn note_merge(&mut self) {
        let buckets = Arc::clone(&self.steps.shared().catalog.buckets.load());
        let Some(merge) = buckets.mergeable(&BTreeSet::new()) else { return };
        let kind = |layer| buckets.by_id(layer).unwrap().layer_kind();
        let kinds = (kind(merge.upper), kind(merge.lower));
        if !self.merged.contains(&kinds) {
            self.merged.push(kinds);
        }
    }

    /// Merges and empties layers until none is left, and looks at everything after each batch and each step of the index.
    fn merge(&mut self) {
        let before = self.shown();
        let mut stored = self.stored();
        let mut compare = |world: &mut Self| {
            let (after, now) = (world.shown(), world.stored());
            for (name, shown) in &before {
                let (shown, after) = (shown.iter(), after[name].iter());
                let (shown, after): (BTreeSet<_>, BTreeSet<_>) = (shown.collect(), after.collect());
                let (gone, new): (Vec<_>, Vec<_>) =
                    (shown.difference(&after).collect(), after.difference(&shown).collect());
                assert!(gone.is_empty() && new.is_empty(), "{name}: {gone:?} became {new:?}\n{stored}\n{now}");
            }
            stored = now;
        };
        compare(self);
        for _ in 0..1_000 {
            self.note_merge();
            if self.steps.stepper().reclaim(&LIMITS).unwrap() == Step::Idle {
                let buckets = Arc::clone(&self.steps.shared().catalog.buckets.load());
                assert_eq!((buckets.mergeable(&BTreeSet::new()), buckets.dropped()), (None, None));
                return;
            }
            let sequence = self.steps.stepper().committer.next_sequence;
            self.steps.stepper().commit();
            if self.steps.stepper().committer.next_sequence == sequence {
                self.steps.apply();
                continue;
            }
            compare(self);
            match self.rng.below(40) {
                0 => self.steps.rebuild(),
                1 => self.steps.reopen(),
                _ => self.steps.apply(),
            }
            compare(self);
        }
        panic!("no end");
    }
}

#[test]
fn a_merge_of_histories_changes_nothing_that_is_shown() {
    let mut merged = Vec::new();
    for seed in 1..=4 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for round in 0..6 {
            // What layers from before versioning become takes some of them.
            world.gets_versioning = seed.is_multiple_of(2) || round > 1;
            for _ in 0..80 {
                world.change();
            }
            for kept in world.snapshots() {
                if world.rng.below(3) > 0 {
                    let (bucket, name) = kept.name.split_at(kept.name.iter().position(|byte| *byte == b'@').unwrap());
                    let bucket = world.steps.handle().bucket(bucket).unwrap();
                    world.run(forget(&bucket, std::str::from_utf8(&name[1..]).unwrap())).unwrap();
                }
            }
            world.merge();
        }
        let before = world.shown();
        world.steps.rebuild();
        assert_eq!(world.shown(), before);
        merged.append(&mut world.merged);
        while let Some(bucket) = world.steps.handle().buckets().pop() {
            world.clear(&bucket);
        }
        world.merge();
        world.steps.apply();
        let left = world.steps.stepper().index_dump().unwrap();
        let of_versions = |line: &str| ["buckets ", "heads ", "history "].iter().any(|of| line.starts_with(of));
        assert!(!left.lines().any(of_versions), "{left}");
    }
    use LayerKind::{Amendments, History, Single};
    for kinds in [(Single, Single), (Single, History), (Amendments, Single), (Amendments, History), (History, History)]
    {
        assert!(merged.contains(&kinds), "no merge of {kinds:?}");
    }
}
