//! Snapshots, forks and restores: which layers they name, what is written where, and what is refused.

use super::*;
use orcas_record::{Attributes, BucketRole};

fn snapshot(name: &'static str) -> Intent {
    Intent::CreateSnapshot { bucket: BUCKET, name: name.into() }
}

fn delete(bucket: BucketId, key: &'static str) -> Intent {
    let (key, precondition) = (key.into(), Precondition::default());
    Intent::DeleteObject { bucket, key, version: None, precondition, bypass: false }
}

fn created(answer: Result<Outcome, Failure>) -> Arc<Bucket> {
    match answer {
        Ok(Outcome::Bucket(bucket)) => bucket,
        other => panic!("expected a bucket, got {other:?}"),
    }
}

fn fork(state: &mut TestView, snapshot: Option<&'static str>, name: &'static str) -> Arc<Bucket> {
    created(state.run(Intent::ForkBucket { bucket: BUCKET, snapshot: snapshot.map(Bytes::from), name: name.into() }))
}

impl TestView {
    /// The size of an object, as the bucket with this id shows it.
    fn shown(&self, bucket: BucketId, key: &'static str) -> Option<u64> {
        let bucket = self.buckets.get(&bucket).expect("a bucket");
        let found = crate::buckets::layers::object(self, bucket, key.as_bytes()).expect("a map");
        found.map(|object| object.version.size)
    }
}

fn put_into(bucket: BucketId, key: &'static str, size: u64) -> Intent {
    match put(key, size) {
        Intent::PutObject(put) => Intent::PutObject(Box::new(PutObject { bucket, ..*put })),
        _ => unreachable!("a put"),
    }
}

#[test]
fn a_fork_and_its_bucket_go_separate_ways() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 1)).unwrap();
    state.run(put("b", 2)).unwrap();
    let fork = fork(&mut state, None, "fork").id;
    state.run(put("a", 3)).unwrap();
    state.run(delete(fork, "b")).unwrap();
    state.run(put_into(fork, "c", 4)).unwrap();
    let shown = |bucket| ["a", "b", "c"].map(|key| state.shown(bucket, key));
    assert_eq!(shown(BUCKET), [Some(3), Some(2), None]);
    assert_eq!(shown(fork), [Some(1), None, Some(4)]);
}

#[test]
fn a_restore_brings_a_snapshot_back_and_drops_what_only_the_bucket_had() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 1)).unwrap();
    state.run(snapshot("monday")).unwrap();
    state.run(put("a", 2)).unwrap();
    state.run(snapshot("tuesday")).unwrap();
    state.run(delete(BUCKET, "a")).unwrap();
    let given_up = state.buckets[&BUCKET].top();
    let restore = |snapshot: &'static str| Intent::RestoreBucket { bucket: BUCKET, snapshot: snapshot.into() };
    state.run(restore("monday")).unwrap();
    assert_eq!(state.shown(BUCKET, "a"), Some(1));
    assert_eq!(state.buckets[&given_up].role, BucketRole::Dropped);
    state.run(restore("tuesday")).unwrap();
    assert_eq!(state.shown(BUCKET, "a"), Some(2));
    // The layer of tuesday goes with the last that names it, but that of monday is also the bucket's.
    state.run(restore("monday")).unwrap();
    let dropped = |state: &TestView| state.buckets.values().filter(|layer| layer.role == BucketRole::Dropped).count();
    let before = dropped(&state);
    state.run(Intent::DeleteSnapshot { bucket: BUCKET, name: "tuesday".into() }).unwrap();
    assert_eq!(dropped(&state), before + 1);
    state.run(Intent::DeleteSnapshot { bucket: BUCKET, name: "monday".into() }).unwrap();
    assert_eq!(dropped(&state), before + 1);
    assert_eq!(state.shown(BUCKET, "a"), Some(1));
    assert_eq!(refused(state.run(restore("monday"))), Refusal::NoSuchSnapshot);
}

#[test]
fn a_deletion_leaves_a_marker_only_above_an_object() {
    let mut state = TestView::with_bucket();
    state.run(put("below", 1)).unwrap();
    state.run(snapshot("s")).unwrap();
    state.run(put("above", 1)).unwrap();
    state.run(put("below", 2)).unwrap();
    let top = state.buckets[&BUCKET].top();
    let entry = |key: &'static str| DeleteEntry {
        key: key.into(),
        version: Some(VersionId::Null),
        precondition: Precondition::default(),
        bypass: false,
    };
    let entries = vec![entry("above"), entry("below"), entry("below"), entry("absent")];
    state.run(Intent::DeleteObjects { bucket: BUCKET, entries }).unwrap();
    assert_eq!(state.versions(top, b"above").count(), 0);
    let markers: Vec<_> = state.versions(top, b"below").map(|object| object.version.delete_marker).collect();
    assert_eq!(markers, [true]);
    assert_eq!((state.shown(BUCKET, "above"), state.shown(BUCKET, "below")), (None, None));
    // What is deleted is not deleted again.
    let sequence = state.sequence;
    state.run(delete(BUCKET, "below")).unwrap();
    assert_eq!(state.sequence, sequence);
    // The bucket is empty, but not its snapshot.
    let refusal = refused(state.run(Intent::DeleteBucket { bucket: BUCKET }));
    assert!(matches!(refusal, Refusal::InvalidBucketState { .. }));
    state.run(Intent::DeleteSnapshot { bucket: BUCKET, name: "s".into() }).unwrap();
    state.run(Intent::DeleteBucket { bucket: BUCKET }).unwrap();
    assert_eq!(refused(state.run(put("k", 1))), Refusal::NoSuchBucket);
    let roles: Vec<_> = state.buckets.values().map(|bucket| bucket.role).collect();
    assert!(roles.iter().all(|role| *role == BucketRole::Dropped), "{roles:?}");
    state.run(create_bucket("photos")).unwrap();
}

#[test]
fn frozen_objects_are_changed_in_the_top_layer() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 1)).unwrap();
    state.run(put("b", 2)).unwrap();
    state.run(snapshot("s")).unwrap();
    let frozen = state.versions(BUCKET, b"a").next().unwrap().clone();
    let tags = vec![(Bytes::from("k"), Bytes::from("v"))];
    let change = AttributeChange::Tags(tags.clone());
    let update = UpdateVersion { bucket: BUCKET, key: "a".into(), version: None, change };
    state.run(Intent::UpdateVersion(Box::new(update))).unwrap();
    let moved = Move {
        from_bucket: BUCKET,
        from_key: "b".into(),
        from_conditions: SourceConditions::default(),
        bucket: BUCKET,
        key: "c".into(),
        precondition: Precondition::default(),
    };
    state.run(Intent::MoveObject(Box::new(moved))).unwrap();
    let bucket = &state.buckets[&BUCKET];
    let changed = crate::buckets::layers::object(&state, bucket, b"a").unwrap().unwrap();
    let expected = Version {
        bucket: bucket.top(),
        attributes: Attributes { tags, ..Default::default() },
        ..frozen.version.clone()
    };
    assert_eq!(changed.version, expected);
    assert_eq!(["a", "b", "c"].map(|key| state.shown(BUCKET, key)), [Some(1), None, Some(2)]);
    assert_eq!(state.versions(BUCKET, b"a").next().unwrap(), &frozen);
    let restored = Intent::RestoreBucket { bucket: BUCKET, snapshot: "s".into() };
    state.run(restored).unwrap();
    assert_eq!(["a", "b", "c"].map(|key| state.shown(BUCKET, key)), [Some(1), Some(2), None]);
}

#[test]
fn unchanged_buckets_need_no_new_layers() {
    let mut state = TestView::with_bucket();
    for name in ["1", "2", "3"] {
        state.run(snapshot(name)).unwrap();
    }
    assert_eq!(state.buckets[&BUCKET].layers.len(), 2);
    let mut state = TestView::with_bucket();
    for n in 0..LAYERS_MAX as u64 - 1 {
        state.run(put("k", n)).unwrap();
        let name = n.to_string().into();
        state.run(Intent::CreateSnapshot { bucket: BUCKET, name }).unwrap();
    }
    state.run(put("k", 1_000)).unwrap();
    assert!(matches!(refused(state.run(snapshot("more"))), Refusal::InvalidBucketState { .. }));
    assert_eq!(fork(&mut state, Some("7"), "fork").layers.len(), 9);
    assert_eq!(state.shown(BUCKET, "k"), Some(1_000));
}

#[test]
fn forks_get_documents_and_names_are_checked() {
    let mut state = TestView::with_bucket();
    let document = Intent::PutDocument { bucket: BUCKET, kind: DocumentKind::Cors, document: "<C/>".into() };
    state.run(document).unwrap();
    let copy = fork(&mut state, None, "copy").id;
    assert_eq!(state.document(copy, DocumentKind::Cors).as_deref(), Some(&b"<C/>"[..]));
    state.run(snapshot("s")).unwrap();
    assert_eq!(refused(state.run(snapshot("s"))), Refusal::SnapshotAlreadyExists);
    for name in ["", "a@b", "a/b"] {
        assert!(matches!(refused(state.run(snapshot(name))), Refusal::InvalidRequest { .. }), "{name}");
    }
    let taken = Intent::ForkBucket { bucket: BUCKET, snapshot: None, name: "copy".into() };
    assert_eq!(refused(state.run(taken)), Refusal::BucketAlreadyOwnedByYou);
    let lacking = Intent::ForkBucket { bucket: BUCKET, snapshot: Some("t".into()), name: "other".into() };
    assert_eq!(refused(state.run(lacking)), Refusal::NoSuchSnapshot);
}

/// Its id is that of a layer then, from which only what was found by its content may be copied.
#[test]
fn a_deleted_bucket_is_no_source_although_a_fork_shows_its_objects() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 1)).unwrap();
    let fork = fork(&mut state, None, "fork").id;
    state.run(delete(BUCKET, "a")).unwrap();
    state.run(Intent::DeleteBucket { bucket: BUCKET }).unwrap();
    let copy = |kind| {
        Intent::CopyObject(Box::new(Copy {
            source: (BUCKET, "a".into(), None),
            source_conditions: SourceConditions { kind, ..SourceConditions::default() },
            bucket: fork,
            key: "b".into(),
            modified_ms: None,
            precondition: Precondition::default(),
            headers: CopyHeaders::default(),
            attributes: CopyAttributes::default(),
            checksum: None,
        }))
    };
    assert_eq!(refused(state.run(copy(SourceKind::Copy))), Refusal::NoSuchBucket);
    state.run(copy(SourceKind::Found)).unwrap();
    assert_eq!(state.shown(fork, "b"), Some(1));
}
