//! What is refused before it is written: by which quota, next to what it replaces, and only of one moment.

use std::sync::Arc;

use bytes::Bytes;

use super::super::steps::Steps;
use super::super::support::noise;
use crate::Addition;
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    BucketChange, Copy, CopyAttributes, CopyHeaders, Failure, Intent, Outcome, Precondition, PutPart, Quota, QuotaOf,
    Refusal,
};
use orcas_record::{Bucket, BucketSettings, DocumentKind, Versioning};

fn limit(steps: &mut Steps, bucket: &Bucket, bytes: Option<u64>, versions: Option<u64>) {
    let document = Quota { bytes, versions }.to_document().into();
    steps.run(Intent::PutDocument { bucket: bucket.id, kind: DocumentKind::Quota, document }).unwrap();
}

fn put(steps: &mut Steps, bucket: &Bucket, key: &str, size: usize) {
    let intent = steps.intent(bucket, key, &noise(size, size as u64));
    let submitted = steps.submit(intent);
    while !submitted.is_answered() {
        // A quota is counted by the index first.
        if steps.stepper().awaits_index() {
            steps.apply();
        }
        steps.stepper().commit();
    }
    submitted.answer().unwrap();
}

fn versioning(steps: &mut Steps, bucket: &Bucket, to: Versioning) -> Arc<Bucket> {
    steps.run(Intent::UpdateBucket { bucket: bucket.id, change: BucketChange::Versioning(to) }).unwrap();
    steps.handle().bucket(&bucket.name).unwrap()
}

fn object(key: &'static str) -> Addition {
    Addition::Object(key.into())
}

/// What refuses this, before it is written.
fn refused(steps: &Steps, bucket: &Bucket, adds: &Addition, bytes: u64) -> Option<QuotaOf> {
    match steps.handle().check_room(bucket, adds, bytes) {
        Ok(()) => None,
        Err(Failure::Refused(Refusal::QuotaExceeded { of, .. })) => Some(of),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn room_is_that_of_the_bucket_and_of_its_owner() {
    let mut steps = Steps::new();
    let (one, two) = (steps.bucket("one"), steps.bucket("two"));
    let other = steps.bucket_of("other", "someone", BucketSettings::default());
    let bytes = |bytes| Quota { bytes: Some(bytes), versions: None };
    let quotas = [(Bytes::from_static(b"root"), bytes(1_000)), (Bytes::from_static(b"someone"), bytes(700))];
    steps.handle().set_owner_quotas(quotas.into());
    limit(&mut steps, &one, None, Some(1));
    // Nobody knows yet what is held.
    assert_eq!(refused(&steps, &two, &object("b"), 5_000), None);
    put(&mut steps, &one, "a", 600);
    assert_eq!(refused(&steps, &two, &object("b"), 400), None);
    assert_eq!(refused(&steps, &two, &object("b"), 401), Some(QuotaOf::OwnerBytes));
    assert_eq!(refused(&steps, &one, &object("b"), 1), Some(QuotaOf::BucketVersions));
    assert_eq!(refused(&steps, &one, &object("a"), 1_000), None);
    assert_eq!(refused(&steps, &one, &Addition::End, 400), None);
    assert_eq!(refused(&steps, &one, &Addition::End, 401), Some(QuotaOf::OwnerBytes));
    assert_eq!(refused(&steps, &other, &object("a"), 700), None);
    // A copy is of the owner of its bucket.
    let copy = Copy {
        source: (one.id, "a".into(), None),
        source_conditions: Default::default(),
        bucket: other.id,
        key: "copy".into(),
        modified_ms: None,
        precondition: Precondition::default(),
        headers: CopyHeaders::default(),
        attributes: CopyAttributes::default(),
        checksum: None,
    };
    steps.run(Intent::CopyObject(Box::new(copy))).unwrap();
    assert_eq!(refused(&steps, &other, &object("b"), 100), None);
    assert_eq!(refused(&steps, &other, &object("b"), 101), Some(QuotaOf::OwnerBytes));
    assert_eq!(refused(&steps, &two, &object("b"), 400), None);
    let at_once = |bytes| steps.handle().try_check_room(&one, &object("a"), bytes);
    assert!(at_once(1_000).is_ok());
    assert!(matches!(at_once(1_001), Err(Refusal::QuotaExceeded { of: QuotaOf::OwnerBytes, .. })));
}

#[test]
fn room_depends_on_what_the_versioning_replaces() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    limit(&mut steps, &bucket, Some(1_000), None);
    put(&mut steps, &bucket, "k", 600);
    let too_much = Some(QuotaOf::BucketBytes);
    assert_eq!(refused(&steps, &bucket, &object("k"), 1_000), None);
    assert_eq!(refused(&steps, &bucket, &object("k"), 1_001), too_much);
    // A version more.
    let bucket = versioning(&mut steps, &bucket, Versioning::Enabled);
    assert_eq!(refused(&steps, &bucket, &object("k"), 400), None);
    assert_eq!(refused(&steps, &bucket, &object("k"), 401), too_much);
    assert!(steps.handle().try_check_room(&bucket, &object("k"), 401).is_err());
    put(&mut steps, &bucket, "k", 100);
    // In place of the null version, which is not the current one.
    let bucket = versioning(&mut steps, &bucket, Versioning::Suspended);
    assert_eq!(refused(&steps, &bucket, &object("k"), 900), None);
    assert_eq!(refused(&steps, &bucket, &object("k"), 901), too_much);
    // The lookup is not one of memory, and an append may replace another version than it extends.
    assert!(steps.handle().try_check_room(&bucket, &object("k"), 5_000).is_ok());
    assert_eq!(refused(&steps, &bucket, &Addition::End, 5_000), None);
    put(&mut steps, &bucket, "k", 900);
    assert_eq!(refused(&steps, &bucket, &object("new"), 1), too_much);
}

#[test]
fn a_part_has_the_room_of_the_one_that_it_replaces() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let create = Intent::CreateUpload {
        bucket: bucket.id,
        key: "k".into(),
        headers: Box::default(),
        attributes: Default::default(),
        checksum: None,
    };
    let Ok(Outcome::Upload(upload)) = steps.run(create) else { panic!("no upload") };
    let bytes = noise(600, 1);
    let part = PutPart {
        bucket: bucket.id,
        key: "k".into(),
        upload,
        number: 2,
        size: 600,
        md5: Md5Hasher::digest(&bytes),
        checksum: None,
        computed: None,
        body: steps.body(&bucket, &bytes),
    };
    steps.run(Intent::PutPart(Box::new(part))).unwrap();
    limit(&mut steps, &bucket, Some(1_000), None);
    put(&mut steps, &bucket, "empty", 0);
    let too_much = Some(QuotaOf::BucketBytes);
    for (number, fits) in [(1, 400), (2, 1_000), (3, 400)] {
        assert_eq!(refused(&steps, &bucket, &Addition::Part(upload, number), fits), None);
        assert_eq!(refused(&steps, &bucket, &Addition::Part(upload, number), fits + 1), too_much);
    }
}

/// Between the publication of a write and that of what is held, both may be of different moments.
#[test]
fn nothing_is_refused_between_two_moments() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    limit(&mut steps, &bucket, Some(1_000), None);
    put(&mut steps, &bucket, "k", 1_000);
    let published = &steps.shared().quotas.published;
    let (_, before) = published.latest().unwrap();
    let is_refused = || {
        let early = refused(&steps, &bucket, &object("k"), 1_001).is_some();
        assert_eq!(steps.handle().try_check_room(&bucket, &object("k"), 1_001).is_err(), early);
        early
    };
    assert!(is_refused() && published.is_of(before));
    published.begin();
    assert!(!is_refused() && !published.is_of(before));
    published.end();
    assert!(is_refused() && !published.is_of(before));
    // A round that published nothing.
    let (_, after) = published.latest().unwrap();
    published.end();
    assert!(published.is_of(after));
}

/// A client deletes what another one is about to replace, between the two looks at what is held and at what goes.
#[test]
fn what_was_held_before_refuses_nothing_beside_what_is_there_now() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    limit(&mut steps, &bucket, Some(1_000), None);
    put(&mut steps, &bucket, "k", 1_000);
    let (handle, adds) = (steps.handle().clone(), object("k"));
    let (limits, moment) = handle.exceeded(&bucket, &adds, 1_000).unwrap();
    steps.delete(&bucket, "k");
    assert!(handle.fits(&limits, moment, &adds, 1_000, None).is_ok());
    assert_eq!(refused(&steps, &bucket, &adds, 1_000), None);
    assert_eq!(refused(&steps, &bucket, &adds, 1_001), Some(QuotaOf::BucketBytes));
}
