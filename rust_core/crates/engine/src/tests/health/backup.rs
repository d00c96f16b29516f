//! Copies of the files of a backup pin open as a store that has everything acknowledged before the pin.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::super::{BackupPin, Effort, Engine, Environment, IndexPlace};
use super::super::support::{self, Store, environment, options};
use orcas_decide::Intent;
use orcas_fs_testing::{Fault, Operation, SimDisk};
use orcas_record::BucketSettings;

/// Copies what the pin lists, cut at its lengths.
pub fn copy(pin: &BackupPin, from: &Path, to: &Path) {
    for dir in ["log", "chunks"] {
        fs::create_dir_all(to.join(dir)).unwrap();
    }
    for file in &pin.files {
        let bytes = fs::read(from.join(&file.name)).unwrap();
        assert!(bytes.len() as u64 >= file.length, "{} lost bytes", file.name);
        fs::write(to.join(&file.name), &bytes[..file.length as usize]).unwrap();
    }
}

fn bodies(round: u64) -> BTreeMap<String, Vec<u8>> {
    let sizes = [10, 300, 5_000, 70_000, 900_000];
    (0..20).map(|at| (format!("{round}/{at}"), support::noise(sizes[at as usize % 5], round * 100 + at))).collect()
}

fn assert_holds(path: &Path, wanted: &BTreeMap<String, Vec<u8>>) {
    let engine = Engine::open(options(path), environment()).unwrap();
    let handle = engine.handle();
    let bucket = handle.bucket(b"b").unwrap();
    for (key, body) in wanted {
        let found = handle.object(bucket.id, &key.clone().into()).unwrap().unwrap_or_else(|| panic!("{key} is lost"));
        let mut read = vec![0; body.len()];
        let mut reader = handle.content().reader(&found, 0, body.len() as u64 - 1);
        let mut at = 0;
        while at < read.len() {
            at += reader.read(&mut read[at..]).unwrap();
        }
        assert!(read == *body, "{key} differs");
    }
    // Reclamation of the copy finds nothing that the copy lacks.
    handle.reclaim(Effort::Compact).unwrap();
    engine.close().unwrap();
}

#[test]
fn a_copy_of_a_backup_pin_opens_with_all_that_was_acknowledged_before() {
    for reopened in [false, true] {
        let mut store = Store::new();
        let bucket = store.bucket("b");
        let wanted = bodies(1);
        for (key, body) in &wanted {
            store.put(&bucket, key, body).unwrap();
        }
        if reopened {
            store.reopen();
        }
        let pin = store.handle().pin_for_backup().unwrap();
        let copied = tempfile::tempdir().unwrap();
        // What comes later is not in it and does no harm.
        for (key, body) in &bodies(2) {
            store.put(&bucket, key, body).unwrap();
        }
        copy(&pin, store.path(), copied.path());
        assert_holds(copied.path(), &wanted);
    }
}

#[test]
fn an_empty_store_can_be_pinned() {
    let store = Store::new();
    let pin = store.handle().pin_for_backup().unwrap();
    let copied = tempfile::tempdir().unwrap();
    copy(&pin, store.path(), copied.path());
    Engine::open(options(copied.path()), environment()).unwrap().close().unwrap();
}

#[test]
fn a_backup_pin_does_not_wait_for_a_batch_that_failed() {
    let disk = SimDisk::new();
    let environment =
        Environment { fs: Arc::new(disk.clone()), index: IndexPlace::Memory(None), ..support::environment() };
    let engine = Engine::open(options(Path::new("/data")), environment).unwrap();
    let create = |n: u32| {
        let (name, owner, location) = (format!("{n}").into(), "o".into(), "".into());
        engine.handle().execute(Intent::CreateBucket {
            name,
            owner,
            location,
            settings: BucketSettings::default(),
            object_lock: false,
            documents: Vec::new(),
        })
    };
    create(0).unwrap();
    // Upkeep syncs too, so it may take the fault for itself.
    let failed = (1..100).find(|n| {
        disk.fail(Operation::Sync, 1, Fault::Io, false);
        create(*n).is_err()
    });
    let handle = engine.handle();
    let (sender, held) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(handle.pin_for_backup().map(|pin| pin.sequence)));
    let sequence = held.recv_timeout(Duration::from_secs(10)).expect("the pin ended").unwrap();
    assert_eq!(Some(sequence), failed.map(u64::from));
    engine.close().unwrap();
}

#[test]
fn reclamation_pauses_while_there_is_a_backup_pin() {
    let store = Store::new();
    let bucket = store.bucket("b");
    let wanted = bodies(1);
    for (key, body) in &wanted {
        store.put(&bucket, key, body).unwrap();
    }
    let pin = store.handle().pin_for_backup().unwrap();
    for key in wanted.keys() {
        store.delete(&bucket, key).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let handle = store.handle().clone();
        let done = &done;
        scope.spawn(move || {
            handle.reclaim(Effort::Compact).unwrap();
            done.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(600));
        assert!(!done.load(Ordering::SeqCst));
        let copied = tempfile::tempdir().unwrap();
        copy(&pin, store.path(), copied.path());
        assert_holds(copied.path(), &wanted);
        drop(pin);
    });
    assert!(done.load(Ordering::SeqCst));
    assert!(store.handle().reclaim_progress().total.blobs > 0);
}

#[test]
fn a_backup_pin_between_compactions_copies_a_store_that_opens() {
    let store = Store::new();
    let bucket = store.bucket("b");
    let mut wanted = BTreeMap::new();
    for round in 0..6 {
        let new = bodies(round);
        for (key, body) in &new {
            store.put(&bucket, key, body).unwrap();
        }
        // Some of every round go, so that files of the log and packs are worth rewriting.
        for key in new.keys().step_by(2) {
            store.delete(&bucket, key).unwrap();
        }
        wanted.extend(new.into_iter().enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, entry)| entry));
        let handle = store.handle().clone();
        let compacting = std::thread::spawn(move || handle.reclaim(Effort::Compact).map(|_| ()));
        std::thread::sleep(Duration::from_millis(round * 7));
        let pin = store.handle().pin_for_backup().unwrap();
        let copied = tempfile::tempdir().unwrap();
        copy(&pin, store.path(), copied.path());
        drop(pin);
        assert_holds(copied.path(), &wanted);
        compacting.join().unwrap().unwrap();
    }
}
