//! A log that is rewritten without what is damaged in it: who loses what, and that nobody else does.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::super::{Repaired, repair_store};
use super::super::support::{environment, options};
use super::fixture::{Everything, check, files, flip, flipped, without};
use super::{kinds, lost_keys};
use orcas_fsck::{CheckProgress, FindingKind, GivenUp, IndexState, Loss};
use orcas_record::placement::codec;
use orcas_record::{BlobLocation, DocumentKind};

/// Where the second copy of a file's header begins.
const SECOND_COPY: u64 = 2_048;

fn repair(store: &Everything, accept_loss: bool) -> Repaired {
    let mut options = options(store.path());
    options.log_file_size = 512 << 10;
    repair_store(options, environment(), &CheckProgress::default(), accept_loss).unwrap()
}

fn given_up(repaired: &Repaired) -> &GivenUp {
    assert!(repaired.report.is_clean(), "{:#?}", repaired.report);
    assert_eq!(repaired.report.index, IndexState::Equal);
    repaired.given_up.as_ref().unwrap()
}

fn names(given_up: &GivenUp) -> BTreeSet<String> {
    let name = |loss: &Loss| {
        let part = loss.upload.as_ref().and_then(|upload| upload.split_once('/'));
        let part = part.map(|(_, number)| format!("#{number}")).unwrap_or_default();
        format!("{}/{}{part}", loss.bucket, String::from_utf8_lossy(&loss.key))
    };
    given_up.losses.iter().map(name).collect()
}

fn remove_index(dir: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(dir.join(format!("index.db{suffix}")));
    }
}

/// Everything but the index and what the lost objects are is as it was.
fn assert_the_rest_is_whole(store: &mut Everything, lost: &BTreeSet<String>) {
    let before: BTreeSet<String> = store.objects.clone();
    assert_eq!(store.unreadable(), lost.intersection(&before).cloned().collect(), "gone or unreadable");
}

#[test]
fn without_its_index_a_store_loses_what_one_damaged_content_held() {
    let mut store = Everything::new();
    let entry = store.blobs_of("a", "of-5000")[0];
    let BlobLocation::Log { at, .. } = entry.location else { panic!("{entry:?}") };
    let (file, offset) = codec::in_log_parts(at);
    let sharing: BTreeSet<String> =
        ["a/of-5000", "a/copied-content", "b/shares-content"].iter().map(|name| (*name).to_owned()).collect();
    flip(&store.log(file), offset + 1_000);
    remove_index(store.path());
    let damaged = store.bytes();
    let refused = repair(&store, false);
    assert!(refused.given_up.is_none() && !refused.report.is_clean());
    assert!(store.bytes() == damaged, "a repair that nobody agreed to changes nothing");
    let repaired = repair(&store, true);
    let given_up = given_up(&repaired);
    assert_eq!(names(given_up), sharing);
    assert!(
        given_up.buckets.is_empty()
            && given_up.records.iter().any(|(first, last)| (first, last) == (&entry.sequence, &entry.sequence))
    );
    // What was damaged is kept.
    assert!(given_up.kept.iter().all(|path| path.exists()));
    let kept = given_up.kept.iter().find(|path| path.starts_with(store.path().join("log"))).unwrap();
    assert!(kept.display().to_string().ends_with(".log.damaged"));
    assert_the_rest_is_whole(&mut store, &sharing);
    assert!(check(store.path()).is_clean());
}

#[test]
fn the_index_gives_back_what_only_the_log_has_lost() {
    let mut store = Everything::new();
    let entry = store.blobs_of("a", "later/060")[0];
    let BlobLocation::Log { at, length } = entry.location else { panic!("{entry:?}") };
    let (file, offset) = codec::in_log_parts(at);
    // The version stands behind its content.
    let version = offset + (24 + 4 + 32 + u64::from(length)).next_multiple_of(8);
    flip(&store.log(file), version + 40);
    assert_eq!(lost_keys(&check(store.path())), BTreeSet::from(["a/later/060".to_owned()]));
    let repaired = repair(&store, true);
    assert_eq!(given_up(&repaired).losses_total, 0);
    assert_the_rest_is_whole(&mut store, &BTreeSet::new());
}

#[test]
fn a_bucket_without_its_record_gets_another_name_and_keeps_its_objects() {
    let store = Everything::new();
    let bucket = store.index().read().unwrap().buckets().unwrap()[0].clone();
    let needle = &bucket.record[..];
    let (path, at) = store
        .logs()
        .into_iter()
        .find_map(|log| memchr::memmem::find(&std::fs::read(&log).unwrap(), needle).map(|at| (log, at as u64)))
        .unwrap();
    flip(&path, at + 20);
    remove_index(store.path());
    let repaired = repair(&store, true);
    let given_up = given_up(&repaired);
    assert_eq!(
        (given_up.losses_total, given_up.buckets.clone()),
        (0, vec![format!("lost-bucket-{}", bucket.sequence)])
    );
}

#[test]
fn a_missing_pack_or_log_file_costs_what_was_in_it() {
    for indexed in [true, false] {
        let store = Everything::new();
        let pack = files(&store.path().join("chunks")).remove(0);
        let lost = without(&pack, || lost_keys(&check(store.path())));
        std::fs::remove_file(&pack).unwrap();
        if !indexed {
            remove_index(store.path());
        }
        let repaired = repair(&store, true);
        assert_eq!(names(given_up(&repaired)), lost);
    }
    let mut store = Everything::new();
    let log = store.logs().remove(0);
    let lost: BTreeSet<String> = without(&log, || lost_keys(&check(store.path())));
    std::fs::remove_file(&log).unwrap();
    let repaired = repair(&store, true);
    let told = names(given_up(&repaired));
    assert!(told.is_subset(&lost), "{told:?} {lost:?}");
    assert_the_rest_is_whole(&mut store, &told);
}

#[test]
fn headers_of_which_both_copies_are_gone_cost_what_cannot_be_read_without() {
    let store = Everything::new();
    for log in store.logs() {
        flip(&log, 130);
        flip(&log, SECOND_COPY + 130);
    }
    remove_index(store.path());
    assert!(kinds(&check(store.path())).contains(&FindingKind::LogFile));
    let repaired = repair(&store, true);
    assert_eq!(given_up(&repaired).losses_total, 0, "the salt is there, so every frame is");
}

#[test]
fn a_damaged_document_costs_itself_and_comes_back_from_the_index() {
    for indexed in [true, false] {
        let mut store = Everything::new();
        let damaged = store.logs().into_iter().find_map(|log| {
            let at = memchr::memmem::find(&std::fs::read(&log).unwrap(), b"<tags/>")?;
            Some((log, at as u64))
        });
        let (log, at) = damaged.unwrap();
        flip(&log, at);
        if !indexed {
            remove_index(store.path());
        }
        let repaired = repair(&store, true);
        assert_eq!(given_up(&repaired).losses_total, 0);
        store.store.open();
        let bucket = store.store.handle().bucket(b"a").unwrap();
        let tags = indexed.then(|| "<tags/>".to_owned());
        assert_eq!(store.store.document(&bucket, DocumentKind::Tagging), tags);
        assert_eq!(store.store.document(&bucket, DocumentKind::Cors).as_deref(), Some("<cors/>"));
        store.store.close();
    }
}

/// Wherever one byte of the log changes, nobody but who is hit loses anything, also without the index.
#[test]
fn any_byte_of_the_log_costs_what_it_hits() {
    let seed: u64 = std::env::var("ORCAS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(3);
    println!("seed {seed}");
    let mut random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let mut next = move |below: u64| {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        u64::from_le_bytes(bytes) % below
    };
    for _ in 0..5 {
        let mut store = Everything::new();
        let logs = store.logs();
        let log = &logs[next(logs.len() as u64) as usize];
        let at = 4_096 + next(std::fs::metadata(log).unwrap().len() - 4_096);
        // With the index, the check knows whom the byte hits.
        let hit = flipped(log, at, || lost_keys(&check(store.path())));
        flip(log, at);
        remove_index(store.path());
        let repaired = repair(&store, true);
        let Some(given_up) = &repaired.given_up else {
            assert!(repaired.report.is_clean(), "byte {at}: {:#?}", repaired.report);
            continue;
        };
        let told = names(given_up);
        let lost = store.unreadable();
        assert!(lost.is_subset(&hit), "seed {seed}, {} byte {at}: {lost:?} but hit {hit:?}", log.display());
        assert!(told.is_subset(&hit), "seed {seed}, {} byte {at}: {told:?} but hit {hit:?}", log.display());
    }
}
