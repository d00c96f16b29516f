//! Every record there and back, and whatever else may stand in a payload.

use super::*;
use orcas_checksum::Hasher;
use proptest::prelude::*;

fn version() -> Version {
    Version {
        bucket: BucketId(7),
        key: Bytes::from_static(b"a/\x00\xff"),
        version_id: VersionId::Named([9; 16]),
        delete_marker: false,
        modified_ms: 1_700_000_000_123,
        size: 5 << 30,
        etag: Etag { md5: [3; 16], parts: 2 },
        sha256: Some([8; 32]),
        checksum: Some(ObjectChecksum { checksum: Hasher::digest(ChecksumAlgorithm::Crc32c, b"x"), parts: 2 }),
        headers: ObjectHeaders {
            content_type: Some(Bytes::from_static(b"text/plain")),
            expires: Some(Bytes::from_static(b"never")),
            user: vec![(Bytes::from_static(b"n"), Bytes::new())],
            ..ObjectHeaders::default()
        },
        parts: vec![CompletedPart {
            number: 1,
            size: 9,
            checksum: Some(Hasher::digest(ChecksumAlgorithm::Sha256, b"x")),
        }],
        manifest: vec![
            Extent::Inline(Bytes::from_static(b"x")),
            Extent::Blob { blob: 4, start: 1, length: 2 },
            Extent::Segment { segment: 8, length: 1 << 40 },
        ],
    }
}

fn samples() -> Vec<Record> {
    let upload = UploadId([5; 16]);
    let (bucket, key) = (BucketId(7), Bytes::from_static(b"k"));
    vec![
        Record::CreateBucket(Bucket {
            id: bucket,
            name: Bytes::from_static(b"photos"),
            owner: Bytes::from_static(b"root"),
            created_ms: 1,
            location: Bytes::new(),
            versioning: Versioning::Suspended,
            settings: BucketSettings {
                chunk_size: Some(65_536),
                durability: Some(Durability::Interval),
                ref_level: Some(RefLevel::Fast),
                chunking: Some(Chunking::ContentDefined),
                keep_sha256: true,
            },
        }),
        Record::DeleteBucket { bucket },
        Record::CreatePack { pack: 3 },
        Record::Content { identity: Identity([1; 32]), shared: true, bytes: Bytes::from_static(b"body") },
        Record::Content { identity: Identity([1; 32]), shared: false, bytes: Bytes::from_static(b"body") },
        Record::Chunk { identity: Identity([1; 32]), shared: true, head: 6, pack: 1, offset: 2, length: 3 },
        Record::Segment { extents: vec![Extent::Blob { blob: 1, start: 0, length: 9 }] },
        Record::PutVersion(version()),
        Record::DeleteVersion { bucket, key: key.clone(), version_id: VersionId::Null },
        Record::MoveVersion { from_bucket: bucket, from_key: key.clone(), version: version() },
        Record::CreateUpload(Upload {
            id: upload,
            bucket,
            key,
            initiated_ms: 2,
            headers: ObjectHeaders::default(),
            checksum: Some((ChecksumAlgorithm::Sha1, ChecksumType::Composite)),
        }),
        Record::PutPart(Part {
            upload,
            number: 10_000,
            size: 1,
            md5: [2; 16],
            modified_ms: 3,
            checksum: None,
            manifest: vec![],
        }),
        Record::AbortUpload { upload },
        Record::CompleteUpload { upload, request: [4; 32], version: version() },
        Record::RememberUpload {
            upload,
            request: [4; 32],
            bucket,
            key: Bytes::from_static(b"k"),
            version_id: VersionId::Null,
            etag: Etag { md5: [3; 16], parts: 2 },
            checksum: None,
        },
        Record::CondemnBlobs { blobs: vec![3, 9] },
        Record::MoveChunks { moves: vec![ChunkMove { blob: 3, pack: 2, offset: 4096 }] },
        Record::RetirePack { pack: 2 },
        Record::MoveContents { file: 4, moves: vec![ContentMove { blob: 3, offset: 4096 }] },
        Record::ReplaceLog { file: 4, first: 1, last: 99 },
    ]
}

#[test]
fn every_record_comes_back_as_it_was() {
    for record in samples() {
        let mut payload = Vec::new();
        let kind = encode(&record, &mut payload);
        assert_eq!(decode(kind, &Bytes::from(payload)).unwrap(), record);
    }
}

#[test]
fn a_cut_or_longer_payload_is_refused() {
    for record in samples() {
        let mut payload = Vec::new();
        let kind = encode(&record, &mut payload);
        let open_ended = matches!(record, Record::Content { .. });
        for cut in 0..payload.len() {
            let result = decode(kind, &Bytes::copy_from_slice(&payload[..cut]));
            assert!(result.is_err() || (open_ended && cut >= 32), "{record:?} cut at {cut}");
        }
        payload.push(0);
        assert!(decode(kind, &Bytes::from(payload)).is_err() || open_ended);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(kind in 0u8..30, payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(kind, &Bytes::from(payload));
    }
}
