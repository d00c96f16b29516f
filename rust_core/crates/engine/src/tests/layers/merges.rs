//! Merges of layers: what buckets show stays, layers stay few, and what nothing shows any more goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::super::super::{Effort, ReclaimLimits, Step, Stepper};
use super::super::check::fixture::check;
use super::super::layers::{get, list};
use super::super::steps::Steps;
use super::super::support::{Store, noise};
use orcas_base::error::Error;
use orcas_catalog::{ListObjects, Listed, PageSink};
use orcas_decide::{Failure, Intent, Refusal};
use orcas_record::Bucket;

type Objects = BTreeMap<String, Vec<u8>>;

const KEPT: u64 = 7;
pub(super) const LIMITS: ReclaimLimits =
    ReclaimLimits { live_max: 0.0, freed_min: u64::MAX, output_max: 0, compact: false, hurry: false };

pub(super) fn snapshot(bucket: &Bucket, name: &str) -> Intent {
    Intent::CreateSnapshot { bucket: bucket.id, name: Bytes::copy_from_slice(name.as_bytes()) }
}

pub(super) fn forget(bucket: &Bucket, name: &str) -> Intent {
    Intent::DeleteSnapshot { bucket: bucket.id, name: Bytes::copy_from_slice(name.as_bytes()) }
}

pub(super) fn fork(bucket: &Bucket, snapshot: Option<&str>, name: &str) -> Intent {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Intent::ForkBucket { bucket: bucket.id, snapshot: snapshot.map(bytes), name: bytes(name) }
}

fn check_holds(store: &Store, name: &str, expected: &Objects) {
    let bucket = store.handle().bucket(name.as_bytes()).unwrap();
    assert_eq!(list(store, &bucket, "", false, 9), (expected.keys().cloned().collect(), vec![]), "{name}");
    for (key, body) in expected {
        assert!(get(store, &bucket, key).as_ref() == Some(body), "{name}/{key}");
    }
}

/// A snapshot a day, of which the last seven are kept, never meets a limit.
#[test]
fn a_hundred_snapshots_of_which_seven_are_kept_need_few_layers() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    let mut objects = Objects::new();
    let mut days = BTreeMap::new();
    for day in 0..100 {
        // What is in all snapshots, what is replaced each day, what comes and goes.
        for (key, seed) in [(format!("all/{day}"), day), ("today".into(), day), (format!("week/{}", day % 11), day)] {
            let body = noise(300, seed);
            store.put(&bucket, &key, &body).unwrap();
            objects.insert(key, body);
        }
        let gone = format!("week/{}", (day + 5) % 11);
        store.delete(&bucket, &gone).unwrap();
        objects.remove(&gone);
        store.handle().execute(snapshot(&bucket, &format!("day-{day}"))).unwrap();
        days.insert(day, objects.clone());
        if day >= KEPT {
            store.handle().execute(forget(&bucket, &format!("day-{}", day - KEPT))).unwrap();
            days.remove(&(day - KEPT));
        }
        if day % 3 == 0 {
            store.handle().reclaim(Effort::Collect).unwrap();
            let layers = store.handle().bucket(b"b").unwrap().layers.len() as u64;
            assert!(layers <= KEPT + 1, "{layers} layers on day {day}");
        }
        if day % 25 == 24 {
            store.reopen();
        }
    }
    check_holds(&store, "b", &objects);
    for (day, expected) in &days {
        store.handle().execute(fork(&bucket, Some(&format!("day-{day}")), "look")).unwrap();
        check_holds(&store, "look", expected);
        let look = store.handle().bucket(b"look").unwrap();
        expected.keys().for_each(|key| store.delete(&look, key).unwrap());
        store.handle().execute(Intent::DeleteBucket { bucket: look.id }).unwrap();
    }
    for day in days.keys() {
        store.handle().execute(forget(&bucket, &format!("day-{day}"))).unwrap();
    }
    store.handle().reclaim(Effort::Compact).unwrap();
    check_holds(&store, "b", &objects);
    // The bucket and its two layers; what no snapshot keeps any more is gone.
    let usage = store.handle().usage().unwrap();
    assert_eq!(usage.totals.dead, 0);
    let bodies: BTreeSet<&Vec<u8>> = objects.values().collect();
    assert_eq!(usage.totals.stored, 300 * bodies.len() as u64);
    store.check_rebuild();
    check_holds(&store, "b", &objects);
    store.close();
    let report = check(store.path());
    assert!(report.is_clean() && report.findings.is_empty(), "{:#?}", report.findings);
    let rows = store.dump().lines().filter(|line| line.starts_with("buckets ")).count();
    assert_eq!(rows, 2);
}

/// A client that lost the answer to a completion asks again after the layer is gone that the object went to.
#[test]
fn a_completion_is_answered_again_after_a_merge() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    store.handle().execute(snapshot(&bucket, "first")).unwrap();
    let upload = store.create_upload(&bucket, "k");
    let part = store.put_part(&bucket, "k", upload, 1, b"content");
    store.complete(&bucket, "k", upload, &[part]).unwrap();
    store.handle().execute(snapshot(&bucket, "second")).unwrap();
    store.handle().execute(forget(&bucket, "first")).unwrap();
    let before = store.handle().bucket(b"b").unwrap().layers.len();
    store.handle().reclaim(Effort::Collect).unwrap();
    assert_eq!(store.handle().bucket(b"b").unwrap().layers.len(), before - 1);
    store.reopen();
    store.complete(&bucket, "k", upload, &[part]).unwrap();
    // Not when the bucket shows another object.
    store.put(&bucket, "k", b"other").unwrap();
    assert!(store.complete(&bucket, "k", upload, &[part]).is_err());
}

/// What a completion made is not what a later bucket of that name has, be it the same.
#[test]
fn a_completion_is_not_answered_again_for_a_later_bucket() {
    for forked in [false, true] {
        let store = Store::new();
        let source = store.bucket("source");
        let make = || {
            if forked {
                store.handle().execute(fork(&source, None, "b")).unwrap();
            } else {
                store.bucket("b");
            }
            store.handle().bucket(b"b").unwrap()
        };
        let complete = |bucket: &Bucket| {
            let upload = store.create_upload(bucket, "k");
            let part = store.put_part(bucket, "k", upload, 1, b"content");
            (upload, part, store.complete(bucket, "k", upload, &[part]).unwrap())
        };
        let bucket = make();
        let (upload, part, first) = complete(&bucket);
        store.delete(&bucket, "k").unwrap();
        store.handle().execute(Intent::DeleteBucket { bucket: bucket.id }).unwrap();
        store.handle().reclaim(Effort::Collect).unwrap();
        let later = make();
        assert_eq!(complete(&later).2.etag, first.etag);
        let answer = store.complete(&later, "k", upload, &[part]);
        assert!(matches!(answer, Err(Failure::Refused(Refusal::NoSuchUpload))), "{answer:?}");
    }
}

/// The first layer of a fork is older than the fork.
#[test]
fn a_completion_in_a_fork_is_answered_again_after_a_merge() {
    let mut store = Store::new();
    let source = store.bucket("source");
    store.handle().execute(fork(&source, None, "fork")).unwrap();
    store.handle().execute(Intent::DeleteBucket { bucket: source.id }).unwrap();
    let bucket = store.handle().bucket(b"fork").unwrap();
    let upload = store.create_upload(&bucket, "k");
    let part = store.put_part(&bucket, "k", upload, 1, b"content");
    store.complete(&bucket, "k", upload, &[part]).unwrap();
    store.handle().execute(snapshot(&bucket, "first")).unwrap();
    let layer = bucket.top();
    store.handle().reclaim(Effort::Collect).unwrap();
    assert!(!store.handle().bucket(b"fork").unwrap().layers.contains(&layer));
    store.reopen();
    store.complete(&bucket, "k", upload, &[part]).unwrap();
}

/// A key that was deleted between two snapshots stays deleted when the layers after the first one are merged. What was
/// put and deleted after that snapshot leaves no delete marker.
#[test]
fn a_merge_keeps_the_delete_markers_that_hide_something() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    let old = [("gone", noise(300, 1)), ("kept", noise(300, 2))];
    old.iter().for_each(|(key, body)| store.put(&bucket, key, body).unwrap());
    store.handle().execute(snapshot(&bucket, "first")).unwrap();
    store.put(&bucket, "gone", b"replaced").unwrap();
    store.put(&bucket, "passing", b"put and deleted").unwrap();
    store.handle().execute(snapshot(&bucket, "second")).unwrap();
    store.delete(&bucket, "gone").unwrap();
    store.delete(&bucket, "passing").unwrap();
    store.handle().execute(snapshot(&bucket, "third")).unwrap();
    store.handle().execute(fork(&bucket, Some("third"), "fork")).unwrap();
    let layers = || store.handle().bucket(b"b").unwrap().layers.len();
    assert_eq!(layers(), 4);
    store.handle().execute(forget(&bucket, "second")).unwrap();
    store.handle().reclaim(Effort::Collect).unwrap();
    assert_eq!(layers(), 3);
    let first = old.clone().map(|(key, body)| (key.to_owned(), body)).into();
    let now: Objects = [("kept".to_owned(), noise(300, 2))].into();
    store.handle().execute(fork(&bucket, Some("first"), "earlier")).unwrap();
    let check_all = |store: &Store| {
        [("b", &now), ("fork", &now), ("earlier", &first)].iter().for_each(|(name, all)| check_holds(store, name, all));
        let present = store.handle().bucket(b"b").unwrap();
        ["gone", "passing"].iter().for_each(|key| assert_eq!(get(store, &present, key), None));
    };
    check_all(&store);
    store.reopen();
    check_all(&store);
    store.check_rebuild();
    check_all(&store);
    store.close();
    // Of two delete markers, one is left.
    assert_eq!(store.dump().lines().filter(|line| line.starts_with("history ")).count(), 1);
}

/// Merges until nothing is left to merge. `false` if nothing was.
pub(super) fn merge_all(steps: &mut Stepper) -> bool {
    let mut merged = false;
    for _ in 0..200 {
        if steps.reclaim(&LIMITS).unwrap() == Step::Idle {
            return merged;
        }
        merged |= steps.reclaiming() == Some("merge of layers");
        steps.commit();
        steps.apply().unwrap();
    }
    panic!("no end");
}

/// Merges after so many entries, and notes what it was told.
struct Merging<'s> {
    steps: &'s mut Steps,
    after: usize,
    seen: Vec<(String, u64)>,
}

impl PageSink for Merging<'_> {
    fn entry(&mut self, key: &[u8], listed: &Listed) {
        self.seen.push((String::from_utf8(key.to_vec()).unwrap(), listed.size));
        if self.seen.len() == self.after {
            let stepper = self.steps.stepper();
            for _ in 0..20 {
                stepper.reclaim(&LIMITS).unwrap();
                if stepper.reclaiming() == Some("merge of layers") {
                    break;
                }
            }
            assert_eq!(stepper.reclaiming(), Some("merge of layers"));
            // The index of the list stays as it was when the page was begun.
            stepper.commit();
        }
    }

    fn prefix(&mut self, _: &[u8]) {}

    fn restart(&mut self) {
        self.seen.clear();
    }
}

/// Keys that the list reads from the lower layer before they are moved there, and from the upper one after that.
#[test]
fn a_list_passes_over_no_key_that_is_moved_while_it_is_read() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let key = |at: usize| format!("{at:03}");
    for at in (0..100).filter(|at| at % 3 > 0) {
        steps.put(&bucket, &key(at), &noise(300, at as u64));
    }
    steps.run(snapshot(&bucket, "first")).unwrap();
    let mut expected = Vec::new();
    for at in 0..100 {
        match at % 3 {
            1 => expected.push((key(at), 300)),
            0 | 2 if at % 2 == 0 => {
                let put = steps.intent(&bucket, &key(at), &noise(400, at as u64));
                steps.run(put).unwrap();
                expected.push((key(at), 400));
            }
            _ => steps.delete(&bucket, &key(at)),
        }
    }
    steps.run(snapshot(&bucket, "second")).unwrap();
    steps.run(forget(&bucket, "first")).unwrap();
    steps.apply();
    let handle = steps.handle().clone();
    let present = handle.bucket(b"b").unwrap();
    let list = ListObjects { bucket: bucket.id, prefix: Bytes::new(), delimiter: None, after: None, max_keys: 1_000 };
    let mut sink = Merging { steps: &mut steps, after: 5, seen: Vec::new() };
    handle.list_objects_in(&present, &list, &mut sink).unwrap();
    assert_eq!(sink.seen, expected);
    merge_all(steps.stepper());
    let mut sink = Merging { steps: &mut steps, after: usize::MAX, seen: Vec::new() };
    handle.list_objects_in(&handle.bucket(b"b").unwrap(), &list, &mut sink).unwrap();
    assert_eq!(sink.seen, expected);
}

/// More than one intent merges.
const KEYS: u64 = 600;

/// In few batches.
pub(super) fn run_all(steps: &mut Steps, intents: Vec<Intent>) {
    let submitted: Vec<_> = intents.into_iter().map(|intent| steps.submit(intent)).collect();
    while submitted.last().is_some_and(|last| !last.is_answered()) {
        steps.stepper().commit();
        steps.apply();
    }
    submitted.into_iter().for_each(|submitted| drop(submitted.answer().unwrap()));
}

/// However far a merge came before the process ended, the bucket and its fork show what they did.
#[test]
fn a_merge_goes_on_where_it_was_cut_off() {
    for cut in 0.. {
        let mut steps = Steps::new();
        let bucket = steps.bucket("b");
        let put = |steps: &Steps, at: u64, body: &[u8]| steps.intent(&bucket, &format!("{at:03}"), body);
        let puts = (0..KEYS).map(|at| put(&steps, at, b"old")).collect();
        run_all(&mut steps, puts);
        steps.run(snapshot(&bucket, "first")).unwrap();
        let change = |at: u64| match at % 2 {
            0 => Intent::DeleteObject {
                bucket: bucket.id,
                key: format!("{at:03}").into(),
                precondition: Default::default(),
                version: None,
                bypass: false,
            },
            _ => put(&steps, at, b"new"),
        };
        let changes = (0..KEYS).map(change).collect();
        run_all(&mut steps, changes);
        steps.run(fork(&bucket, None, "fork")).unwrap();
        steps.run(forget(&bucket, "first")).unwrap();
        steps.apply();
        let mut ended = false;
        for at in 0..cut {
            match at % 3 {
                0 => ended = steps.stepper().reclaim(&LIMITS).unwrap() == Step::Idle,
                1 => steps.stepper().commit(),
                _ => steps.apply(),
            }
        }
        if cut % 2 == 0 {
            steps.reopen()
        } else {
            steps.rebuild()
        }
        let look = |steps: &Steps| {
            for name in ["b", "fork"] {
                let bucket = steps.handle().bucket(name.as_bytes()).unwrap();
                for at in 0..KEYS {
                    let key = Bytes::from(format!("{at:03}"));
                    let found = steps.handle().object_in(&bucket, &key).unwrap();
                    let found = found.map(|found| found.object.version.size);
                    assert_eq!(found, (at % 2 == 1).then_some(3), "{name}/{at} after {cut} steps");
                }
            }
        };
        look(&steps);
        steps.apply();
        merge_all(steps.stepper());
        look(&steps);
        for name in ["b", "fork"] {
            assert_eq!(steps.handle().bucket(name.as_bytes()).unwrap().layers.len(), 2);
        }
        if ended {
            assert!(cut > 9);
            return;
        }
    }
}

/// Puts keys, freezes them, puts them again and freezes that: two layers to be merged.
fn two_layers(steps: &mut Steps) -> Arc<Bucket> {
    let bucket = steps.bucket("b");
    for name in ["first", "second"] {
        let puts = (0..KEYS).map(|at| steps.intent(&bucket, &format!("{at:03}"), name.as_bytes())).collect();
        run_all(steps, puts);
        steps.run(snapshot(&bucket, name)).unwrap();
    }
    steps.run(forget(&bucket, "first")).unwrap();
    steps.apply();
    bucket
}

/// Every part waits for the one before to be in the index, and nobody else may be writing.
#[test]
fn a_merge_lets_the_index_follow_at_once() {
    let mut steps = Steps::new();
    two_layers(&mut steps);
    let mut waited = Vec::new();
    for _ in 0..200 {
        if steps.stepper().reclaim(&LIMITS).unwrap() == Step::Idle {
            break;
        }
        steps.stepper().commit();
        let merging = steps.stepper().reclaiming() == Some("merge of layers");
        if merging && steps.handle().health().lag_records > 0 {
            assert_eq!(steps.stepper().reclaim(&LIMITS).unwrap(), Step::Waiting);
            let begun = Instant::now();
            steps.shared().applies.wait_for_work();
            waited.push(begun.elapsed());
        }
        steps.apply();
    }
    assert!(waited.len() >= 4);
    assert!(waited.iter().min() < Some(&Duration::from_millis(100)), "{waited:?}");
}

/// An index that has lost rows of a layer must not be believed that the layer is empty: what they are of would go.
#[test]
fn a_layer_whose_rows_are_gone_is_not_removed() {
    let mut steps = Steps::new();
    let bucket = two_layers(&mut steps);
    let present = steps.handle().bucket(b"b").unwrap();
    let upper = present.layers[1];
    let gone = format!("DELETE FROM heads WHERE bucket = {}", upper.0);
    let rows = orcas_index_testing::open_raw(&steps.path().join("index.db")).execute(&gone, []).unwrap();
    assert_eq!(rows as u64, KEYS);
    let before = steps.stepper().committer.next_sequence;
    let found = (0..20).find_map(|_| {
        let step = steps.stepper().reclaim(&LIMITS);
        steps.stepper().commit();
        steps.apply();
        step.err()
    });
    assert!(matches!(found, Some(Error::IndexDamaged { .. })), "{found:?}");
    assert_eq!(steps.stepper().committer.next_sequence, before, "a record was written");
    assert!(steps.shared().index_rebuild.is_wanted());
    steps.rebuild();
    merge_all(steps.stepper());
    let present = steps.handle().bucket(b"b").unwrap();
    assert_eq!(present.layers, [present.top(), bucket.id]);
    for at in 0..KEYS {
        let found = steps.handle().object_in(&present, &format!("{at:03}").into()).unwrap();
        assert_eq!(found.map(|found| found.object.version.size), Some(6));
    }
}
