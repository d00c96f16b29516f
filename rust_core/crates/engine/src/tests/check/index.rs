//! The index: rows changed by hand, an index that is missing or no index at all, and repair.

use std::collections::BTreeSet;

use super::super::super::repair_store;
use super::super::support::{environment, options};
use super::fixture::{Everything, check, flip, without};
use super::{kinds, lost_keys};
use orcas_fsck::{CheckProgress, FindingKind, IndexState};

/// Runs SQL on the store's index while nobody has it open.
fn sql(store: &Everything, statement: &str) {
    let conn = orcas_index_testing::open_raw(&store.path().join("index.db"));
    let changed = conn.execute(statement, []).unwrap();
    assert!(changed > 0, "{statement}");
}

fn changed(statement: &str) -> orcas_fsck::CheckReport {
    let store = Everything::new();
    sql(&store, statement);
    let report = check(store.path());
    assert!(matches!(report.index, IndexState::Different { .. }), "{statement}: {report:#?}");
    assert_eq!(report.losses_total, 0, "{statement}: {report:#?}");
    report
}

#[test]
fn rows_changed_by_hand_are_named() {
    for (statement, table, detail) in [
        ("UPDATE blobs SET refs = refs + 1 WHERE sequence = (SELECT max(sequence) FROM blobs)", "blobs", "the row is:"),
        ("UPDATE heads SET size = size + 1 WHERE key = CAST('last' AS BLOB)", "heads", "the row is:"),
        ("DELETE FROM heads WHERE key = CAST('last' AS BLOB)", "heads", "the row is not there"),
        (
            "DELETE FROM versions WHERE sequence = (SELECT max(sequence) FROM versions)",
            "versions",
            "the row is not there",
        ),
        ("INSERT INTO packs VALUES (4711, 1, 0, 0, 0)", "packs", "the log knows of no such row"),
        ("UPDATE buckets SET stored = stored - 1 WHERE id = (SELECT min(id) FROM buckets)", "buckets", "the row is:"),
        ("UPDATE totals SET dead = dead + 5", "totals", "the row is:"),
        (
            "DELETE FROM segment_holdings WHERE bucket = (SELECT max(bucket) FROM segment_holdings)",
            "segment_holdings",
            "not there",
        ),
        ("UPDATE parts SET record = zeroblob(10) WHERE number = 1", "parts", "the row is:"),
    ] {
        let report = changed(statement);
        let named = report.findings.iter().any(|finding| {
            finding.kind == FindingKind::Index
                && finding.place.starts_with(&format!("index.db, table {table}, row "))
                && finding.detail.contains(detail)
        });
        assert!(named, "{statement}: {report:#?}");
        let place = format!("index.db, table {table}, ");
        assert!(report.findings.iter().all(|finding| finding.place.starts_with(&place)), "{statement}: {report:#?}");
    }
}

#[test]
fn an_index_that_is_missing_empty_or_garbage_does_not_keep_the_rest_from_being_checked() {
    let store = Everything::new();
    let path = store.path().join("index.db");
    let report = without(&path, || check(store.path()));
    assert_eq!((report.findings_total, report.losses_total, report.index), (0, 0, IndexState::Absent));
    assert!(report.blobs > 100);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    let report = check(store.path());
    assert_eq!(kinds(&report), BTreeSet::from([FindingKind::Index]), "{report:#?}");
    assert!(matches!(report.index, IndexState::NotCompared { .. }) && report.blobs > 100);
    // Pages of zeros in the middle.
    let mut torn = bytes.clone();
    let middle = torn.len() / 2 / 4096 * 4096;
    torn[middle..middle + 3 * 4096].fill(0);
    std::fs::write(&path, torn).unwrap();
    let report = check(store.path());
    assert_eq!(kinds(&report), BTreeSet::from([FindingKind::Index]), "{report:#?}");
    std::fs::write(&path, bytes).unwrap();
    assert!(check(store.path()).is_clean());
}

#[test]
fn an_index_that_is_behind_is_compared_all_the_same() {
    let mut store = Everything::new();
    let path = store.path().join("index.db");
    let before = std::fs::read(&path).unwrap();
    store.store.open();
    let bucket = store.store.handle().bucket(b"a").unwrap();
    for n in 0..20 {
        store.store.put(&bucket, &format!("new/{n}"), &super::super::support::noise(3_000, 5_000 + n)).unwrap();
    }
    store.store.delete(&bucket, "last").unwrap();
    store.store.close();
    std::fs::write(&path, before).unwrap();
    let report = check(store.path());
    assert!(report.findings.is_empty() && report.index == IndexState::Equal, "{report:#?}");
}

#[test]
fn repair_builds_the_index_anew_and_repairs_the_keys() {
    let store = Everything::new();
    let progress = CheckProgress::default();
    let repair = || {
        let mut options = options(store.path());
        options.log_file_size = 512 << 10;
        repair_store(options, environment(), &progress, false).unwrap().report
    };
    let clean = repair();
    assert!(clean.is_clean());
    sql(&store, "UPDATE blobs SET refs = refs + 1");
    flip(&store.path().join("store.keys"), 40);
    assert!(!check(store.path()).is_clean());
    let report = repair();
    assert!(report.findings.is_empty() && report.index == IndexState::Equal, "{report:#?}");
    assert!(!store.path().join("index.db.before-repair").exists());
    std::fs::write(store.path().join("index.db"), b"no database").unwrap();
    assert_eq!(repair().index, IndexState::Equal);
    assert!(check(store.path()).findings.is_empty());
}

#[test]
fn repair_does_not_pretend() {
    let store = Everything::new();
    let progress = CheckProgress::default();
    let entry = store.blobs_of("a", "last")[0];
    let orcas_record::BlobLocation::Log { at, .. } = entry.location else { panic!() };
    let (file, offset) = orcas_record::placement::codec::in_log_parts(at);
    flip(&store.log(file), offset + 100);
    let before = store.bytes();
    let report = repair_store(options(store.path()), environment(), &progress, false).unwrap().report;
    assert_eq!(lost_keys(&report), BTreeSet::from(["a/last".to_owned()]));
    assert!(store.bytes() == before);
}
