//! Settings and documents of buckets.

use super::*;

#[test]
fn settings_of_a_bucket_are_replaced_and_nothing_else() {
    let mut state = State::with_bucket();
    let before = state.bucket(BUCKET).unwrap();
    let settings = BucketSettings { chunk_size: Some(1 << 20), keep_sha256: true, ..BucketSettings::default() };
    state.run(Intent::UpdateBucket { bucket: BUCKET, change: BucketChange::Settings(settings) }).unwrap();
    assert_eq!(*state.bucket(BUCKET).unwrap(), Bucket { settings, ..Bucket::clone(&before) });
    let gone = state.run(Intent::UpdateBucket { bucket: BucketId(99), change: BucketChange::Settings(settings) });
    assert_eq!(refused(gone), Refusal::NoSuchBucket);
}

fn put(bucket: BucketId, kind: DocumentKind, document: impl Into<Bytes>) -> Intent {
    Intent::PutDocument { bucket, kind, document: document.into() }
}

#[test]
fn a_document_is_written_only_if_it_differs() {
    let mut state = State::with_bucket();
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
fn the_documents_of_all_buckets_have_a_limit() {
    let mut state = State::with_bucket();
    let largest = vec![b'x'; DOCUMENTS_LEN_MAX - 3];
    state.run(put(BUCKET, DocumentKind::Cors, largest.clone())).unwrap();
    state.run(put(BUCKET, DocumentKind::Tagging, "123")).unwrap();
    assert_eq!(refused(state.run(put(BUCKET, DocumentKind::Accelerate, "1"))), Refusal::TooManyDocuments);
    // What is replaced counts no longer.
    state.run(put(BUCKET, DocumentKind::Tagging, "456")).unwrap();
    state.run(put(BUCKET, DocumentKind::Cors, "")).unwrap();
    state.run(put(BUCKET, DocumentKind::Accelerate, "1")).unwrap();
}
