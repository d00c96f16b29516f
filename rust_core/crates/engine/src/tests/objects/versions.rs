//! Versions in the batch, the overlay and the index against a plain map.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::steps::Steps;
use crate::maintenance::MaintenanceIntent;
use orcas_catalog::{ListObjects, ListVersions, ListedVersion, VersionSink};
use orcas_checksum::Etag;
use orcas_decide::{BucketChange, Intent, View};
use orcas_record::{
    Attributes, BucketId, Cause, Object, ObjectHeaders, Record, Sequence, Version, VersionId, Versioning,
};

/// What a test step does. Numbers pick a key, a version or an amount.
#[derive(Clone, Debug)]
enum Op {
    Put {
        bucket: usize,
        key: usize,
        named: bool,
        marker: bool,
    },
    Delete {
        bucket: usize,
        key: usize,
        pick: usize,
    },
    Move {
        from: usize,
        to: usize,
        bucket: usize,
        pick: usize,
    },
    Update {
        bucket: usize,
        key: usize,
        pick: usize,
    },
    /// Deletes every version of the bucket.
    Clear {
        bucket: usize,
    },
    Commit,
    Apply,
    /// With `rebuild`, the index is made again from the log.
    Reopen {
        rebuild: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let (bucket, key) = (0..2usize, 0..3usize);
    prop_oneof![
        8 => (bucket.clone(), key.clone(), prop::bool::weighted(0.7), prop::bool::weighted(0.25))
            .prop_map(|(bucket, key, named, marker)| Op::Put { bucket, key, named, marker }),
        6 => (bucket.clone(), key.clone(), 0..5usize).prop_map(|(bucket, key, pick)| Op::Delete { bucket, key, pick }),
        2 => (key.clone(), key.clone(), bucket.clone(), 0..5usize)
            .prop_map(|(from, to, bucket, pick)| Op::Move { from, to, bucket, pick }),
        4 => (bucket.clone(), key, 0..5usize).prop_map(|(bucket, key, pick)| Op::Update { bucket, key, pick }),
        1 => bucket.prop_map(|bucket| Op::Clear { bucket }),
        5 => Just(Op::Commit),
        3 => Just(Op::Apply),
        1 => any::<bool>().prop_map(|rebuild| Op::Reopen { rebuild }),
    ]
}

/// Every version of each key by bucket, oldest first.
type Model = BTreeMap<(BucketId, Bytes), Vec<Object>>;

struct World {
    steps: Steps,
    /// One that has versioning, and one that never had it.
    buckets: [BucketId; 2],
    decided: Model,
    published: Model,
}

const KEYS: [&str; 3] = ["a", "a/b", "c"];

fn blank(bucket: BucketId, key: &Bytes) -> Version {
    Version {
        bucket,
        key: key.clone(),
        version_id: VersionId::Null,
        delete_marker: false,
        modified_ms: 5,
        size: 0,
        etag: Etag::simple([1; 16]),
        sha256: None,
        checksum: None,
        headers: ObjectHeaders::default(),
        attributes: Attributes::default(),
        parts: Vec::new(),
        manifest: Vec::new(),
    }
}

fn newest<'m>(model: &'m Model, name: &(BucketId, Bytes)) -> Option<&'m Object> {
    model.get(name).and_then(|versions| versions.last())
}

fn current<'m>(model: &'m Model, name: &(BucketId, Bytes)) -> Option<&'m Object> {
    newest(model, name).filter(|object| !object.version.delete_marker)
}

impl World {
    fn new() -> Self {
        let mut steps = Steps::new();
        let buckets = ["versioned", "plain"].map(|name| steps.bucket(name).id);
        let change = BucketChange::Versioning(Versioning::Enabled);
        steps.run(Intent::UpdateBucket { bucket: buckets[0], change }).unwrap();
        Self { steps, buckets, decided: Model::new(), published: Model::new() }
    }

    fn next_sequence(&mut self) -> Sequence {
        self.steps.stepper().committer.next_sequence
    }

    fn decide(&mut self, record: Record) {
        self.steps.stepper().committer.push_all(Vec::new(), vec![record], &Cause::Engine);
    }

    fn put(&mut self, version: Version) {
        let sequence = self.next_sequence();
        let name = (version.bucket, version.key.clone());
        let versions = self.decided.entry(name).or_default();
        versions.retain(|object| object.version.version_id != version.version_id);
        versions.push(Object { sequence, version });
    }

    fn end(&mut self, name: &(BucketId, Bytes), id: VersionId) {
        if let Some(versions) = self.decided.get_mut(name) {
            versions.retain(|object| object.version.version_id != id);
        }
    }

    fn name(&self, bucket: usize, key: usize) -> (BucketId, Bytes) {
        (self.buckets[bucket], Bytes::from_static(KEYS[key].as_bytes()))
    }

    fn pick(&self, name: &(BucketId, Bytes), pick: usize) -> Option<Object> {
        let versions = self.decided.get(name).filter(|versions| !versions.is_empty())?;
        Some(versions[versions.len() - 1 - pick.min(versions.len() - 1)].clone())
    }

    fn delete(&mut self, name: (BucketId, Bytes), version_id: VersionId) {
        self.end(&name, version_id);
        self.decide(Record::DeleteVersion { bucket: name.0, key: name.1, version_id });
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Put { bucket, key, named, marker } => {
                let (bucket_id, key) = self.name(bucket, key);
                let sequence = self.next_sequence();
                let mut version = blank(bucket_id, &key);
                if bucket == 0 {
                    version.delete_marker = marker;
                    let mut id = [0xee; 16];
                    id[..8].copy_from_slice(&sequence.to_be_bytes());
                    version.version_id = if named { VersionId::Named(id) } else { VersionId::Null };
                }
                version.size = if version.delete_marker { 0 } else { sequence };
                self.put(version.clone());
                self.decide(Record::PutVersion(version));
            }
            Op::Delete { bucket, key, pick } => {
                let name = self.name(bucket, key);
                let id = self.pick(&name, pick).map_or(VersionId::Null, |object| object.version.version_id);
                self.delete(name, id);
            }
            Op::Move { from, to, bucket, pick } => {
                let (from, to) = (self.name(bucket, from), self.name(bucket, to));
                let Some(Object { version, .. }) = self.pick(&from, pick).filter(|_| from != to) else { return };
                if version.delete_marker {
                    return;
                }
                let version = Version { key: to.1, ..version };
                self.end(&from, version.version_id);
                self.put(version.clone());
                self.decide(Record::MoveVersion { from_bucket: from.0, from_key: from.1, version });
            }
            Op::Update { bucket, key, pick } => {
                let name = self.name(bucket, key);
                let Some(Object { sequence, version }) = self.pick(&name, pick) else { return };
                let tags = vec![("t".into(), Bytes::from(self.next_sequence().to_string()))];
                let attributes = Attributes { tags, legal_hold: Some(pick == 0), ..version.attributes };
                let versions = self.decided.get_mut(&name).unwrap();
                let there = versions.iter_mut().find(|object| object.sequence == sequence).unwrap();
                there.version.attributes = attributes.clone();
                let (bucket, key) = name;
                let version_id = version.version_id;
                self.decide(Record::UpdateVersion { bucket, key, version_id, version: sequence, attributes });
            }
            Op::Clear { bucket } => {
                let id = self.buckets[bucket];
                let versions = self.decided.iter().filter(|(name, _)| name.0 == id);
                let named = |(name, versions): (&(BucketId, Bytes), &Vec<Object>)| {
                    versions.iter().map(|object| (name.clone(), object.version.version_id)).collect::<Vec<_>>()
                };
                let all: Vec<_> = versions.flat_map(named).collect();
                all.into_iter().for_each(|(name, id)| self.delete(name, id));
            }
            Op::Commit => self.commit(),
            Op::Apply => self.steps.apply(),
            Op::Reopen { rebuild } => {
                self.commit();
                if rebuild {
                    self.steps.rebuild();
                } else {
                    self.steps.reopen();
                }
            }
        }
    }

    fn commit(&mut self) {
        drop(self.steps.shared().submit_maintenance(MaintenanceIntent::Barrier { roll: false }));
        self.steps.stepper().commit();
        self.published = self.decided.clone();
    }

    fn check(&mut self) {
        let committer = &self.steps.stepper.as_ref().unwrap().committer;
        let view = committer.view();
        for bucket in self.buckets {
            let empty = !self.decided.iter().any(|(name, versions)| name.0 == bucket && !versions.is_empty());
            assert_eq!(view.bucket_is_empty(bucket).unwrap(), empty);
            for key in KEYS {
                let name = (bucket, Bytes::from_static(key.as_bytes()));
                assert_eq!(view.layer_object(bucket, &name.1).unwrap().as_deref(), current(&self.decided, &name));
                assert_eq!(
                    view.layer_newest(bucket, &name.1, Sequence::MAX).unwrap().as_deref(),
                    newest(&self.decided, &name)
                );
                for id in self.ids(&name) {
                    let expected = find(&self.decided, &name, id);
                    assert_eq!(view.layer_version(bucket, &name.1, id).unwrap().as_deref(), expected);
                }
                self.check_reads(&name);
            }
            self.check_lists(bucket);
        }
    }

    /// Ids that the key has or had in one of the models, and the null version.
    fn ids(&self, name: &(BucketId, Bytes)) -> Vec<VersionId> {
        let both = [&self.decided, &self.published].into_iter().filter_map(|model| model.get(name)).flatten();
        both.map(|object| object.version.version_id).chain([VersionId::Null, VersionId::Named([7; 16])]).collect()
    }

    fn check_reads(&self, name: &(BucketId, Bytes)) {
        let (handle, (bucket, key)) = (self.steps.handle(), name);
        let expected = current(&self.published, name);
        let object = |found: Option<orcas_catalog::PinnedObject>| found.map(|found| Arc::unwrap_or_clone(found.object));
        if let Some(found) = handle.try_object(*bucket, key) {
            assert_eq!(object(found).as_ref(), expected);
        }
        assert_eq!(object(handle.object(*bucket, key).unwrap()).as_ref(), expected);
        let marker = newest(&self.published, name).filter(|object| object.version.delete_marker);
        assert_eq!(object(handle.shared.catalog.newest_marker(*bucket, key).unwrap()).as_ref(), marker);
        for id in self.ids(name) {
            let found = handle.version(*bucket, key, id).unwrap();
            assert_eq!(object(found).as_ref(), find(&self.published, name, id));
        }
    }

    fn check_lists(&self, bucket: BucketId) {
        let of_bucket = || self.published.iter().filter(move |(name, _)| name.0 == bucket);
        let (prefix, handle) = (Bytes::new(), self.steps.handle());
        let list = ListObjects { bucket, prefix: prefix.clone(), delimiter: None, after: None, max_keys: 1_000 };
        let page = handle.list_objects(&list).unwrap();
        let listed: Vec<_> = page.entries.iter().map(|entry| (entry.key.clone(), entry.listed.size)).collect();
        let expected =
            of_bucket().filter_map(|(name, _)| Some((name.1.clone(), current(&self.published, name)?.version.size)));
        assert_eq!(listed, expected.collect::<Vec<_>>());
        for (delimiter, max_keys) in [(None, 1), (None, 3), (Some(Bytes::from_static(b"/")), 2)] {
            let mut rolled = false;
            let mut expected = Vec::new();
            for (name, versions) in of_bucket().filter(|(_, versions)| !versions.is_empty()) {
                if delimiter.is_some() && name.1.starts_with(b"a/") {
                    expected.extend((!rolled).then(|| Entry { key: "a/".into(), ..Entry::default() }));
                    rolled = true;
                    continue;
                }
                let entries = versions.iter().rev().enumerate().map(|(at, object)| Entry {
                    key: name.1.clone(),
                    version: Some((object.version.version_id, object.version.size)),
                    is_latest: at == 0,
                    delete_marker: object.version.delete_marker,
                });
                expected.extend(entries);
            }
            let prefix = prefix.clone();
            let mut list = ListVersions { bucket, prefix, delimiter, after: None, max_keys };
            let mut entries = Entries::default();
            loop {
                let before = entries.0.len();
                let next = handle.list_versions_to(&list, &mut entries).unwrap();
                assert!(entries.0.len() - before <= max_keys);
                let Some(next) = next else { break };
                assert_eq!(entries.0.len() - before, max_keys);
                list.after = Some(next);
            }
            assert_eq!(entries.0, expected, "{list:?}");
        }
    }
}

fn find<'m>(model: &'m Model, name: &(BucketId, Bytes), id: VersionId) -> Option<&'m Object> {
    model.get(name)?.iter().find(|object| object.version.version_id == id)
}

/// A version with its size, or a common prefix.
#[derive(Debug, Default, PartialEq)]
struct Entry {
    key: Bytes,
    version: Option<(VersionId, u64)>,
    is_latest: bool,
    delete_marker: bool,
}

#[derive(Default)]
struct Entries(Vec<Entry>);

impl VersionSink for Entries {
    fn version(&mut self, version: &ListedVersion<'_>) {
        let ListedVersion { key, id, is_latest, delete_marker, listed } = *version;
        let (key, version) = (Bytes::copy_from_slice(key), Some((id, listed.size)));
        self.0.push(Entry { key, version, is_latest, delete_marker });
    }

    fn prefix(&mut self, prefix: &[u8]) {
        self.0.push(Entry { key: Bytes::copy_from_slice(prefix), ..Entry::default() });
    }

    fn restart(&mut self) {
        unreachable!("nobody applies records meanwhile");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn versions_follow_a_plain_map(ops in prop::collection::vec(op(), 0..60)) {
        let mut world = World::new();
        for op in &ops {
            world.step(op);
            world.check();
        }
    }
}
