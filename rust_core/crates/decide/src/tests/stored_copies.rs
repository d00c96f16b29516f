//! Copies whose bytes were stored again count only while their source is what was read.

use super::state::{NOW_MS, TestView};
use super::*;
use orcas_record::{Annotations, Attributes, Encryption};

fn sealed(of: &Version) -> PutObject {
    let Intent::PutObject(put) = put("k", of.size) else { panic!("no put") };
    let Body::Chunks(mut chunks) = put.body else { panic!("no chunks") };
    chunks.iter_mut().for_each(|chunk| chunk.sealed = true);
    PutObject { md5: of.etag.md5, body: Body::Chunks(chunks), ..*put }
}

/// A copy of `k` onto itself, which encrypts it, as one that read this object stores it.
fn encrypt(read: (Sequence, &Version)) -> Intent {
    annotated(read, false, StoredAnnotations::default())
}

/// The same with annotations.
fn annotated(read: (Sequence, &Version), wanted: bool, annotations: StoredAnnotations) -> Intent {
    let encryption = Some(Encryption::Managed);
    let attributes = CopyAttributes { encryption, annotations: wanted, ..CopyAttributes::default() };
    let into = StoredInto::Object { put: Box::new(sealed(read.1)), attributes, annotations };
    stored((BUCKET, "k".into(), None), read.0, into)
}

fn stored(source: Source, source_sequence: Sequence, into: StoredInto) -> Intent {
    let source_conditions = SourceConditions::default();
    Intent::StoredCopy(Box::new(StoredCopy { source, source_sequence, source_conditions, into }))
}

#[test]
fn what_was_written_after_the_source_was_read_is_not_replaced() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    let first = (state.sequence, state.version("k"));
    state.run(put("k", 2)).unwrap();
    assert_eq!(refused(state.run(encrypt((first.0, &first.1)))), Refusal::SourceChanged);
    assert_eq!(state.version("k").size, 2);
    let second = (state.sequence, state.version("k"));
    state.run(encrypt((second.0, &second.1))).unwrap();
    let copy = state.version("k");
    assert_eq!((copy.size, copy.attributes.encryption), (2, Some(Encryption::Managed)));
}

#[test]
fn attributes_that_were_changed_meanwhile_go_with_the_copy() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    let read = (state.sequence, state.version("k"));
    let tags = vec![(Bytes::from("a"), Bytes::from("b"))];
    state
        .run(Intent::UpdateVersion(Box::new(UpdateVersion {
            bucket: BUCKET,
            key: "k".into(),
            version: None,
            change: AttributeChange::Tags(tags.clone()),
        })))
        .unwrap();
    state.run(encrypt((read.0, &read.1))).unwrap();
    let Attributes { tags: copied, encryption, .. } = state.version("k").attributes;
    assert_eq!((copied, encryption), (tags, Some(Encryption::Managed)));
}

#[test]
fn a_part_of_what_was_replaced_is_refused() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    let read = state.sequence;
    state.run(put("k", 2)).unwrap();
    let Intent::PutObject(put) = put("part", 1) else { panic!("no put") };
    let part = PutPart {
        bucket: BUCKET,
        key: "u".into(),
        upload: UploadId([1; 16]),
        number: 1,
        size: 1,
        md5: put.md5,
        checksum: None,
        computed: None,
        body: put.body,
    };
    let into = |part: &PutPart| StoredInto::Part(Box::new(part.clone()));
    assert_eq!(refused(state.run(stored((BUCKET, "k".into(), None), read, into(&part)))), Refusal::SourceChanged);
    // Of what stands, the rules of the upload are asked.
    let now = state.sequence;
    assert_eq!(refused(state.run(stored((BUCKET, "k".into(), None), now, into(&part)))), Refusal::NoSuchUpload);
}

fn annotate(state: &mut TestView, name: &'static str, size: usize) {
    let body = Box::new(Body::Inline(vec![b'x'; size].into()));
    let change = AnnotationChange::Put { md5: [1; 16], checksum: None, encryption: None, body };
    let annotate =
        Annotate { bucket: BUCKET, key: "k".into(), version: None, name: name.into(), if_match: None, change };
    state.run(Intent::Annotate(Box::new(annotate))).unwrap();
}

/// These annotations with texts of these sizes, which are sealed.
fn again(found: Annotations, sizes: &[u64]) -> StoredAnnotations {
    let text = |size: &u64| {
        let Intent::PutObject(put) = put("k", *size) else { panic!("no put") };
        let Body::Chunks(mut chunks) = put.body else { panic!("no chunks") };
        chunks.iter_mut().for_each(|chunk| chunk.sealed = true);
        StoredText { md5: [2; 16], checksum: None, body: Body::Chunks(chunks) }
    };
    StoredAnnotations { found, texts: sizes.iter().map(text).collect() }
}

#[test]
fn annotations_go_with_the_copy_that_are_what_was_read() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    annotate(&mut state, "a", 10);
    annotate(&mut state, "b", 20);
    let read = (state.versions(BUCKET, b"k").last().unwrap().sequence, state.version("k"));
    let found = read.1.attributes.annotations.clone();
    let copy = |texts| annotated((read.0, &read.1), true, texts);
    // One that is not there, another text, and none at all.
    for (names, sizes) in [(&found, &[10][..]), (&found, &[10, 21]), (&Annotations::default(), &[])] {
        assert!(state.run(copy(again(names.clone(), sizes))).is_err());
    }
    state.run_at(NOW_MS + 5, copy(again(found, &[10, 20]))).unwrap();
    let copied = state.version("k").attributes;
    assert_eq!(copied.encryption, Some(Encryption::Managed));
    let shown: Vec<_> = copied.annotations.as_slice().iter().map(|it| (&it.name[..], it.md5, it.modified_ms)).collect();
    assert_eq!(shown, [(&b"a"[..], [2; 16], NOW_MS + 5), (b"b", [2; 16], NOW_MS + 5)]);
    assert!(copied.annotations.extents().all(|text| matches!(text, Extent::Blob { start: 0, .. })));
}

#[test]
fn annotations_that_were_changed_meanwhile_are_read_again() {
    let mut state = TestView::with_bucket();
    state.run(put("k", 1)).unwrap();
    let before = state.version("k");
    annotate(&mut state, "a", 10);
    let sequence = state.versions(BUCKET, b"k").last().unwrap().sequence;
    let stale = annotated((sequence, &before), true, again(Annotations::default(), &[]));
    assert_eq!(refused(state.run(stale)), Refusal::SourceChanged);
    // Who does not want them does not read them.
    state.run(annotated((sequence, &before), false, StoredAnnotations::default())).unwrap();
    assert!(state.version("k").attributes.annotations.is_empty());
}
