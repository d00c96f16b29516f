//! Checks of whole stores: what is clean is called clean, what is damaged is named where it is, and what it costs is
//! listed exactly.

mod damage;
mod faults;
pub(super) mod fixture;
mod index;
mod layers;
mod online;
mod rewrite;
mod sealed;
mod speed;
mod versioned_layers;

use orcas_fsck::{CheckOptions, CheckProgress, CheckReport, FindingKind, IndexState};
use std::collections::BTreeSet;

use fixture::{Everything, check, losses};

#[test]
fn a_store_with_everything_in_it_is_clean() {
    let store = Everything::new();
    let before = store.bytes();
    let report = check(store.path());
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!((report.index, report.losses_total), (IndexState::Equal, 0));
    assert!(report.blobs > 100 && report.packs > 0 && report.log_files > 2, "{} blobs", report.blobs);
    assert!(store.bytes() == before, "the check wrote something");
}

#[test]
fn the_options_change_only_what_is_read() {
    let store = Everything::new();
    let progress = CheckProgress::default();
    for threads in [1, 3] {
        let options = CheckOptions { read_content: false, threads, bytes_per_sec: 0 };
        let report = store.check_with(&options, &progress).unwrap();
        assert!(report.is_clean() && report.findings.is_empty(), "{:#?}", report.findings);
    }
    assert_eq!(progress.phase_name(), "done");
    let started = std::time::Instant::now();
    let all = check(store.path()).bytes;
    let options = CheckOptions { read_content: true, threads: 2, bytes_per_sec: all };
    assert!(store.check_with(&options, &progress).unwrap().is_clean());
    assert!(started.elapsed().as_secs_f64() > 0.9, "{all} bytes in {:?}", started.elapsed());
    progress.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(store.check_with(&options, &progress).is_err());
}

#[test]
fn a_store_that_is_open_or_is_none_is_refused() {
    let mut store = Everything::new();
    store.store.open();
    let options = CheckOptions { read_content: true, threads: 1, bytes_per_sec: 0 };
    let refused = store.check_with(&options, &CheckProgress::default());
    assert!(matches!(refused, Err(orcas_base::error::Error::Locked { .. })));
    let empty = tempfile::tempdir().unwrap();
    let fs: std::sync::Arc<dyn orcas_fs::FileSystem> = std::sync::Arc::new(orcas_fs::real::RealFileSystem);
    let refused = orcas_fsck::check_store(&fs, empty.path(), &options, None, &CheckProgress::default());
    assert!(matches!(refused, Err(orcas_base::error::Error::Missing { .. })));
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
}

#[test]
fn a_new_store_and_one_that_was_killed_are_clean() {
    let mut store = super::support::Store::new();
    store.close();
    let report = check(store.path());
    assert!(report.is_clean() && report.findings.is_empty(), "{report:#?}");
    store.open();
    let bucket = store.bucket("b");
    for n in 0..50 {
        store.put(&bucket, &n.to_string(), &super::support::noise(3_000, n)).unwrap();
    }
    // As a killed process leaves it: the index is behind, the newest file of the log ends somewhere.
    let copy = tempfile::tempdir().unwrap();
    fixture::copy_dir(store.path(), copy.path());
    let report = check(copy.path());
    assert!(report.is_clean() && report.findings.iter().all(|finding| !finding.kind.is_damage()), "{report:#?}");
    assert_eq!(report.index, IndexState::Equal);
}

/// The kinds of a report's findings.
fn kinds(report: &CheckReport) -> BTreeSet<FindingKind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

fn lost_keys(report: &CheckReport) -> BTreeSet<String> {
    losses(report).into_iter().collect()
}
