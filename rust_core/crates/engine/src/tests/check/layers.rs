//! Repairs and salvages of stores whose buckets have layers: what is shown never comes from another layer than before,
//! and nothing that a bucket still shows is given up.

use std::sync::Arc;

use bytes::Bytes;

use super::super::super::{Effort, Engine, SalvageReport, repair_store, salvage_store};
use super::super::support::{Store, environment, noise, options};
use super::fixture::{check, files, flip};
use orcas_decide::{Intent, Move, Precondition};
use orcas_fsck::{CheckProgress, GivenUp, IndexState};
use orcas_record::{self as record, Bucket, Record};

pub(super) struct Layered {
    pub store: Store,
}

impl Layered {
    pub fn new() -> Self {
        Self { store: Store::new() }
    }

    pub fn run(&self, intent: Intent) {
        self.store.handle().execute(intent).unwrap();
    }

    pub fn bucket(&self, name: &str) -> Arc<Bucket> {
        self.store.handle().bucket(name.as_bytes()).unwrap()
    }

    pub fn snapshot(&self, bucket: &Bucket, name: &'static str) {
        self.run(Intent::CreateSnapshot { bucket: bucket.id, name: Bytes::from_static(name.as_bytes()) });
    }

    /// The content of an object; `None` if there is none.
    pub fn get(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        shown(&self.store.handle(), bucket, key)
    }

    /// Damages the `place`th record that has these bytes, in the closed store, and removes the index unless it is kept.
    pub fn damage(&mut self, needle: &[u8], place: usize, keep_index: bool) {
        self.store.close();
        self.flip(needle, place);
        if !keep_index {
            self.remove_index();
        }
    }

    pub fn flip(&self, needle: &[u8], place: usize) {
        self.flip_behind(needle, place, 0);
    }

    /// Changes the byte so far behind the beginning of the `place`th of these bytes.
    pub fn flip_behind(&self, needle: &[u8], place: usize, behind: u64) {
        let found = files(&self.store.path().join("log")).into_iter().flat_map(|log| {
            let bytes = std::fs::read(&log).unwrap();
            let places: Vec<usize> = memchr::memmem::find_iter(&bytes, needle).collect();
            places.into_iter().map(move |at| (log.clone(), at as u64))
        });
        let (log, at) = found.into_iter().nth(place).unwrap();
        flip(&log, at + behind);
    }

    pub fn remove_index(&self) {
        for name in ["index.db", "index.db-wal", "index.db-shm"] {
            let _ = std::fs::remove_file(self.store.path().join(name));
        }
    }

    /// Damages the record that shows a bucket last, in the closed store, and removes the index.
    pub fn damage_last_record(&mut self, bucket: &Bucket) {
        self.store.close();
        let record = self.last_record(bucket);
        self.flip(&record, 0);
        self.remove_index();
    }

    pub fn last_record(&self, bucket: &Bucket) -> Bytes {
        let index = self.store.index().unwrap();
        let stored = index.read().unwrap().buckets().unwrap();
        let decoded = |stored: &orcas_index::Stored| record::decode(stored.kind, &stored.record).unwrap();
        let is_of = |stored: &orcas_index::Stored| matches!(decoded(stored), Record::CreateBucket(found) | Record::UpdateBucket(found) if found.id == bucket.id);
        stored.into_iter().find(is_of).unwrap().record
    }

    /// Repairs the damaged store and opens it.
    pub fn repair(&mut self) -> GivenUp {
        let options = options(self.store.path());
        let repaired = repair_store(options, environment(), &CheckProgress::default(), true).unwrap();
        assert!(repaired.report.is_clean(), "{:#?}", repaired.report);
        assert_eq!(repaired.report.index, IndexState::Equal);
        self.store.open();
        repaired.given_up.unwrap()
    }

    pub fn salvage(&self) -> (Engine, SalvageReport) {
        salvage_store(options(self.store.path()), environment(), &Bytes::from_static(b"root")).unwrap()
    }

    /// Salvage and repair make up a bucket with this name, lose nothing, and show what is `expected`.
    pub fn assert_makes_up(&mut self, name: &str, expected: impl Fn(&super::super::super::Handle)) {
        let (engine, report) = self.salvage();
        assert_eq!(report.made_up, [name]);
        expected(&engine.handle());
        drop(engine);
        let given_up = self.repair();
        assert_eq!((given_up.losses_total, &given_up.buckets[..]), (0, &[name.to_owned()][..]));
        expected(&self.store.handle());
    }

    /// What was written after a repair is there after a rebuild of the index.
    pub fn assert_keeps_what_is_written(&mut self, bucket: &str) {
        self.store.put(&self.bucket(bucket), "after", b"the repair").unwrap();
        self.store.check_rebuild();
        assert_eq!(self.get(bucket, "after").as_deref(), Some(&b"the repair"[..]));
        self.store.close();
        assert!(check(self.store.path()).is_clean());
        self.store.open();
    }
}

pub(super) fn shown(handle: &super::super::super::Handle, bucket: &str, key: &str) -> Option<Vec<u8>> {
    let bucket = handle.bucket(bucket.as_bytes()).unwrap();
    let found = handle.object_in(&bucket, &Bytes::copy_from_slice(key.as_bytes())).unwrap()?;
    let size = found.object.version.size;
    let mut reader = handle.content().reader(&found, 0, size.saturating_sub(1));
    let (mut out, mut at) = (vec![0; size as usize], 0);
    while at < out.len() {
        at += reader.read(&mut out[at..]).unwrap();
    }
    Some(out)
}

#[test]
fn a_top_layer_without_its_record_comes_back() {
    for with_objects in [false, true] {
        let mut layered = Layered::new();
        let bucket = layered.store.bucket("bbb");
        layered.store.put(&bucket, "x", b"old").unwrap();
        layered.snapshot(&bucket, "s");
        if with_objects {
            layered.store.put(&layered.bucket("bbb"), "y", b"new").unwrap();
        }
        layered.store.bucket("other");
        layered.damage(b"bbb#", 0, false);
        if with_objects {
            let (engine, report) = layered.salvage();
            assert_eq!(report.made_up, Vec::<String>::new());
            assert_eq!(shown(&engine.handle(), "bbb", "y").as_deref(), Some(&b"new"[..]));
            assert_eq!(engine.handle().buckets().len(), 2);
        }
        let given_up = layered.repair();
        assert_eq!((given_up.losses_total, given_up.buckets), (0, Vec::new()));
        assert_eq!(layered.store.handle().buckets().len(), 2, "a layer is no bucket of clients");
        assert_eq!(layered.get("bbb", "x").as_deref(), Some(&b"old"[..]));
        assert_eq!(layered.get("bbb", "y").is_some(), with_objects);
        layered.assert_keeps_what_is_written("bbb");
    }
}

#[test]
fn an_object_that_is_given_up_shows_none_below() {
    let mut layered = Layered::new();
    let bucket = layered.store.bucket("bbb");
    layered.store.put(&bucket, "x", &noise(3_000, 1)).unwrap();
    layered.snapshot(&bucket, "s");
    let new = noise(3_000, 2);
    layered.store.put(&layered.bucket("bbb"), "x", &new).unwrap();
    layered.damage(&new[1_000..1_100], 0, true);
    let given_up = layered.repair();
    let lost: Vec<_> = given_up.losses.iter().map(|loss| (&loss.bucket[..], &loss.key[..])).collect();
    assert_eq!(lost, [("bbb", &b"x"[..])], "by the name that clients know");
    assert_eq!(layered.get("bbb", "x"), None);
    layered.assert_keeps_what_is_written("bbb");
    // The marker that hides it is no sign of versioning.
    layered.snapshot(&layered.bucket("bbb"), "t");
}

#[test]
fn a_repair_brings_no_source_of_a_move_back() {
    let mut layered = Layered::new();
    let (from, to) = (layered.store.bucket("from"), layered.store.bucket("to"));
    layered.store.put(&from, "x", b"moved").unwrap();
    layered.run(Intent::MoveObject(Box::new(Move {
        from_bucket: from.id,
        from_key: "x".into(),
        from_conditions: Default::default(),
        bucket: to.id,
        key: "x".into(),
        precondition: Precondition::default(),
    })));
    layered.store.delete(&to, "x").unwrap();
    layered.run(Intent::DeleteBucket { bucket: to.id });
    let junk = noise(3_000, 1);
    layered.store.put(&from, "junk", &junk).unwrap();
    layered.damage(&junk[1_000..1_100], 0, true);
    assert_eq!(layered.repair().losses_total, 1);
    assert_eq!(layered.get("from", "x"), None);
    layered.assert_keeps_what_is_written("from");
}

#[test]
fn a_repair_opens_no_completed_upload() {
    let mut layered = Layered::new();
    let bucket = layered.store.bucket("bbb");
    layered.store.put(&bucket, "x", b"old").unwrap();
    layered.snapshot(&bucket, "s");
    let bucket = layered.bucket("bbb");
    let upload = layered.store.create_upload(&bucket, "large");
    let part = layered.store.put_part(&bucket, "large", upload, 1, &noise(100_000, 1));
    layered.store.complete(&bucket, "large", upload, &[part]).unwrap();
    layered.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "s".into() });
    layered.store.handle().reclaim(Effort::Collect).unwrap();
    let junk = noise(3_000, 2);
    layered.store.put(&layered.bucket("bbb"), "junk", &junk).unwrap();
    layered.damage(&junk[1_000..1_100], 0, true);
    let given_up = layered.repair();
    let lost: Vec<_> = given_up.losses.iter().map(|loss| &loss.key[..]).collect();
    assert_eq!(lost, [b"junk"]);
    layered.assert_keeps_what_is_written("bbb");
}

/// The name of a bucket that became a layer was given to a new one, and the record that made it a layer is lost.
#[test]
fn a_layer_that_looks_like_a_deleted_bucket_keeps_its_objects() {
    let mut layered = Layered::new();
    let bucket = layered.store.bucket("bbb");
    layered.store.put(&bucket, "x", b"old").unwrap();
    layered.run(Intent::ForkBucket { bucket: bucket.id, snapshot: None, name: "fork".into() });
    layered.store.delete(&layered.bucket("bbb"), "x").unwrap();
    layered.run(Intent::DeleteBucket { bucket: bucket.id });
    let new = layered.store.bucket("bbb");
    layered.store.put(&new, "n", b"new").unwrap();
    // The layers of the bucket have names like this too; the record that renamed the bucket itself comes last.
    let name = format!("bbb#{}", bucket.id.0);
    layered.damage(name.as_bytes(), 0, false);
    let (engine, _) = layered.salvage();
    assert_eq!(shown(&engine.handle(), "fork", "x").as_deref(), Some(&b"old"[..]));
    assert_eq!(shown(&engine.handle(), "bbb", "n").as_deref(), Some(&b"new"[..]));
    drop(engine);
    assert_eq!(layered.repair().losses_total, 0);
    assert_eq!(layered.get("fork", "x").as_deref(), Some(&b"old"[..]));
    assert_eq!((layered.get("bbb", "x"), layered.get("bbb", "n").as_deref()), (None, Some(&b"new"[..])));
    layered.assert_keeps_what_is_written("fork");
}

/// The record that puts a new layer on top of a bucket is lost, and nothing names the layer.
#[test]
fn a_layer_that_nothing_names_comes_back_to_its_bucket() {
    for restored in [false, true] {
        let mut layered = Layered::new();
        let bucket = layered.store.bucket("bbb");
        layered.store.put(&bucket, "x", b"old").unwrap();
        layered.snapshot(&bucket, "s");
        layered.store.put(&layered.bucket("bbb"), "y", b"before").unwrap();
        if restored {
            layered.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "s".into() });
            layered.store.handle().reclaim(Effort::Collect).unwrap();
            layered.store.put(&layered.bucket("bbb"), "z", b"after").unwrap();
        }
        layered.damage_last_record(&bucket);
        let expected = |handle: &super::super::super::Handle| {
            assert_eq!(shown(handle, "bbb", "x").as_deref(), Some(&b"old"[..]));
            assert_eq!(shown(handle, "bbb", "y").as_deref(), (!restored).then_some(&b"before"[..]));
            assert_eq!(shown(handle, "bbb", "z").as_deref(), restored.then_some(&b"after"[..]));
        };
        let (engine, _) = layered.salvage();
        expected(&engine.handle());
        drop(engine);
        assert_eq!(layered.repair().losses_total, 0);
        expected(&layered.store.handle());
        layered.assert_keeps_what_is_written("bbb");
        // What was written after the repair is not in the snapshot.
        layered.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "s".into() });
        assert_eq!((layered.get("bbb", "y"), layered.get("bbb", "after")), (None, None));
        assert_eq!(layered.get("bbb", "x").as_deref(), Some(&b"old"[..]));
    }
}

#[test]
fn a_bucket_whose_top_layer_is_gone_gets_a_new_one() {
    let mut layered = Layered::new();
    let bucket = layered.store.bucket("bbb");
    layered.store.put(&bucket, "x", b"old").unwrap();
    layered.snapshot(&bucket, "s");
    layered.store.put(&layered.bucket("bbb"), "y", b"before").unwrap();
    let first = layered.bucket("bbb").top();
    layered.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "s".into() });
    layered.store.handle().reclaim(Effort::Collect).unwrap();
    let second = layered.bucket("bbb").top();
    layered.damage_last_record(&bucket);
    // The empty layer is lost as well.
    layered.flip(format!("bbb#{}", second.0).as_bytes(), 0);
    assert_eq!(layered.repair().losses_total, 0);
    assert!(![first, second].contains(&layered.bucket("bbb").top()));
    assert_eq!((layered.get("bbb", "x").as_deref(), layered.get("bbb", "y")), (Some(&b"old"[..]), None));
    layered.assert_keeps_what_is_written("bbb");
}

/// The record is lost that moved an object down in a merge. No stack has the layer any more that the record names.
#[test]
fn an_object_that_a_lost_record_of_a_merge_had_replaced_is_named() {
    let mut layered = Layered::new();
    let bucket = layered.store.bucket("bbb");
    for key in ["x", "y"] {
        layered.store.put(&bucket, key, b"old").unwrap();
    }
    layered.snapshot(&bucket, "first");
    layered.store.put(&bucket, "x", b"the newer one").unwrap();
    layered.snapshot(&bucket, "second");
    layered.run(Intent::DeleteSnapshot { bucket: bucket.id, name: "first".into() });
    layered.store.handle().reclaim(Effort::Collect).unwrap();
    assert_eq!(layered.bucket("bbb").layers.len(), 2);
    layered.damage(b"the newer one", 1, false);
    let (engine, report) = layered.salvage();
    assert_eq!(shown(&engine.handle(), "bbb", "x").as_deref(), Some(&b"old"[..]));
    assert_eq!(report.named, [("bbb".to_owned(), Bytes::from("x"))]);
}

/// The record of a fork is lost, and nothing else names its layer.
#[test]
fn what_was_written_to_a_fork_that_is_lost_gets_a_bucket() {
    let mut layered = Layered::new();
    let bucket = layered.store.bucket("bbb");
    for key in ["x", "z"] {
        layered.store.put(&bucket, key, b"old").unwrap();
    }
    layered.run(Intent::ForkBucket { bucket: bucket.id, snapshot: None, name: "fork".into() });
    let fork = layered.bucket("fork");
    layered.store.put(&fork, "y", b"new").unwrap();
    layered.store.delete(&fork, "z").unwrap();
    // What nothing was put into needs no bucket.
    layered.run(Intent::ForkBucket { bucket: bucket.id, snapshot: None, name: "other".into() });
    let other = layered.bucket("other");
    layered.store.close();
    let records = [&fork, &other].map(|bucket| layered.last_record(bucket));
    records.iter().for_each(|record| layered.flip(record, 0));
    layered.remove_index();
    let name = format!("lost-bucket-{}", fork.top().0);
    let expected = |handle: &super::super::super::Handle| {
        let names: Vec<_> = handle.buckets().iter().map(|bucket| bucket.name.clone()).collect();
        assert_eq!(names, ["bbb", &name[..]]);
        assert_eq!(shown(handle, &name, "y").as_deref(), Some(&b"new"[..]));
        assert_eq!((shown(handle, &name, "x"), shown(handle, &name, "z")), (None, None));
        assert_eq!(shown(handle, "bbb", "z").as_deref(), Some(&b"old"[..]));
    };
    layered.assert_makes_up(&name, expected);
    layered.assert_keeps_what_is_written(&name);
}

/// The record is lost that took a merged layer out of a stack.
#[test]
fn a_stack_goes_on_without_a_layer_that_was_merged() {
    for of_snapshot in [false, true] {
        let mut layered = Layered::new();
        let bucket = layered.store.bucket("bbb");
        for key in ["x", "z"] {
            layered.store.put(&bucket, key, b"old").unwrap();
        }
        layered.snapshot(&bucket, "first");
        for key in ["x", "y"] {
            layered.store.put(&bucket, key, b"new").unwrap();
        }
        layered.store.delete(&bucket, "z").unwrap();
        layered.snapshot(&bucket, "second");
        layered.store.put(&bucket, "y", b"top").unwrap();
        layered.run(Intent::DeleteSnapshot { bucket: bucket.id, name: "first".into() });
        layered.store.handle().reclaim(Effort::Collect).unwrap();
        assert_eq!(layered.bucket("bbb").layers.len(), 2);
        let snapshot = Arc::clone(&layered.store.handle().snapshots(b"bbb")[0]);
        assert_eq!(snapshot.layers, [bucket.id]);
        layered.damage_last_record(if of_snapshot { &snapshot } else { &bucket });
        let expected = |handle: &super::super::super::Handle, y: &[u8]| {
            assert_eq!(shown(handle, "bbb", "x").as_deref(), Some(&b"new"[..]));
            assert_eq!((shown(handle, "bbb", "y").as_deref(), shown(handle, "bbb", "z")), (Some(y), None));
        };
        let (engine, _) = layered.salvage();
        expected(&engine.handle(), b"top");
        drop(engine);
        assert_eq!(layered.repair().losses_total, 0);
        expected(&layered.store.handle(), b"top");
        layered.assert_keeps_what_is_written("bbb");
        layered.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "second".into() });
        expected(&layered.store.handle(), b"new");
        layered.assert_keeps_what_is_written("bbb");
    }
}
