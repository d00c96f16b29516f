//! Object Lock: what a locked version permits.

use super::state::{NOW_MS, TestView};
use super::versions::{delete, delete_one};
use super::*;
use orcas_record::{Attributes, DefaultRetention, ObjectLock, Period, Retention, RetentionMode, Versioning};

const LATER_MS: u64 = NOW_MS + 1_000;

fn governance(until_ms: u64) -> Option<Retention> {
    Some(Retention { mode: RetentionMode::Governance, until_ms })
}

fn compliance(until_ms: u64) -> Option<Retention> {
    Some(Retention { mode: RetentionMode::Compliance, until_ms })
}

fn locking() -> TestView {
    let mut state = TestView::default();
    let Intent::CreateBucket { name, owner, location, settings, .. } = create_bucket("photos") else {
        unreachable!("create_bucket makes a CreateBucket")
    };
    state
        .run(Intent::CreateBucket { name, owner, location, settings, object_lock: true, documents: Vec::new() })
        .unwrap();
    state
}

fn locked_put(attributes: Attributes) -> Intent {
    let Intent::PutObject(mut intent) = put("k", 1) else { unreachable!("put makes a PutObject") };
    intent.attributes = attributes;
    Intent::PutObject(intent)
}

fn update(change: AttributeChange) -> Intent {
    Intent::UpdateVersion(Box::new(UpdateVersion { bucket: BUCKET, key: "k".into(), version: None, change }))
}

/// A bucket with one version that has these attributes, and the id of the version.
fn with(retention: Option<Retention>, legal_hold: Option<bool>) -> (TestView, Option<VersionId>) {
    let mut state = locking();
    let attributes = Attributes { retention, legal_hold, ..Attributes::default() };
    match state.run(locked_put(attributes)) {
        Ok(Outcome::Put(put)) => (state, put.version_id),
        other => panic!("not stored: {other:?}"),
    }
}

#[test]
fn a_bucket_created_with_object_lock_has_versioning() {
    let state = locking();
    assert_eq!(state.buckets[&BUCKET].versioning, Versioning::Enabled);
    assert_eq!(state.buckets[&BUCKET].object_lock, Some(ObjectLock::default()));
}

#[test]
fn locked_versions_are_not_deleted() {
    // Retention, legal hold, bypass, milliseconds from now: whether the version goes.
    for (retention, hold, bypass, after_ms, goes) in [
        (None, None, false, 0, true),
        (None, Some(false), false, 0, true),
        (None, Some(true), false, 0, false),
        (None, Some(true), true, 1 << 40, false),
        (governance(LATER_MS), None, false, 0, false),
        (governance(LATER_MS), None, true, 0, true),
        (governance(LATER_MS), Some(true), true, 0, false),
        (governance(LATER_MS), None, false, 999, false),
        (governance(LATER_MS), None, false, 1_000, true),
        (compliance(LATER_MS), None, false, 0, false),
        (compliance(LATER_MS), None, true, 999, false),
        (compliance(LATER_MS), None, true, 1_000, true),
    ] {
        let case = format!("{retention:?} {hold:?} {bypass} {after_ms}");
        let entry = |version| DeleteEntry { bypass, ..delete(version) };
        let (mut state, version) = with(retention, hold);
        let answer = state.run_at(NOW_MS + after_ms, delete_one(entry(version)));
        if goes {
            assert!(matches!(answer, Ok(Outcome::DeletedOne(_))), "{case}");
            assert_eq!(state.keys(), 0, "{case}");
        } else {
            assert_eq!(refused(answer), Refusal::ObjectLocked, "{case}");
            let many = Intent::DeleteObjects { bucket: BUCKET, entries: vec![entry(version)] };
            let answer = state.run_at(NOW_MS + after_ms, many);
            assert!(matches!(answer, Ok(Outcome::Deleted(of)) if of == [Err(Refusal::ObjectLocked)]), "{case}");
            // A marker in front of it, and its removal, are free.
            let Ok(Outcome::DeletedOne(marker)) = state.run(delete_one(entry(None))) else { panic!("no marker") };
            state.run(delete_one(entry(marker.version_id))).unwrap();
            state.run(put("k", 2)).unwrap();
            assert_eq!(state.versions(BUCKET, b"k").count(), 2, "{case}");
        }
    }
}

#[test]
fn retention_is_extended_by_everybody_and_shortened_by_who_may() {
    let far = NOW_MS + 5_000;
    let near = NOW_MS + 500;
    // Before, after, bypass: whether it changes.
    for (before, after, bypass, changes) in [
        (None, governance(near), false, true),
        (None, None, false, true),
        (governance(LATER_MS), governance(LATER_MS), false, true),
        (governance(LATER_MS), governance(far), false, true),
        (governance(LATER_MS), governance(near), false, false),
        (governance(LATER_MS), governance(near), true, true),
        (governance(LATER_MS), None, false, false),
        (governance(LATER_MS), None, true, true),
        (governance(LATER_MS), compliance(far), false, false),
        (governance(LATER_MS), compliance(far), true, true),
        (compliance(LATER_MS), compliance(far), false, true),
        (compliance(LATER_MS), compliance(near), true, false),
        (compliance(LATER_MS), governance(far), true, false),
        (compliance(LATER_MS), None, true, false),
    ] {
        let (mut state, _) = with(before, None);
        let answer = state.run(update(AttributeChange::Retention { retention: after, bypass }));
        let case = format!("{before:?} {after:?} {bypass}");
        if changes {
            assert!(matches!(answer, Ok(Outcome::Updated(Some(_)))), "{case}");
            assert_eq!(state.version("k").attributes.retention, after, "{case}");
        } else {
            assert_eq!(refused(answer), Refusal::ObjectLocked, "{case}");
            assert_eq!(state.version("k").attributes.retention, before, "{case}");
        }
    }
}

#[test]
fn retention_that_has_ended_binds_nobody() {
    for before in [governance(LATER_MS), compliance(LATER_MS)] {
        let (mut state, _) = with(before, None);
        let change = AttributeChange::Retention { retention: None, bypass: false };
        assert!(matches!(state.run_at(LATER_MS, update(change)), Ok(Outcome::Updated(_))));
    }
}

#[test]
fn retention_ends_in_the_future() {
    let mut state = locking();
    for until_ms in [0, NOW_MS - 1, NOW_MS] {
        let attributes = Attributes { retention: governance(until_ms), ..Attributes::default() };
        assert_eq!(refused(state.run(locked_put(attributes.clone()))), Refusal::RetentionInPast);
        let (mut state, _) = with(None, None);
        let change = AttributeChange::Retention { retention: governance(until_ms), bypass: true };
        assert_eq!(refused(state.run(update(change))), Refusal::RetentionInPast);
        let create = Intent::CreateUpload {
            bucket: BUCKET,
            key: "k".into(),
            headers: Box::default(),
            attributes,
            checksum: None,
        };
        assert_eq!(refused(state.run(create)), Refusal::RetentionInPast);
    }
}

#[test]
fn locks_need_a_bucket_with_object_lock() {
    let mut state = TestView::versioned();
    state.run(put("k", 1)).unwrap();
    let hold = Attributes { legal_hold: Some(false), ..Attributes::default() };
    let retained = Attributes { retention: governance(LATER_MS), ..Attributes::default() };
    for intent in [
        locked_put(hold),
        locked_put(retained),
        update(AttributeChange::LegalHold(true)),
        update(AttributeChange::Retention { retention: None, bypass: true }),
    ] {
        let reason = "Bucket is missing Object Lock Configuration";
        assert_eq!(refused(state.run(intent)), Refusal::InvalidRequest { reason });
    }
}

#[test]
fn a_legal_hold_is_switched_by_everybody() {
    let (mut state, version) = with(None, None);
    for on in [true, false] {
        state.run(update(AttributeChange::LegalHold(on))).unwrap();
        assert_eq!(state.version("k").attributes.legal_hold, Some(on));
    }
    assert!(matches!(state.run(delete_one(delete(version))), Ok(Outcome::DeletedOne(_))));
}

#[test]
fn the_default_is_for_versions_that_bring_no_retention() {
    const DAY_MS: u64 = 86_400_000;
    let mut state = locking();
    let set = |period| {
        let default = Some(DefaultRetention { mode: RetentionMode::Compliance, period });
        Intent::UpdateBucket { bucket: BUCKET, change: BucketChange::ObjectLock(ObjectLock { default }) }
    };
    state.run(set(Period::Days(2))).unwrap();
    state.run(put("k", 1)).unwrap();
    assert_eq!(state.version("k").attributes.retention, compliance(NOW_MS + 2 * DAY_MS));
    state.run(set(Period::Years(1))).unwrap();
    let Intent::CopyObject(of_locked) = copy("k", "copy", None) else { unreachable!("copy makes a CopyObject") };
    state.run(Intent::CopyObject(of_locked)).unwrap();
    assert_eq!(state.version("copy").attributes.retention, compliance(NOW_MS + 365 * DAY_MS));
    let own = Attributes { retention: governance(LATER_MS), ..Attributes::default() };
    state.run(locked_put(own)).unwrap();
    assert_eq!(state.version("k").attributes.retention, governance(LATER_MS));
    state.run(delete_one(delete(None))).unwrap();
    assert_eq!(state.version("k").attributes, Attributes::default(), "a delete marker is never locked");
}

#[test]
fn a_completed_upload_is_locked_as_its_upload_asked_or_by_default() {
    for asked in [None, governance(NOW_MS + 9_000)] {
        let mut multipart = Multipart::begin(None);
        let state = &mut multipart.state;
        let change = BucketChange::Versioning(Versioning::Enabled);
        state.run(Intent::UpdateBucket { bucket: BUCKET, change }).unwrap();
        let default = Some(DefaultRetention { mode: RetentionMode::Compliance, period: Period::Days(1) });
        let change = BucketChange::ObjectLock(ObjectLock { default });
        state.run(Intent::UpdateBucket { bucket: BUCKET, change }).unwrap();
        let attributes = Attributes { retention: asked, legal_hold: Some(true), ..Attributes::default() };
        let create = Intent::CreateUpload {
            bucket: BUCKET,
            key: "k".into(),
            headers: Box::default(),
            attributes,
            checksum: None,
        };
        let Ok(Outcome::Upload(upload)) = state.run(create) else { panic!("no upload") };
        multipart.upload = upload;
        multipart.part(1, 5, None).unwrap();
        multipart.complete(multipart.named.clone(), None).unwrap();
        let attributes = multipart.state.version("k").attributes;
        assert_eq!(attributes.legal_hold, Some(true));
        assert_eq!(attributes.retention, asked.or(compliance(NOW_MS + 86_400_000)));
    }
}
