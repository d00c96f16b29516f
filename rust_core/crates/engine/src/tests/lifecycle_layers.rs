//! Lifecycle of buckets with layers and versioning: rules remove what they would remove without layers, and nothing from
//! snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::steps::Steps;
use crate::layered_versions::{ScanStart, ScannedVersions};
use crate::lifecycle::Walk;
use crate::list_versions::VersionStart;
use crate::{LifecycleOptions, LifecycleReport, ListObjects, ListPage, ReclaimLimits, Step};
use orcas_decide::{
    AttributeChange, BucketChange, Expire, ExpireEntry, ExpiredPlace, Failure, Intent, Outcome, Precondition, Refusal,
    UpdateVersion,
};
use orcas_fs::sim::{SimDisk, SimRng};
use orcas_lifecycle::{DAY_MS, Expiration, Filter, Noncurrent, Rule, Rules};
use orcas_record::{Bucket, BucketSettings, DocumentKind, VersionId, Versioning};

const DAY: Duration = Duration::from_millis(DAY_MS);
/// Some noon.
const NOON_MS: u64 = 20_000 * DAY_MS + DAY_MS / 2;
/// The documents of these tests are digits, each with these rules.
const DOCUMENTS: usize = 6;

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
        _ => return None,
    };
    Some(Rules { rules })
}

const OPTIONS: LifecycleOptions = LifecycleOptions { day_ms: DAY_MS, read };

/// Nothing is compacted.
const MERGES: ReclaimLimits =
    ReclaimLimits { live_max: 0.0, freed_min: u64::MAX, output_max: 0, compact: false, hurry: false };

/// A version as clients see it, but for its name and its time, which nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    key: String,
    is_null: bool,
    delete_marker: bool,
    size: u64,
    tagged: bool,
    held: bool,
}

fn with_name(name: Bytes, object_lock: bool) -> Intent {
    Intent::CreateBucket {
        name,
        owner: "root".into(),
        location: Bytes::new(),
        settings: BucketSettings::default(),
        object_lock,
        documents: Vec::new(),
    }
}

fn set_versioning(bucket: &Bucket, versioning: Versioning) -> Intent {
    Intent::UpdateBucket { bucket: bucket.id, change: BucketChange::Versioning(versioning) }
}

fn snapshot(bucket: &Bucket, name: &Bytes) -> Intent {
    Intent::CreateSnapshot { bucket: bucket.id, name: name.clone() }
}

fn fork(bucket: &Bucket, snapshot: Option<&Bytes>, name: &Bytes) -> Intent {
    Intent::ForkBucket { bucket: bucket.id, snapshot: snapshot.cloned(), name: name.clone() }
}

fn delete(bucket: &Bucket, key: &Bytes, version: Option<VersionId>) -> Intent {
    let precondition = Precondition::default();
    Intent::DeleteObject { bucket: bucket.id, key: key.clone(), precondition, version, bypass: false }
}

fn update(bucket: &Bucket, key: &Bytes, version: VersionId, change: AttributeChange) -> Intent {
    let update = UpdateVersion { bucket: bucket.id, key: key.clone(), version: Some(version), change };
    Intent::UpdateVersion(Box::new(update))
}

fn tags() -> AttributeChange {
    AttributeChange::Tags(vec![("t".into(), "1".into())])
}

fn set_rules(bucket: &Bucket, document: &str) -> Intent {
    let document = Bytes::copy_from_slice(document.as_bytes());
    Intent::PutDocument { bucket: bucket.id, kind: DocumentKind::Lifecycle, document }
}

impl Steps {
    fn named(&self, name: &[u8]) -> Arc<Bucket> {
        self.handle().bucket(name).unwrap()
    }

    /// Keys and ids of all versions, in the order of a listing.
    fn ids(&self, bucket: &Bucket) -> Vec<(Bytes, VersionId)> {
        let mut ids = Vec::new();
        if bucket.amendments().is_some() {
            let mut next = Some(ScanStart::from_prefix(Bytes::new()));
            while let Some(from) = next {
                let page = self.shared().scan_histories(bucket.id, &from, 3).unwrap();
                ids.extend(page.rows.into_iter().map(|row| (row.key, row.id)));
                next = page.next;
            }
        } else if bucket.layers.is_empty() {
            let (rows, _) = self.shared().scan_versions(bucket.id, &VersionStart::From(Bytes::new()), 10_000).unwrap();
            ids.extend(rows.into_iter().map(|row| (row.key, row.id)));
        } else {
            let list = ListObjects { bucket: bucket.id, prefix: "".into(), delimiter: None, after: None, max_keys: 99 };
            let mut page = ListPage::default();
            self.handle().list_objects_in(bucket, &list, &mut page).unwrap();
            ids.extend(page.entries.into_iter().map(|entry| (entry.key, VersionId::Null)));
        }
        ids
    }

    fn seen(&self, bucket: &Bucket) -> Vec<Seen> {
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
    fn run_rules(&mut self, page: usize, mut between: impl FnMut(&mut Self)) -> LifecycleReport {
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

    fn merge(&mut self) -> bool {
        self.apply();
        let worked = self.stepper().reclaim(&MERGES).unwrap() != Step::Idle;
        self.stepper().commit();
        self.apply();
        worked
    }
}

/// One history twice: in a bucket without layers, and in one with snapshots that is now and then replaced by its fork.
struct Twice {
    steps: Steps,
    rng: SimRng,
    plain: Bytes,
    layered: Bytes,
    /// What snapshots and buckets that were forked showed.
    kept: BTreeMap<(Bytes, Option<Bytes>), Vec<Seen>>,
    names: u64,
    removed: u64,
    amended: usize,
}

impl Twice {
    fn new(seed: u64) -> Self {
        let mut steps = Steps::on(&SimDisk::new(), |_| {});
        steps.stop_clock(NOON_MS);
        let locked = seed % 3 == 0;
        for name in ["plain", "layered"] {
            steps.run(with_name(name.into(), locked)).unwrap();
        }
        let (plain, layered) = ("plain".into(), "layered".into());
        let rng = SimRng::new(seed);
        let mut twice =
            Self { steps, rng, plain, layered, kept: BTreeMap::new(), names: 0, removed: 0, amended: 0 };
        if seed % 3 == 1 {
            twice.both(|bucket| set_versioning(bucket, Versioning::Enabled));
        }
        twice
    }

    fn buckets(&self) -> [Arc<Bucket>; 2] {
        [&self.plain, &self.layered].map(|name| self.steps.named(name))
    }

    /// Whether it was done; it is refused in both or in none.
    fn both(&mut self, intent: impl Fn(&Bucket) -> Intent) -> bool {
        let done = self.buckets().map(|bucket| match self.steps.run(intent(&bucket)) {
            Ok(_) => true,
            Err(Failure::Refused(_)) => false,
            Err(Failure::Engine(error)) => panic!("{error}"),
        });
        assert_eq!(done[0], done[1]);
        done[0]
    }

    fn new_name(&mut self, of: &str) -> Bytes {
        self.names += 1;
        format!("{of}{}", self.names).into()
    }

    /// The same version of both buckets.
    fn any_version(&mut self) -> Option<[(Bytes, VersionId); 2]> {
        let [plain, layered] = self.buckets().map(|bucket| self.steps.ids(&bucket));
        assert_eq!(plain.len(), layered.len());
        let at = self.rng.below(plain.len().max(1) as u64) as usize;
        Some([plain.get(at)?.clone(), layered.get(at)?.clone()])
    }

    fn of_version(&mut self, intent: impl Fn(&Bucket, &Bytes, VersionId) -> Intent) {
        let Some(found) = self.any_version() else { return };
        let buckets = self.buckets();
        let done = [0, 1].map(|at| {
            let (key, id) = &found[at];
            self.steps.run(intent(&buckets[at], key, *id)).is_ok()
        });
        assert_eq!(done[0], done[1]);
    }

    fn keep(&mut self, name: Bytes, snapshot: Option<Bytes>) {
        let seen = self.steps.seen(&self.steps.named(&name));
        self.kept.insert((name, snapshot), seen);
    }

    fn step(&mut self) {
        let key = Bytes::from(["a", "a/1", "b"][self.rng.below(3) as usize]);
        match self.rng.below(22) {
            0..6 => {
                let bytes = vec![0; 1 + self.rng.below(4) as usize];
                let text = String::from_utf8_lossy(&key).into_owned();
                for bucket in self.buckets() {
                    let put = self.steps.intent(&bucket, &text, &bytes);
                    self.steps.run(put).unwrap();
                }
            }
            6 => drop(self.both(|bucket| delete(bucket, &key, None))),
            7 | 8 => self.of_version(|bucket, key, id| {
                delete(bucket, key, Some(id).filter(|_| bucket.versioning != Versioning::Unversioned))
            }),
            9 | 10 => self.of_version(|bucket, key, id| update(bucket, key, id, tags())),
            11 => {
                let held = self.rng.below(2) == 0;
                self.of_version(|bucket, key, id| update(bucket, key, id, AttributeChange::LegalHold(held)));
            }
            12 => {
                let versioning = [Versioning::Enabled, Versioning::Suspended][self.rng.below(2) as usize];
                self.both(|bucket| set_versioning(bucket, versioning));
            }
            13 | 14 => self.snapshot(),
            15 => self.fork(),
            16 => self.steps.advance(DAY * self.rng.below(3) as u32),
            17 => {
                let document = self.rng.below(DOCUMENTS as u64).to_string();
                self.both(|bucket| set_rules(bucket, &document));
            }
            18 => self.forget(),
            19 => drop(self.steps.merge()),
            _ => self.expire(),
        }
    }

    fn snapshot(&mut self) {
        let name = self.new_name("s");
        let layered = self.steps.named(&self.layered);
        match self.steps.run(snapshot(&layered, &name)) {
            Ok(_) => self.keep(self.layered.clone(), Some(name)),
            Err(failure) => assert!(matches!(failure, Failure::Refused(Refusal::InvalidBucketState { .. }))),
        }
    }

    fn forget(&mut self) {
        let kept: Vec<_> = self.kept.keys().filter(|(_, snapshot)| snapshot.is_some()).cloned().collect();
        let Some((name, Some(snapshot))) = kept.get(self.rng.below(kept.len().max(1) as u64) as usize) else { return };
        let bucket = self.steps.named(name).id;
        self.steps.run(Intent::DeleteSnapshot { bucket, name: snapshot.clone() }).unwrap();
        self.kept.remove(&(name.clone(), Some(snapshot.clone())));
    }

    /// From now on, the fork is the bucket with layers.
    fn fork(&mut self) {
        let name = self.new_name("f");
        let layered = self.steps.named(&self.layered);
        match self.steps.run(fork(&layered, None, &name)) {
            Ok(_) => {
                self.steps.run(set_rules(&layered, "")).unwrap();
                self.keep(self.layered.clone(), None);
                self.layered = name;
            }
            Err(failure) => assert!(matches!(failure, Failure::Refused(Refusal::InvalidBucketState { .. }))),
        }
    }

    fn expire(&mut self) {
        let page = 1 + self.rng.below(4) as usize;
        self.steps.advance(DAY * self.rng.below(3) as u32);
        let before = self.buckets().map(|bucket| self.steps.seen(&bucket));
        assert_eq!(before[0], before[1]);
        let merges = self.rng.below(3) == 0;
        let report = self.steps.run_rules(page, |steps| drop(merges && steps.merge()));
        self.removed += report.versions + report.markers;
        let after = self.buckets().map(|bucket| self.steps.seen(&bucket));
        assert_eq!(after[0], after[1], "before: {before:#?}");
        let held = |seen: &[Seen]| seen.iter().filter(|it| it.held).cloned().collect::<Vec<_>>();
        assert_eq!(held(&before[1]), held(&after[1]));
        let amendments = self.steps.named(&self.layered).amendments();
        self.amended += usize::from(amendments.is_some_and(|layer| !self.is_empty(layer)));
    }

    fn is_empty(&self, layer: orcas_record::BucketId) -> bool {
        self.steps.shared().scan_versions(layer, &VersionStart::From(Bytes::new()), 1).unwrap().0.is_empty()
    }

    /// Snapshots and what was forked are as they were.
    fn check_kept(&mut self) {
        for ((name, snapshot), seen) in std::mem::take(&mut self.kept) {
            let bucket = self.steps.named(&name);
            let Some(snapshot) = snapshot else {
                assert_eq!(self.steps.seen(&bucket), seen);
                continue;
            };
            let look = self.new_name("look");
            self.steps.run(fork(&bucket, Some(&snapshot), &look)).unwrap();
            assert_eq!(self.steps.seen(&self.steps.named(&look)), seen, "{name:?} {snapshot:?}");
        }
    }
}

#[test]
fn rules_remove_the_same_with_layers_and_without() {
    let (mut removed, mut amended) = (0, 0);
    for seed in 0..24 {
        let mut twice = Twice::new(seed);
        for _ in 0..120 {
            twice.step();
        }
        twice.expire();
        twice.check_kept();
        (removed, amended) = (removed + twice.removed, amended + twice.amended);
    }
    assert!(removed > 400 && amended > 60, "{removed} {amended}");
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
    let page = |steps: &Steps, from: &ScanStart| steps.shared().scan_histories(bucket.id, from, 3).unwrap();
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
}

/// Snapshots come and go while versions are walked one by one, and layers are merged.
#[test]
fn a_run_keeps_what_has_to_stay_while_layers_change() {
    const KEYS: usize = 40;
    let mut steps = Steps::on(&SimDisk::new(), |_| {});
    let bucket = versioned(&mut steps);
    for at in 0..KEYS * 6 {
        put(&mut steps, "b", &format!("{:02}", at % KEYS), 1 + at / KEYS);
        if at % 50 == 49 {
            steps.run(snapshot(&bucket, &format!("s{at}").into())).unwrap();
        }
    }
    steps.run(set_rules(&bucket, "2")).unwrap();
    steps.advance(DAY * 3);
    let (mut at, mut merged) = (0, 0);
    let report = steps.run_rules(1, |steps| {
        at += 1;
        match at % 3 {
            0 => drop(steps.run(snapshot(&bucket, &format!("t{at}").into()))),
            1 => {
                let name = match at {
                    ..700 => format!("s{}", at / 3 * 50 + 49),
                    _ => format!("t{}", at - 4),
                };
                drop(steps.run(Intent::DeleteSnapshot { bucket: bucket.id, name: name.into() }));
            }
            _ => merged += usize::from(steps.merge()),
        }
    });
    let newest = || (0..KEYS).map(|key| format!("{key:02}6 {key:02}5 {key:02}4")).collect::<Vec<_>>().join(" ");
    let shown = steps.shown("b");
    // What was moved after it was found is left to the next run.
    assert!(report.versions > 0 && merged > 0, "{report:?} {merged}");
    assert!(newest().split(' ').all(|version| shown.split(' ').any(|it| it == version)), "{shown}");
    steps.run_rules(7, |_| {});
    assert_eq!(steps.shown("b"), newest());
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
