//! Settings and documents of buckets.

use super::*;
use orcas_record::Versioning;

#[test]
fn settings_of_a_bucket_change_where_the_change_says_so() {
    let mut state = TestView::with_bucket();
    let before = state.bucket(BUCKET).unwrap();
    let update = |bucket, change| Intent::UpdateBucket { bucket, change: BucketChange::Settings(change) };
    let change = SettingsChange { chunk_size: Some(Some(1 << 20)), keep_sha256: Some(true), ..Default::default() };
    state.run(update(BUCKET, change)).unwrap();
    let settings = BucketSettings { chunk_size: Some(1 << 20), keep_sha256: true, ..before.settings };
    assert_eq!(*state.bucket(BUCKET).unwrap(), Bucket { settings, ..Bucket::clone(&before) });
    let change = SettingsChange { chunk_size: Some(None), ..Default::default() };
    state.run(update(BUCKET, change)).unwrap();
    assert_eq!(state.bucket(BUCKET).unwrap().settings, BucketSettings { chunk_size: None, ..settings });
    assert_eq!(refused(state.run(update(BucketId(99), change))), Refusal::NoSuchBucket);
}

fn put(bucket: BucketId, kind: DocumentKind, document: impl Into<Bytes>) -> Intent {
    Intent::PutDocument { bucket, kind, document: document.into() }
}

#[test]
fn a_document_is_written_only_if_it_differs() {
    let mut state = TestView::with_bucket();
    for (document, written) in [("", true), ("", false), ("<A/>", true), ("<A/>", false), ("<B/>", true), ("", true)] {
        let before = state.sequence;
        state.run(put(BUCKET, DocumentKind::Cors, document)).unwrap();
        assert_eq!(state.sequence > before, written, "{document}");
        assert_eq!(state.document(BUCKET, DocumentKind::Cors), Some(document.into()));
    }
    assert_eq!(state.document(BUCKET, DocumentKind::Tagging), None);
    assert_eq!(refused(state.run(put(BucketId(99), DocumentKind::Cors, "<A/>"))), Refusal::NoSuchBucket);
}

#[test]
fn rules_of_replication_need_versioning_and_keep_it() {
    let mut state = TestView::with_bucket();
    let rules = |document: &'static str| put(BUCKET, DocumentKind::Replication, document);
    let versioning = |versioning| Intent::UpdateBucket { bucket: BUCKET, change: BucketChange::Versioning(versioning) };
    assert!(matches!(refused(state.run(rules("<R/>"))), Refusal::InvalidRequest { .. }));
    state.run(rules("")).unwrap();
    state.run(versioning(Versioning::Enabled)).unwrap();
    state.run(rules("<R/>")).unwrap();
    let suspended = state.run(versioning(Versioning::Suspended));
    assert!(matches!(refused(suspended), Refusal::InvalidBucketState { .. }));
    let forked = state.run(Intent::ForkBucket { bucket: BUCKET, snapshot: None, name: "fork".into() }).unwrap();
    let Outcome::Bucket(fork) = forked else { unreachable!("a fork is a bucket") };
    assert_eq!(state.document(fork.id, DocumentKind::Replication), None);
    state.run(rules("")).unwrap();
    state.run(versioning(Versioning::Suspended)).unwrap();
}

#[test]
fn the_documents_of_all_buckets_have_a_limit() {
    let mut state = TestView::with_bucket();
    let largest = vec![b'x'; DOCUMENTS_LEN_MAX - 3];
    state.run(put(BUCKET, DocumentKind::Cors, largest.clone())).unwrap();
    state.run(put(BUCKET, DocumentKind::Tagging, "123")).unwrap();
    assert_eq!(refused(state.run(put(BUCKET, DocumentKind::Accelerate, "1"))), Refusal::TooManyDocuments);
    // What is replaced counts no longer.
    state.run(put(BUCKET, DocumentKind::Tagging, "456")).unwrap();
    state.run(put(BUCKET, DocumentKind::Cors, "")).unwrap();
    state.run(put(BUCKET, DocumentKind::Accelerate, "1")).unwrap();
}

#[test]
fn a_new_bucket_has_its_documents_from_the_beginning() {
    let mut state = TestView::with_bucket();
    let new = |kept: usize| {
        let Intent::CreateBucket { name, owner, location, settings, .. } = create_bucket("another") else {
            unreachable!("create_bucket makes a CreateBucket")
        };
        let documents = vec![(DocumentKind::Tagging, "<A/>".into()), (DocumentKind::Cors, vec![b'x'; kept].into())];
        Intent::CreateBucket { name, owner, location, settings, object_lock: false, documents }
    };
    assert_eq!(refused(state.run(new(DOCUMENTS_LEN_MAX))), Refusal::TooManyDocuments);
    assert!(state.bucket_by_name(b"another").is_none());
    state.run(new(1)).unwrap();
    let bucket = state.bucket_by_name(b"another").unwrap();
    assert_eq!(state.document(bucket.id, DocumentKind::Tagging), Some("<A/>".into()));
    assert_eq!(state.document(bucket.id, DocumentKind::Cors), Some("x".into()));
    assert_eq!(state.document(BUCKET, DocumentKind::Tagging), None);
}
