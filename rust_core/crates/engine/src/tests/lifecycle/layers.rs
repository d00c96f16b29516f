//! Lifecycle of buckets with layers and versioning: rules remove what they would remove without layers, and nothing from
//! snapshots.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::steps::Steps;
use crate::lifecycle::Walk;
use crate::{LifecycleOptions, LifecycleReport, ReclaimLimits, Step};
use orcas_catalog::{ListObjects, ListPage, ScanStart, ScannedVersions, VersionStart};
use orcas_decide::{
    AttributeChange, BucketChange, Expire, ExpireEntry, ExpiredPlace, Intent, Outcome, Precondition, UpdateVersion,
};
use orcas_fs_testing::SimDisk;
use orcas_lifecycle::{DAY_MS, Expiration, Filter, Noncurrent, Rule, Rules};
use orcas_record::{Bucket, BucketSettings, DocumentKind, VersionId, Versioning};

pub(super) const DAY: Duration = Duration::from_millis(DAY_MS);
/// The documents of these tests are digits, each with these rules.
pub(super) const DOCUMENTS: usize = 7;

fn rule(prefix: &str, expiration: Option<Expiration>, noncurrent: Option<(u32, u32)>) -> Rule {
    let filter = Filter { prefix: prefix.into(), ..Filter::default() };
    let noncurrent = noncurrent.map(|(days, newer)| Noncurrent { days, newer });
    Rule { id: prefix.into(), enabled: true, filter, expiration, noncurrent, abort_days: None }
}

fn tagged(rule: Rule) -> Rule {
    Rule { filter: Filter { tags: vec![(b"t".into(), b"1".into())], ..rule.filter }, ..rule }
}

fn read(document: &[u8]) -> Option<Rules> {
    let days = |days| Some(Expiration::Days(days));
    let rules = match document {
        b"0" => vec![rule("", days(1), None)],
        b"1" => vec![rule("", Some(Expiration::Markers(true)), Some((1, 0)))],
        b"2" => vec![rule("", None, Some((1, 2)))],
        b"3" => vec![tagged(rule("", days(2), Some((2, 0)))), rule("a", None, Some((3, 1)))],
        b"4" => {
            let small = rule("b", days(1), Some((1, 1)));
            let small = Rule { filter: Filter { less_than: Some(3), ..small.filter }, ..small };
            vec![small, tagged(rule("a", None, Some((1, 1))))]
        }
        b"5" => vec![rule("a", Some(Expiration::Markers(true)), Some((0, 1))), rule("b", days(0), Some((0, 0)))],
        b"6" => vec![rule("", days(1), Some((1, 2)))],
        _ => return None,
    };
    Some(Rules::new(rules))
}

const OPTIONS: LifecycleOptions = LifecycleOptions { day_ms: DAY_MS, read };

/// Nothing is compacted.
const MERGES: ReclaimLimits =
    ReclaimLimits { live_max: 0.0, freed_min: u64::MAX, output_max: 0, compact: false, hurry: false };

/// A version as clients see it, but for its name and its time, which nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub key: String,
    pub is_null: bool,
    pub delete_marker: bool,
    pub size: u64,
    pub tagged: bool,
    pub held: bool,
}

pub(super) fn with_name(name: Bytes, object_lock: bool) -> Intent {
    Intent::CreateBucket {
        name,
        owner: "root".into(),
        location: Bytes::new(),
        settings: BucketSettings::default(),
        object_lock,
        documents: Vec::new(),
    }
}

pub(super) fn set_versioning(bucket: &Bucket, versioning: Versioning) -> Intent {
    Intent::UpdateBucket { bucket: bucket.id, change: BucketChange::Versioning(versioning) }
}

pub(super) fn snapshot(bucket: &Bucket, name: &Bytes) -> Intent {
    Intent::CreateSnapshot { bucket: bucket.id, name: name.clone() }
}

pub(super) fn fork(bucket: &Bucket, snapshot: Option<&Bytes>, name: &Bytes) -> Intent {
    Intent::ForkBucket { bucket: bucket.id, snapshot: snapshot.cloned(), name: name.clone() }
}

pub(super) fn delete(bucket: &Bucket, key: &Bytes, version: Option<VersionId>) -> Intent {
    let precondition = Precondition::default();
    Intent::DeleteObject { bucket: bucket.id, key: key.clone(), precondition, version, bypass: false }
}

pub(super) fn update(bucket: &Bucket, key: &Bytes, version: VersionId, change: AttributeChange) -> Intent {
    let update = UpdateVersion { bucket: bucket.id, key: key.clone(), version: Some(version), change };
    Intent::UpdateVersion(Box::new(update))
}

pub(super) fn tags() -> AttributeChange {
    AttributeChange::Tags(vec![("t".into(), "1".into())])
}

pub(super) fn set_rules(bucket: &Bucket, document: &str) -> Intent {
    let document = Bytes::copy_from_slice(document.as_bytes());
    Intent::PutDocument { bucket: bucket.id, kind: DocumentKind::Lifecycle, document }
}

impl Steps {
    pub(super) fn named(&self, name: &[u8]) -> Arc<Bucket> {
        self.handle().bucket(name).unwrap()
    }

    /// Keys and ids of all versions, in the order of a listing.
    pub(super) fn ids(&self, bucket: &Bucket) -> Vec<(Bytes, VersionId)> {
        let mut ids = Vec::new();
        if bucket.amendments().is_some() {
            let mut next = Some(ScanStart::from_prefix(Bytes::new()));
            while let Some(from) = next {
                let page = orcas_catalog::scan_histories(&self.shared().catalog, bucket.id, &from, 3).unwrap();
                ids.extend(page.rows.into_iter().map(|row| (row.key, row.id)));
                next = page.next;
            }
        } else if bucket.layers.is_empty() {
            let (rows, _) = orcas_catalog::scan_versions(
                &self.shared().catalog,
                bucket.id,
                &VersionStart::From(Bytes::new()),
                10_000,
            )
            .unwrap();
            ids.extend(rows.into_iter().map(|row| (row.key, row.id)));
        } else {
            let list = ListObjects { bucket: bucket.id, prefix: "".into(), delimiter: None, after: None, max_keys: 99 };
            let mut page = ListPage::default();
            self.handle().list_objects_in(bucket, &list, &mut page).unwrap();
            ids.extend(page.entries.into_iter().map(|entry| (entry.key, VersionId::Null)));
        }
        ids
    }

    pub(super) fn seen(&self, bucket: &Bucket) -> Vec<Seen> {
        let of = |(key, id): (Bytes, VersionId)| {
            let found = self.handle().version_in(bucket, &key, id).unwrap().expect("a version that is listed");
            let version = &found.object.version;
            Seen {
                key: String::from_utf8_lossy(&key).into_owned(),
                is_null: id == VersionId::Null,
                delete_marker: version.delete_marker,
                size: version.size,
                tagged: !version.attributes.tags.is_empty(),
                held: version.attributes.legal_hold == Some(true),
            }
        };
        self.ids(bucket).into_iter().map(of).collect()
    }

    /// The versions of a bucket as `key` and their sizes, the newest first; `m` for a delete marker.
    fn shown(&self, name: &str) -> String {
        let seen = self.seen(&self.named(name.as_bytes()));
        let text = |it: &Seen| if it.delete_marker { format!("{}m", it.key) } else { format!("{}{}", it.key, it.size) };
        seen.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    /// One run, so many versions at a time, while `between` happens after each round.
    pub(super) fn run_rules(&mut self, page: usize, mut between: impl FnMut(&mut Self)) -> LifecycleReport {
        let shared = Arc::clone(self.shared());
        let run = std::thread::spawn(move || {
            let mut walk = Walk::new(&shared, &OPTIONS, shared.clock.now_ms());
            walk.page = page;
            walk.run()
        });
        while !run.is_finished() {
            self.stepper().commit();
            between(self);
            std::thread::yield_now();
        }
        let (report, ended) = run.join().unwrap();
        ended.unwrap();
        report
    }

    pub(super) fn merge(&mut self) -> bool {
        self.apply();
        let worked = self.stepper().reclaim(&MERGES).unwrap() != Step::Idle;
        self.stepper().commit();
        self.apply();
        worked
    }
}

fn versioned(steps: &mut Steps) -> Arc<Bucket> {
    let bucket = steps.bucket("b");
    steps.run(set_versioning(&bucket, Versioning::Enabled)).unwrap();
    bucket
}

fn put(steps: &mut Steps, name: &str, key: &str, size: usize) {
    let bucket = steps.named(name.as_bytes());
    let put = steps.intent(&bucket, key, &vec![0; size]);
    steps.run(put).unwrap();
}

/// Snapshots of `b`, by the number of puts of `k` after which they are made.
fn with_history(steps: &mut Steps, puts: usize, snapshots: &[usize]) -> Arc<Bucket> {
    let bucket = versioned(steps);
    for at in 1..=puts {
        put(steps, "b", "k", at);
        if snapshots.contains(&at) {
            steps.run(snapshot(&bucket, &format!("s{at}").into())).unwrap();
        }
    }
    bucket
}

#[test]
fn a_snapshot_keeps_what_expires_in_its_bucket() {
    let mut steps = Steps::new();
    let bucket = with_history(&mut steps, 4, &[2, 3]);
    steps.run(set_rules(&bucket, "1")).unwrap();
    steps.advance(DAY * 3);
    assert_eq!(steps.run_rules(10, |_| {}).versions, 3);
    assert_eq!(steps.shown("b"), "k4");
    // Again, nothing is left to remove.
    assert_eq!(steps.run_rules(10, |_| {}).versions, 0);
    steps.reopen();
    assert_eq!(steps.shown("b"), "k4");
    for (of, shown) in [("s2", "k2 k1"), ("s3", "k3 k2 k1")] {
        steps.run(fork(&bucket, Some(&of.into()), &of.into())).unwrap();
        assert_eq!(steps.shown(of), shown);
    }
}

/// The lock of the bucket counts, not that of its snapshot.
#[test]
fn a_version_that_was_locked_after_a_snapshot_stays() {
    let mut steps = Steps::new();
    steps.run(with_name("b".into(), true)).unwrap();
    let bucket = steps.named(b"b");
    for size in 1..=3 {
        put(&mut steps, "b", "k", size);
    }
    steps.run(snapshot(&bucket, &"s".into())).unwrap();
    let (key, held) = steps.ids(&steps.named(b"b"))[1].clone();
    steps.run(update(&bucket, &key, held, AttributeChange::LegalHold(true))).unwrap();
    steps.run(set_rules(&bucket, "1")).unwrap();
    steps.advance(DAY * 3);
    let report = steps.run_rules(1, |_| {});
    assert_eq!((report.versions, report.locked), (1, 1));
    assert_eq!(steps.shown("b"), "k3 k2");
}

/// The noncurrent versions that have to stay are counted over layers and pages.
#[test]
fn the_newest_noncurrent_versions_are_kept_over_layers() {
    let mut steps = Steps::new();
    let bucket = with_history(&mut steps, 40, &[10, 20, 38]);
    let gone = steps.ids(&steps.named(b"b"))[1].clone();
    steps.run(delete(&bucket, &gone.0, Some(gone.1))).unwrap();
    steps.run(set_rules(&bucket, "2")).unwrap();
    steps.advance(DAY * 3);
    assert_eq!(steps.run_rules(3, |_| {}).versions, 36);
    assert_eq!(steps.shown("b"), "k40 k38 k37");
}

/// What was found to expire before a restore may be current after it, or one of those that have to stay.
#[test]
fn what_was_found_before_a_restore_stays() {
    let mut steps = Steps::new();
    let bucket = with_history(&mut steps, 4, &[2]);
    steps.run(delete(&bucket, &"k".into(), None)).unwrap();
    let present = steps.named(b"b");
    steps.run(set_rules(&bucket, "2")).unwrap();
    let of = |at: usize| {
        let (key, id) = steps.ids(&present)[at].clone();
        let sequence = steps.handle().version_in(&present, &key, id).unwrap().unwrap().object.sequence;
        ExpireEntry { key, sequence, place: ExpiredPlace::Noncurrent(id), tags: None }
    };
    let found = Expire { bucket: bucket.id, document: "2".into(), top: Some(present.top()), entries: vec![of(4)] };
    let expire = |steps: &mut Steps| match steps.run(Intent::Expire(Box::new(found.clone()))) {
        Ok(Outcome::Expired(expired)) => (expired.versions, expired.changed),
        other => panic!("{other:?}"),
    };
    // A snapshot changes nothing about what was found.
    steps.run(snapshot(&bucket, &"other".into())).unwrap();
    steps.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "s2".into() }).unwrap();
    assert_eq!(steps.shown("b"), "k2 k1");
    assert_eq!(expire(&mut steps), (0, 1));
    steps.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "other".into() }).unwrap();
    assert_eq!(expire(&mut steps), (1, 0));
    assert_eq!(steps.shown("b"), "km k4 k3 k2");
}

/// What was read of a key before a restore tells nothing about what comes after it.
#[test]
fn a_key_is_read_anew_after_a_restore() {
    let mut steps = Steps::new();
    let bucket = with_history(&mut steps, 6, &[2, 4]);
    let page = |steps: &Steps, from: &ScanStart| {
        orcas_catalog::scan_histories(&steps.shared().catalog, bucket.id, from, 3).unwrap()
    };
    let sizes = |page: &ScannedVersions| page.rows.iter().map(|row| row.listed.size).collect::<Vec<_>>();
    let first = page(&steps, &ScanStart::from_prefix("k".into()));
    assert_eq!((sizes(&first), first.again), (vec![6, 5, 4], false));
    let next = first.next.unwrap();
    steps.run(snapshot(&bucket, &"other".into())).unwrap();
    let second = page(&steps, &next);
    assert_eq!((sizes(&second), second.again), (vec![3, 2, 1], false));
    // The layer in hand stays, and those above it do not.
    steps.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "s4".into() }).unwrap();
    let second = page(&steps, &next);
    assert_eq!((sizes(&second), second.again), (vec![4, 3, 2], true));
    // The same after a merge, for which the layers give what they have another place.
    let next = second.next.unwrap();
    steps.run(Intent::DeleteSnapshot { bucket: bucket.id, name: "s2".into() }).unwrap();
    assert!(!page(&steps, &next).again);
    while steps.merge() {}
    let second = page(&steps, &next);
    assert_eq!((sizes(&second), second.again), (vec![4, 3, 2], true));
}

/// Snapshots come and go while versions are walked one by one, and layers are merged.
#[test]
fn a_run_keeps_what_has_to_stay_while_layers_change() {
    // So many that the run submits several batches.
    const KEYS: usize = 300;
    const SNAPSHOTS: usize = 8;
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let bucket = versioned(&mut steps);
    for at in 0..KEYS * 7 {
        put(&mut steps, "b", &format!("{:03}", at % KEYS), 1 + at / KEYS);
        if at % 250 == 249 {
            steps.run(snapshot(&bucket, &format!("s{}", at / 250).into())).unwrap();
        }
    }
    steps.run(set_rules(&bucket, "6")).unwrap();
    steps.advance(DAY * 3);
    let (mut at, mut merged) = (0, 0);
    let report = steps.run_rules(1, |steps| {
        at += 1;
        match at % 3 {
            0 => drop(steps.run(snapshot(&bucket, &format!("t{at}").into()))),
            1 => {
                let name = if at / 3 < SNAPSHOTS { format!("s{}", at / 3) } else { format!("t{}", at - 4) };
                drop(steps.run(Intent::DeleteSnapshot { bucket: bucket.id, name: name.into() }));
            }
            _ => merged += usize::from(steps.merge()),
        }
    });
    assert!(report.versions > 0 && report.markers > 0 && merged > 0, "{report:?} {merged}");
    // Those that were moved after they were found are left to the next run. A key that is read anew has its marker.
    let shown = steps.shown("b");
    let shown: HashSet<&str> = shown.split(' ').collect();
    let stay: Vec<String> = (0..KEYS).flat_map(|key| ["m", "7", "6"].map(|what| format!("{key:03}{what}"))).collect();
    let lost: Vec<_> = stay.iter().filter(|version| !version.ends_with('m') && !shown.contains(&version[..])).collect();
    assert!(lost.is_empty(), "{lost:?} {report:?}");
    while steps.run_rules(100, |_| {}).removed() {}
    assert_eq!(steps.shown("b"), stay.join(" "));
}

/// The first snapshot of a bucket may come while its versions are walked, and changes of them go to other layers then.
#[test]
fn a_run_sees_the_layers_that_a_bucket_gets_meanwhile() {
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let bucket = versioned(&mut steps);
    // More than two batches.
    (0..2_200).for_each(|_| put(&mut steps, "b", "a", 1));
    (1..=6).for_each(|size| put(&mut steps, "b", "z", size));
    steps.run(set_rules(&bucket, "2")).unwrap();
    steps.advance(DAY * 3);
    steps.apply();
    let last = steps.ids(&bucket).split_off(2_200);
    let shared = Arc::clone(steps.shared());
    let submitted = shared.intents.submitted();
    let run = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let mut walk = Walk::new(&shared, &OPTIONS, shared.clock.now_ms());
            walk.page = 100;
            walk.run()
        }
    });
    while shared.intents.submitted() == submitted {
        std::thread::yield_now();
    }
    // The run waits for the answer to its first batch before it submits a second one.
    let first = steps.submit(snapshot(&bucket, &"s".into()));
    let deleted = [1, 2].map(|at: usize| steps.submit(delete(&bucket, &last[at].0, Some(last[at].1))));
    while !run.is_finished() {
        steps.stepper().commit();
        steps.apply();
    }
    let (report, ended) = run.join().unwrap();
    ended.unwrap();
    [first].into_iter().chain(deleted).for_each(|submitted| drop(submitted.answer().unwrap()));
    assert_eq!(report.versions, 2_200 - 3 + 1);
    assert_eq!(steps.shown("b"), "a1 a1 a1 z6 z3 z2");
}
