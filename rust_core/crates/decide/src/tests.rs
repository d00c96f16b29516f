//! The rules, over a state that is a handful of maps.

mod annotations;
mod appends;
mod buckets;
mod conditions;
mod expirations;
mod histories;
mod locks;
mod snapshots;
mod state;
mod stored_copies;
mod stored_sealing;
mod uploads;
mod versions;

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use orcas_base::error::Result;
use orcas_checksum::{Checksum, ChecksumAlgorithm, ChecksumType, Etag, Hasher, ObjectChecksum};
use orcas_record::placement::codec;
use orcas_record::{
    Bucket, BucketId, BucketSettings, DocumentKind, Extent, Fingerprint, Object, ObjectHeaders, Part, Record, Sequence,
    UploadId, Version, VersionId,
};
use state::TestView;
use uploads::Multipart;

const BUCKET: BucketId = BucketId(1);

fn create_bucket(name: &'static str) -> Intent {
    let (name, owner, location) = (name.into(), "root".into(), Bytes::new());
    Intent::CreateBucket {
        name,
        owner,
        location,
        settings: BucketSettings::default(),
        object_lock: false,
        documents: Vec::new(),
    }
}

fn put_with(key: &'static str, size: u64, precondition: Precondition) -> Intent {
    let fingerprint = Fingerprint([0; 32]);
    let chunks = (0..size.div_ceil(4 << 20)).map(|at| PlacedChunk {
        fingerprint,
        sharing: Sharing::Off,
        length: (size - (at << 22)).min(4 << 20) as u32,
        sealed: false,
        place: ChunkPlace::New { prefix_hash: 0, at: codec::chunk(1, at * 8), seal: None },
        pin: None,
    });
    Intent::PutObject(Box::new(PutObject {
        bucket: BUCKET,
        key: key.into(),
        modified_ms: None,
        precondition,
        size,
        md5: [size as u8; 16],
        sha256: None,
        checksum: None,
        headers: ObjectHeaders::default(),
        attributes: Default::default(),
        body: Body::Chunks(chunks.collect()),
    }))
}

fn put(key: &'static str, size: u64) -> Intent {
    put_with(key, size, Precondition::default())
}

fn refused(answer: Result<Outcome, Failure>) -> Refusal {
    match answer {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn if_match(etag: Etag) -> Precondition {
    Precondition { if_match: Some(EtagMatch::List(vec![etag])), ..Precondition::default() }
}

#[test]
fn preconditions_of_a_put() {
    let mut state = TestView::with_bucket();
    let absent = Precondition { if_none_match_any: true, ..Precondition::default() };
    // A missing object is 404 to If-Match, not 412.
    assert_eq!(refused(state.run(put_with("k", 1, if_match(Etag::simple([1; 16]))))), Refusal::NoSuchKey);
    state.run(put_with("k", 1, absent.clone())).unwrap();
    let taken = refused(state.run(put_with("k", 2, absent)));
    assert_eq!(taken, Refusal::PreconditionFailed { condition: "If-None-Match" });
    let stale = refused(state.run(put_with("k", 2, if_match(Etag::simple([9; 16])))));
    assert_eq!(stale, Refusal::PreconditionFailed { condition: "If-Match" });
    state.run(put_with("k", 2, if_match(Etag::simple([1; 16])))).unwrap();
    assert_eq!(state.version("k").size, 2);
}

#[test]
fn a_bucket_made_again_is_another_bucket() {
    let mut state = TestView::with_bucket();
    assert_eq!(refused(state.run(create_bucket("photos"))), Refusal::BucketAlreadyOwnedByYou);
    state.run(Intent::DeleteBucket { bucket: BUCKET }).unwrap();
    state.run(create_bucket("photos")).unwrap();
    assert_eq!(refused(state.run(put("k", 1))), Refusal::NoSuchBucket);
}

#[test]
fn deletes_of_many_are_decided_one_by_one() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 1)).unwrap();
    state.run(put("b", 2)).unwrap();
    let entry =
        |key: &'static str, precondition| DeleteEntry { key: key.into(), precondition, version: None, bypass: false };
    let entries = vec![
        entry("a", Precondition::default()),
        entry("a", Precondition::default()),
        entry("a", if_match(Etag::simple([1; 16]))),
        entry("b", if_match(Etag::simple([9; 16]))),
        entry("absent", Precondition::default()),
    ];
    let Ok(Outcome::Deleted(answers)) = state.run(Intent::DeleteObjects { bucket: BUCKET, entries }) else {
        panic!("deleting failed");
    };
    let failed = Refusal::PreconditionFailed { condition: "If-Match" };
    let done = Ok(Deleted::default());
    assert_eq!(answers, [done.clone(), done.clone(), Err(Refusal::NoSuchKey), Err(failed), done]);
    assert_eq!(state.keys(), 1);
}

fn copy(from: &'static str, to: &'static str, headers: Option<ObjectHeaders>) -> Intent {
    Intent::CopyObject(Box::new(Copy {
        source: (BUCKET, from.into(), None),
        source_conditions: SourceConditions::default(),
        bucket: BUCKET,
        key: to.into(),
        modified_ms: None,
        precondition: Precondition::default(),
        headers: headers.map_or_else(CopyHeaders::default, |headers| CopyHeaders::Replace(Box::new(headers))),
        attributes: Default::default(),
        checksum: None,
    }))
}

#[test]
fn a_copy_shares_its_source_and_may_change_its_headers() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 9 << 20)).unwrap();
    state.run(copy("a", "b", None)).unwrap();
    assert_eq!(state.version("b").manifest, state.version("a").manifest);
    let headers = ObjectHeaders { content_type: Some("text/css".into()), ..ObjectHeaders::default() };
    state.run(copy("a", "a", Some(headers.clone()))).unwrap();
    assert_eq!(state.version("a").headers, headers);
    assert_eq!(refused(state.run(copy("absent", "c", None))), Refusal::NoSuchKey);
}

#[test]
fn copies_of_many_happen_together_or_not_at_all() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 1)).unwrap();
    state.run(put("b", 2)).unwrap();
    let etag_of = |state: &TestView, key| state.version(key).etag;
    let entry = |from: &'static str, etag, key: &'static str, replaces| CopyEntry {
        from: from.into(),
        etag,
        key: key.into(),
        replaces,
    };
    let run =
        |state: &mut TestView, entries| state.run(Intent::CopyObjects { source: BUCKET, bucket: BUCKET, entries });
    let (a, b) = (etag_of(&state, "a"), etag_of(&state, "b"));
    let first = entry("a", a, "c", None);
    let failed = |condition| Refusal::PreconditionFailed { condition };
    let other = Etag::simple([9; 16]);
    for (second, refusal) in [
        (entry("b", other, "d", None), failed("x-amz-copy-source-If-Match")),
        (entry("b", b, "a", None), failed("If-None-Match")),
        (entry("b", b, "a", Some(other)), failed("If-Match")),
        (entry("b", b, "d", Some(other)), Refusal::NoSuchKey),
        (entry("absent", b, "d", None), Refusal::NoSuchKey),
    ] {
        assert_eq!(refused(run(&mut state, vec![first.clone(), second])), refusal);
    }
    let twice = refused(run(&mut state, vec![first.clone(), entry("b", b, "c", None)]));
    assert!(matches!(twice, Refusal::InvalidRequest { .. }));
    let long = CopyEntry { key: vec![b'k'; limits::KEY_LEN_MAX + 1].into(), ..first.clone() };
    assert_eq!(refused(run(&mut state, vec![long])), Refusal::KeyTooLong);
    let many = vec![first.clone(); COPIES_MAX + 1];
    assert_eq!(refused(run(&mut state, many)), Refusal::TooManyObjects { limit: COPIES_MAX });
    assert_eq!(state.keys(), 2);
    // Two that exchange their names are copied from what there was before.
    run(&mut state, vec![first, entry("a", a, "b", Some(b)), entry("b", b, "a", Some(a))]).unwrap();
    assert_eq!(["a", "b", "c"].map(|key| state.version(key).size), [2, 1, 1]);
}

#[test]
fn a_move_keeps_everything_but_the_name() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 7)).unwrap();
    let before = state.version("a");
    let moved = |from: &'static str, to: &'static str, if_none_match_any| {
        Intent::MoveObject(Box::new(Move {
            from_bucket: BUCKET,
            from_key: from.into(),
            from_conditions: SourceConditions::default(),
            bucket: BUCKET,
            key: to.into(),
            precondition: Precondition { if_none_match_any, ..Precondition::default() },
        }))
    };
    state.run(moved("a", "b", true)).unwrap();
    assert_eq!(state.version("b"), Version { key: "b".into(), ..before });
    assert_eq!(refused(state.run(moved("a", "c", false))), Refusal::NoSuchKey);
    assert!(matches!(refused(state.run(moved("b", "b", false))), Refusal::InvalidRequest { .. }));
    state.run(put("c", 1)).unwrap();
    let taken = refused(state.run(moved("b", "c", true)));
    assert_eq!(taken, Refusal::PreconditionFailed { condition: "If-None-Match" });
}

#[test]
fn a_long_manifest_moves_into_segments_and_can_be_sliced() {
    let mut state = TestView::with_bucket();
    let size = (4 << 20) * 100;
    state.run(put("long", size)).unwrap();
    let manifest = state.version("long").manifest;
    assert!(matches!(manifest[..], [Extent::Segment { length, .. }] if length == size));
    let sliced = crate::objects::manifest::slice(&state, &manifest, 10, (4 << 20) + 4).unwrap();
    let [Extent::Blob { start: 10, length: first, .. }, Extent::Blob { start: 0, length: 5, .. }] = sliced[..] else {
        panic!("{sliced:?}");
    };
    assert_eq!(first, (4 << 20) - 10);
    assert_eq!(crate::objects::manifest::slice(&state, &manifest, 0, size - 1).unwrap(), manifest);
    assert_eq!(state.version("long").version_id, VersionId::Null);
}

fn content(key: &'static str, of: u8, sharing: Sharing) -> Intent {
    let Intent::PutObject(mut put) = put(key, 300) else { unreachable!("put makes a PutObject") };
    put.body =
        Body::Content { fingerprint: Fingerprint([of; 32]), sharing, bytes: Bytes::from(vec![of; 300]), seal: None };
    Intent::PutObject(put)
}

fn chunk(of: u8, sharing: Sharing, place: ChunkPlace) -> PlacedChunk {
    PlacedChunk { fingerprint: Fingerprint([of; 32]), sharing, length: 300, sealed: false, place, pin: None }
}

fn chunks(key: &'static str, chunks: Vec<PlacedChunk>) -> Intent {
    let Intent::PutObject(mut put) = put(key, 300 * chunks.len() as u64) else { unreachable!("put makes a PutObject") };
    put.body = Body::Chunks(chunks);
    Intent::PutObject(put)
}

impl TestView {
    fn blobs(&self, key: &'static str) -> Vec<Sequence> {
        let manifest = self.version(key).manifest;
        manifest
            .iter()
            .map(|extent| match extent {
                Extent::Blob { blob, start: 0, length: 300 } => *blob,
                other => panic!("{other:?}"),
            })
            .collect()
    }
}

#[test]
fn a_content_takes_an_earlier_one_only_when_it_asks_for_it() {
    let mut state = TestView::with_bucket();
    let mut stored = |sharing| {
        state.run(content("k", 1, sharing)).unwrap();
        state.blobs("k")[0]
    };
    let off = stored(Sharing::Off);
    let first = stored(Sharing::Sought);
    assert_ne!(first, off);
    assert_eq!(stored(Sharing::Sought), first);
    let offered = stored(Sharing::Offered);
    assert_ne!(offered, first);
    assert_ne!(stored(Sharing::Off), offered);
    // What was offered is found as well; what stands for itself is not.
    assert_eq!(stored(Sharing::Sought), offered);
    state.run(content("other", 2, Sharing::Sought)).unwrap();
    assert_ne!(state.blobs("other"), [offered]);
    // A fingerprint with another length is no match.
    state.shared.insert(Fingerprint([3; 32]), (offered, 299));
    state.run(content("longer", 3, Sharing::Sought)).unwrap();
    assert_ne!(state.blobs("longer"), [offered]);
}

#[test]
fn chunks_of_one_body_share_and_a_known_one_brings_no_record() {
    let mut state = TestView::with_bucket();
    let place = |at: u64| ChunkPlace::New { prefix_hash: 0, at: codec::chunk(1, at * 4096), seal: None };
    let body = vec![
        chunk(1, Sharing::Sought, place(1)),
        chunk(2, Sharing::Offered, place(2)),
        chunk(1, Sharing::Sought, place(1)),
        chunk(2, Sharing::Sought, place(2)),
        chunk(3, Sharing::Off, place(3)),
        chunk(3, Sharing::Sought, place(4)),
    ];
    state.run(chunks("a", body)).unwrap();
    let blobs = state.blobs("a");
    assert_eq!(blobs, [blobs[0], blobs[1], blobs[0], blobs[1], blobs[4], blobs[5]]);
    assert_eq!(blobs[0..2].iter().chain(&blobs[4..6]).collect::<std::collections::HashSet<_>>().len(), 4);
    let sequence = state.sequence;
    state.run(chunks("b", vec![chunk(1, Sharing::Sought, ChunkPlace::Known { blob: blobs[0] })])).unwrap();
    assert_eq!(state.blobs("b"), [blobs[0]]);
    assert_eq!(state.sequence, sequence + 1);
}
