//! Versions, delete markers, and what names them.

use super::state::TestView;
use super::*;
use orcas_record::{ObjectLock, Versioning};

impl TestView {
    pub fn versioned() -> Self {
        let mut state = Self::with_bucket();
        state.set(Versioning::Enabled).unwrap();
        state
    }

    pub fn set(&mut self, versioning: Versioning) -> Result<Outcome, Failure> {
        self.run(Intent::UpdateBucket { bucket: BUCKET, change: BucketChange::Versioning(versioning) })
    }

    /// The versions of `k`, the newest first: an `m` for each delete marker, else the size.
    pub fn history(&self) -> String {
        let shown = |object: &Arc<orcas_record::Object>| match &object.version {
            Version { delete_marker: true, version_id: VersionId::Null, .. } => "m0 ".to_owned(),
            Version { delete_marker: true, .. } => "m ".to_owned(),
            Version { version_id: VersionId::Null, size, .. } => format!("{size}/null "),
            Version { size, .. } => format!("{size} "),
        };
        self.versions(BUCKET, b"k").rev().map(shown).collect::<String>().trim_end().to_owned()
    }

    pub fn stored(&mut self, size: u64) -> Option<VersionId> {
        match self.run(put("k", size)) {
            Ok(Outcome::Put(put)) => put.version_id,
            other => panic!("not stored: {other:?}"),
        }
    }
}

pub fn delete(version: Option<VersionId>) -> DeleteEntry {
    DeleteEntry { key: "k".into(), version, precondition: Precondition::default(), bypass: false }
}

pub fn delete_one(entry: DeleteEntry) -> Intent {
    let DeleteEntry { key, version, precondition, bypass } = entry;
    Intent::DeleteObject { bucket: BUCKET, key, version, precondition, bypass }
}

fn deleted(outcome: Result<Outcome, Failure>) -> Deleted {
    match outcome {
        Ok(Outcome::DeletedOne(deleted)) => deleted,
        other => panic!("not deleted: {other:?}"),
    }
}

#[test]
fn writes_replace_the_null_version_or_add_one() {
    let mut state = TestView::with_bucket();
    assert_eq!((state.stored(1), state.stored(2)), (None, None));
    assert_eq!(state.history(), "2/null");
    state.set(Versioning::Enabled).unwrap();
    let (three, four) = (state.stored(3).unwrap(), state.stored(4).unwrap());
    assert_ne!(three, four);
    assert_eq!(state.history(), "4 3 2/null");
    state.set(Versioning::Suspended).unwrap();
    assert_eq!(state.stored(5), None);
    assert_eq!(state.history(), "5/null 4 3");
    assert_eq!(
        refused(state.set(Versioning::Unversioned)),
        Refusal::InvalidBucketState { reason: "Versioning can be suspended, but not removed." }
    );
}

#[test]
fn a_version_id_begins_with_the_sequence_of_its_record() {
    let mut state = TestView::versioned();
    state.run(put("k", 9 << 20)).unwrap();
    let object = state.versions(BUCKET, b"k").last().unwrap();
    let VersionId::Named(id) = object.version.version_id else { panic!("the null version") };
    assert_eq!(id[..8], object.sequence.to_be_bytes());
}

#[test]
fn deletions_by_versioning_and_name() {
    // The state, the version to delete, what the answer says, what is left.
    let none = Deleted::default();
    let table: [(&[Versioning], Option<VersionId>, Deleted, &str); 7] = [
        (&[], None, none, ""),
        (&[], Some(VersionId::Null), Deleted { version_id: Some(VersionId::Null), ..none }, ""),
        (
            &[],
            Some(VersionId::Named([1; 16])),
            Deleted { version_id: Some(VersionId::Named([1; 16])), ..none },
            "1/null",
        ),
        (&[Versioning::Enabled], Some(VersionId::Null), Deleted { version_id: Some(VersionId::Null), ..none }, "2"),
        (
            &[Versioning::Enabled],
            Some(VersionId::Named([1; 16])),
            Deleted { version_id: Some(VersionId::Named([1; 16])), ..none },
            "2 1/null",
        ),
        (
            &[Versioning::Enabled, Versioning::Suspended],
            None,
            Deleted { version_id: Some(VersionId::Null), delete_marker: true },
            "m0 2",
        ),
        (
            &[Versioning::Enabled, Versioning::Suspended],
            Some(VersionId::Null),
            Deleted { version_id: Some(VersionId::Null), ..none },
            "2",
        ),
    ];
    for (changes, version, answer, left) in table {
        let mut state = TestView::with_bucket();
        state.stored(1);
        for (at, change) in changes.iter().enumerate() {
            state.set(*change).unwrap();
            state.stored(2 + at as u64);
        }
        assert_eq!(deleted(state.run(delete_one(delete(version)))), answer, "{changes:?} {version:?}");
        assert_eq!(state.history(), left, "{changes:?} {version:?}");
    }
}

#[test]
fn a_marker_hides_an_object_and_gives_it_back() {
    let mut state = TestView::versioned();
    let one = state.stored(1);
    let marker = deleted(state.run(delete_one(delete(None))));
    assert!(marker.delete_marker && marker.version_id != one);
    assert_eq!(state.history(), "m 1");
    assert_eq!(refused(state.run(copy("k", "copy", None))), Refusal::NoSuchKey);
    assert!(matches!(refused(state.run(Intent::DeleteBucket { bucket: BUCKET })), Refusal::BucketNotEmpty));
    assert_eq!(deleted(state.run(delete_one(delete(marker.version_id)))), marker);
    assert_eq!(state.history(), "1");
    // Also for what does not exist.
    let entry = DeleteEntry { key: "absent".into(), ..delete(None) };
    assert!(deleted(state.run(delete_one(entry))).delete_marker);
    assert_eq!(state.keys(), 2);
}

#[test]
fn conditions_of_deletions_are_about_the_version_that_they_name() {
    let mut state = TestView::versioned();
    let one = state.stored(1);
    state.stored(2);
    let condition = |size: u8| if_match(Etag::simple([size; 16]));
    let with = |version, size| delete_one(DeleteEntry { precondition: condition(size), ..delete(version) });
    let failed = Refusal::PreconditionFailed { condition: "If-Match" };
    assert_eq!(refused(state.run(with(one, 2))), failed);
    assert_eq!(refused(state.run(with(None, 1))), failed);
    assert_eq!(deleted(state.run(with(one, 1))), Deleted { version_id: one, delete_marker: false });
    assert!(deleted(state.run(with(None, 2))).delete_marker);
    assert_eq!(refused(state.run(with(None, 2))), Refusal::NoSuchKey, "behind a marker there is no object");
    assert_eq!(state.history(), "m 2");
}

#[test]
fn entries_of_one_request_see_each_other() {
    let mut state = TestView::versioned();
    let one = state.stored(1);
    let two = state.stored(2);
    let condition = if_match(Etag::simple([2; 16]));
    let entries = vec![
        delete(two),
        delete(two),
        DeleteEntry { precondition: condition.clone(), ..delete(None) },
        delete(None),
        DeleteEntry { precondition: condition, ..delete(None) },
        delete(one),
    ];
    let Ok(Outcome::Deleted(answers)) = state.run(Intent::DeleteObjects { bucket: BUCKET, entries }) else {
        panic!("deleting failed");
    };
    assert_eq!(answers[0], Ok(Deleted { version_id: two, delete_marker: false }));
    assert_eq!(answers[1], answers[0]);
    assert_eq!((&answers[2], &answers[4]), (&Err(Refusal::NoSuchKey), &Err(Refusal::NoSuchKey)));
    assert!(answers[3].as_ref().is_ok_and(|deleted| deleted.delete_marker));
    assert_eq!(state.history(), "m");
}

#[test]
fn a_null_marker_of_the_same_request_can_be_deleted() {
    let mut state = TestView::with_bucket();
    state.stored(1);
    state.set(Versioning::Suspended).unwrap();
    let entries = vec![delete(None), delete(Some(VersionId::Null)), delete(Some(VersionId::Null))];
    let Ok(Outcome::Deleted(answers)) = state.run(Intent::DeleteObjects { bucket: BUCKET, entries }) else {
        panic!("deleting failed");
    };
    let marker = Deleted { version_id: Some(VersionId::Null), delete_marker: true };
    assert_eq!(answers, [Ok(marker), Ok(marker), Ok(Deleted { delete_marker: false, ..marker })]);
    assert_eq!(state.history(), "");
}

#[test]
fn copies_name_versions_and_restore_them() {
    let mut state = TestView::versioned();
    let one = state.stored(1);
    state.stored(2);
    let of = |version: Option<VersionId>| {
        let Intent::CopyObject(mut intent) = copy("k", "k", None) else { unreachable!("copy makes a CopyObject") };
        intent.source.2 = version;
        Intent::CopyObject(intent)
    };
    assert_eq!(refused(state.run(of(Some(VersionId::Null)))), Refusal::NoSuchVersion);
    state.run(of(one)).unwrap();
    assert_eq!(state.history(), "1 2 1");
    let marker = deleted(state.run(delete_one(delete(None))));
    assert_eq!(refused(state.run(of(marker.version_id))), Refusal::DeleteMarker);
}

#[test]
fn copies_keep_headers_and_tags_unless_they_bring_their_own() {
    let mut state = TestView::with_bucket();
    let Intent::PutObject(mut intent) = put("a", 1) else { unreachable!("put makes a PutObject") };
    intent.headers = ObjectHeaders {
        content_type: Some("text/css".into()),
        storage_class: Some("GLACIER".into()),
        ..intent.headers
    };
    intent.attributes.tags = vec![("colour".into(), "blue".into())];
    state.run(Intent::PutObject(intent)).unwrap();
    state.run(copy("a", "b", None)).unwrap();
    let kept = state.version("b");
    assert_eq!((kept.headers.content_type.as_deref(), kept.headers.storage_class), (Some(&b"text/css"[..]), None));
    assert_eq!(kept.attributes.tags, state.version("a").attributes.tags);
    let Intent::CopyObject(mut intent) = copy("a", "c", None) else { unreachable!("copy makes a CopyObject") };
    intent.headers = CopyHeaders::Keep { storage_class: Some("STANDARD_IA".into()), website_redirect: None };
    intent.attributes.tags = Some(Vec::new());
    state.run(Intent::CopyObject(intent)).unwrap();
    assert_eq!(state.version("c").headers.storage_class.as_deref(), Some(&b"STANDARD_IA"[..]));
    assert!(state.version("c").attributes.tags.is_empty());
}

#[test]
fn moves_are_for_buckets_without_versions() {
    for versioning in [Versioning::Enabled, Versioning::Suspended] {
        let mut state = TestView::with_bucket();
        state.run(create_bucket("plain")).unwrap();
        let plain = *state.buckets.keys().find(|id| **id != BUCKET).unwrap();
        state.set(versioning).unwrap();
        state.stored(1);
        for (from_bucket, bucket) in [(BUCKET, BUCKET), (BUCKET, plain), (plain, BUCKET)] {
            let moved = Intent::MoveObject(Box::new(Move {
                from_bucket,
                from_key: "k".into(),
                from_conditions: SourceConditions::default(),
                bucket,
                key: "to".into(),
                precondition: Precondition::default(),
            }));
            assert!(matches!(refused(state.run(moved)), Refusal::InvalidBucketState { .. }));
        }
    }
}

#[test]
fn a_completed_upload_is_a_version() {
    let mut multipart = Multipart::begin(None);
    multipart.state.set(Versioning::Enabled).unwrap();
    multipart.part(1, 5, None).unwrap();
    let parts = multipart.named.clone();
    let Ok(Outcome::Completed(done, _)) = multipart.complete(parts.clone(), None) else { panic!("not completed") };
    assert_eq!(done.version_id, multipart.state.version("k").version_id);
    assert_ne!(done.version_id, VersionId::Null);
    let Ok(Outcome::Completed(again, _)) = multipart.complete(parts, None) else { panic!("not repeated") };
    assert_eq!(done, again);
}

#[test]
fn tags_of_one_version_change_and_nothing_else() {
    let mut state = TestView::versioned();
    let one = state.stored(1);
    state.stored(2);
    let tags = vec![("a".into(), "b".into())];
    let update = |version, tags: &[(Bytes, Bytes)]| {
        let change = AttributeChange::Tags(tags.to_vec());
        Intent::UpdateVersion(Box::new(UpdateVersion { bucket: BUCKET, key: "k".into(), version, change }))
    };
    let before = state.sequence;
    assert!(matches!(state.run(update(one, &tags)), Ok(Outcome::Updated(version)) if version == one));
    assert!(matches!(state.run(update(one, &tags)), Ok(Outcome::Updated(version)) if version == one));
    assert_eq!(state.sequence, before + 1, "what changes nothing writes nothing");
    let tagged: Vec<bool> =
        state.versions(BUCKET, b"k").map(|object| !object.version.attributes.tags.is_empty()).collect();
    assert_eq!(tagged, [true, false]);
    assert_eq!(refused(state.run(update(Some(VersionId::Null), &tags))), Refusal::NoSuchVersion);
    let marker = deleted(state.run(delete_one(delete(None))));
    assert_eq!(refused(state.run(update(None, &tags))), Refusal::DeleteMarker);
    assert_eq!(refused(state.run(update(marker.version_id, &tags))), Refusal::DeleteMarker);
}

#[test]
fn object_lock_needs_versioning_and_keeps_it() {
    let mut state = TestView::with_bucket();
    let lock = || Intent::UpdateBucket { bucket: BUCKET, change: BucketChange::ObjectLock(ObjectLock::default()) };
    for versioning in [None, Some(Versioning::Suspended)] {
        versioning.map(|versioning| state.set(versioning).unwrap());
        assert!(matches!(refused(state.run(lock())), Refusal::InvalidBucketState { .. }), "{versioning:?}");
    }
    state.set(Versioning::Enabled).unwrap();
    state.run(lock()).unwrap();
    assert!(matches!(refused(state.set(Versioning::Suspended)), Refusal::InvalidBucketState { .. }));
    state.set(Versioning::Enabled).unwrap();
}
