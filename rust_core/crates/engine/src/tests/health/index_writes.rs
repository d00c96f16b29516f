//! Writes of the index that fail: the store waits until the disk works again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::health::index_rebuild::{check, garble, key, objects, store, value};
use crate::{Condition, Space};
use orcas_index_testing::full_disk;

/// Failed writes are no damage, however often they fail, or of which index.
fn check_waits(name: &str, damaged: bool) {
    let (mut store, bucket) = store(50);
    store.reopen();
    let failing = Arc::new(AtomicBool::new(true));
    let rule = Arc::clone(&failing);
    full_disk::fail(store.path().join(name), move || rule.load(Ordering::Relaxed));
    if damaged {
        garble(&store.path().join("index.db"), 1, 1);
    }
    let (begun, mut wanted, mut number) = (Instant::now(), objects(0..50), 50);
    let waits = |condition| matches!(condition, Condition::Damaged(cause) if cause.reason.contains("tried again"));
    while !waits(store.handle().health().condition) {
        // Refused while the index cannot answer.
        if store.put(&bucket, &key(number), &value(number, 0)).is_ok() {
            wanted.insert(key(number), value(number, 0));
        }
        number += 1;
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", store.handle().health());
    }
    assert!(store.handle().health().writable);
    failing.store(false, Ordering::Relaxed);
    check(&store, &bucket, &wanted);
    store.put(&bucket, "after", b"content").unwrap();
    store.reopen();
    assert_eq!(store.get(&bucket, "after").unwrap().unwrap(), b"content");
}

#[test]
fn an_index_that_cannot_be_written_is_tried_again() {
    check_waits("index.db-wal", false);
}

#[test]
fn a_new_index_that_cannot_be_written_is_tried_again() {
    check_waits("index.db.rebuild-wal", true);
}

/// Nothing is wrong with the index, so it is not built again.
#[test]
fn a_used_up_quota_is_a_full_disk() {
    let (mut store, bucket) = store(50);
    store.reopen();
    let used_up = Arc::new(AtomicBool::new(true));
    let rule = Arc::clone(&used_up);
    full_disk::exceed(store.path().join("index.db-wal"), move || rule.load(Ordering::Relaxed));
    let (begun, mut wanted, mut number) = (Instant::now(), objects(0..50), 50);
    while store.handle().health().condition != Condition::Full(Space::None) {
        if store.put(&bucket, &key(number), &value(number, 0)).is_ok() {
            wanted.insert(key(number), value(number, 0));
        }
        number += 1;
        let condition = store.handle().health().condition;
        assert!(matches!(condition, Condition::Ok | Condition::Full(_)), "{condition:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{condition:?}");
    }
    used_up.store(false, Ordering::Relaxed);
    check(&store, &bucket, &wanted);
}
