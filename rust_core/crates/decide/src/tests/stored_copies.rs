//! Copies whose bytes were stored again count only while their source is what was read.

use super::state::TestView;
use super::*;
use orcas_record::{Attributes, Encryption};

fn sealed(of: &Version) -> PutObject {
    let Intent::PutObject(put) = put("k", of.size) else { panic!("no put") };
    let Body::Chunks(mut chunks) = put.body else { panic!("no chunks") };
    chunks.iter_mut().for_each(|chunk| chunk.sealed = true);
    PutObject { md5: of.etag.md5, body: Body::Chunks(chunks), ..*put }
}

/// A copy of `k` onto itself, which encrypts it, as one that read this object stores it.
fn encrypt(read: (Sequence, &Version)) -> Intent {
    let attributes = CopyAttributes { encryption: Some(Encryption::Managed), ..CopyAttributes::default() };
    stored((BUCKET, "k".into(), None), read.0, StoredInto::Object { put: Box::new(sealed(read.1)), attributes })
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
