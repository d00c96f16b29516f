//! Keys whose newest versions were deleted above a snapshot: what a deletion, a lookup and a decision cost does not grow
//! with how many there are. Work is counted, not time.

use std::sync::Arc;

use super::super::layers::history_merges::{listed, put_many, versioned};
use super::super::layers::merges::{forget, merge_all, snapshot};
use super::super::steps::Steps;
use orcas_base::error::Error;
use orcas_catalog::{ADDED, PASSED_MAX};
use orcas_decide::{DeleteEntry, Failure, Intent, Precondition};
use orcas_fs_testing::SimDisk;
use orcas_record::{Bucket, VersionId};

/// What `DeleteObjects` may name.
const ENTRIES_MAX: usize = 1_000;

/// A bucket with a key of `count` versions of 1, 2, 3 … bytes, all of them below a snapshot, and their ids, newest first.
fn below_a_snapshot(steps: &mut Steps, count: usize) -> (Arc<Bucket>, Vec<VersionId>) {
    let bucket = versioned(steps);
    put_many(steps, &bucket, "k", 1..count + 1);
    steps.run(snapshot(&bucket, "first")).unwrap();
    let ids = listed(steps, &bucket).into_iter().map(|(id, _)| id).collect();
    (bucket, ids)
}

fn delete(steps: &mut Steps, bucket: &Bucket, ids: &[VersionId]) {
    for ids in ids.chunks(ENTRIES_MAX) {
        let precondition = Precondition::default();
        let entry = |id: &VersionId| DeleteEntry {
            key: "k".into(),
            version: Some(*id),
            precondition: precondition.clone(),
            bypass: false,
        };
        let entries = ids.iter().map(entry).collect();
        steps.run(Intent::DeleteObjects { bucket: bucket.id, entries }).unwrap();
    }
}

/// The size of the current version; 0 if there is none.
fn size(steps: &Steps, bucket: &Bucket) -> u64 {
    let bucket = steps.handle().bucket(&bucket.name).unwrap();
    let found = steps.handle().object_in(&bucket, &"k".into()).unwrap();
    found.map_or(0, |found| found.object.version.size)
}

fn looked_at(steps: &Steps) -> u64 {
    steps.shared().catalog.hidden.looked_at()
}

fn added() -> u64 {
    ADDED.with(std::cell::Cell::get)
}

#[test]
fn a_lookup_looks_once_at_what_was_deleted() {
    const COUNT: usize = 2 * PASSED_MAX + 100;
    for applied in [false, true] {
        let mut steps = Steps::on(&SimDisk::new(), |_| {});
        let (bucket, ids) = below_a_snapshot(&mut steps, COUNT);
        let copied = added();
        delete(&mut steps, &bucket, &ids[..COUNT - 10]);
        // A few lookups for each, which look at changes of its own id.
        assert!(added() - copied <= 8 * COUNT as u64, "{} changes copied", added() - copied);
        if applied {
            steps.apply();
        }
        let (before, copied) = (looked_at(&steps), added());
        assert_eq!(size(&steps, &bucket), 10);
        let first = looked_at(&steps) - before;
        assert!((COUNT as u64 - 20..COUNT as u64 + 20).contains(&first), "{first} versions");
        assert!(added() - copied <= 8 * COUNT as u64, "{} changes copied", added() - copied);

        let before = looked_at(&steps);
        assert_eq!(size(&steps, &bucket), 10);
        delete(&mut steps, &bucket, &ids[COUNT - 10..COUNT - 5]);
        assert_eq!(size(&steps, &bucket), 5);
        assert_eq!(listed(&steps, &bucket).len(), 5);
        assert!(looked_at(&steps) - before <= 20, "{} versions", looked_at(&steps) - before);
        delete(&mut steps, &bucket, &ids[COUNT - 5..]);
        assert_eq!(size(&steps, &bucket), 0);

        // What was remembered does not outlive a merge.
        steps.put(&bucket, "k", &[1; 7]);
        assert_eq!(size(&steps, &bucket), 7);
        steps.run(snapshot(&bucket, "second")).unwrap();
        steps.run(forget(&bucket, "first")).unwrap();
        steps.apply();
        merge_all(steps.stepper());
        assert_eq!(size(&steps, &bucket), 7);
        steps.rebuild();
        assert_eq!(size(&steps, &bucket), 7);
    }
}

/// The order in which versions are deleted makes no difference, nor do several snapshots between the deletions.
#[test]
fn a_run_may_be_made_of_several_layers_of_amendments() {
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let (bucket, ids) = below_a_snapshot(&mut steps, 60);
    let every = |rest: usize| ids[..50].iter().copied().skip(rest).step_by(3).collect::<Vec<_>>();
    for (rest, name) in [(1, "second"), (2, "third")] {
        delete(&mut steps, &bucket, &every(rest));
        steps.run(snapshot(&bucket, name)).unwrap();
        assert_eq!(size(&steps, &bucket), 60);
    }
    delete(&mut steps, &bucket, &every(0));
    for _ in 0..2 {
        assert_eq!(size(&steps, &bucket), 10);
    }
    steps.apply();
    let before = looked_at(&steps);
    assert_eq!(size(&steps, &bucket), 10);
    assert!(looked_at(&steps) - before <= 2);
}

/// Other writes wait for a decision: it passes over a bounded number, and the next one goes on from there.
#[test]
fn a_conditional_write_passes_over_a_bounded_number() {
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let (bucket, ids) = below_a_snapshot(&mut steps, 3 * PASSED_MAX);
    delete(&mut steps, &bucket, &ids);
    let mut attempts = 0;
    loop {
        let Intent::PutObject(mut put) = steps.intent(&bucket, "k", b"new") else { unreachable!() };
        put.precondition.if_none_match_any = true;
        let before = looked_at(&steps);
        let answer = steps.run(Intent::PutObject(put));
        assert!(looked_at(&steps) - before <= PASSED_MAX as u64 + 1);
        attempts += 1;
        match answer {
            Ok(_) => break,
            Err(Failure::Engine(Error::ManyDeleted)) => assert!(attempts < 5),
            Err(failure) => panic!("{failure:?}"),
        }
    }
    assert!(attempts > 1);
    assert_eq!(size(&steps, &bucket), 3);
}

/// A bucket may be deleted while the index still has the versions that were deleted: each is compared with its own change.
#[test]
fn the_deletion_of_a_bucket_copies_no_changes() {
    const COUNT: usize = 1_000;
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let bucket = versioned(&mut steps);
    put_many(&mut steps, &bucket, "k", 1..COUNT + 1);
    let ids: Vec<VersionId> = listed(&steps, &bucket).into_iter().map(|(id, _)| id).collect();
    delete(&mut steps, &bucket, &ids);
    let copied = added();
    steps.run(Intent::DeleteBucket { bucket: bucket.id }).unwrap();
    assert!(added() - copied <= 2 * COUNT as u64, "{} changes copied", added() - copied);
}
