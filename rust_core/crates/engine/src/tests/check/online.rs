//! Checks beside the work of a store, and the scrub.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::super::Effort;
use super::super::support::{Store, noise};
use super::fixture::{Everything, files, flip};
use super::lost_keys;
use orcas_base::error::Error;
use orcas_fsck::{CheckOptions, CheckProgress, IndexState};
use orcas_record::BlobLocation;
use orcas_record::placement::codec;

const OPTIONS: CheckOptions = CheckOptions { read_content: true, threads: 2, bytes_per_sec: 0 };

#[test]
fn a_store_is_clean_while_it_is_written_and_compacted() {
    let store = Store::with(|options| {
        options.log_file_size = 512 << 10;
        options.chunk_size = 70_000;
        options.pack_size = 2 << 20;
        options.reclaim_bytes_per_sec = 0;
    });
    let bucket = store.bucket("b");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3u64 {
            let (store, bucket, over) = (&store, &bucket, &over);
            scope.spawn(move || {
                for n in 0.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let length = if n % 5 == 0 { 200_000 } else { 3_000 };
                    let key = format!("{writer}/{:02}", n % 40);
                    store.put(bucket, &key, &noise(length, (writer << 32) | (n % 100))).unwrap();
                    if n % 3 == 0 {
                        store.delete(bucket, &format!("{writer}/{:02}", (n + 7) % 40)).unwrap();
                    }
                }
            });
        }
        let (store_ref, over_ref) = (&store, &over);
        scope.spawn(move || {
            while !over_ref.load(Ordering::Relaxed) {
                store_ref.handle().reclaim(Effort::Compact).unwrap();
            }
        });
        for round in 0..8 {
            let report = store.handle().check(&OPTIONS, &CheckProgress::default());
            let done =
                report.as_ref().is_ok_and(|report| report.findings.is_empty() && report.index == IndexState::Equal);
            if !done || round == 7 {
                over.store(true, Ordering::Relaxed);
            }
            assert!(done, "round {round}: {report:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn an_open_store_names_its_damage() {
    let mut store = Everything::new();
    let chunk = store.blobs_of("a", "stays")[1];
    let content = store.blobs_of("a", "last")[0];
    store.store.open();
    let (BlobLocation::Pack { at: in_pack, .. }, BlobLocation::Log { at: in_log, .. }) =
        (chunk.location, content.location)
    else {
        panic!()
    };
    let ((pack, offset), (file, at)) = (codec::chunk_parts(in_pack), codec::in_log_parts(in_log));
    flip(&store.pack(pack), offset + 5_000);
    let report = store.store.handle().check(&OPTIONS, &CheckProgress::default()).unwrap();
    assert_eq!(lost_keys(&report).into_iter().collect::<Vec<_>>(), ["a/stays"]);
    flip(&store.log(file), at + 1_000);
    let report = store.store.handle().check(&OPTIONS, &CheckProgress::default()).unwrap();
    assert_eq!(lost_keys(&report).into_iter().collect::<Vec<_>>(), ["a/last", "a/stays"]);
}

#[test]
fn an_empty_store_is_checked_online() {
    let store = Store::new();
    let report = store.handle().check(&OPTIONS, &CheckProgress::default()).unwrap();
    assert!(report.findings.is_empty() && report.is_clean(), "{report:#?}");
}

#[test]
fn the_scrub_finds_what_is_damaged_and_nothing_else() {
    let mut store = Everything::new();
    let chunk = store.blobs_of("a", "stays")[1];
    let content = store.blobs_of("a", "last")[0];
    let (BlobLocation::Pack { at: in_pack, .. }, BlobLocation::Log { at: in_log, .. }) =
        (chunk.location, content.location)
    else {
        panic!()
    };
    store.store.change(|options| options.scrub_bytes_per_sec = 1 << 30);
    store.store.open();
    store.store.handle().scrub().unwrap();
    let progress = store.store.handle().scrub_progress();
    assert!(progress.passes == 1 && progress.damaged.is_empty() && progress.failed.is_none(), "{progress:#?}");
    assert!(progress.done_bytes >= progress.total_bytes && progress.total_bytes > 10 << 20, "{progress:#?}");
    store.store.close();
    let ((pack, offset), (file, at)) = (codec::chunk_parts(in_pack), codec::in_log_parts(in_log));
    flip(&store.pack(pack), offset + 5_000);
    store.store.open();
    // Behind what the start has read.
    flip(&store.log(file), at + 1_000);
    store.store.handle().scrub().unwrap();
    let progress = store.store.handle().scrub_progress();
    let blobs: Vec<_> = progress.damaged.iter().filter_map(|damage| damage.blob).collect();
    assert_eq!(progress.damaged_total, 2, "{progress:#?}");
    assert!(blobs.contains(&chunk.sequence) && blobs.contains(&content.sequence), "{progress:#?}");
}

/// An upload of the same bytes would refer to them otherwise, and could not be read.
#[test]
fn content_that_was_found_damaged_is_stored_again() {
    for by_scrub in [false, true] {
        let mut store = Store::with(|options| options.chunk_size = 256 << 10);
        let bucket = store.bucket("b");
        let (small, large) = (noise(3_000, 1), noise(200_000, 2));
        store.put(&bucket, "small", &small).unwrap();
        store.put(&bucket, "large", &large).unwrap();
        store.close();
        for dir in ["log", "chunks"] {
            let wanted = if dir == "log" { &small } else { &large };
            let (path, at) = files(&store.path().join(dir))
                .into_iter()
                .find_map(|path| Some((memchr::memmem::find(&std::fs::read(&path).unwrap(), wanted)?, path)))
                .map(|(at, path)| (path, at as u64))
                .unwrap();
            flip(&path, at + 1_000);
        }
        if by_scrub {
            store.change(|options| options.scrub_bytes_per_sec = 1 << 30);
        }
        store.open();
        if by_scrub {
            store.handle().scrub().unwrap();
            assert_eq!(store.handle().scrub_progress().damaged_total, 2);
        } else {
            let report = store.handle().check(&OPTIONS, &CheckProgress::default()).unwrap();
            assert_eq!(report.losses_total, 2);
        }
        for (key, bytes) in [("small", &small), ("large", &large)] {
            let again = format!("{key} again");
            store.put(&bucket, &again, bytes).unwrap();
            assert!(store.get(&bucket, &again).unwrap().unwrap() == *bytes, "{again}, {by_scrub}");
        }
    }
}

#[test]
fn a_slow_scrub_ends_at_once() {
    let mut store = Everything::new();
    store.store.change(|options| options.scrub_bytes_per_sec = 1);
    store.store.open();
    let handle = store.store.handle();
    let pass = std::thread::spawn(move || handle.scrub());
    while store.store.handle().scrub_progress().total_bytes == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let progress = store.store.handle().scrub_progress();
    assert!(progress.rate == 1 && progress.passes == 0);
    let started = Instant::now();
    store.store.close();
    // At its rate the first piece alone takes hours.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(matches!(pass.join().unwrap(), Err(Error::Closed)));
}

#[test]
fn without_a_rate_there_is_no_scrub() {
    let store = Store::new();
    assert!(matches!(store.handle().scrub(), Err(Error::Closed)));
}
