//! Appending: where, to what, and what the manifest becomes.

use super::state::TestView;
use super::*;
use orcas_record::INLINE_MAX;

/// An append of content, which is stored by itself.
pub(super) fn appended(offset: u64, bytes: &[u8]) -> ObjectAppend {
    let Intent::PutObject(put) = put("k", 0) else { unreachable!("put makes a PutObject") };
    let body = Body::Content {
        fingerprint: Fingerprint([bytes.len() as u8; 32]),
        sharing: Sharing::Off,
        bytes: Bytes::copy_from_slice(bytes),
        seal: None,
    };
    let checksum = Some(Hasher::digest(ChecksumAlgorithm::Crc32, bytes));
    let md5 = orcas_checksum::Md5Hasher::digest(bytes);
    ObjectAppend {
        put: PutObject { size: bytes.len() as u64, md5, checksum, body, ..*put },
        offset,
        user_metadata: false,
        declared: None,
    }
}

fn run(state: &mut TestView, append: ObjectAppend) -> Result<Outcome, Failure> {
    state.run(Intent::AppendObject(Box::new(append)))
}

#[test]
fn content_is_added_at_the_end_and_nowhere_else() {
    let mut state = TestView::with_bucket();
    assert_eq!(refused(run(&mut state, appended(1, b"x"))), Refusal::InvalidWriteOffset { size: 0 });
    run(&mut state, appended(0, &[1; 300])).unwrap();
    for offset in [0, 299, 301] {
        assert_eq!(refused(run(&mut state, appended(offset, b"x"))), Refusal::InvalidWriteOffset { size: 300 });
    }
    let before = state.version("k");
    run(&mut state, appended(300, &[2; 400])).unwrap();
    let version = state.version("k");
    assert_eq!((version.size, version.manifest.len()), (700, 2));
    assert_eq!(version.manifest[0], before.manifest[0]);
    assert_eq!(version.etag, before.etag.appended(&orcas_checksum::Md5Hasher::digest(&[2; 400])));
    assert_eq!(version.etag.parts, 2);
    let whole = [[1; 300].as_slice(), &[2; 400]].concat();
    assert_eq!(version.checksum, Some(ObjectChecksum::full(Hasher::digest(ChecksumAlgorithm::Crc32, &whole))));
}

#[test]
fn short_content_is_copied_into_the_record() {
    let mut state = TestView::with_bucket();
    run(&mut state, appended(0, b"ab")).unwrap();
    run(&mut state, appended(2, b"cd")).unwrap();
    assert_eq!(state.version("k").manifest, [Extent::Inline(Bytes::from("abcd"))]);
    run(&mut state, appended(4, &[0; INLINE_MAX - 4])).unwrap();
    assert_eq!(state.version("k").manifest.len(), 1);
    run(&mut state, appended(INLINE_MAX as u64, b"e")).unwrap();
    let manifest = state.version("k").manifest;
    assert!(matches!(manifest[..], [Extent::Inline(_), Extent::Blob { length: 1, .. }]), "{manifest:?}");
}

#[test]
fn metadata_and_tags_stay_and_others_are_refused() {
    let mut state = TestView::with_bucket();
    let mut first = appended(0, b"a");
    first.put.headers.content_type = Some("x/y".into());
    first.put.headers.user = vec![("a".into(), "1".into())];
    first.put.attributes.tags = vec![("t".into(), "1".into())];
    run(&mut state, first).unwrap();
    let before = state.version("k");
    let mut other = appended(1, b"b");
    other.put.headers.content_type = Some("other/type".into());
    run(&mut state, other.clone()).unwrap();
    let version = state.version("k");
    assert_eq!((version.headers, version.attributes), (before.headers, before.attributes));
    other.offset = 2;
    other.user_metadata = true;
    assert!(matches!(refused(run(&mut state, other.clone())), Refusal::InvalidRequest { .. }));
    other.user_metadata = false;
    other.put.attributes.tags = vec![("t".into(), "2".into())];
    assert!(matches!(refused(run(&mut state, other)), Refusal::InvalidRequest { .. }));
}

#[test]
fn a_checksum_has_the_algorithm_of_the_object() {
    let mut state = TestView::with_bucket();
    run(&mut state, appended(0, b"a")).unwrap();
    let declared = |algorithm| ObjectAppend { declared: Some(algorithm), ..appended(1, b"b") };
    let (expected, actual) = (ChecksumAlgorithm::Crc32, Some(ChecksumAlgorithm::Sha1));
    let mismatch = Refusal::Checksum(ChecksumRefusal::Algorithm { expected, actual });
    assert_eq!(refused(run(&mut state, declared(ChecksumAlgorithm::Sha1))), mismatch);
    // The object was replaced after its algorithm was looked up.
    let mut late = appended(1, b"b");
    late.put.checksum = Some(Hasher::digest(ChecksumAlgorithm::Crc32c, b"b"));
    assert_eq!(refused(run(&mut state, late)), Refusal::SourceChanged);
    run(&mut state, declared(ChecksumAlgorithm::Crc32)).unwrap();
    assert!(state.version("k").checksum.is_some());
    // A hash of the whole does not follow from those of its parts.
    let mut hashed = put("k", 1);
    let Intent::PutObject(put) = &mut hashed else { unreachable!("put makes a PutObject") };
    put.checksum = Some(Hasher::digest(ChecksumAlgorithm::Sha256, b"a"));
    state.run(hashed).unwrap();
    run(&mut state, declared(ChecksumAlgorithm::Sha256)).unwrap();
    assert_eq!(state.version("k").checksum, None);
}

#[test]
fn an_object_has_a_limited_number_of_parts_and_its_copy_counts_anew() {
    let mut state = TestView::with_bucket();
    run(&mut state, appended(0, &[0; 300])).unwrap();
    for part in 1..OBJECT_PARTS_MAX {
        run(&mut state, appended(299 + u64::from(part), b"x")).unwrap();
    }
    let size = 299 + u64::from(OBJECT_PARTS_MAX);
    assert_eq!(refused(run(&mut state, appended(size, b"x"))), Refusal::TooManyParts);
    let version = state.version("k");
    assert_eq!((version.etag.parts, version.size), (OBJECT_PARTS_MAX, size));
    state.run(copy("k", "copy", None)).unwrap();
    assert_eq!(state.version("copy").etag, Etag { parts: 1, ..version.etag });
    let mut more = appended(size, b"x");
    more.put.key = "copy".into();
    run(&mut state, more).unwrap();
    assert_eq!(state.version("copy").etag.parts, 2);
}

/// All blobs of a manifest in order, segments resolved.
fn blobs(state: &TestView, manifest: &[Extent]) -> Vec<Extent> {
    let resolved = |extent: &Extent| match extent {
        Extent::Segment { segment, .. } => state.segments[segment].to_vec(),
        other => vec![other.clone()],
    };
    manifest.iter().flat_map(resolved).collect()
}

#[test]
fn many_appends_keep_the_manifest_short_and_write_each_extent_a_few_times() {
    let mut state = TestView::with_bucket();
    let (mut written, mut longest, mut blobs_before) = (0, 0, Vec::new());
    for part in 0..5_000u64 {
        let before = state.segments.len();
        run(&mut state, appended(part * 300, &[part as u8; 300])).unwrap();
        if state.segments.len() > before {
            let newest = state.segments.keys().max().unwrap();
            written += state.segments[newest].len();
        }
        let version = state.version("k");
        longest = longest.max(version.manifest.len());
        if part % 97 == 0 {
            let now = blobs(&state, &version.manifest);
            assert_eq!((now.len() as u64, version.manifest.iter().map(Extent::length).sum()), (part + 1, version.size));
            assert_eq!(now[..blobs_before.len()], blobs_before);
            blobs_before = now;
        }
    }
    // 31 blobs and one segment for each power of two.
    assert!(longest <= 31 + 9, "{longest}");
    assert!(written <= 5_000 * 9, "{written}");
}

#[test]
fn an_append_to_a_long_object_leaves_its_segments() {
    let mut state = TestView::with_bucket();
    let size = (4 << 20) * 100;
    state.run(put("k", size)).unwrap();
    let before = state.version("k").manifest;
    for part in 0..40 {
        run(&mut state, appended(size + part * 300, &[0; 300])).unwrap();
    }
    let manifest = state.version("k").manifest;
    assert_eq!(manifest[..1], before);
    assert_eq!(blobs(&state, &manifest).len(), 140);
}

#[test]
fn where_there_are_versions_an_append_adds_one() {
    let mut state = TestView::versioned();
    run(&mut state, appended(0, &[1; 300])).unwrap();
    run(&mut state, appended(300, &[2; 300])).unwrap();
    let sizes: Vec<u64> = state.versions(BUCKET, b"k").map(|object| object.version.size).collect();
    assert_eq!(sizes, [300, 600]);
    state.run(super::versions::delete_one(super::versions::delete(None))).unwrap();
    assert_eq!(refused(run(&mut state, appended(600, b"x"))), Refusal::InvalidWriteOffset { size: 0 });
    run(&mut state, appended(0, b"x")).unwrap();
    assert_eq!(state.version("k").size, 1);
}
