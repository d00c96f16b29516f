//! What is stored is sealed only while it is what was read, and keeps its place.

use super::state::TestView;
use super::uploads::Multipart;
use super::*;
use orcas_record::{Attributes, Encryption, ObjectHeaders, Versioning};

fn versioned() -> TestView {
    let mut state = TestView::with_bucket();
    let change = BucketChange::Versioning(Versioning::Enabled);
    state.run(Intent::UpdateBucket { bucket: BUCKET, change }).unwrap();
    state
}

fn chunk(length: u64) -> Body {
    let place = ChunkPlace::New { prefix_hash: 0, at: codec::chunk(9, length), seal: None };
    let (fingerprint, sharing) = (Fingerprint([length as u8; 32]), Sharing::Off);
    Body::Chunks(vec![PlacedChunk { fingerprint, sharing, length: length as u32, sealed: true, place, pin: None }])
}

/// The versions of `k` as they are now, of which those from `first` on are sealed.
fn seal(state: &TestView, first: usize) -> (SealStored, Vec<Body>) {
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
    (SealStored { layer: BUCKET, keys: vec![SealKey { key: "k".into(), versions }], uploads: Vec::new() }, blobs)
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

const CHANGED: Sealed = Sealed { versions: 0, uploads: 0, bytes: 0, changed: 1 };

#[test]
fn versions_keep_everything_but_their_blobs_and_stay_in_their_order() {
    let mut state = versioned();
    for size in 1..5 {
        state.run(put("k", size)).unwrap();
    }
    let before = all(&state);
    let wanted = seal(&state, 1);
    assert_eq!(run(&mut state, wanted), Sealed { versions: 3, uploads: 0, bytes: 9, changed: 0 });
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

/// The upload as it is now, with all parts.
fn seal_upload(multipart: &Multipart) -> (SealStored, Vec<Body>) {
    let state = &multipart.state;
    let parts: Vec<_> = state.parts(multipart.upload).unwrap().into_values().collect();
    let blobs = parts.iter().map(|part| chunk(part.size)).collect();
    let of = |(blob, part): (usize, Arc<Part>)| {
        let extents = vec![SealedExtent { blob, start: 0, length: part.size as u32 }];
        SealPart { part, extents }
    };
    let parts = parts.into_iter().enumerate().map(of).collect();
    let upload = state.upload(multipart.upload).unwrap().unwrap();
    let uploads = vec![SealUpload { upload, headers: ObjectHeaders::default(), parts }];
    (SealStored { layer: BUCKET, keys: Vec::new(), uploads }, blobs)
}

fn of_two() -> Multipart {
    let mut multipart = Multipart::begin(None);
    multipart.part(1, MIN_PART, None).unwrap();
    multipart.part(3, 7, None).unwrap();
    multipart
}

const MIN_PART: u64 = 5 << 20;

#[test]
fn an_upload_keeps_everything_but_its_blobs_and_completes_sealed() {
    let (mut multipart, mut plain) = (of_two(), of_two());
    let (upload, parts) = (multipart.upload, multipart.state.parts(multipart.upload).unwrap());
    let wanted = seal_upload(&multipart);
    let sealed = Sealed { versions: 0, uploads: 1, bytes: MIN_PART + 7, changed: 0 };
    assert_eq!(run(&mut multipart.state, wanted), sealed);
    assert_eq!(multipart.state.upload(upload).unwrap().unwrap().attributes.encryption, Some(Encryption::Managed));
    for (after, before) in multipart.state.parts(upload).unwrap().values().zip(parts.values()) {
        assert_ne!(after.manifest, before.manifest);
        assert_eq!(**after, Part { manifest: after.manifest.clone(), ..Part::clone(before) });
    }
    // Once more, there is nothing to do.
    let again = seal_upload(&multipart);
    assert_eq!(run(&mut multipart.state, again), CHANGED);
    let unsealed = multipart.part(2, MIN_PART, None);
    assert_eq!(refused(unsealed), Refusal::UploadSealed);
    multipart.named.pop();
    for it in [&mut multipart, &mut plain] {
        it.complete(it.named.clone(), None).unwrap();
    }
    let (one, other) = (multipart.state.version("k"), plain.state.version("k"));
    assert_eq!((&one.etag, one.size), (&other.etag, other.size));
    assert_eq!((one.attributes.encryption, other.attributes.encryption), (Some(Encryption::Managed), None));
}

#[test]
fn an_upload_that_went_on_stays_as_it_is() {
    let changes: [fn(&mut Multipart); 4] = [
        |it| drop(it.part(3, 8, None).unwrap()),
        |it| drop(it.part(2, 7, None).unwrap()),
        |it| drop(it.complete(it.named.clone(), None).unwrap()),
        |it| {
            let (bucket, key, upload) = (BUCKET, "k".into(), it.upload);
            let abort = Intent::AbortUpload { bucket, key, upload, idle_since_ms: None };
            it.state.run(abort).unwrap();
        },
    ];
    for change in changes {
        let mut multipart = of_two();
        let read = seal_upload(&multipart);
        change(&mut multipart);
        let before = multipart.state.parts(multipart.upload).unwrap();
        assert_eq!(run(&mut multipart.state, read), CHANGED);
        assert_eq!(multipart.state.parts(multipart.upload).unwrap(), before);
        let upload = multipart.state.upload(multipart.upload).unwrap();
        assert!(upload.is_none_or(|upload| upload.attributes.encryption.is_none()));
    }
}
