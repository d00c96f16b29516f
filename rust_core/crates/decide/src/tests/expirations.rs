//! Expirations remove what was found, and nothing that has changed since.

use super::state::TestView;
use super::versions::{delete, delete_one};
use super::*;
use orcas_record::Versioning;

const RULES: &[u8] = b"<LifecycleConfiguration/>";

fn with_rules(mut state: TestView) -> TestView {
    let (kind, document) = (DocumentKind::Lifecycle, Bytes::from_static(RULES));
    state.run(Intent::PutDocument { bucket: BUCKET, kind, document }).unwrap();
    state
}

impl TestView {
    fn expire(&mut self, entries: Vec<ExpireEntry>) -> Expired {
        let document = Bytes::from_static(RULES);
        match self.run(Intent::Expire(Box::new(Expire { bucket: BUCKET, document, top: None, entries }))) {
            Ok(Outcome::Expired(expired)) => expired,
            other => panic!("not expired: {other:?}"),
        }
    }

    /// The entries of the versions of `k`, the newest first.
    fn found(&self) -> Vec<ExpireEntry> {
        let mut found: Vec<ExpireEntry> = self
            .versions(BUCKET, b"k")
            .rev()
            .map(|object| ExpireEntry {
                key: "k".into(),
                sequence: object.sequence,
                place: ExpiredPlace::Noncurrent(object.version.version_id),
                tags: None,
            })
            .collect();
        found[0].place = ExpiredPlace::Current;
        found
    }
}

fn versions(versions: u64) -> Expired {
    Expired { versions, ..Expired::default() }
}

fn changed(changed: u64) -> Expired {
    Expired { changed, ..Expired::default() }
}

#[test]
fn a_current_version_goes_as_the_versioning_of_its_bucket_says() {
    let mut state = with_rules(TestView::with_bucket());
    state.stored(1);
    let found = state.found();
    assert_eq!(state.expire(found), versions(1));
    assert_eq!(state.history(), "");

    let mut state = with_rules(TestView::versioned());
    state.stored(1);
    let found = state.found();
    let marker = Expired { markers: 1, ..Expired::default() };
    assert_eq!(state.expire(found), marker);
    assert_eq!(state.history(), "m 1");

    state.stored(2);
    state.set(Versioning::Suspended).unwrap();
    let found = state.found().remove(0);
    assert_eq!(state.expire(vec![found]), marker);
    assert_eq!(state.history(), "m0 2 m 1");
}

#[test]
fn noncurrent_versions_go_for_good_and_the_current_one_stays() {
    let mut state = with_rules(TestView::versioned());
    state.stored(1);
    state.run(delete_one(delete(None))).unwrap();
    state.stored(2);
    let found = state.found();
    assert_eq!(state.expire(found[1..].to_vec()), versions(2));
    assert_eq!(state.history(), "2");
}

#[test]
fn nothing_that_has_changed_expires() {
    let mut state = with_rules(TestView::versioned());
    state.stored(1);
    let current = state.found();
    state.stored(2);
    // What was current is not any more.
    assert_eq!(state.expire(current), changed(1));
    let [newest, older] = state.found().try_into().unwrap();
    let ExpiredPlace::Noncurrent(one) = older.place else { panic!("a noncurrent version") };
    // What was noncurrent is current again.
    let two = state.versions(BUCKET, b"k").last().unwrap().version.version_id;
    state.run(delete_one(delete(Some(two)))).unwrap();
    assert_eq!(state.expire(vec![older, newest]), changed(2));
    assert_eq!(state.history(), "1");
    // It is gone.
    let found = state.found();
    state.run(delete_one(delete(Some(one)))).unwrap();
    assert_eq!(state.expire(found), changed(1));

    // The object of an unversioned bucket was overwritten.
    let mut state = with_rules(TestView::with_bucket());
    state.stored(1);
    let found = state.found();
    state.stored(2);
    assert_eq!(state.expire(found), changed(1));
    assert_eq!(state.history(), "2/null");
}

#[test]
fn a_marker_goes_while_it_is_alone() {
    let mut state = with_rules(TestView::versioned());
    state.run(delete_one(delete(None))).unwrap();
    let lone = |state: &TestView| ExpireEntry { place: ExpiredPlace::LoneMarker, ..state.found().remove(0) };
    let found = lone(&state);
    state.stored(1);
    assert_eq!(state.expire(vec![found.clone()]), changed(1));
    assert_eq!(state.history(), "1 m");
    let ExpiredPlace::Noncurrent(id) = state.found()[1].place else { panic!("a noncurrent version") };
    state.run(delete_one(delete(Some(id)))).unwrap();
    state.run(delete_one(delete(None))).unwrap();
    assert_eq!(state.expire(vec![found]), changed(1));
    let found = lone(&state);
    assert_eq!(state.expire(vec![found]), versions(1));
    assert_eq!(state.history(), "1");
}

#[test]
fn tags_that_mattered_are_those_that_were_found() {
    let mut state = with_rules(TestView::with_bucket());
    state.stored(1);
    let tags = vec![(Bytes::from_static(b"a"), Bytes::from_static(b"1"))];
    let tag = |tags| AttributeChange::Tags(tags);
    let update = |change| UpdateVersion { bucket: BUCKET, key: "k".into(), version: None, change };
    state.run(Intent::UpdateVersion(Box::new(update(tag(tags.clone()))))).unwrap();
    let tagged = |state: &TestView, tags| ExpireEntry { tags, ..state.found().remove(0) };
    let entry = tagged(&state, Some(Vec::new()));
    assert_eq!(state.expire(vec![entry]), changed(1));
    let entry = tagged(&state, Some(tags));
    assert_eq!(state.expire(vec![entry]), versions(1));
}

#[test]
fn locked_versions_stay_and_delete_markers_hide_them() {
    let mut state = TestView::default();
    let Intent::CreateBucket { name, owner, location, settings, .. } = create_bucket("photos") else { unreachable!() };
    state
        .run(Intent::CreateBucket { name, owner, location, settings, object_lock: true, documents: Vec::new() })
        .unwrap();
    let mut state = with_rules(state);
    state.stored(1);
    let change = AttributeChange::LegalHold(true);
    let hold = UpdateVersion { bucket: BUCKET, key: "k".into(), version: None, change };
    state.run(Intent::UpdateVersion(Box::new(hold))).unwrap();
    state.stored(2);
    let found = state.found();
    assert_eq!(state.expire(found), Expired { markers: 1, locked: 1, ..Expired::default() });
    assert_eq!(state.history(), "m 2 1");
}

#[test]
fn the_null_marker_of_an_expiration_is_not_taken_for_the_version_that_it_replaced() {
    let mut state = with_rules(TestView::with_bucket());
    state.stored(1);
    state.set(Versioning::Enabled).unwrap();
    state.stored(2);
    state.set(Versioning::Suspended).unwrap();
    assert_eq!(state.history(), "2 1/null");
    let found = state.found();
    assert_eq!(state.expire(found), Expired { markers: 1, changed: 1, ..Expired::default() });
    assert_eq!(state.history(), "m0 2");
}

#[test]
fn other_rules_and_other_buckets_make_it_void() {
    let mut state = with_rules(TestView::with_bucket());
    state.stored(1);
    let found = state.found();
    let (kind, document) = (DocumentKind::Lifecycle, Bytes::new());
    state.run(Intent::PutDocument { bucket: BUCKET, kind, document }).unwrap();
    assert_eq!(state.expire(found.clone()), Expired { changed: 1, void: true, ..Expired::default() });
    assert_eq!(state.history(), "1/null");
    let (bucket, document) = (BucketId(99), Bytes::from_static(RULES));
    let elsewhere = Intent::Expire(Box::new(Expire { bucket, document, top: None, entries: found }));
    assert_eq!(refused(state.run(elsewhere)), Refusal::NoSuchBucket);
}

#[test]
fn uploads_are_aborted_once() {
    let mut state = with_rules(TestView::with_bucket());
    let create = Intent::CreateUpload {
        bucket: BUCKET,
        key: "k".into(),
        headers: Box::default(),
        attributes: Default::default(),
        checksum: None,
    };
    let Ok(Outcome::Upload(id)) = state.run(create) else { panic!("no upload") };
    let entry = |key: &'static str| {
        let (key, place) = (key.into(), ExpiredPlace::Upload(id));
        ExpireEntry { key, sequence: 0, place, tags: None }
    };
    assert_eq!(state.expire(vec![entry("other")]), changed(1));
    assert_eq!(state.expire(vec![entry("k")]), Expired { uploads: 1, ..Expired::default() });
    assert_eq!(state.expire(vec![entry("k")]), changed(1));
}
