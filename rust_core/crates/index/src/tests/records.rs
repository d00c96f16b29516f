//! The effect of each kind of record on the tables, seen through reads.

use super::*;
use orcas_checksum::{ChecksumAlgorithm, ChecksumType, Etag, Hasher, ObjectChecksum};
use orcas_record::{Annotation, Annotations, ObjectHeaders, StorageClass};

fn counts(index: &Index, bucket: u64) -> Counts {
    index.read().expect("a reader").counts(BucketId(bucket)).expect("counts").expect("the bucket")
}

fn object(index: &Index, bucket: u64, key: &[u8]) -> Option<Stored> {
    index.read().expect("a reader").object(BucketId(bucket), key).expect("a point read")
}

fn named(id: u8, size: u64) -> Version {
    Version { version_id: VersionId::Named([id; 16]), ..version(1, b"k", size) }
}

fn marker(id: u8) -> Version {
    Version { delete_marker: true, size: 0, ..named(id, 0) }
}

fn upload(id: u8, bucket: u64, key: &[u8], initiated_ms: u64) -> Record {
    Record::CreateUpload(Upload {
        id: UploadId([id; 16]),
        bucket: BucketId(bucket),
        key: Bytes::copy_from_slice(key),
        initiated_ms,
        headers: ObjectHeaders::default(),
        attributes: Attributes::default(),
        checksum: None,
    })
}

fn part(id: u8, number: u16) -> Record {
    Record::PutPart(Part {
        upload: UploadId([id; 16]),
        number,
        size: 1,
        md5: [0; 16],
        modified_ms: 1,
        checksum: None,
        manifest: Vec::new(),
    })
}

/// The payload that the record of this sequence was applied with.
fn payload(records: &[Owned], sequence: usize) -> Bytes {
    records[sequence - 1].payload.clone()
}

fn fails(records: &[Owned]) {
    let index = memory();
    let mut writer = index.writer().expect("the writer");
    let before = index.dump().expect("a dump");
    assert!(matches!(apply(&mut writer, records), Err(Error::Index { .. })), "{records:?}");
    assert_eq!(index.dump().expect("a dump"), before, "a failed apply left rows behind");
    let refused = apply(&mut writer, &[Owned::new(1, bucket(9))]);
    assert!(matches!(refused, Err(Error::Index { .. })), "a failed apply must end the writer");
}

#[test]
fn a_put_adds_row_record_and_count() {
    let stored = Version {
        etag: Etag { md5: [5; 16], parts: 10_000 },
        checksum: Some(ObjectChecksum { checksum: Hasher::digest(ChecksumAlgorithm::Sha1, b"parts"), parts: 10_000 }),
        headers: ObjectHeaders { storage_class: Some("GLACIER".into()), ..ObjectHeaders::default() },
        ..version(1, b"k", 17)
    };
    let records = sequenced([bucket(1), Record::PutVersion(stored)]);
    let index = applied(&records);
    let reader = index.read().expect("a reader");
    let expected = ListedRow {
        key: b"k".into(),
        sequence: 2,
        modified_ms: 1_700_000_000_017,
        size: 17,
        etag: Etag { md5: [5; 16], parts: 10_000 },
        checksum: Some((ChecksumAlgorithm::Sha1, ChecksumType::Composite)),
        class: StorageClass::from_name(b"GLACIER"),
    };
    assert_eq!(reader.current(BucketId(1), b"k").expect("read"), Some(expected));
    let record = Stored { sequence: 2, kind: 7, record: payload(&records, 2), update: None };
    assert_eq!(object(&index, 1, b"k"), Some(record.clone()));
    assert_eq!(reader.version(BucketId(1), b"k", VersionId::Null).expect("read"), Some(record));
    assert_eq!(reader.version(BucketId(1), b"k", VersionId::Named([0; 16])).expect("read"), None);
    assert_eq!(object(&index, 1, b"other"), None);
    assert_eq!(counts(&index, 1), Counts { objects: 1, bytes: 17, history: 0, ..Counts::default() });
}

#[test]
fn a_replaced_version_leaves_no_row() {
    let index = applied(&sequenced([bucket(1), put(1, b"k", 10), put(1, b"k", 3)]));
    assert_eq!(object(&index, 1, b"k").expect("the object").sequence, 3);
    assert_eq!(counts(&index, 1), Counts { objects: 1, bytes: 3, history: 0, ..Counts::default() });
    let dump = index.dump().expect("a dump");
    assert_eq!(dump.lines().filter(|line| line.starts_with("versions ")).count(), 1);
}

#[test]
fn a_deleted_object_leaves_no_row() {
    let gone = applied(&sequenced([bucket(1), put(1, b"k", 10), delete(1, b"k"), delete(1, b"never")]));
    assert_eq!(object(&gone, 1, b"k"), None);
    assert!(gone.read().expect("a reader").bucket_is_empty(BucketId(1)).expect("read"));
    let dump = gone.dump().expect("a dump");
    assert!(!dump.contains("\nheads ") && !dump.contains("\nversions "), "{dump}");
}

#[test]
fn a_move_gives_the_object_a_new_key() {
    let moved = |from: &[u8], to: &[u8]| Record::MoveVersion {
        from_bucket: BucketId(1),
        from_key: Bytes::copy_from_slice(from),
        version: version(2, to, 10),
    };
    let records = sequenced([bucket(1), bucket(2), put(1, b"a", 10), put(2, b"b", 99), moved(b"a", b"b")]);
    let index = applied(&records);
    assert_eq!(object(&index, 1, b"a"), None);
    let expected = Stored { sequence: 5, kind: 9, record: payload(&records, 5), update: None };
    assert_eq!(object(&index, 2, b"b"), Some(expected));
    assert_eq!(counts(&index, 1), Counts::default());
    assert_eq!(counts(&index, 2), Counts { objects: 1, bytes: 10, history: 0, ..Counts::default() });
}

#[test]
fn a_move_onto_itself_keeps_the_object() {
    let onto_itself =
        Record::MoveVersion { from_bucket: BucketId(1), from_key: b"a"[..].into(), version: version(1, b"a", 10) };
    let index = applied(&sequenced([bucket(1), put(1, b"a", 10), onto_itself]));
    assert_eq!(object(&index, 1, b"a").expect("the object").sequence, 3);
    assert_eq!(counts(&index, 1), Counts { objects: 1, bytes: 10, history: 0, ..Counts::default() });
}

#[test]
fn named_versions_keep_their_history() {
    let delete_named = |id: u8| Record::DeleteVersion {
        bucket: BucketId(1),
        key: b"k"[..].into(),
        version_id: VersionId::Named([id; 16]),
    };
    let mut records =
        sequenced([bucket(1), put(1, b"k", 1), Record::PutVersion(named(1, 10)), Record::PutVersion(marker(2))]);
    let index = memory();
    let mut writer = index.writer().expect("the writer");
    apply(&mut writer, &records).expect("applied");
    assert_eq!(object(&index, 1, b"k"), None, "a delete marker hides the object");
    assert_eq!(counts(&index, 1), Counts { objects: 0, bytes: 0, history: 3, ..Counts::default() });
    assert!(keys(&index, 1, b"", true, None, 10).is_empty());
    let reader = index.read().expect("a reader");
    assert!(!reader.bucket_is_empty(BucketId(1)).expect("read"));
    let old = reader.version(BucketId(1), b"k", VersionId::Null).expect("read").expect("the null version");
    assert_eq!(old.sequence, 2);
    drop(reader);

    records = vec![Owned::new(5, delete_named(2))];
    apply(&mut writer, &records).expect("applied");
    assert_eq!(object(&index, 1, b"k").expect("the newest again").sequence, 3);
    assert_eq!(counts(&index, 1), Counts { objects: 1, bytes: 10, history: 1, ..Counts::default() });

    // The null version is replaced in either table, and becomes the newest.
    apply(&mut writer, &[Owned::new(6, put(1, b"k", 4))]).expect("applied");
    assert_eq!(object(&index, 1, b"k").expect("the newest").sequence, 6);
    assert_eq!(counts(&index, 1), Counts { objects: 1, bytes: 4, history: 1, ..Counts::default() });

    apply(&mut writer, &[Owned::new(7, delete(1, b"k")), Owned::new(8, delete_named(1))]).expect("applied");
    assert_eq!(counts(&index, 1), Counts::default());
    assert!(!index.dump().expect("a dump").contains("\nversions "));
}

#[test]
fn contents_chunks_segments_and_packs_are_found_by_sequence() {
    let fingerprint = Fingerprint([1; 32]);
    let records = sequenced([
        Record::Content { fingerprint, shared: true, bytes: Bytes::from_static(b"twelve bytes"), seal: None },
        Record::CreatePack { pack: codec::pack(4) },
        Record::Chunk { fingerprint, shared: true, prefix_hash: 0, at: codec::chunk(4, 4096), length: 77, seal: None },
        Record::Segment { extents: vec![Extent::Blob { blob: 1, start: 0, length: 12 }] },
        Record::CreatePack { pack: codec::pack(2) },
    ]);
    let index = applied(&records);
    let reader = index.read().expect("a reader");
    let blob = |sequence| reader.blob(sequence).expect("read");
    assert_eq!(blob(1), Some(BlobLocation::Log { at: codec::in_log(3, 8), length: 12 }));
    assert_eq!(blob(3), Some(BlobLocation::Pack { at: codec::chunk(4, 4096), length: 77 }));
    assert_eq!(blob(2), None);
    assert_eq!(reader.segment(4).expect("read"), Some(payload(&records, 4)));
    assert_eq!(reader.segment(3).expect("read"), None);
    assert_eq!(reader.packs().expect("read"), [codec::pack(2), codec::pack(4)]);
}

#[test]
fn parts_are_replaced_and_paged_by_number() {
    let records = sequenced([bucket(1), upload(1, 1, b"k", 5), part(1, 2), part(1, 10_000), part(1, 1), part(1, 2)]);
    let index = applied(&records);
    let reader = index.read().expect("a reader");
    let id = UploadId([1; 16]);
    let page = |after, limit| -> Vec<_> {
        let parts = reader.parts(id, after, limit).expect("read");
        parts.iter().map(|row| (row.number, row.part.sequence)).collect()
    };
    assert_eq!(page(0, 100), [(1, 5), (2, 6), (10_000, 4)]);
    assert_eq!(page(1, 1), [(2, 6)]);
    assert!(page(10_000, 1).is_empty());
    assert_eq!(reader.part(id, 2).expect("read").expect("the part").part.record, payload(&records, 6));
    assert_eq!(reader.part(id, 3).expect("read"), None);
    assert_eq!(reader.upload(id).expect("read").expect("the upload").sequence, 2);
}

#[test]
fn an_upload_ends_with_its_parts() {
    let ended = applied(&sequenced([
        bucket(1),
        upload(1, 1, b"k", 5),
        part(1, 1),
        Record::AbortUpload { upload: UploadId([1; 16]) },
        upload(2, 1, b"k", 5),
        part(2, 1),
        Record::CompleteUpload { upload: UploadId([2; 16]), request: [9; 32], version: version(1, b"k", 42) },
    ]));
    let dump = ended.dump().expect("a dump");
    assert!(!dump.contains("\nuploads ") && !dump.contains("\nparts "), "{dump}");
    assert_eq!(object(&ended, 1, b"k").expect("the object").kind, 13);
    let reader = ended.read().expect("a reader");
    let answer = reader.completed(UploadId([2; 16])).expect("read").expect("the answer");
    assert_eq!((answer.sequence, answer.request, answer.bucket), (7, [9; 32], BucketId(1)));
    assert_eq!((answer.key, answer.etag), (Bytes::from_static(b"k"), Etag { md5: [42; 16], parts: 0 }));
    assert_eq!(reader.completed(UploadId([1; 16])).expect("read"), None);
}

#[test]
fn only_the_newest_answers_are_kept() {
    let id = |number: u64| UploadId((u128::from(number)).to_be_bytes());
    let create = |number| match upload(0, 1, b"k", 5) {
        Record::CreateUpload(upload) => Record::CreateUpload(Upload { id: id(number), ..upload }),
        other => other,
    };
    let complete =
        |number| Record::CompleteUpload { upload: id(number), request: [0; 32], version: version(1, b"k", 1) };
    let records =
        sequenced(std::iter::once(bucket(1)).chain((0..10_003).flat_map(|number| [create(number), complete(number)])));
    let index = memory();
    // A new writer counts the rows of the table.
    let (first, rest) = records.split_at(15_000);
    apply(&mut index.writer().expect("the writer"), first).expect("applied");
    apply(&mut index.writer().expect("the writer"), rest).expect("applied");
    let reader = index.read().expect("a reader");
    assert_eq!(reader.completed(id(2)).expect("read"), None);
    assert!(reader.completed(id(3)).expect("read").is_some());
    assert!(reader.completed(id(10_002)).expect("read").is_some());
}

#[test]
fn uploads_are_scanned_by_key_then_start_then_id() {
    let records = sequenced([
        bucket(1),
        bucket(2),
        upload(9, 1, b"a", 7),
        upload(1, 1, b"b", 5),
        upload(2, 1, b"a", 8),
        upload(3, 1, b"a", 7),
        upload(4, 2, b"a", 1),
        upload(5, 1, b"a\0", 1),
    ]);
    let index = applied(&records);
    let reader = index.read().expect("a reader");
    let page = |from, until: Option<&[u8]>, limit| {
        let mut ids = Vec::new();
        let visit = &mut |row: UploadRow<'_>| {
            assert_eq!(row.record, payload(&records, row.sequence as usize));
            ids.push(row.id.0[0]);
            true
        };
        reader.scan_uploads(BucketId(1), from, until, limit, visit).expect("a page");
        ids
    };
    assert_eq!(page(UploadFrom::Key(b""), None, 10), [3, 9, 2, 5, 1]);
    assert_eq!(page(UploadFrom::Key(b"a"), Some(b"a\0"), 10), [3, 9, 2]);
    assert_eq!(page(UploadFrom::AfterKey(b"a"), None, 10), [5, 1]);
    let after = UploadFrom::AfterUpload { key: b"a", initiated_ms: 7, id: UploadId([3; 16]) };
    assert_eq!(page(after, None, 2), [9, 2]);
}

#[test]
fn deleting_a_bucket_removes_its_uploads_and_frees_its_name() {
    let renamed = |id| match bucket(id) {
        Record::CreateBucket(bucket) => Record::CreateBucket(Bucket { name: b"name"[..].into(), ..bucket }),
        other => other,
    };
    let index = applied(&sequenced([
        renamed(1),
        upload(1, 1, b"k", 5),
        part(1, 1),
        put(1, b"k", 1),
        delete(1, b"k"),
        Record::DeleteBucket { bucket: BucketId(1) },
        renamed(2),
    ]));
    let reader = index.read().expect("a reader");
    assert_eq!(reader.counts(BucketId(1)).expect("read"), None);
    let buckets: Vec<_> = reader.buckets().expect("read").iter().map(|bucket| bucket.sequence).collect();
    assert_eq!(buckets, [7]);
    let dump = index.dump().expect("a dump");
    assert!(!dump.contains("\nuploads ") && !dump.contains("\nparts "), "{dump}");
}

#[test]
fn a_refused_record_changes_nothing() {
    fails(&sequenced([put(1, b"k", 1)]));
    fails(&sequenced([bucket(1), put(1, b"k", 1), Record::DeleteBucket { bucket: BucketId(1) }]));
    fails(&sequenced([bucket(1), Record::DeleteBucket { bucket: BucketId(2) }]));
    fails(&sequenced([bucket(1), bucket(1)]));
    fails(&sequenced([bucket(1), part(1, 1)]));
    fails(&sequenced([bucket(1), Record::AbortUpload { upload: UploadId([1; 16]) }]));
    fails(&sequenced([bucket(u64::MAX)]));
    fails(&sequenced([bucket(1), put(1, b"k", u64::MAX)]));
    let content = Owned::new(
        1,
        Record::Content { fingerprint: Fingerprint([0; 32]), shared: true, bytes: Bytes::new(), seal: None },
    );
    fails(&[content.clone(), content]);
    let placeless =
        Record::Content { fingerprint: Fingerprint([0; 32]), shared: true, bytes: Bytes::new(), seal: None };
    fails(&[Owned { location: None, ..Owned::new(1, placeless) }]);
}

#[test]
fn an_update_keeps_the_record_of_its_version() {
    let update = |sequence, tag: &'static str| Record::UpdateVersion {
        bucket: BucketId(1),
        key: Bytes::from_static(b"k"),
        version_id: VersionId::Null,
        version: sequence,
        attributes: Attributes { tags: vec![("t".into(), tag.into())], ..Attributes::default() },
    };
    let put = Record::PutVersion(version(1, b"k", 1));
    let records = sequenced([bucket(1), put.clone(), update(2, "a"), update(2, "b")]);
    let index = applied(&records);
    let stored = object(&index, 1, b"k").expect("it is there");
    assert_eq!((stored.sequence, &stored.record), (2, &payload(&records, 2)));
    assert_eq!(stored.update, Some(payload(&records, 4)));
    let reader = index.read().expect("a reader");
    assert_eq!(reader.version_updated(2).expect("read"), Some(4));
    assert_eq!(reader.updates_after(0, 9).expect("read"), [(4, payload(&records, 4))]);
    assert!(reader.updates_after(4, 9).expect("read").is_empty());
    fails(&sequenced([bucket(1), update(7, "of no version")]));
    fails(&sequenced([bucket(1), put, delete(1, b"k"), update(2, "of one that was just removed")]));
}

/// A record may have hundreds of KiB, and a page as many records as its reader asks for.
#[test]
fn a_page_of_long_records_has_few() {
    let annotation = |n: u32| Annotation {
        name: format!("{n:0500}").into(),
        modified_ms: 0,
        md5: [0; 16],
        checksum: None,
        text: Extent::Inline(Bytes::from_static(b"text")),
    };
    let annotations = Annotations::from_sorted((0..1_000).map(annotation).collect()).expect("in order");
    let attributes = Attributes { annotations, ..Attributes::default() };
    let put = |at: u8| Record::PutVersion(Version { attributes: attributes.clone(), ..version(1, &[at], 1) });
    let index = applied(&sequenced([bucket(1)].into_iter().chain((0..40).map(put))));
    let reader = index.read().expect("a reader");
    let (mut seen, mut pages) = (Vec::new(), 0);
    while let page = reader.versions_after(seen.last().copied().unwrap_or(0), 2_048).expect("a page")
        && !page.is_empty()
    {
        let bytes: usize = page.iter().map(|stored| stored.record.len()).sum();
        assert!(bytes < 5 << 20, "{bytes} bytes");
        seen.extend(page.iter().map(|stored| stored.sequence));
        pages += 1;
    }
    assert_eq!(seen, (2..=41).collect::<Vec<_>>());
    assert!((4..=10).contains(&pages), "{pages} pages");
}
