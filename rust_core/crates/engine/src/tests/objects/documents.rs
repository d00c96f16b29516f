//! Configuration documents of buckets: they outlive whatever the store does, and end with their bucket.

use super::super::super::Effort;
use super::super::support::{Store, noise};
use orcas_decide::Intent;
use orcas_record::DocumentKind::{Accelerate, Cors, PublicAccessBlock, Tagging};

#[test]
fn documents_outlive_restarts_rebuilds_and_compactions() {
    let mut store = Store::with(|options| options.log_file_size = 1 << 20);
    let (mine, other) = (store.bucket("mine"), store.bucket("other"));
    for document in ["<first/>", "<second/>"] {
        store.put_document(&mine, Cors, document);
        store.put_document(&other, Cors, document);
        store.put_document(&mine, Tagging, document);
    }
    store.put_document(&mine, Tagging, "");
    store.put_document(&other, Accelerate, "");
    for round in 0..3 {
        assert_eq!(store.document(&mine, Cors).as_deref(), Some("<second/>"), "round {round}");
        assert_eq!(store.document(&other, Cors).as_deref(), Some("<second/>"));
        // Removed, and never there.
        assert_eq!(store.document(&mine, Tagging).as_deref(), Some(""));
        assert_eq!(store.document(&other, Accelerate).as_deref(), Some(""));
        assert_eq!(store.document(&mine, PublicAccessBlock), None);
        store.reopen();
        store.check_rebuild();
        for n in 0..200 {
            store.put(&mine, "k", &noise(10_000, round * 1_000 + n)).unwrap();
        }
        store.handle().reclaim(Effort::Compact).unwrap();
        assert!(store.handle().reclaim_progress().total.log_files > 0);
    }
    store.check_rebuild();
}

#[test]
fn documents_end_with_their_bucket() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    store.put_document(&bucket, Cors, "<cors/>");
    store.handle().execute(Intent::DeleteBucket { bucket: bucket.id }).unwrap();
    let again = store.bucket("b");
    for _ in 0..2 {
        assert_eq!(store.document(&bucket, Cors), None);
        assert_eq!(store.document(&again, Cors), None);
        store.check_rebuild();
    }
}
