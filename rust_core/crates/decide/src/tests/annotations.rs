//! Annotations: what may be written and removed, and what copies, appends and moves make of them.

use super::state::{NOW_MS, TestView};
use super::*;
use orcas_record::{ANNOTATIONS_MAX, Attributes, Encryption, Retention, RetentionMode, Versioning};

fn annotate(name: &str, version: Option<VersionId>, change: AnnotationChange) -> Annotate {
    let name = Bytes::copy_from_slice(name.as_bytes());
    Annotate { bucket: BUCKET, key: "k".into(), version, name, if_match: None, change }
}

fn run(state: &mut TestView, annotate: Annotate) -> Result<Outcome, Failure> {
    state.run(Intent::Annotate(Box::new(annotate)))
}

fn text(seed: u8) -> AnnotationChange {
    AnnotationChange::Put {
        md5: [seed; 16],
        checksum: None,
        encryption: None,
        body: Box::new(Body::Inline(vec![seed].into())),
    }
}

const DELETE: AnnotationChange = AnnotationChange::Delete { bypass: false };

fn write(state: &mut TestView, name: &str, seed: u8) {
    let answer = run(state, annotate(name, None, text(seed)));
    assert!(matches!(answer, Ok(Outcome::Annotated { etag, .. }) if etag == Etag::simple([seed; 16])));
}

/// The names and the first bytes of the MD5s.
fn annotations(version: &Version) -> Vec<(String, u8)> {
    let list = version.attributes.annotations.as_slice().iter();
    list.map(|one| (String::from_utf8_lossy(&one.name).into_owned(), one.md5[0])).collect()
}

fn names(list: &[(&str, u8)]) -> Vec<(String, u8)> {
    list.iter().map(|(name, seed)| ((*name).to_owned(), *seed)).collect()
}

#[test]
fn a_text_that_is_not_encrypted_as_its_object_is_refused() {
    let mut state = TestView::with_bucket();
    let Intent::PutObject(put) = put("k", 0) else { panic!("no put") };
    let attributes = Attributes { encryption: Some(Encryption::Managed), ..Attributes::default() };
    state.run(Intent::PutObject(Box::new(PutObject { attributes, ..*put }))).unwrap();
    assert_eq!(refused(run(&mut state, annotate("a", None, text(1)))), Refusal::EncryptionDiffers);
    assert_eq!(annotations(&state.version("k")), []);
}

#[test]
fn one_is_written_replaced_and_removed() {
    let mut state = TestView::with_bucket();
    for change in [text(1), DELETE] {
        assert_eq!(refused(run(&mut state, annotate("a", None, change))), Refusal::NoSuchKey);
    }
    state.run(put("k", 1)).unwrap();
    let before = state.version("k");
    write(&mut state, "b", 1);
    write(&mut state, "a", 2);
    write(&mut state, "b", 3);
    assert_eq!(annotations(&state.version("k")), names(&[("a", 2), ("b", 3)]));
    let sequence = state.sequence;
    for _ in 0..2 {
        assert!(matches!(run(&mut state, annotate("a", None, DELETE)), Ok(Outcome::Updated(None))));
    }
    assert_eq!(state.sequence, sequence + 1, "what is not there is removed without a record");
    let after = state.version("k");
    assert_eq!(annotations(&after), names(&[("b", 3)]));
    assert_eq!(Version { attributes: before.attributes.clone(), ..after }, before, "the object itself stays");
    state.run(put("k", 1)).unwrap();
    assert_eq!(annotations(&state.version("k")), []);
}

#[test]
fn their_number_is_limited() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    (0..ANNOTATIONS_MAX).for_each(|n| write(&mut state, &n.to_string(), 1));
    assert_eq!(refused(run(&mut state, annotate("x", None, text(1)))), Refusal::TooManyAnnotations);
    write(&mut state, "7", 2);
    run(&mut state, annotate("7", None, DELETE)).unwrap();
    write(&mut state, "x", 1);
}

#[test]
fn the_entity_tag_of_the_object_can_be_a_condition() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    write(&mut state, "a", 1);
    let on = |etag: u8, change| {
        let if_match = Some(EtagMatch::List(vec![Etag::simple([etag; 16])]));
        Annotate { if_match, ..annotate("a", None, change) }
    };
    for change in [text(2), DELETE] {
        let failed = Refusal::PreconditionFailed { condition: "x-amz-object-if-match" };
        assert_eq!(refused(run(&mut state, on(9, change))), failed);
    }
    run(&mut state, on(1, text(2))).unwrap();
    assert_eq!(annotations(&state.version("k")), names(&[("a", 2)]));
    run(&mut state, on(1, DELETE)).unwrap();
    assert_eq!(annotations(&state.version("k")), []);
}

#[test]
fn each_version_has_its_own() {
    let mut state = TestView::with_bucket();
    let change = BucketChange::Versioning(Versioning::Enabled);
    state.run(Intent::UpdateBucket { bucket: BUCKET, change }).unwrap();
    let put_version = |state: &mut TestView| match state.run(put("k", 1)) {
        Ok(Outcome::Put(put)) => put.version_id.unwrap(),
        other => panic!("{other:?}"),
    };
    let older = put_version(&mut state);
    write(&mut state, "a", 1);
    put_version(&mut state);
    assert_eq!(annotations(&state.version("k")), []);
    let answer = run(&mut state, annotate("b", Some(older), text(2)));
    assert!(matches!(answer, Ok(Outcome::Annotated { version: Some(version), .. }) if version == older));
    let found = state.layer_version(BUCKET, b"k", older).unwrap().unwrap();
    assert_eq!(annotations(&found.version), names(&[("a", 1), ("b", 2)]));
    let absent = Some(VersionId::Named([0; 16]));
    assert_eq!(refused(run(&mut state, annotate("a", absent, text(1)))), Refusal::NoSuchVersion);
    let (key, precondition) = (Bytes::from("k"), Precondition::default());
    state.run(Intent::DeleteObject { bucket: BUCKET, key, version: None, precondition, bypass: false }).unwrap();
    assert_eq!(refused(run(&mut state, annotate("a", None, text(1)))), Refusal::DeleteMarker);
}

#[test]
fn a_locked_version_keeps_its_annotations_and_takes_new_ones() {
    let governance = Retention { mode: RetentionMode::Governance, until_ms: NOW_MS + 9 };
    let compliance = Retention { mode: RetentionMode::Compliance, ..governance };
    // Retention, legal hold, bypass: whether one can be removed.
    for (retention, legal_hold, bypass, goes) in [
        (None, Some(false), false, true),
        (None, Some(true), true, false),
        (Some(governance), None, false, false),
        (Some(governance), None, true, true),
        (Some(compliance), None, true, false),
    ] {
        let mut state = TestView::with_bucket();
        let change = BucketChange::ObjectLock(Default::default());
        state
            .run(Intent::UpdateBucket { bucket: BUCKET, change: BucketChange::Versioning(Versioning::Enabled) })
            .unwrap();
        state.run(Intent::UpdateBucket { bucket: BUCKET, change }).unwrap();
        let Intent::PutObject(mut locked) = put("k", 1) else { unreachable!("put makes a PutObject") };
        locked.attributes = Attributes { retention, legal_hold, ..Attributes::default() };
        state.run(Intent::PutObject(locked)).unwrap();
        write(&mut state, "a", 1);
        write(&mut state, "a", 2);
        let removal = run(&mut state, annotate("a", None, AnnotationChange::Delete { bypass }));
        if goes {
            removal.unwrap();
        } else {
            assert_eq!(refused(removal), Refusal::ObjectLocked, "{retention:?} {legal_hold:?} {bypass}");
            assert_eq!(annotations(&state.version("k")), names(&[("a", 2)]));
        }
    }
}

#[test]
fn a_copy_takes_them_if_it_is_told_to() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    write(&mut state, "a", 1);
    for (annotated, expected) in [(true, names(&[("a", 1)])), (false, Vec::new())] {
        let copy = Copy {
            source: (BUCKET, "k".into(), None),
            source_conditions: SourceConditions::default(),
            bucket: BUCKET,
            key: "copy".into(),
            modified_ms: None,
            precondition: Precondition::default(),
            headers: CopyHeaders::default(),
            attributes: CopyAttributes { annotations: annotated, ..CopyAttributes::default() },
            checksum: None,
        };
        state.run_at(NOW_MS + 5, Intent::CopyObject(Box::new(copy))).unwrap();
        let copied = state.version("copy");
        assert_eq!(annotations(&copied), expected);
        let times = copied.attributes.annotations.as_slice().iter().map(|annotation| annotation.modified_ms);
        assert!(times.eq(expected.iter().map(|_| NOW_MS + 5)));
    }
}

#[test]
fn changes_of_tags_renames_and_snapshots_keep_them() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    write(&mut state, "a", 1);
    let change = AttributeChange::Tags(vec![("t".into(), "v".into())]);
    let update = UpdateVersion { bucket: BUCKET, key: "k".into(), version: None, change };
    state.run(Intent::UpdateVersion(Box::new(update))).unwrap();
    write(&mut state, "b", 2);
    let version = state.version("k");
    assert_eq!((version.attributes.tags.len(), annotations(&version)), (1, names(&[("a", 1), ("b", 2)])));
    let moved = Move {
        from_bucket: BUCKET,
        from_key: "k".into(),
        from_conditions: SourceConditions::default(),
        bucket: BUCKET,
        key: "l".into(),
        precondition: Precondition::default(),
    };
    state.run(Intent::MoveObject(Box::new(moved))).unwrap();
    assert_eq!(annotations(&state.version("l")), names(&[("a", 1), ("b", 2)]));
    state.run(Intent::CreateSnapshot { bucket: BUCKET, name: "s".into() }).unwrap();
    run(&mut state, Annotate { key: "l".into(), ..annotate("b", None, DELETE) }).unwrap();
    assert_eq!(annotations(&state.version("l")), names(&[("a", 1), ("b", 2)]), "the frozen layer");
    let bucket = state.buckets[&BUCKET].clone();
    let shown = crate::buckets::layers::object(&state, &bucket, b"l").unwrap().unwrap();
    assert_eq!(annotations(&shown.version), names(&[("a", 1)]));
}
