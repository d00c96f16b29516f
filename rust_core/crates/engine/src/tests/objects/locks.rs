//! A locked version is never gone: not after reclamation, not in a restored backup, not with another time, and not after
//! the record of its lock was lost.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::super::{Clock, Effort, Engine, Environment, Handle, repair_store};
use super::super::health::backup::copy;
use super::super::support::{Store, environment, noise, options};
use orcas_decide::{AttributeChange, Failure, Intent, Outcome, Precondition, Refusal, UpdateVersion};
use orcas_fsck::CheckProgress;
use orcas_record::{Bucket, BucketId, BucketSettings, Retention, RetentionMode, VersionId};

const YEAR_MS: u64 = 365 * 86_400_000;
const LOCKED: [&str; 3] = ["held", "compliance", "governance"];

/// A clock that somebody set.
struct SetClock(u64);

impl Clock for SetClock {
    fn now_ms(&self) -> u64 {
        self.0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn now_ms() -> u64 {
    environment().clock.now_ms()
}

fn update(handle: &Handle, bucket: BucketId, key: &'static str, change: AttributeChange) -> Result<Outcome, Failure> {
    let update = UpdateVersion { bucket, key: key.into(), version: None, change };
    handle.execute(Intent::UpdateVersion(Box::new(update)))
}

fn delete(handle: &Handle, bucket: BucketId, key: &'static str, version: VersionId, bypass: bool) -> Option<Refusal> {
    let (key, precondition) = (Bytes::from(key), Precondition::default());
    match handle.execute(Intent::DeleteObject { bucket, key, version: Some(version), precondition, bypass }) {
        Ok(_) => None,
        Err(Failure::Refused(refusal)) => Some(refusal),
        Err(other) => panic!("{other:?}"),
    }
}

fn current(handle: &Handle, bucket: BucketId, key: &'static str) -> VersionId {
    handle.object(bucket, &key.into()).unwrap().unwrap().object.version.version_id
}

/// One version of each kind of lock, and as many that are not locked.
fn locked_store() -> (Store, Arc<Bucket>) {
    let store = Store::with(|options| options.log_file_size = 512 << 10);
    let create = Intent::CreateBucket {
        name: "b".into(),
        owner: "root".into(),
        location: Bytes::new(),
        settings: BucketSettings::default(),
        object_lock: true,
        documents: Vec::new(),
    };
    let Ok(Outcome::Bucket(bucket)) = store.handle().execute(create) else { panic!("no bucket") };
    for (at, key) in LOCKED.into_iter().chain(["free"]).enumerate() {
        store.put(&bucket, key, &noise(3_000, at as u64)).unwrap();
    }
    let until_ms = now_ms() + YEAR_MS;
    let retain = |mode| AttributeChange::Retention { retention: Some(Retention { mode, until_ms }), bypass: false };
    let handle = store.handle();
    update(&handle, bucket.id, "held", AttributeChange::LegalHold(true)).unwrap();
    update(&handle, bucket.id, "compliance", retain(RetentionMode::Compliance)).unwrap();
    update(&handle, bucket.id, "governance", retain(RetentionMode::Governance)).unwrap();
    (store, bucket)
}

/// Nobody deletes a locked version, whatever the time is, until the retention ends.
fn assert_locked(path: &Path, options: &super::super::super::EngineOptions) {
    for now_ms in [now_ms(), now_ms() - 20 * YEAR_MS, 0] {
        let environment = Environment { clock: Arc::new(SetClock(now_ms)), ..environment() };
        let options = super::super::super::EngineOptions { data: path.to_owned(), ..options.clone() };
        let engine = Engine::open(options, environment).unwrap();
        let handle = engine.handle();
        let bucket = handle.bucket(b"b").unwrap().id;
        for key in LOCKED {
            let version = current(&handle, bucket, key);
            for bypass in [false, true] {
                if !(bypass && key == "governance") {
                    assert_eq!(delete(&handle, bucket, key, version, bypass), Some(Refusal::ObjectLocked), "{key}");
                }
            }
            assert_eq!(current(&handle, bucket, key), version);
        }
        engine.close().unwrap();
    }
}

#[test]
fn locks_outlive_compaction_the_index_and_a_restore() {
    let (mut store, bucket) = locked_store();
    for round in 0..200 {
        store.put(&bucket, "free", &noise(4_000, 10 + round)).unwrap();
        let version = current(&store.handle(), bucket.id, "free");
        assert_eq!(delete(&store.handle(), bucket.id, "free", version, false), None);
    }
    store.handle().reclaim(Effort::Compact).unwrap();
    assert!(store.handle().reclaim_progress().total.log_files > 0);
    let pin = store.handle().pin_for_backup().unwrap();
    let restored = tempfile::tempdir().unwrap();
    copy(&pin, store.path(), restored.path());
    drop(pin);
    store.check_rebuild();
    store.close();
    assert_locked(store.path(), &store.options);
    assert_locked(restored.path(), &store.options);
}

/// With its index the lock comes back; without it, whatever may have been locked gets a legal hold.
#[test]
fn a_repair_that_has_lost_the_record_of_a_lock_leaves_nothing_unlocked() {
    for indexed in [true, false] {
        let (mut store, _) = locked_store();
        store.close();
        let updates = store.index().unwrap().read().unwrap().updates_after(0, 10).unwrap();
        assert_eq!(updates.len(), LOCKED.len());
        let log = store.path().join("log/00000000000000000001.log");
        let mut bytes = std::fs::read(&log).unwrap();
        for (_, payload) in &updates {
            let at = memchr::memmem::find(&bytes, payload).unwrap();
            bytes[at + payload.len() - 1] ^= 1;
        }
        std::fs::write(&log, bytes).unwrap();
        if !indexed {
            for suffix in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(store.path().join(format!("index.db{suffix}")));
            }
        }
        let repaired = repair_store(store.options.clone(), environment(), &CheckProgress::default(), true).unwrap();
        assert!(repaired.report.is_clean(), "{:#?}", repaired.report);
        let held = repaired.given_up.unwrap().held;
        let expected = if indexed { Vec::new() } else { vec![("b".to_owned(), 4)] };
        assert_eq!(held, expected, "all that may have been locked, also what was not");
        assert_locked(store.path(), &store.options);
    }
}

/// Without the record that enabled it, Object Lock stays enabled where versions are locked.
#[test]
fn a_repair_that_has_lost_the_record_of_a_bucket_keeps_its_locks() {
    let (mut store, bucket) = locked_store();
    store.close();
    let record = store.index().unwrap().read().unwrap().buckets().unwrap().remove(0).record;
    let log = store.path().join("log/00000000000000000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let at = memchr::memmem::find(&bytes, &record).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(store.path().join(format!("index.db{suffix}")));
    }
    repair_store(store.options.clone(), environment(), &CheckProgress::default(), true).unwrap();
    let engine = Engine::open(options(store.path()), environment()).unwrap();
    let handle = engine.handle();
    let bucket = handle.buckets().into_iter().find(|found| found.id == bucket.id).unwrap();
    assert!(bucket.object_lock.is_some(), "{bucket:?}");
    let version = current(&handle, bucket.id, "held");
    assert_eq!(delete(&handle, bucket.id, "held", version, true), Some(Refusal::ObjectLocked));
    engine.close().unwrap();
}
