//! Merges of layers of buckets with versioning, case by case: the order of long histories, amendments that were sealed,
//! and which kinds of layers go into which. `merged_histories` has whatever else there may be.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::super::super::Step;
use super::super::layers::merged_histories::Entries;
use super::super::layers::merges::{LIMITS, forget, merge_all, run_all, snapshot};
use super::super::steps::Steps;
use orcas_catalog::LayerMerge;
use orcas_catalog::{BucketTable, ListVersions};
use orcas_decide::{BucketChange, Intent};
use orcas_fs_testing::SimDisk;
use orcas_record::{
    Attributes, Bucket, BucketId, BucketRole, BucketSettings, Cause, Encryption, Record, Version, VersionId, Versioning,
};

pub(super) fn versioned(steps: &mut Steps) -> Arc<Bucket> {
    let bucket = steps.bucket("b");
    let change = BucketChange::Versioning(Versioning::Enabled);
    steps.run(Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
    steps.handle().bucket(b"b").unwrap()
}

pub(super) fn put_many(steps: &mut Steps, bucket: &Bucket, key: &str, sizes: std::ops::Range<usize>) {
    let puts = sizes.map(|size| steps.intent(bucket, key, &vec![1; size])).collect();
    run_all(steps, puts);
    steps.apply();
}

/// Ids and sizes of the versions, newest first.
pub(super) fn listed(steps: &Steps, bucket: &Bucket) -> Vec<(VersionId, u64)> {
    let list = ListVersions {
        bucket: bucket.id,
        prefix: Bytes::new(),
        delimiter: None,
        after: None,
        max_keys: usize::MAX - 1,
    };
    let mut entries = Entries::default();
    let bucket = steps.handle().bucket(&bucket.name).unwrap();
    assert!(steps.handle().list_versions_in(&bucket, &list, &mut entries).unwrap().is_none());
    entries.0.into_iter().map(|(_, id, _, _, size)| (id, size)).collect()
}

/// The oldest goes first, so that each is the newest of the lower layer when it comes.
#[test]
fn a_long_history_keeps_its_order_while_it_is_merged() {
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let bucket = versioned(&mut steps);
    put_many(&mut steps, &bucket, "k", 1..20);
    steps.run(snapshot(&bucket, "first")).unwrap();
    put_many(&mut steps, &bucket, "k", 20..620);
    steps.delete(&bucket, "k");
    steps.run(snapshot(&bucket, "second")).unwrap();
    steps.run(forget(&bucket, "first")).unwrap();
    steps.apply();
    let before = listed(&steps, &bucket);
    let sizes: Vec<u64> = before.iter().map(|(_, size)| *size).collect();
    assert_eq!(sizes, [0].into_iter().chain((1..620).rev()).collect::<Vec<_>>());
    let mut batches = 0;
    for _ in 0..200 {
        if steps.stepper().reclaim(&LIMITS).unwrap() == Step::Idle {
            break;
        }
        steps.stepper().commit();
        batches += usize::from(steps.stepper().reclaiming() == Some("merge of layers"));
        assert_eq!(listed(&steps, &bucket), before);
        steps.apply();
        assert_eq!(listed(&steps, &bucket), before);
    }
    assert!(batches >= 4, "{batches} batches");
    let present = steps.handle().bucket(b"b").unwrap();
    assert_eq!(present.layers, [present.written(), &[bucket.id]].concat());
    steps.rebuild();
    assert_eq!(listed(&steps, &bucket), before);
}

/// The index still has a null version at its former place. It must not move before those that came between.
#[test]
fn a_version_that_was_put_again_moves_in_its_turn() {
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let bucket = versioned(&mut steps);
    steps.run(snapshot(&bucket, "first")).unwrap();
    for (size, versioning) in [(1, Versioning::Suspended), (2, Versioning::Enabled), (3, Versioning::Suspended)] {
        let change = BucketChange::Versioning(versioning);
        steps.run(Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
        let put = steps.intent(&bucket, "k", &vec![1; size]);
        steps.run(put).unwrap();
        if size == 1 {
            steps.apply();
        }
    }
    steps.run(snapshot(&bucket, "second")).unwrap();
    steps.run(forget(&bucket, "first")).unwrap();
    let before = listed(&steps, &bucket);
    assert_eq!(before.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [3, 2]);
    assert!(merge_all(steps.stepper()));
    assert_eq!(listed(&steps, &bucket), before);
}

/// Every version is removed once, in decisions of at most a thousand.
#[test]
fn a_dropped_layer_loses_all_versions_of_each_key() {
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let bucket = versioned(&mut steps);
    steps.run(snapshot(&bucket, "empty")).unwrap();
    put_many(&mut steps, &bucket, "k", 1..1_401);
    put_many(&mut steps, &bucket, "l", 1..4);
    steps.delete(&bucket, "k");
    steps.delete(&bucket, "m");
    steps.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "empty".into() }).unwrap();
    steps.apply();
    let mut removals = 0;
    for _ in 0..40 {
        if steps.stepper().reclaim(&LIMITS).unwrap() == Step::Idle {
            break;
        }
        let before = steps.stepper().committer.next_sequence;
        steps.stepper().commit();
        let records = steps.stepper().committer.next_sequence - before;
        if steps.stepper().reclaiming() == Some("removal of a layer") {
            assert!(records <= 1_000);
            removals += records;
        }
        steps.apply();
    }
    // With the records that delete both layers.
    assert_eq!(removals, 1_400 + 3 + 2 + 2);
    let buckets = Arc::clone(&steps.shared().catalog.buckets.load());
    assert!(buckets.dropped().is_none());
}

/// One version was tagged after the snapshot, and then sealed with the layer of amendments alone. Content is not compared
/// here, so nothing needs to be sealed really.
fn sealed_amendment(newer: usize) -> (Steps, Arc<Bucket>, VersionId) {
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let bucket = versioned(&mut steps);
    put_many(&mut steps, &bucket, "k", 1..newer + 3);
    steps.run(snapshot(&bucket, "first")).unwrap();
    let (id, _) = listed(&steps, &bucket)[newer];
    let present = steps.handle().bucket(b"b").unwrap();
    let found = steps.handle().version_in(&present, &"k".into(), id).unwrap().unwrap();
    let attributes = Attributes { encryption: Some(Encryption::Managed), ..Attributes::default() };
    let amended = Version { bucket: present.amendments().unwrap(), attributes, ..found.object.version.clone() };
    steps.stepper().committer.push_all(Vec::new(), vec![Record::PutVersion(amended)], &Cause::Engine);
    steps.run(snapshot(&bucket, "second")).unwrap();
    steps.run(forget(&bucket, "first")).unwrap();
    steps.apply();
    (steps, bucket, id)
}

fn encryption(steps: &Steps, id: VersionId) -> Option<Encryption> {
    let bucket = steps.handle().bucket(b"b").unwrap();
    let found = steps.handle().version_in(&bucket, &"k".into(), id).unwrap().unwrap();
    found.object.version.attributes.encryption.clone()
}

#[test]
fn an_amendment_with_other_content_takes_the_place_of_its_version() {
    let (mut steps, bucket, id) = sealed_amendment(5);
    let before = listed(&steps, &bucket);
    assert_eq!(encryption(&steps, id), Some(Encryption::Managed));
    assert!(merge_all(steps.stepper()));
    assert_eq!(listed(&steps, &bucket), before);
    assert_eq!(encryption(&steps, id), Some(Encryption::Managed));
    let present = steps.handle().bucket(b"b").unwrap();
    assert_eq!(present.lower(), [bucket.id]);
    steps.rebuild();
    assert_eq!(listed(&steps, &bucket), before);
}

/// So that no decision is as long as the history of a key.
#[test]
fn an_amendment_stays_if_too_many_versions_would_be_put_again() {
    let (mut steps, bucket, id) = sealed_amendment(150);
    let before = listed(&steps, &bucket);
    merge_all(steps.stepper());
    assert_eq!(listed(&steps, &bucket), before);
    assert_eq!(encryption(&steps, id), Some(Encryption::Managed));
    let present = steps.handle().bucket(b"b").unwrap();
    assert_eq!(present.lower().len(), 3);
    steps.stepper().refresh_reclamation(false);
    merge_all(steps.stepper());
    assert_eq!(steps.handle().bucket(b"b").unwrap().layers, present.layers);
}

/// The last digit of an id says of which kind a layer is.
fn table(stacks: &[(u64, BucketRole, &[u64])]) -> BucketTable {
    let mut table = BucketTable::default();
    let mut insert = |id: u64, role, versioning, layers: &[u64]| {
        table.insert(Arc::new(Bucket {
            id: BucketId(id),
            name: format!("{id}").into(),
            owner: Bytes::new(),
            created_ms: 0,
            location: Bytes::new(),
            versioning,
            object_lock: None,
            settings: BucketSettings::default(),
            role,
            layers: layers.iter().copied().map(BucketId).collect(),
        }));
    };
    for (id, role, layers) in stacks {
        for layer in layers.iter().filter(|layer| **layer >= 10) {
            match layer % 10 {
                AMENDED => insert(*layer, BucketRole::Amendments, Versioning::Enabled, &[]),
                SINGLE => insert(*layer, BucketRole::Layer, Versioning::Unversioned, &[]),
                _ => insert(*layer, BucketRole::Layer, Versioning::Enabled, &[]),
            }
        }
        let versioning = if layers.first().is_some_and(|top| top % 10 == SINGLE) {
            Versioning::Unversioned
        } else {
            Versioning::Enabled
        };
        insert(*id, *role, versioning, layers);
    }
    table
}

const AMENDED: u64 = 1;
const SINGLE: u64 = 2;

#[test]
fn layers_are_merged_if_their_kinds_allow_it() {
    use BucketRole::{Bucket, Snapshot};
    let merge = |upper, lower| Some(LayerMerge { upper: BucketId(upper), lower: BucketId(lower) });
    type Stacks<'s> = &'s [(u64, BucketRole, &'s [u64])];
    let cases: &[(Stacks<'_>, Option<LayerMerge>)] = &[
        // What takes writes stays.
        (&[(1, Bucket, &[30, 31, 1])], None),
        // Amendments first, then the history above them.
        (&[(1, Bucket, &[30, 31, 20, 21, 1])], merge(21, 1)),
        (&[(1, Bucket, &[30, 31, 20, 1])], merge(20, 1)),
        (&[(1, Bucket, &[30, 31, 20, 21, 1]), (2, Snapshot, &[1])], None),
        (&[(1, Bucket, &[30, 31, 20, 21, 1]), (2, Snapshot, &[20, 21, 1])], merge(21, 1)),
        (&[(1, Bucket, &[40, 41, 30, 31, 20, 21, 1]), (2, Snapshot, &[1])], merge(31, 20)),
        (&[(1, Bucket, &[40, 41, 30, 20, 21, 1]), (2, Snapshot, &[1])], merge(30, 20)),
        // What the history lacks would have no place between it and the next one.
        (&[(1, Bucket, &[40, 41, 30, 31, 20, 1]), (2, Snapshot, &[1])], None),
        // No history goes into a layer from before versioning.
        (&[(1, Bucket, &[30, 31, 20, 12, 1]), (2, Snapshot, &[1])], None),
        (&[(1, Bucket, &[30, 31, 20, 12, 1])], merge(12, 1)),
        (&[(1, Bucket, &[30, 31, 20, 21, 12, 1]), (2, Snapshot, &[1])], merge(21, 12)),
        (&[(1, Bucket, &[30, 31, 20, 12])], None),
        // Amendments that pass a history reach the layer below it, which nothing else may show.
        (&[(1, Bucket, &[40, 41, 30, 31, 20, 12, 1]), (2, Snapshot, &[1])], merge(31, 20)),
        (&[(1, Bucket, &[40, 41, 30, 31, 20, 12, 1]), (2, Snapshot, &[12, 1]), (3, Snapshot, &[1])], None),
        (
            &[(1, Bucket, &[40, 41, 30, 31, 20, 21, 12, 1]), (2, Bucket, &[22, 12, 1]), (3, Snapshot, &[1])],
            merge(31, 20),
        ),
        (&[(1, Bucket, &[30, 31, 20, 21, 12, 1]), (2, Bucket, &[22, 12, 1])], merge(12, 1)),
    ];
    for (stacks, expected) in cases {
        let table = table(stacks);
        assert_eq!(table.mergeable(&BTreeSet::new()), *expected, "{stacks:?}");
        let kept_apart: BTreeSet<_> = expected.iter().copied().collect();
        assert!(table.mergeable(&kept_apart).is_none_or(|other| Some(other) != *expected && table.can_merge(other)));
        for (upper, lower) in (1..50).flat_map(|upper| (1..50).map(move |lower| (upper, lower))) {
            let merge = LayerMerge { upper: BucketId(upper), lower: BucketId(lower) };
            assert!(*expected != Some(merge) || table.can_merge(merge));
            assert!(expected.is_some() || !table.can_merge(merge), "{stacks:?}: {merge:?}");
        }
    }
}

/// A lookup that takes longer than a part of a merge is not repeated for as long as there are parts.
#[test]
fn a_slow_lookup_ends_while_layers_are_merged() {
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let bucket = versioned(&mut steps);
    put_many(&mut steps, &bucket, "k", 1..2);
    steps.run(snapshot(&bucket, "first")).unwrap();
    for key in 0..10 {
        put_many(&mut steps, &bucket, &key.to_string(), 1..257);
    }
    steps.run(snapshot(&bucket, "second")).unwrap();
    steps.run(forget(&bucket, "first")).unwrap();
    steps.apply();
    let shared = Arc::clone(steps.shared());
    let (mut attempts, key) = (Cell::new(0), Bytes::from_static(b"k"));
    let steps = RefCell::new(steps);
    let slow = |bucket: &Bucket| {
        attempts.set(attempts.get() + 1);
        let found = shared.catalog.lookup_shown(bucket, &key);
        let mut steps = steps.borrow_mut();
        let parts = shared.catalog.overlay.read().merges();
        for _ in 0..10 {
            let _ = steps.stepper().reclaim(&LIMITS)?;
            steps.stepper().commit();
            if shared.catalog.overlay.read().merges() > parts {
                break;
            }
            steps.apply();
        }
        found
    };
    assert!(shared.catalog.find_with(bucket.id, &slow).unwrap().is_some());
    assert!((2..7).contains(attempts.get_mut()), "{attempts:?}");
    // Merges go on.
    merge_all(steps.borrow_mut().stepper());
    let present = shared.catalog.present_bucket(bucket.id).unwrap();
    assert_eq!(present.layers, [present.written(), &[bucket.id]].concat());
}
