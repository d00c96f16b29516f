//! Lifecycle: what the rules say goes, and nothing else, whatever clients do meanwhile.

mod layers;
mod twice;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::steps::Steps;
use super::support::Store;
use crate::lifecycle::Walk;
use crate::{LifecycleOptions, LifecycleReport};
use orcas_base::error::Error;
use orcas_catalog::{ListObjects, ListPage, ListUploads};
use orcas_decide::{AttributeChange, BucketChange, Failure, Intent, Outcome, Precondition, Refusal, UpdateVersion};
use orcas_lifecycle::{DAY_MS, Expiration, Filter, Noncurrent, Rule, Rules};
use orcas_record::{Bucket, BucketSettings, DocumentKind, Sequence, Versioning};

/// A document of these tests: `PREFIX:days:markers:noncurrent:newer:abort:tag` in each line, `-` for nothing.
fn read(document: &[u8]) -> Option<Rules> {
    let rules = std::str::from_utf8(document).ok()?.lines().map(rule).collect::<Option<Vec<_>>>()?;
    Some(Rules::new(rules))
}

fn rule(line: &str) -> Option<Rule> {
    let [prefix, days, markers, noncurrent, newer, abort, tag]: [&str; 7] =
        line.split(':').collect::<Vec<_>>().try_into().ok()?;
    let number = |text: &str| text.parse::<u32>().ok();
    let expiration = match (number(days), markers) {
        (Some(days), _) => Some(Expiration::Days(days)),
        (None, "m") => Some(Expiration::Markers(true)),
        (None, _) => None,
    };
    let noncurrent = number(noncurrent).map(|days| Noncurrent { days, newer: number(newer).unwrap_or(0) });
    let tags = if tag == "-" { Vec::new() } else { vec![(tag.into(), b"1".to_vec())] };
    let filter = Filter { prefix: prefix.into(), tags, ..Filter::default() };
    Some(Rule { id: line.into(), enabled: true, filter, expiration, noncurrent, abort_days: number(abort) })
}

const OPTIONS: LifecycleOptions = LifecycleOptions { day_ms: DAY_MS, read };

/// Days from now until a rule of one day has certainly expired what is there.
const LATER: u64 = 3;

impl Store {
    fn rules(&self, bucket: &Bucket, rules: &str) {
        self.put_document(bucket, DocumentKind::Lifecycle, rules);
    }

    /// One run so many days from now.
    fn run_in(&self, days: u64) -> LifecycleReport {
        let shared = &self.handle().shared;
        let (report, ended) = Walk::new(shared, &OPTIONS, shared.clock.now_ms() + days * DAY_MS).run();
        ended.unwrap();
        report
    }

    fn set_versioning(&self, bucket: &Bucket, versioning: Versioning) {
        let change = BucketChange::Versioning(versioning);
        self.handle().execute(Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
    }

    fn update(&self, bucket: &Bucket, key: &str, change: AttributeChange) {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let update = UpdateVersion { bucket: bucket.id, key, version: None, change };
        self.handle().execute(Intent::UpdateVersion(Box::new(update))).unwrap();
    }

    /// The versions of a bucket as `key` and their sizes, the newest first; `m` for a delete marker.
    fn versions(&self, bucket: &Bucket) -> String {
        let shared = &self.handle().shared;
        let start = orcas_catalog::VersionStart::From(Bytes::new());
        let (rows, _) = orcas_catalog::scan_versions(&shared.catalog, bucket.id, &start, 100).unwrap();
        let shown = rows.iter().map(|row| {
            let key = String::from_utf8_lossy(&row.key);
            if row.delete_marker { format!("{key}m") } else { format!("{key}{}", row.listed.size) }
        });
        shown.collect::<Vec<_>>().join(" ")
    }
}

fn counts(versions: u64, markers: u64) -> (u64, u64) {
    (versions, markers)
}

fn done(report: &LifecycleReport) -> (u64, u64) {
    (report.versions, report.markers)
}

#[test]
fn objects_of_a_prefix_go_when_they_are_due_and_others_stay() {
    let mut store = Store::new();
    let (bucket, other) = (store.bucket("b"), store.bucket("other"));
    for key in ["a", "tmp/1", "tmp/2", "tmp/3", "tmq"] {
        store.put(&bucket, key, b"1").unwrap();
        store.put(&other, key, b"1").unwrap();
    }
    store.rules(&bucket, "tmp/:1:-:-:-:-:-");
    assert_eq!(store.run_in(0).seen, 3);
    assert_eq!(store.versions(&bucket), "a1 tmp/11 tmp/21 tmp/31 tmq1");
    let report = store.run_in(LATER);
    assert_eq!((report.buckets, report.seen, report.versions), (1, 3, 3));
    assert_eq!(store.versions(&bucket), "a1 tmq1");
    assert_eq!(store.run_in(LATER), LifecycleReport { buckets: 1, ..LifecycleReport::default() });
    assert_eq!(store.list(&other).len(), 5);
    // What was removed stays so in the index, and in one that is built from the log.
    store.reopen();
    assert_eq!(store.versions(&bucket), "a1 tmq1");
    store.check_rebuild();
    assert_eq!(store.versions(&bucket), "a1 tmq1");
}

#[test]
fn rules_outlive_a_restart_and_end_with_their_removal() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    store.put(&bucket, "k", b"1").unwrap();
    assert!(!store.handle().has_lifecycle_rules());
    store.rules(&bucket, ":1:-:-:-:-:-");
    assert!(store.handle().has_lifecycle_rules());
    store.reopen();
    assert!(store.handle().has_lifecycle_rules());
    store.rules(&bucket, "");
    assert!(!store.handle().has_lifecycle_rules());
    assert_eq!(store.run_in(LATER), LifecycleReport::default());
    store.rules(&bucket, ":1:-:-:-:-:-");
    assert_eq!(store.run_in(LATER).versions, 1);
}

#[test]
fn versions_expire_in_two_steps_and_leave_nothing() {
    let store = Store::new();
    let bucket = store.bucket("b");
    store.set_versioning(&bucket, Versioning::Enabled);
    for size in 1..=3 {
        store.put(&bucket, "k", &vec![0; size]).unwrap();
    }
    store.rules(&bucket, ":1:-:1:-:-:-");
    // The current version gets a marker; the others go.
    assert_eq!(done(&store.run_in(LATER)), counts(2, 1));
    assert_eq!(store.versions(&bucket), "km k3");
    // What the marker hides is noncurrent since then; afterwards the marker is alone.
    assert_eq!(done(&store.run_in(LATER)), counts(1, 0));
    assert_eq!(store.versions(&bucket), "km");
    assert_eq!(done(&store.run_in(LATER)), counts(1, 0));
    assert_eq!(store.versions(&bucket), "");
}

#[test]
fn the_newest_noncurrent_versions_are_kept_over_pages() {
    let store = Store::new();
    let bucket = store.bucket("b");
    store.set_versioning(&bucket, Versioning::Enabled);
    for at in 0..1_500 {
        store.put(&bucket, if at % 3 == 0 { "a" } else { "k" }, b"1").unwrap();
    }
    store.rules(&bucket, ":-:-:1:7:-:-");
    assert_eq!(store.run_in(LATER).versions, 1_500 - 2 * 8);
    assert_eq!(store.versions(&bucket), [["a1"; 8].join(" "), ["k1"; 8].join(" ")].join(" "));
    assert_eq!(store.run_in(LATER).versions, 0);
}

#[test]
fn a_suspended_bucket_gets_null_markers_and_markers_expire_alone() {
    let store = Store::new();
    let bucket = store.bucket("b");
    store.put(&bucket, "old", b"1").unwrap();
    store.set_versioning(&bucket, Versioning::Enabled);
    store.put(&bucket, "new", b"22").unwrap();
    store.set_versioning(&bucket, Versioning::Suspended);
    store.rules(&bucket, ":1:-:-:-:-:-");
    assert_eq!(done(&store.run_in(LATER)), counts(0, 2));
    // The null version was replaced.
    assert_eq!(store.versions(&bucket), "newm new2 oldm");
    store.rules(&bucket, ":-:m:-:-:-:-");
    assert_eq!(done(&store.run_in(0)), counts(1, 0));
    assert_eq!(store.versions(&bucket), "newm new2");
}

#[test]
fn tags_and_locks_are_respected() {
    let store = Store::new();
    let create = Intent::CreateBucket {
        name: Bytes::from_static(b"b"),
        owner: Bytes::from_static(b"root"),
        location: Bytes::new(),
        settings: BucketSettings::default(),
        object_lock: true,
        documents: Vec::new(),
    };
    let Ok(Outcome::Bucket(bucket)) = store.handle().execute(create) else { panic!("no bucket") };
    for key in ["free", "held", "tagged"] {
        store.put(&bucket, key, b"1").unwrap();
    }
    store.update(&bucket, "held", AttributeChange::LegalHold(true));
    store.update(&bucket, "tagged", AttributeChange::Tags(vec![("t".into(), "1".into())]));
    store.rules(&bucket, ":1:-:-:-:-:t");
    assert_eq!(done(&store.run_in(LATER)), counts(0, 1));
    assert_eq!(store.versions(&bucket), "free1 held1 taggedm tagged1");
    store.put(&bucket, "free", b"22").unwrap();
    store.put(&bucket, "held", b"22").unwrap();
    store.rules(&bucket, ":-:-:1:-:-:-");
    let report = store.run_in(LATER);
    assert_eq!((report.versions, report.locked), (2, 1));
    assert_eq!(store.versions(&bucket), "free2 held2 held1 taggedm");
}

#[test]
fn incomplete_uploads_are_aborted() {
    let store = Store::new();
    let bucket = store.bucket("b");
    let gone = store.create_upload(&bucket, "tmp/1");
    store.put_part(&bucket, "tmp/1", gone, 1, b"part");
    store.create_upload(&bucket, "kept");
    store.rules(&bucket, "tmp/:-:-:-:-:1:-");
    assert_eq!(store.run_in(0).uploads, 0);
    let report = store.run_in(LATER);
    assert_eq!((report.seen, report.uploads), (1, 1));
    let list = ListUploads::first(bucket.id, Bytes::new(), 10);
    let left = store.handle().list_uploads(&list).unwrap().entries;
    assert_eq!(left.iter().map(|upload| &upload.key[..]).collect::<Vec<_>>(), [b"kept"]);
}

#[test]
fn what_is_overwritten_while_a_run_is_under_way_stays() {
    const KEYS: usize = 1_500;
    let store = Store::new();
    let bucket = store.bucket("b");
    let key = |at: usize| format!("{at:04}");
    for at in 0..KEYS {
        store.put(&bucket, &key(at), b"old").unwrap();
    }
    store.rules(&bucket, ":1:-:-:-:-:-");
    let shared = Arc::clone(&store.handle().shared);
    // With days of a second, everything is due a little later, and nothing that is stored from then on.
    let options = LifecycleOptions { day_ms: 1_000, ..OPTIONS };
    std::thread::sleep(Duration::from_millis(2_100));
    let now_ms = shared.clock.now_ms();
    let run = std::thread::spawn(move || Walk::new(&shared, &options, now_ms).run());
    for at in (0..KEYS).rev() {
        store.put(&bucket, &key(at), b"new").unwrap();
    }
    let (report, ended) = run.join().unwrap();
    ended.unwrap();
    assert!(report.versions > 0, "the run and the writes did not meet: {report:?}");
    assert_eq!(store.list(&bucket).len(), KEYS);
    assert!((0..KEYS).all(|at| store.get(&bucket, &key(at)).unwrap().as_deref() == Some(b"new")));
}

/// A run on a thread of its own, over a store whose committer the test drives: `before` is submitted before the run's
/// only batch, and decided in the same round.
fn run_behind(steps: &mut Steps, before: Intent) -> LifecycleReport {
    let submitted = steps.submit(before);
    let shared = Arc::clone(steps.shared());
    let waiting = shared.intents.submitted();
    let now_ms = shared.clock.now_ms() + LATER * DAY_MS;
    let run = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || Walk::new(&shared, &OPTIONS, now_ms).run()
    });
    while shared.intents.submitted() == waiting {
        std::thread::yield_now();
    }
    steps.stepper().commit();
    submitted.answer().unwrap();
    let (report, ended) = run.join().unwrap();
    ended.unwrap();
    report
}

#[test]
fn a_change_that_is_decided_first_wins() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let put = steps.intent(&bucket, "k", b"old");
    steps.run(put).unwrap();
    let kind = DocumentKind::Lifecycle;
    let rules = |document: &'static str| Intent::PutDocument { bucket: bucket.id, kind, document: document.into() };
    steps.run(rules(":1:-:-:-:-:-")).unwrap();
    let put = steps.intent(&bucket, "k", b"new");
    let report = run_behind(&mut steps, put);
    assert_eq!((report.versions, report.changed), (0, 1));
    let sequence = |steps: &Steps| -> Option<Sequence> {
        steps.handle().object(bucket.id, &Bytes::from_static(b"k")).unwrap().map(|found| found.object.sequence)
    };
    assert!(sequence(&steps).is_some());
    // Other rules, in which the object has no place.
    let report = run_behind(&mut steps, rules("other/:1:-:-:-:-:-"));
    assert_eq!((report.versions, report.changed), (0, 1));
    assert!(sequence(&steps).is_some());
    steps.run(rules(":1:-:-:-:-:-")).unwrap();
    let report = run_behind(&mut steps, rules(":1:-:-:-:-:-"));
    assert_eq!((report.versions, report.changed), (1, 0));
    assert_eq!(sequence(&steps), None);
}

#[test]
fn what_cannot_be_read_keeps_no_other_bucket_from_its_rules() {
    let store = Store::new();
    let (first, second) = (store.bucket("a"), store.bucket("b"));
    store.rules(&first, "unreadable");
    store.rules(&second, ":1:-:-:-:-:-");
    store.put(&second, "k", b"1").unwrap();
    let shared = &store.handle().shared;
    let (report, ended) = Walk::new(shared, &OPTIONS, shared.clock.now_ms() + LATER * DAY_MS).run();
    assert_eq!(report.versions, 1);
    assert!(matches!(ended, Err(Error::Record { .. })), "{ended:?}");
}

#[test]
fn the_thread_runs_on_request_and_ends_with_the_store() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    assert!(matches!(store.handle().run_lifecycle(), Err(Error::Closed)));
    store.start_lifecycle(LifecycleOptions { day_ms: 1, ..OPTIONS });
    store.rules(&bucket, ":1:-:-:-:-:-");
    store.put(&bucket, "k", b"1").unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(store.handle().run_lifecycle().unwrap().versions, 1);
    let progress = store.handle().lifecycle_progress();
    assert_eq!((progress.runs, progress.running, progress.total.versions), (1, false, 1));
    let handle = store.handle();
    store.close();
    assert!(matches!(handle.run_lifecycle(), Err(Error::Closed)));
}

#[test]
fn rules_of_a_fork_remove_nothing_from_what_it_was_forked_from() {
    let store = Store::new();
    let bucket = store.bucket("b");
    for key in ["a", "tmp/1", "tmp/2"] {
        store.put(&bucket, key, b"1").unwrap();
    }
    let run = |intent| drop(store.handle().execute(intent).unwrap());
    run(Intent::ForkBucket { bucket: bucket.id, snapshot: None, name: "f".into() });
    let fork = store.handle().bucket(b"f").unwrap();
    store.put(&fork, "tmp/2", b"22").unwrap();
    run(Intent::DeleteObject {
        bucket: fork.id,
        key: "a".into(),
        version: None,
        precondition: Precondition::default(),
        bypass: false,
    });
    let keys = |bucket: &Bucket| {
        let list = ListObjects { bucket: bucket.id, prefix: "".into(), delimiter: None, after: None, max_keys: 9 };
        let mut page = ListPage::default();
        store.handle().list_objects_in(bucket, &list, &mut page).unwrap();
        page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.key).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&fork), ["tmp/1", "tmp/2"]);
    store.rules(&fork, "tmp/:1:-:-:-:-:-");
    let report = store.run_in(LATER);
    // The object that the fork hides is seen, and left alone.
    assert_eq!((report.buckets, report.seen, report.versions, report.changed), (1, 3, 2, 0));
    assert_eq!(keys(&fork), [""; 0]);
    let original = store.handle().bucket(b"b").unwrap();
    assert_eq!(keys(&original), ["a", "tmp/1", "tmp/2"]);
}

/// Uploads are judged by what came of them last, whatever came first.
#[test]
fn abandoned_uploads_are_aborted_and_those_in_use_stay() {
    let store = Store::new();
    let bucket = store.bucket("b");
    let begin = |key| store.create_upload(&bucket, key);
    let (empty, idle, used) = (begin("empty"), begin("idle"), begin("used"));
    store.put_part(&bucket, "idle", idle, 1, b"1");
    std::thread::sleep(Duration::from_millis(5));
    let since = store.handle().shared.clock.now_ms();
    store.put_part(&bucket, "used", used, 1, b"1");
    let report = store.handle().abort_idle(since).unwrap();
    assert_eq!((report.seen, report.aborted, report.changed), (3, 2, 0));
    let open = |key: &str, id| store.handle().upload(bucket.id, key.as_bytes(), id).unwrap().is_some();
    assert!(!open("empty", empty) && !open("idle", idle) && open("used", used));
    // The committer itself looks at the parts that it has by then.
    let (bucket_id, key, idle_since_ms) = (bucket.id, "used".into(), Some(since));
    let intent = Intent::AbortUpload { bucket: bucket_id, key, upload: used, idle_since_ms };
    assert!(matches!(store.handle().execute(intent), Err(Failure::Refused(Refusal::PreconditionFailed { .. }))));
    // No day has passed since.
    assert_eq!(store.handle().abort_abandoned(1).unwrap().aborted, 0);
    assert!(open("used", used));
}

/// An abortion may take the committer long, so that clients get their turn in between.
#[test]
fn abortions_pause_while_clients_write() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    for key in ["a", "b"] {
        let (key, headers) = (key.into(), Box::default());
        let attributes = Default::default();
        steps.run(Intent::CreateUpload { bucket: bucket.id, key, headers, attributes, checksum: None }).unwrap();
    }
    let shared = Arc::clone(steps.shared());
    let handle = steps.handle().clone();
    let (submitted, since_ms) = (shared.intents.submitted(), shared.clock.now_ms() + 1_000);
    let run = std::thread::spawn(move || handle.abort_idle(since_ms));
    let wait_for = |count| {
        while shared.intents.submitted() < submitted + count {
            std::thread::yield_now();
        }
    };
    wait_for(1);
    let put = steps.submit(steps.intent(&bucket, "k", b"of a client"));
    let begun = Instant::now();
    steps.stepper().commit();
    put.answer().unwrap();
    wait_for(3);
    assert!(begun.elapsed() >= Duration::from_millis(5));
    steps.stepper().commit();
    assert_eq!(run.join().unwrap().unwrap().aborted, 2);
}

#[test]
fn abortions_end_with_the_store_even_where_there_is_nothing_to_abort() {
    let store = Store::new();
    store.bucket("b");
    store.handle().shared.lifecycle.queue.stop();
    assert!(matches!(store.handle().abort_idle(0), Err(Error::Closed)));
}
