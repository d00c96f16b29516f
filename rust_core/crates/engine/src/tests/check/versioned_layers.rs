//! Repairs and salvages of stores whose buckets have layers and versioning: a version that was deleted stays so while
//! anything says it, and of one that is lost no other state is shown.

use std::sync::Arc;

use bytes::Bytes;

use super::super::super::{Effort, Handle};
use super::super::support::noise;
use super::fixture::check;
use super::layers::{Layered, shown};
use orcas_catalog::{ListVersions, ListedVersion, VersionSink};
use orcas_decide::{AttributeChange, BucketChange, Failure, Intent, Outcome, Precondition, UpdateVersion, layer_name};
use orcas_index::Applied;
use orcas_log::LogPosition;
use orcas_record::{self as record, Bucket, BucketId, LayerKind, Record, VersionId, Versioning};

#[derive(Default)]
struct Names(Vec<(String, VersionId, bool)>);

impl VersionSink for Names {
    fn version(&mut self, version: &ListedVersion<'_>) {
        self.0.push((String::from_utf8_lossy(version.key).into_owned(), version.id, version.delete_marker));
    }

    fn prefix(&mut self, _: &[u8]) {}

    fn restart(&mut self) {
        self.0.clear();
    }
}

/// Everything that a bucket shows: keys, ids, whether it is a delete marker, tags, and whether there is a legal hold.
type Shown = Vec<(String, VersionId, bool, Option<Bytes>, bool)>;

fn versions(handle: &Handle, name: &str) -> Shown {
    let bucket = handle.bucket(name.as_bytes()).unwrap();
    let list = ListVersions { bucket: bucket.id, prefix: Bytes::new(), delimiter: None, after: None, max_keys: 1_000 };
    let mut names = Names::default();
    handle.list_versions_in(&bucket, &list, &mut names).unwrap();
    let with_attributes = |(key, id, marker): (String, VersionId, bool)| {
        let found = handle.version_in(&bucket, &Bytes::copy_from_slice(key.as_bytes()), id).unwrap().unwrap();
        let attributes = &found.object.version.attributes;
        let tag = attributes.tags.first().map(|(_, value)| value.clone());
        (key, id, marker, tag, attributes.legal_hold == Some(true))
    };
    names.0.into_iter().map(with_attributes).collect()
}

impl Layered {
    fn versioned(&self, name: &'static str, object_lock: bool) -> Arc<Bucket> {
        let create = Intent::CreateBucket {
            name: name.into(),
            owner: "root".into(),
            location: Bytes::new(),
            settings: Default::default(),
            object_lock,
            documents: Vec::new(),
        };
        self.run(create);
        self.set_versioning(name, Versioning::Enabled);
        self.bucket(name)
    }

    fn set_versioning(&self, name: &str, versioning: Versioning) {
        let bucket = self.bucket(name).id;
        self.run(Intent::UpdateBucket { bucket, change: BucketChange::Versioning(versioning) });
    }

    fn put_version(&self, bucket: &str, key: &str, bytes: &[u8]) -> VersionId {
        let bucket = self.bucket(bucket);
        let put = self.store.small_put(&bucket, key, bytes);
        match self.store.handle().execute(Intent::PutObject(Box::new(put))).unwrap() {
            Outcome::Put(put) => put.version_id.unwrap_or(VersionId::Null),
            other => panic!("{other:?}"),
        }
    }

    fn delete_version(&self, bucket: &str, key: &'static str, id: VersionId) {
        let (bucket, version, precondition) = (self.bucket(bucket).id, Some(id), Precondition::default());
        self.run(Intent::DeleteObject { bucket, key: key.into(), version, precondition, bypass: false });
    }

    fn update(&self, bucket: &str, key: &'static str, id: VersionId, change: AttributeChange) {
        let update = UpdateVersion { bucket: self.bucket(bucket).id, key: key.into(), version: Some(id), change };
        self.run(Intent::UpdateVersion(Box::new(update)));
    }

    fn tag(&self, bucket: &str, key: &'static str, id: VersionId, tag: &'static str) {
        self.update(bucket, key, id, AttributeChange::Tags(vec![("tag".into(), tag.into())]));
    }

    fn versions(&self, bucket: &str) -> Shown {
        versions(&self.store.handle(), bucket)
    }

    /// Damages the record that created a layer, in the closed store.
    fn damage_layer(&self, bucket: &str, layer: BucketId) {
        self.flip(&layer_name(bucket.as_bytes(), layer), 0);
    }

    /// Whether the bucket has layers for what is written, which nothing else has.
    fn assert_has_top(&self, name: &str) {
        let (handle, bucket) = (self.store.handle(), self.bucket(name));
        let kinds: Vec<LayerKind> = bucket
            .written()
            .iter()
            .map(|layer| handle.shared.catalog.buckets.load().by_id(*layer).unwrap().layer_kind())
            .collect();
        assert_eq!(kinds, [LayerKind::History, LayerKind::Amendments]);
        let snapshots = handle.snapshots(name.as_bytes());
        assert!(snapshots.iter().all(|snapshot| bucket.written().iter().all(|top| !snapshot.layers.contains(top))));
    }
}

/// A bucket with a snapshot, in which the top layers have a new version, and say that one below is gone and another one
/// has other tags.
fn amended() -> (Layered, Shown) {
    let layered = Layered::new();
    let bucket = layered.versioned("bbb", false);
    let [gone, kept] = [1, 2].map(|seed| layered.put_version("bbb", "x", &noise(300, seed)));
    layered.put_version("bbb", "y", &noise(300, 3));
    layered.snapshot(&bucket, "s");
    layered.delete_version("bbb", "x", gone);
    layered.tag("bbb", "x", kept, "new");
    layered.put_version("bbb", "y", &noise(300, 4));
    let before = layered.versions("bbb");
    assert_eq!(before.len(), 3);
    (layered, before)
}

impl Layered {
    /// Salvages and repairs the closed store without its index: both show the bucket as it was.
    fn assert_comes_back(&mut self, before: &Shown) {
        self.remove_index();
        let (engine, report) = self.salvage();
        assert_eq!(report.made_up, Vec::<String>::new());
        assert_eq!(versions(&engine.handle(), "bbb"), *before);
        drop(engine);
        let given_up = self.repair();
        assert_eq!((given_up.losses_total, given_up.buckets), (0, Vec::new()));
        assert_eq!(self.versions("bbb"), *before);
        assert_eq!(self.store.handle().buckets().len(), 1, "a layer is no bucket of clients");
        self.assert_has_top("bbb");
        self.assert_keeps_what_is_written("bbb");
    }
}

#[test]
fn layers_without_the_records_that_created_them_come_back() {
    for lost in [&[0][..], &[1], &[0, 1]] {
        let (mut layered, before) = amended();
        let layers = layered.bucket("bbb").layers.clone();
        layered.store.close();
        lost.iter().for_each(|at| layered.damage_layer("bbb", layers[*at]));
        layered.assert_comes_back(&before);
    }
}

/// The record that names them is lost, and perhaps one that created one of them.
#[test]
fn layers_that_nothing_names_come_back_in_their_order() {
    for lost in [&[][..], &[0], &[1]] {
        let (mut layered, before) = amended();
        let bucket = layered.bucket("bbb");
        layered.store.close();
        layered.flip(&layered.last_record(&bucket), 0);
        lost.iter().for_each(|at| layered.damage_layer("bbb", bucket.layers[*at]));
        layered.assert_comes_back(&before);
    }
}

/// An empty layer whose record is lost leaves nothing: the other one is not written to by itself.
#[test]
fn a_single_layer_of_two_goes_below_new_ones() {
    for of_amendments in [false, true] {
        let mut layered = Layered::new();
        let bucket = layered.versioned("bbb", false);
        let first = layered.put_version("bbb", "x", &noise(300, 1));
        layered.put_version("bbb", "x", &noise(300, 2));
        layered.snapshot(&bucket, "s");
        let bucket = layered.bucket("bbb");
        if of_amendments {
            layered.delete_version("bbb", "x", first);
        } else {
            layered.put_version("bbb", "x", &noise(300, 3));
        }
        let before = layered.versions("bbb");
        layered.store.close();
        layered.flip(&layered.last_record(&bucket), 0);
        layered.damage_layer("bbb", bucket.layers[usize::from(!of_amendments)]);
        layered.assert_comes_back(&before);
    }
}

/// The record is lost that gave a bucket with layers its first versioning.
#[test]
fn a_bucket_whose_layers_have_histories_has_versioning() {
    let mut layered = Layered::new();
    let bucket = layered.store.bucket("bbb");
    layered.put_version("bbb", "x", &noise(300, 1));
    layered.snapshot(&bucket, "s");
    layered.put_version("bbb", "y", &noise(300, 2));
    layered.set_versioning("bbb", Versioning::Enabled);
    layered.put_version("bbb", "x", &noise(300, 3));
    layered.delete_version("bbb", "y", VersionId::Null);
    let before = layered.versions("bbb");
    assert_eq!(before.len(), 2);
    layered.store.close();
    layered.flip(&layered.last_record(&bucket), 0);
    layered.assert_comes_back(&before);
    assert_eq!(layered.bucket("bbb").versioning, Versioning::Enabled);
}

#[test]
fn of_a_version_that_is_lost_the_older_ones_are_left() {
    for in_snapshot in [false, true] {
        let mut layered = Layered::new();
        let bucket = layered.versioned("bbb", false);
        let first = layered.put_version("bbb", "x", b"the first one");
        layered.snapshot(&bucket, "s");
        let content = noise(3_000, 2);
        let second = layered.put_version("bbb", "x", &content);
        if in_snapshot {
            layered.snapshot(&bucket, "t");
            layered.tag("bbb", "x", second, "new");
        }
        layered.damage(&content[1_000..1_100], 0, true);
        let given_up = layered.repair();
        let lost: Vec<_> = given_up.losses.iter().map(|loss| (&loss.bucket[..], &loss.key[..])).collect();
        assert!(lost.iter().all(|lost| *lost == ("bbb", &b"x"[..])), "{lost:?}");
        assert_eq!(lost.len(), 1 + usize::from(in_snapshot));
        let ids: Vec<_> = layered.versions("bbb").into_iter().map(|(_, id, ..)| id).collect();
        assert_eq!(ids, [first]);
        assert_eq!(layered.get("bbb", "x").as_deref(), Some(&b"the first one"[..]));
        let second = layered.store.handle().version_in(&layered.bucket("bbb"), &"x".into(), second).unwrap();
        assert!(second.is_none());
        layered.assert_keeps_what_is_written("bbb");
    }
}

/// The null version below is an older state of the one that is lost.
#[test]
fn of_a_null_version_that_is_lost_no_older_one_is_shown() {
    for merged in [false, true] {
        let mut layered = Layered::new();
        let bucket = layered.versioned("bbb", false);
        let named = layered.put_version("bbb", "x", b"with a name");
        layered.set_versioning("bbb", Versioning::Suspended);
        layered.put_version("bbb", "x", b"the first null version");
        layered.snapshot(&bucket, "s");
        let content = noise(3_000, 2);
        layered.put_version("bbb", "x", &content);
        if merged {
            layered.snapshot(&bucket, "t");
        }
        layered.damage(&content[1_000..1_100], 0, true);
        assert_eq!(layered.repair().losses_total, 1);
        let ids: Vec<_> = layered.versions("bbb").into_iter().map(|(_, id, ..)| id).collect();
        assert_eq!(ids, [named]);
        assert_eq!(layered.get("bbb", "x").as_deref(), Some(&b"with a name"[..]));
        layered.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "s".into() });
        assert_eq!(layered.get("bbb", "x").as_deref(), Some(&b"the first null version"[..]));
        layered.assert_keeps_what_is_written("bbb");
    }
}

/// The amendment that locked a version of a snapshot is lost: whatever it may have locked gets a legal hold.
#[test]
fn a_version_that_a_lost_amendment_may_have_locked_is_held() {
    let mut layered = Layered::new();
    let bucket = layered.versioned("bbb", true);
    let id = layered.put_version("bbb", "x", b"the content");
    layered.put_version("bbb", "y", b"another one");
    layered.snapshot(&bucket, "s");
    layered.put_version("bbb", "z", b"a later one");
    layered.update("bbb", "x", id, AttributeChange::LegalHold(true));
    assert_eq!(layered.versions("bbb").iter().filter(|(.., hold)| *hold).count(), 1);
    // The second record with the content is the amendment.
    layered.damage(b"the content", 1, false);
    let given_up = layered.repair();
    assert_eq!(given_up.held, [("bbb".to_owned(), 2)]);
    // A version in the top layer is not locked by amendments.
    let held: Vec<_> = layered.versions("bbb").into_iter().map(|(key, .., hold)| (key, hold)).collect();
    assert_eq!(held, [("x".to_owned(), true), ("y".to_owned(), true), ("z".to_owned(), false)]);
    let (bucket, precondition) = (layered.bucket("bbb").id, Precondition::default());
    let delete = Intent::DeleteObject { bucket, key: "x".into(), version: Some(id), precondition, bypass: true };
    assert!(matches!(layered.store.handle().execute(delete), Err(Failure::Refused(_))));
    layered.assert_keeps_what_is_written("bbb");
}

/// The record that made a version of a snapshot disappear is lost.
#[test]
fn a_version_that_a_lost_amendment_had_deleted_is_named() {
    let mut layered = Layered::new();
    let bucket = layered.versioned("bbb", false);
    let id = layered.put_version("bbb", "some-key", b"the content");
    layered.snapshot(&bucket, "s");
    layered.delete_version("bbb", "some-key", id);
    assert_eq!(layered.versions("bbb"), []);
    layered.store.bucket("other");
    layered.store.close();
    // The first record with the key is that of the version itself. What a record names is at its beginning.
    layered.flip_behind(b"some-key", 1, 10);
    layered.remove_index();
    let (engine, report) = layered.salvage();
    assert_eq!(versions(&engine.handle(), "bbb").len(), 1, "{report:#?}");
    assert_eq!(report.named, [("bbb".to_owned(), Bytes::from("some-key"))]);
    drop(engine);
    assert_eq!(layered.repair().records.len(), 1);
    assert_eq!(layered.versions("bbb").len(), 1);
}

/// The record of a fork is lost, and nothing else names its layers.
#[test]
fn what_was_written_to_a_fork_that_is_lost_keeps_its_versions() {
    let mut layered = Layered::new();
    let bucket = layered.versioned("bbb", false);
    let id = layered.put_version("bbb", "x", b"old");
    layered.run(Intent::ForkBucket { bucket: bucket.id, snapshot: None, name: "fork".into() });
    let fork = layered.bucket("fork");
    for content in [b"one", b"two"] {
        layered.put_version("fork", "y", content);
    }
    layered.delete_version("fork", "x", id);
    let before = layered.versions("bbb");
    layered.damage_last_record(&fork);
    let name = format!("lost-bucket-{}", fork.top().0);
    let expected = |handle: &Handle| {
        let names: Vec<_> = handle.buckets().iter().map(|bucket| bucket.name.clone()).collect();
        assert_eq!(names, ["bbb", &name[..]]);
        assert_eq!(versions(handle, &name).len(), 2);
        assert_eq!(shown(handle, &name, "y").as_deref(), Some(&b"two"[..]));
        assert_eq!(versions(handle, "bbb"), before);
    };
    layered.assert_makes_up(&name, expected);
    layered.assert_has_top(&name);
    layered.assert_keeps_what_is_written(&name);
}

/// Both records are lost that froze the layer of a bucket, and the snapshot has it.
#[test]
fn a_bucket_does_not_write_to_a_layer_of_its_snapshot() {
    let mut layered = Layered::new();
    let bucket = layered.versioned("bbb", false);
    layered.put_version("bbb", "x", b"old");
    layered.snapshot(&bucket, "s");
    let bucket = layered.bucket("bbb");
    layered.store.close();
    layered.flip(&layered.last_record(&bucket), 0);
    bucket.written().iter().for_each(|layer| layered.damage_layer("bbb", *layer));
    layered.remove_index();
    assert_eq!(layered.repair().losses_total, 0);
    layered.assert_has_top("bbb");
    layered.assert_keeps_what_is_written("bbb");
    layered.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "s".into() });
    assert_eq!(layered.versions("bbb").len(), 1);
}

#[test]
fn a_check_names_a_bucket_whose_top_layers_are_of_the_wrong_kind() {
    let (mut layered, _) = amended();
    let bucket = layered.bucket("bbb");
    layered.store.close();
    let lower = Bucket { layers: bucket.layers[1..].to_vec(), ..Bucket::clone(&bucket) };
    let index = layered.store.index().unwrap();
    let position = index.position().unwrap().unwrap();
    let (mut payload, record) = (Vec::new(), Record::UpdateBucket(lower));
    let kind = record::encode(&record, &mut payload);
    let sequence = LogPosition::decode(&position).unwrap().sequence;
    let payload = Bytes::from(payload);
    let applied = Applied { sequence, kind, record: &record, payload: &payload, location: None };
    index.writer().unwrap().apply(&[applied], &position).unwrap();
    drop(index);
    // The index is not compared with a damaged log, but counted by itself.
    layered.flip(&noise(300, 3)[..100], 0);
    let report = check(layered.store.path());
    let found = report.findings.iter().find(|finding| finding.detail.contains("no layers for histories"));
    assert!(
        found.is_some_and(|found| found.place.ends_with(&format!("row {}", bucket.id.0))),
        "{:#?}",
        report.findings
    );
}

/// Layers below were merged, and the records are lost that created those which take what is written.
#[test]
fn a_layer_that_was_merged_is_not_missed() {
    let (mut layered, _) = amended();
    let bucket = layered.bucket("bbb");
    layered.snapshot(&bucket, "t");
    layered.put_version("bbb", "z", b"late");
    layered.run(Intent::DeleteSnapshot { bucket: bucket.id, name: "s".into() });
    layered.store.handle().reclaim(Effort::Collect).unwrap();
    let before = layered.versions("bbb");
    let bucket = layered.bucket("bbb");
    layered.store.close();
    bucket.written().iter().for_each(|layer| layered.damage_layer("bbb", *layer));
    layered.assert_comes_back(&before);
}
