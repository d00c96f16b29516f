//! The effect of sharing and reclamation on the rows, record by record, and the records that are refused.

use super::*;
use crate::tables::{blobs, packs};

fn content(fingerprint: u8, length: usize) -> Record {
    Record::Content {
        fingerprint: Fingerprint([fingerprint; 32]),
        shared: true,
        bytes: vec![1; length].into(),
        seal: None,
    }
}

fn chunk(fingerprint: u8, pack: u64, offset: u64, length: u32) -> Record {
    Record::Chunk {
        fingerprint: Fingerprint([fingerprint; 32]),
        shared: true,
        prefix_hash: u64::MAX,
        at: codec::chunk(pack, offset),
        length,
        seal: None,
    }
}

fn extent(blob: Sequence, length: u32) -> Extent {
    Extent::Blob { blob, start: 0, length }
}

fn naming(bucket: u64, key: &[u8], manifest: Vec<Extent>) -> Record {
    Record::PutVersion(Version { manifest, ..version(bucket, key, 1) })
}

fn counts(index: &Index, bucket: u64) -> (u64, u64) {
    let counts = index.read().expect("a reader").counts(BucketId(bucket)).expect("read").expect("the bucket");
    (counts.logical, counts.stored)
}

fn totals(index: &Index) -> (u64, u64, u64) {
    let totals = index.read().expect("a reader").totals().expect("read");
    (totals.logical, totals.stored, totals.dead)
}

/// Applies records that must fail outside of a rebuild. Returns the reason.
fn refused(records: Vec<Record>) -> String {
    let index = memory();
    let before = index.dump().expect("a dump");
    let refused = apply(&mut index.writer().expect("the writer"), &sequenced(records));
    assert_eq!(index.dump().expect("a dump"), before, "a failed apply left rows behind");
    match refused {
        Err(Error::Index { reason }) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Rebuilds an index from records with sequences.
fn rebuilt(records: &[(Sequence, Record)]) -> Result<Index> {
    let index = memory();
    let mut writer = index.writer()?;
    writer.begin_bulk()?;
    for (sequence, record) in records {
        apply(&mut writer, &[Owned::new(*sequence, record.clone())])?;
    }
    writer.end_bulk()?;
    drop(writer);
    Ok(index)
}

fn reason(rebuilt: Result<Index>) -> String {
    match rebuilt {
        Err(Error::Index { reason }) => reason.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the rebuild should have failed"),
    }
}

#[test]
fn a_blob_that_two_buckets_share_is_stored_once_and_counted_in_both() {
    let index = memory();
    let mut writer = index.writer().expect("the writer");
    let records = [
        bucket(1),
        bucket(2),
        content(7, 100),
        naming(2, b"a", vec![extent(3, 100), Extent::Inline(Bytes::from_static(b"four"))]),
        naming(1, b"b", vec![extent(3, 100), extent(3, 50)]),
    ];
    apply(&mut writer, &sequenced(records)).expect("applied");
    assert_eq!(counts(&index, 1), (150, 100));
    assert_eq!(counts(&index, 2), (104, 104));
    assert_eq!(totals(&index), (254, 104, 0));
    assert_eq!(index.read().expect("a reader").blob_refs(3).expect("read"), Some(3));
    assert!(index.dump().expect("a dump").contains("\nholdings 3 2 1\n"), "the smallest bucket is the home");

    apply(&mut writer, &[Owned::new(6, delete(1, b"b"))]).expect("applied");
    assert_eq!((counts(&index, 1), counts(&index, 2)), ((0, 0), (104, 104)));
    assert!(!index.dump().expect("a dump").contains("\nholdings "), "the other bucket is the home now");

    apply(&mut writer, &[Owned::new(7, delete(2, b"a"))]).expect("applied");
    assert_eq!((counts(&index, 2), totals(&index)), ((0, 0), (0, 0, 100)));
    let reader = index.read().expect("a reader");
    let location = BlobLocation::Log { at: codec::in_log(3, 24), length: 100 };
    assert_eq!(reader.dead_blobs(0, 10).expect("read"), [(3, location)]);
    assert!(reader.dead_blobs(3, 10).expect("read").is_empty());
    assert_eq!(reader.blob_refs(3).expect("read"), Some(0));
    assert_eq!(reader.shared_blob(&Fingerprint([7; 32])).expect("read"), Some((3, 100)), "content may share it again");
    drop(reader);

    apply(&mut writer, &[Owned::new(8, Record::CondemnBlobs { blobs: vec![3] })]).expect("applied");
    assert_eq!(totals(&index), (0, 0, 0));
    let reader = index.read().expect("a reader");
    assert_eq!(reader.blob_refs(3).expect("read"), None);
    assert_eq!(reader.shared_blob(&Fingerprint([7; 32])).expect("read"), None);
}

#[test]
fn blobs_are_found_by_their_whole_fingerprint() {
    let mut alike = [7; 32];
    alike[31] = 8;
    let twin = Record::Content { fingerprint: Fingerprint(alike), shared: true, bytes: vec![0; 3].into(), seal: None };
    let alone =
        Record::Content { fingerprint: Fingerprint([9; 32]), shared: false, bytes: vec![0; 3].into(), seal: None };
    let index = applied(&sequenced([
        content(7, 5),
        twin,
        content(7, 5),
        alone,
        Record::CreatePack { pack: codec::pack(1) },
        chunk(4, 1, 4096, 9),
    ]));
    let reader = index.read().expect("a reader");
    let found = |fingerprint: [u8; 32]| reader.shared_blob(&Fingerprint(fingerprint)).expect("read");
    assert_eq!((found([7; 32]), found(alike)), (Some((3, 5)), Some((2, 3))), "the newest");
    assert_eq!(found([9; 32]), None, "not shared");
    assert_eq!(reader.blob_fingerprint(2).expect("read"), Some(Fingerprint(alike)));
    assert_eq!((reader.blob_fingerprint(4).expect("read"), reader.blob_fingerprint(99).expect("read")), (None, None));
    let mut prefix_hashes = Vec::new();
    reader.scan_prefix_hashes(&mut |prefix_hash| prefix_hashes.push(prefix_hash)).expect("read");
    let of = short_hash(&[7; 32]);
    assert_eq!(prefix_hashes, [of, of, of, u64::MAX]);
}

#[test]
fn existing_versions_are_found_by_their_whole_digest() {
    let kept = |key: &[u8], digest: [u8; 32], size| {
        Record::PutVersion(Version { sha256: Some(digest), ..version(1, key, size) })
    };
    let (mut near, digest) = ([5; 32], [5; 32]);
    near[8] = 6;
    let moved = Record::MoveVersion {
        from_bucket: BucketId(1),
        from_key: b"c"[..].into(),
        version: Version { sha256: Some(digest), ..version(1, b"d", 70_000) },
    };
    let records = sequenced([
        bucket(1),
        kept(b"a", digest, INSTANT_SIZE_MIN),
        kept(b"b", near, 70_000),
        kept(b"c", digest, 70_000),
        kept(b"small", digest, INSTANT_SIZE_MIN - 1),
        moved,
        kept(b"e", digest, 70_000),
        delete(1, b"a"),
    ]);
    let index = applied(&records);
    let reader = index.read().expect("a reader");
    let found = |limit| -> Vec<_> {
        let versions = reader.versions_by_sha256(&digest, limit).expect("read");
        versions.iter().map(|version| version.sequence).collect()
    };
    assert_eq!((found(10), found(1)), (vec![6, 7], vec![6]));
    assert!(reader.versions_by_sha256(&[1; 32], 10).expect("read").is_empty());
    assert!(reader.has_version(7).expect("read") && !reader.has_version(4).expect("read"));
}

#[test]
fn packs_count_what_they_hold() {
    let records = sequenced([
        bucket(1),
        Record::CreatePack { pack: codec::pack(1) },
        Record::CreatePack { pack: codec::pack(2) },
        chunk(1, 1, 4096, 10),
        chunk(2, 1, 8192, 20),
        naming(1, b"a", vec![extent(4, 10)]),
        Record::MoveChunks {
            moves: vec![
                ChunkMove { blob: 4, to: codec::chunk(2, 4096) },
                ChunkMove { blob: 99, to: codec::chunk(7, 0) },
            ],
        },
    ]);
    let index = applied(&records);
    let usage = |index: &Index| index.read().expect("a reader").pack_usage().expect("read");
    let first = PackUsage { pack: codec::pack(1), blobs: 1, live_bytes: 0, dead_bytes: 20 };
    let second = PackUsage { pack: codec::pack(2), blobs: 1, live_bytes: 10, dead_bytes: 0 };
    assert_eq!(usage(&index), [first, second]);
    let reader = index.read().expect("a reader");
    let packed = PackedBlob { sequence: 4, at: codec::chunk(2, 4096), length: 10, refs: 1 };
    assert_eq!(reader.blobs_in_pack(codec::pack(2), None, 10).expect("read"), [packed]);
    assert!(reader.blobs_in_pack(codec::pack(2), Some(codec::chunk(2, 4096)), 10).expect("read").is_empty());
    assert_eq!(reader.blob(4).expect("read"), Some(BlobLocation::Pack { at: codec::chunk(2, 4096), length: 10 }));
    drop(reader);
    let mut writer = index.writer().expect("the writer");
    let rest = [Record::CondemnBlobs { blobs: vec![5] }, Record::RetirePack { pack: codec::pack(1) }];
    let rest: Vec<_> = rest.into_iter().zip(8..).map(|(record, sequence)| Owned::new(sequence, record)).collect();
    apply(&mut writer, &rest).expect("applied");
    assert_eq!(usage(&index), [second]);
    let reader = index.read().expect("a reader");
    assert!(reader.has_pack(codec::pack(2)).expect("read") && !reader.has_pack(codec::pack(1)).expect("read"));
}

#[test]
fn compacted_log_files_replace_each_other() {
    let moved = |file, offset| Record::MoveContents {
        file: codec::log_file(file),
        moves: vec![
            ContentMove { blob: 1, to: codec::in_log(file, offset) },
            ContentMove { blob: 99, to: codec::in_log(file, 0) },
        ],
    };
    let replace = |file, first, last| Record::ReplaceLog { file: codec::log_file(file), first, last };
    let records = sequenced([
        content(1, 10),
        moved(9, 4096),
        replace(9, 1, 1),
        replace(10, 2, 3),
        moved(11, 8192),
        replace(11, 1, 3),
        replace(12, 4, 3),
    ]);
    let index = applied(&records);
    let reader = index.read().expect("a reader");
    assert_eq!(reader.blob(1).expect("read"), Some(BlobLocation::Log { at: codec::in_log(11, 8192), length: 10 }));
    let rows = [
        LogFileRow { file: codec::log_file(11), first: 1, last: 3 },
        LogFileRow { file: codec::log_file(12), first: 4, last: 3 },
    ];
    assert_eq!(reader.log_files().expect("read"), rows);
    drop(reader);
    assert!(refused(vec![content(1, 10), replace(9, 1, 1)]).contains("the content 1 is not in"));
    let half = vec![content(1, 10), moved(9, 4096), replace(9, 1, 2), replace(10, 2, 3)];
    assert!(refused(half).contains("a part of a compacted log file"));
    let lost = [(1, content(1, 10)), (2, replace(9, 1, 1))];
    assert!(reason(rebuilt(&lost)).contains("the content 1 is not in"));
}

#[test]
fn records_that_contradict_the_rows_are_refused() {
    let condemn = |blob| Record::CondemnBlobs { blobs: vec![blob] };
    let segment = |segment| Extent::Segment { segment, length: 1 };
    let named = || vec![bucket(1), content(1, 5), naming(1, b"a", vec![extent(2, 5)])];
    let with = |record| named().into_iter().chain([record]).collect::<Vec<_>>();
    assert!(refused(with(condemn(2))).contains("the blob 2, which has references"));
    assert!(refused(with(condemn(9))).contains("the blob 9, which does not exist"));
    assert!(refused(with(naming(1, b"b", vec![extent(9, 5)]))).contains("the blob 9, which does not exist"));
    assert!(refused(with(naming(1, b"b", vec![segment(9)]))).contains("the segment 9, which does not exist"));
    let moves = vec![ChunkMove { blob: 2, to: codec::chunk(1, 0) }];
    assert!(refused(with(Record::MoveChunks { moves })).contains("a content as a chunk"));
    assert!(refused(with(Record::RetirePack { pack: codec::pack(1) })).contains("a pack that does not exist"));
    let packed = |record| vec![bucket(1), Record::CreatePack { pack: codec::pack(1) }, chunk(1, 1, 4096, 9), record];
    assert!(refused(packed(Record::RetirePack { pack: codec::pack(1) })).contains("a pack with chunks in it"));
    let moves = vec![ChunkMove { blob: 3, to: codec::chunk(2, 0) }];
    assert!(refused(packed(Record::MoveChunks { moves })).contains("to a pack that does not exist"));
    let moves = vec![ContentMove { blob: 3, to: codec::in_log(1, 0) }];
    assert!(refused(packed(Record::MoveContents { file: codec::log_file(1), moves })).contains("a chunk as a content"));
    assert!(refused(vec![chunk(1, 1, 4096, 9)]).contains("in a pack that does not exist"));
    let Record::CreateBucket(absent) = bucket(3) else { panic!("a bucket") };
    assert!(refused(with(Record::UpdateBucket(absent))).contains("updates a bucket"));
    let nested = vec![bucket(1), Record::Segment { extents: vec![segment(2)] }, naming(1, b"a", vec![segment(2)])];
    assert!(refused(nested).contains("is not a blob"));
}

#[test]
fn the_settings_of_a_bucket_are_replaced_and_the_rest_stays() {
    let Record::CreateBucket(mut changed) = bucket(1) else { panic!("a bucket") };
    changed.versioning = Versioning::Enabled;
    let records = sequenced([bucket(1), put(1, b"k", 5), Record::UpdateBucket(changed)]);
    let index = applied(&records);
    let reader = index.read().expect("a reader");
    assert_eq!(reader.bucket_sequence(BucketId(1)).expect("read"), Some(3));
    assert_eq!(reader.bucket_sequence(BucketId(2)).expect("read"), None);
    assert_eq!(reader.buckets().expect("read")[0].record, records[2].payload);
    assert_eq!(reader.counts(BucketId(1)).expect("read").expect("the bucket").objects, 1);
}

#[test]
fn log_usage_counts_the_records_still_needed() {
    let records = sequenced([
        bucket(1),
        content(1, 10),
        naming(1, b"a", vec![extent(2, 10)]),
        content(2, 20),
        naming(1, b"a", vec![extent(4, 20)]),
        Record::CreatePack { pack: codec::pack(1) },
        chunk(3, 1, 4096, 99),
        Record::CondemnBlobs { blobs: vec![2] },
    ]);
    let index = applied(&records);
    let reader = index.read().expect("a reader");
    let usage = |first, last| reader.log_usage(first, last).expect("read");
    let bytes = |sequences: &[usize]| sequences.iter().map(|at| records[at - 1].payload.len() as u64).sum::<u64>();
    assert_eq!(usage(2, 3), LogUsage::default());
    let all = LogUsage { contents: 1, content_bytes: 20, records: 4, record_bytes: bytes(&[1, 5, 6, 7]) };
    assert_eq!((usage(1, 8), usage(0, u64::MAX)), (all, all));
    assert_eq!(usage(4, 4), LogUsage { contents: 1, content_bytes: 20, ..LogUsage::default() });
}

#[test]
fn a_rebuild_ignores_what_was_dropped_and_names_what_is_lost() {
    let index = rebuilt(&[
        (2, bucket(2)),
        (4, naming(2, b"a", vec![extent(3, 5)])),
        (5, Record::CondemnBlobs { blobs: vec![3, 1] }),
        (6, naming(9, b"gone", vec![extent(3, 5)])),
        (7, Record::AbortUpload { upload: UploadId([1; 16]) }),
        (8, Record::DeleteBucket { bucket: BucketId(9) }),
        (9, Record::RetirePack { pack: codec::pack(9) }),
        (10, delete(2, b"a")),
    ]);
    let index = index.expect("rebuilt");
    assert_eq!((counts(&index, 2), totals(&index)), ((0, 0), (0, 0, 0)));

    let lost = [(1, bucket(1)), (3, naming(1, b"a", vec![extent(2, 5)]))];
    assert!(reason(rebuilt(&lost)).contains("bucket 1 names the blob 2, which does not exist"));
    let condemned = [
        (1, bucket(1)),
        (2, content(1, 5)),
        (3, naming(1, b"a", vec![extent(2, 5)])),
        (4, Record::CondemnBlobs { blobs: vec![2] }),
    ];
    assert!(reason(rebuilt(&condemned)).contains("bucket 1 names the blob 2, which does not exist"));
    let segment = [(1, bucket(1)), (3, naming(1, b"a", vec![Extent::Segment { segment: 2, length: 5 }]))];
    assert!(reason(rebuilt(&segment)).contains("bucket 1 names the segment 2, which does not exist"));
    let pack = [
        (1, Record::CreatePack { pack: codec::pack(7) }),
        (2, chunk(1, 7, 4096, 5)),
        (3, Record::RetirePack { pack: codec::pack(7) }),
    ];
    assert!(reason(rebuilt(&pack)).contains("the pack 7, which does not exist"));
    let before = [(2, chunk(1, 7, 4096, 5)), (3, Record::CreatePack { pack: codec::pack(7) })];
    let usage = rebuilt(&before).expect("rebuilt").read().expect("a reader").pack_usage().expect("read");
    assert_eq!(usage, [PackUsage { pack: codec::pack(7), blobs: 1, live_bytes: 0, dead_bytes: 5 }]);
}

#[test]
fn a_rebuild_keeps_a_segment_that_is_held_again_later() {
    let held = |key: &[u8]| naming(1, key, vec![Extent::Segment { segment: 3, length: 5 }]);
    let whole = [
        (1, bucket(1)),
        (2, content(1, 5)),
        (3, Record::Segment { extents: vec![extent(2, 5)] }),
        (4, held(b"a")),
        (5, held(b"b")),
        (6, delete(1, b"a")),
        (7, held(b"c")),
        (8, delete(1, b"b")),
    ];
    let dropped: Vec<_> = whole.iter().filter(|(sequence, _)| *sequence != 5).cloned().collect();
    let whole: Vec<_> = whole.iter().map(|(sequence, record)| Owned::new(*sequence, record.clone())).collect();
    assert_eq!(rebuilt(&dropped).expect("rebuilt").dump().expect("a dump"), applied(&whole).dump().expect("a dump"));
}

#[test]
fn an_unfinished_rebuild_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    let records = sequenced([bucket(1), put(1, b"a", 1), put(1, b"b", 1), put(1, b"c", 1)]);
    {
        let index = Index::open(file_options(&path), STORE).expect("created");
        let mut writer = index.writer().expect("the writer");
        writer.begin_bulk_of(2).expect("begun");
        records.chunks(1).for_each(|group| apply(&mut writer, group).expect("applied"));
        drop(writer);
        assert!(matches!(index.writer().map(drop), Err(Error::Index { .. })), "the orphans in memory are gone");
    }
    assert!(matches!(Index::open(file_options(&path), STORE).map(drop), Err(Error::Index { .. })));
    Index::destroy(&path).expect("destroyed");
    let index = Index::open(file_options(&path), STORE).expect("created");
    let mut writer = index.writer().expect("the writer");
    writer.begin_bulk_of(2).expect("begun");
    records.chunks(1).for_each(|group| apply(&mut writer, group).expect("applied"));
    writer.end_bulk().expect("ended");
    drop((writer, index));
    let index = Index::open(file_options(&path), STORE).expect("a finished rebuild is an index");
    assert_eq!(index.dump().expect("a dump"), applied(&records).dump().expect("a dump"));
}

#[test]
fn a_long_scan_and_a_search_use_their_indexes() {
    let index = memory();
    let plan = |sql: &str| -> String {
        let reader = index.read().expect("a reader");
        let plan = reader.with(|conn| {
            let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
            let mut rows = statement.raw_query();
            let mut steps = Vec::new();
            while let Some(row) = rows.next()? {
                steps.push(row.get::<_, String>(3)?);
            }
            Ok(steps.join("; "))
        });
        plan.expect("a plan")
    };
    assert!(plan(blobs::BY_TAG).contains("USING INDEX blobs_by_tag (tag=?)"), "{}", plan(blobs::BY_TAG));
    assert!(plan(blobs::DEAD).contains("INDEX blobs_dead (sequence>?)"), "{}", plan(blobs::DEAD));
    assert!(plan(packs::BLOBS).contains("INDEX blobs_in_packs (file=? AND offset>?)"), "{}", plan(packs::BLOBS));
    for sql in [blobs::BY_TAG, blobs::DEAD, packs::BLOBS] {
        assert!(!plan(sql).contains("TEMP B-TREE"), "{}", plan(sql));
    }
    let usage = plan(crate::writer::reclaim::USAGE);
    for table in ["versions", "segments", "uploads", "parts", "blobs"] {
        assert!(usage.contains(&format!("SEARCH {table} ")), "{usage}");
    }
}

#[test]
fn free_pages_are_removed_while_the_writer_is_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    let index = Index::open(file_options(&path), STORE).expect("created");
    assert!(!index.vacuum(100).expect("nothing to do"));
    let mut writer = index.writer().expect("the writer");
    let puts = (0..4000u32).map(|number| put(1, &number.to_be_bytes(), 1));
    apply(&mut writer, &sequenced([bucket(1)].into_iter().chain(puts))).expect("applied");
    let deletes = (0..4000u32).map(|number| delete(1, &number.to_be_bytes()));
    let deletes: Vec<_> = deletes.zip(4002..).map(|(record, sequence)| Owned::new(sequence, record)).collect();
    apply(&mut writer, &deletes).expect("applied");
    index.truncate_wal().expect("emptied");
    let wal = || std::fs::metadata(path.with_extension("db-wal")).expect("the WAL").len();
    assert_eq!(wal(), 0);
    let full = std::fs::metadata(&path).expect("the file").len();
    let before = index.dump().expect("a dump");
    assert!(index.vacuum(1).expect("a step"), "one page is not all");
    let mut steps = 1;
    while index.vacuum(20).expect("a step") {
        steps += 1;
        apply(&mut writer, &[Owned::new(9000 + steps, delete(1, b"never"))]).expect("applied in between");
    }
    index.truncate_wal().expect("emptied");
    let left = std::fs::metadata(&path).expect("the file").len();
    assert!(steps > 2 && left < full / 2, "{steps} steps from {full} to {left} bytes");
    let rows =
        |dump: &str| dump.lines().filter(|line| !line.starts_with("meta ")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows(&index.dump().expect("a dump")), rows(&before));
    index.quick_check().expect("sound");
}
