//! What is stored is sealed only while it is what was read, and keeps its place.

use super::state::TestView;
use super::*;
use orcas_record::{Attributes, Encryption, ObjectHeaders, Versioning};

fn versioned() -> TestView {
    let mut state = TestView::with_bucket();
    let change = BucketChange::Versioning(Versioning::Enabled);
    state.run(Intent::UpdateBucket { bucket: BUCKET, change }).unwrap();
    state
}

/// The versions of `k` as they are now, of which those from `first` on are sealed.
fn seal(state: &TestView, first: usize) -> (SealStored, Vec<Body>) {
    let chunk = |length| {
        let place = ChunkPlace::New { head: 0, at: codec::chunk(9, length), seal: None };
        let (fingerprint, sharing) = (Fingerprint([length as u8; 32]), Sharing::Off);
        Body::Chunks(vec![PlacedChunk { fingerprint, sharing, length: length as u32, sealed: true, place, pin: None }])
    };
    let found: Vec<_> = state.versions(BUCKET, b"k").skip(first).cloned().collect();
    let blobs = found.iter().map(|object| chunk(object.version.size)).collect();
    let entry = |(at, object): (usize, &Arc<Object>)| {
        let length = object.version.size as u32;
        let content = SealedContent {
            extents: vec![SealedExtent { blob: at, start: 0, length }],
            annotations: object.version.attributes.annotations.clone(),
            texts: Vec::new(),
            headers: ObjectHeaders::default(),
        };
        let content = (!object.version.delete_marker).then_some(content);
        SealVersion { id: object.version.version_id, sequence: object.sequence, content }
    };
    let versions = found.iter().enumerate().map(entry).collect();
    (SealStored { layer: BUCKET, keys: vec![SealKey { key: "k".into(), versions }] }, blobs)
}

fn run(state: &mut TestView, (seal, blobs): (SealStored, Vec<Body>)) -> Sealed {
    match state.run(Intent::SealStored(Box::new(seal), blobs)) {
        Ok(Outcome::Sealed(sealed)) => sealed,
        other => panic!("{other:?}"),
    }
}

fn all(state: &TestView) -> Vec<Version> {
    state.versions(BUCKET, b"k").map(|object| object.version.clone()).collect()
}

const CHANGED: Sealed = Sealed { versions: 0, bytes: 0, changed: 1 };

#[test]
fn versions_keep_everything_but_their_blobs_and_stay_in_their_order() {
    let mut state = versioned();
    for size in 1..5 {
        state.run(put("k", size)).unwrap();
    }
    let before = all(&state);
    let wanted = seal(&state, 1);
    assert_eq!(run(&mut state, wanted), Sealed { versions: 3, bytes: 9, changed: 0 });
    let after = all(&state);
    assert_eq!(after[0], before[0], "the oldest one was not asked for");
    for (after, before) in after.iter().zip(&before).skip(1) {
        assert_ne!(after.manifest, before.manifest);
        let attributes = Attributes { encryption: Some(Encryption::Managed), ..before.attributes.clone() };
        assert_eq!(*after, Version { manifest: after.manifest.clone(), attributes, ..before.clone() });
    }
    // Once more, it is not what it was.
    let again = seal(&state, 1);
    assert_eq!(run(&mut state, again), CHANGED);
}

#[test]
fn whatever_happened_since_the_content_was_read_stays() {
    let delete = |version| Intent::DeleteObject {
        bucket: BUCKET,
        key: "k".into(),
        version,
        precondition: Precondition::default(),
        bypass: false,
    };
    let mut state = versioned();
    state.run(put("k", 1)).unwrap();
    state.run(put("k", 2)).unwrap();
    let ids: Vec<_> = all(&state).iter().map(|version| version.version_id).collect();
    for happens in [put("k", 3), delete(None), delete(Some(ids[1])), delete(Some(ids[0]))] {
        let read = seal(&state, 0);
        state.run(happens).unwrap();
        let before = all(&state);
        assert_eq!(run(&mut state, read), CHANGED);
        assert_eq!(all(&state), before);
    }
    // An object that was overwritten, of a bucket without versions.
    let mut state = TestView::with_bucket();
    state.run(put("k", 2)).unwrap();
    let read = seal(&state, 0);
    state.run(put("k", 2)).unwrap();
    assert_eq!(run(&mut state, read), CHANGED);
    assert_eq!(state.version("k").attributes.encryption, None);
}

#[test]
fn attributes_that_were_changed_meanwhile_stay() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    let read = seal(&state, 0);
    let tags = vec![(Bytes::from("a"), Bytes::from("b"))];
    let change = AttributeChange::Tags(tags.clone());
    let update = UpdateVersion { bucket: BUCKET, key: "k".into(), version: None, change };
    state.run(Intent::UpdateVersion(Box::new(update))).unwrap();
    assert_eq!(run(&mut state, read).versions, 1);
    let attributes = state.version("k").attributes;
    assert_eq!((attributes.tags, attributes.encryption), (tags, Some(Encryption::Managed)));
}

#[test]
fn what_does_not_fit_its_version_is_an_error() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 5)).unwrap();
    let changes: [fn(&mut SealedExtent); 3] = [|it| it.length = 4, |it| it.start = 1, |it| it.blob = 1];
    for change in changes {
        let (mut read, blobs) = seal(&state, 0);
        read.keys[0].versions[0].content.iter_mut().for_each(|content| change(&mut content.extents[0]));
        assert!(matches!(state.run(Intent::SealStored(Box::new(read), blobs)), Err(Failure::Engine(_))));
    }
}

#[test]
fn an_append_that_was_prepared_before_is_to_be_repeated() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 300)).unwrap();
    let read = seal(&state, 0);
    run(&mut state, read);
    let append = super::appends::appended(300, &[1; 500]);
    assert_eq!(refused(state.run(Intent::AppendObject(Box::new(append)))), Refusal::SourceChanged);
}
