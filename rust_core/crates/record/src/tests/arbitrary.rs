//! Arbitrary records of a given kind.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::encoding::kinds::*;
use crate::placement::codec;
use crate::*;

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn version_id() -> impl Strategy<Value = VersionId> {
    prop_oneof![Just(VersionId::Null), any::<[u8; 16]>().prop_map(VersionId::Named)]
}

fn checksum() -> impl Strategy<Value = Option<Checksum>> {
    let digest = (select(ChecksumAlgorithm::ALL.to_vec()), vec(any::<u8>(), 64));
    let checksum = digest.prop_filter_map("a digest of another length", |(algorithm, bytes)| {
        Checksum::from_bytes(algorithm, &bytes[..algorithm.digest_len()])
    });
    option::of(checksum)
}

fn object_checksum() -> impl Strategy<Value = Option<ObjectChecksum>> {
    (checksum(), any::<u16>()).prop_map(|(checksum, parts)| checksum.map(|checksum| ObjectChecksum { checksum, parts }))
}

fn etag() -> impl Strategy<Value = Etag> {
    any::<([u8; 16], u16)>().prop_map(|(md5, parts)| Etag { md5, parts })
}

fn headers() -> impl Strategy<Value = ObjectHeaders> {
    let single = || option::of(bytes());
    let singles = || (single(), single(), single(), single());
    (singles(), singles(), vec((bytes(), bytes()), 0..4)).prop_map(|(first, second, user)| {
        let (content_type, content_encoding, content_disposition, content_language) = first;
        let (cache_control, expires, website_redirect, storage_class) = second;
        ObjectHeaders {
            content_type,
            content_encoding,
            content_disposition,
            content_language,
            cache_control,
            expires,
            website_redirect,
            storage_class,
            user,
            sealed: None,
        }
    })
}

/// What an encrypted object may have sealed.
fn described() -> impl Strategy<Value = (ObjectHeaders, Attributes)> {
    let sealed = (seal(), bytes()).prop_map(|(seal, bytes)| Box::new(SealedHeaders { seal, bytes }));
    (headers(), attributes(), option::of(sealed)).prop_map(|(headers, attributes, sealed)| {
        match sealed.filter(|_| attributes.encryption.is_some()) {
            None => (headers, attributes),
            sealed => (ObjectHeaders { sealed, ..headers.split().1 }, attributes),
        }
    })
}

fn mode() -> impl Strategy<Value = RetentionMode> {
    select(vec![RetentionMode::Governance, RetentionMode::Compliance])
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let retention = (mode(), any::<u64>()).prop_map(|(mode, until_ms)| Retention { mode, until_ms });
    (
        vec((bytes(), bytes()), 0..3),
        option::of(retention),
        option::of(any::<bool>()),
        annotations(),
        option::of(encryption()),
        option::of(bytes()),
    )
        .prop_map(|(tags, retention, legal_hold, annotations, encryption, acl)| Attributes {
            tags,
            retention,
            legal_hold,
            annotations,
            encryption,
            acl,
        })
}

fn encryption() -> impl Strategy<Value = Encryption> {
    let named = (any::<[u8; 16]>(), bytes(), any::<bool>())
        .prop_map(|(id, context, bucket_key)| Encryption::Named(Arc::new(NamedKey { id, context, bucket_key })));
    let customer =
        any::<([u8; 16], [u8; 32])>().prop_map(|(salt, mac)| Encryption::Customer(Arc::new(KeyCheck { salt, mac })));
    prop_oneof![Just(Encryption::Managed), named, customer]
}

fn annotations() -> impl Strategy<Value = Annotations> {
    let annotation = (bytes(), any::<u64>(), any::<[u8; 16]>(), checksum(), text());
    vec(annotation, 0..3).prop_map(|list| {
        let mut annotations = Annotations::default();
        for (name, modified_ms, md5, checksum, text) in list {
            let name = [b"n", &name[..]].concat().into();
            annotations = annotations.with(Annotation { name, modified_ms, md5, checksum, text }).unwrap();
        }
        annotations
    })
}

fn object_lock() -> impl Strategy<Value = Option<ObjectLock>> {
    let period = prop_oneof![any::<u32>().prop_map(Period::Days), any::<u32>().prop_map(Period::Years)];
    let default = (mode(), period).prop_map(|(mode, period)| DefaultRetention { mode, period });
    option::of(option::of(default).prop_map(|default| ObjectLock { default }))
}

/// Where the text of an annotation is.
fn text() -> impl Strategy<Value = Extent> {
    prop_oneof![
        bytes().prop_map(Extent::Inline),
        any::<(u64, u32, u32)>().prop_map(|(blob, start, length)| Extent::Blob { blob, start, length }),
    ]
}

fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let extent = prop_oneof![
        bytes().prop_map(Extent::Inline),
        any::<(u64, u32, u32)>().prop_map(|(blob, start, length)| Extent::Blob { blob, start, length }),
        any::<(u64, u64)>().prop_map(|(segment, length)| Extent::Segment { segment, length }),
    ];
    vec(extent, 0..5)
}

fn version() -> impl Strategy<Value = Version> {
    let part = (any::<(u16, u64)>(), checksum());
    let part = part.prop_map(|((number, size), checksum)| CompletedPart { number, size, checksum });
    let name = (any::<u64>(), bytes(), version_id(), any::<bool>());
    let state = (any::<(u64, u64)>(), etag(), any::<Option<[u8; 32]>>(), object_checksum());
    let rest = (described(), vec(part, 0..4), extents());
    (name, state, rest).prop_map(|(name, state, ((headers, attributes), parts, manifest))| {
        let (bucket, key, version_id, delete_marker) = name;
        let ((modified_ms, size), etag, sha256, checksum) = state;
        Version {
            bucket: BucketId(bucket),
            key,
            version_id,
            delete_marker,
            modified_ms,
            size,
            etag,
            sha256,
            checksum,
            headers,
            attributes,
            parts,
            manifest,
        }
    })
}

fn settings() -> impl Strategy<Value = BucketSettings> {
    (
        option::of(1..=u32::MAX),
        option::of(select(Durability::ALL.to_vec())),
        option::of(select(RefLevel::ALL.to_vec())),
        option::of(select(vec![Chunking::Fixed, Chunking::ContentDefined])),
        any::<bool>(),
    )
        .prop_map(|(chunk_size, durability, ref_level, chunking, keep_sha256)| BucketSettings {
            chunk_size,
            durability,
            ref_level,
            chunking,
            keep_sha256,
        })
}

fn bucket() -> impl Strategy<Value = Bucket> {
    let versioning = select(vec![Versioning::Unversioned, Versioning::Enabled, Versioning::Suspended]);
    let names = (bytes(), bytes(), bytes());
    let role = select(vec![
        BucketRole::Bucket,
        BucketRole::Layer,
        BucketRole::Snapshot,
        BucketRole::Dropped,
        BucketRole::Amendments,
    ]);
    let layers = vec(any::<u64>().prop_map(BucketId), 0..4);
    let state = (versioning, object_lock(), settings(), role, layers);
    (any::<(u64, u64)>(), names, state).prop_map(|(numbers, names, state)| {
        let ((id, created_ms), (name, owner, location)) = (numbers, names);
        let (versioning, object_lock, settings, role, layers) = state;
        Bucket { id: BucketId(id), name, owner, created_ms, location, versioning, object_lock, settings, role, layers }
    })
}

fn upload() -> impl Strategy<Value = Upload> {
    let kind = select(vec![ChecksumType::FullObject, ChecksumType::Composite]);
    let checksum = option::of((select(ChecksumAlgorithm::ALL.to_vec()), kind));
    let object = (bytes(), described(), checksum);
    (any::<([u8; 16], u64, u64)>(), object).prop_map(|(place, (key, (headers, attributes), checksum))| {
        let (id, bucket, initiated_ms) = place;
        Upload { id: UploadId(id), bucket: BucketId(bucket), key, initiated_ms, headers, attributes, checksum }
    })
}

fn part() -> impl Strategy<Value = Part> {
    let numbers = any::<([u8; 16], u16, u64, [u8; 16], u64)>();
    (numbers, checksum(), extents()).prop_map(|(numbers, checksum, manifest)| {
        let (upload, number, size, md5, modified_ms) = numbers;
        Part { upload: UploadId(upload), number, size, md5, modified_ms, checksum, manifest }
    })
}

fn seal() -> impl Strategy<Value = Seal> {
    any::<([u8; 16], [u8; 32], u8)>().prop_map(|(data_key, id, algorithm)| Seal { data_key, id, algorithm })
}

fn remembered() -> impl Strategy<Value = Record> {
    let place = (any::<([u8; 16], [u8; 32], u64)>(), bytes(), version_id());
    (place, etag(), object_checksum()).prop_map(|((numbers, key, version_id), etag, checksum)| {
        let (upload, request, bucket) = numbers;
        let (upload, bucket) = (UploadId(upload), BucketId(bucket));
        Record::RememberUpload { upload, request, bucket, key, version_id, etag, checksum }
    })
}

/// Any record whose frame has this type.
pub fn of_kind(kind: u8) -> BoxedStrategy<Record> {
    match kind {
        CREATE_BUCKET => bucket().prop_map(Record::CreateBucket).boxed(),
        UPDATE_BUCKET => bucket().prop_map(Record::UpdateBucket).boxed(),
        DELETE_BUCKET => any::<u64>().prop_map(|id| Record::DeleteBucket { bucket: BucketId(id) }).boxed(),
        PUT_DOCUMENT => (any::<u64>(), select(DocumentKind::ALL.to_vec()), bytes())
            .prop_map(|(bucket, kind, document)| Record::PutDocument { bucket: BucketId(bucket), kind, document })
            .boxed(),
        CREATE_PACK => any::<u64>().prop_map(|pack| Record::CreatePack { pack: codec::pack(pack) }).boxed(),
        RETIRE_PACK => any::<u64>().prop_map(|pack| Record::RetirePack { pack: codec::pack(pack) }).boxed(),
        CONTENT | UNSHARED_CONTENT => (any::<[u8; 32]>(), bytes())
            .prop_map(move |(fingerprint, bytes)| Record::Content {
                fingerprint: Fingerprint(fingerprint),
                shared: kind == CONTENT,
                bytes,
                seal: None,
            })
            .boxed(),
        SEALED_CONTENT | UNSHARED_SEALED_CONTENT => (any::<[u8; 32]>(), bytes(), seal())
            .prop_map(move |(fingerprint, bytes, seal)| Record::Content {
                fingerprint: Fingerprint(fingerprint),
                shared: kind == SEALED_CONTENT,
                bytes: [&bytes[..], &seal.encode()].concat().into(),
                seal: Some(seal),
            })
            .boxed(),
        SEALED_CHUNK => (any::<([u8; 32], bool, u64, u64, u64, u32)>(), seal())
            .prop_map(|((fingerprint, shared, prefix_hash, pack, offset, length), seal)| Record::Chunk {
                fingerprint: Fingerprint(fingerprint),
                shared,
                prefix_hash,
                at: codec::chunk(pack, offset),
                length,
                seal: Some(seal),
            })
            .boxed(),
        CHUNK => any::<([u8; 32], bool, u64, u64, u64, u32)>()
            .prop_map(|(fingerprint, shared, prefix_hash, pack, offset, length)| Record::Chunk {
                fingerprint: Fingerprint(fingerprint),
                shared,
                prefix_hash,
                at: codec::chunk(pack, offset),
                length,
                seal: None,
            })
            .boxed(),
        SEGMENT => extents().prop_map(|extents| Record::Segment { extents }).boxed(),
        PUT_VERSION => version().prop_map(Record::PutVersion).boxed(),
        DELETE_VERSION => (any::<u64>(), bytes(), version_id())
            .prop_map(|(bucket, key, version_id)| Record::DeleteVersion { bucket: BucketId(bucket), key, version_id })
            .boxed(),
        MOVE_VERSION => (any::<u64>(), bytes(), version())
            .prop_map(|(from, from_key, version)| Record::MoveVersion {
                from_bucket: BucketId(from),
                from_key,
                version,
            })
            .boxed(),
        CREATE_UPLOAD => upload().prop_map(Record::CreateUpload).boxed(),
        PUT_PART => part().prop_map(Record::PutPart).boxed(),
        ABORT_UPLOAD => any::<[u8; 16]>().prop_map(|id| Record::AbortUpload { upload: UploadId(id) }).boxed(),
        COMPLETE_UPLOAD => (any::<([u8; 16], [u8; 32])>(), version())
            .prop_map(|((id, request), version)| Record::CompleteUpload { upload: UploadId(id), request, version })
            .boxed(),
        REMEMBER_UPLOAD => remembered().boxed(),
        CONDEMN_BLOBS => vec(any::<u64>(), 0..5).prop_map(|blobs| Record::CondemnBlobs { blobs }).boxed(),
        MOVE_CHUNKS => vec(any::<(u64, u64, u64)>(), 0..5)
            .prop_map(|moves| {
                let moved = |(blob, pack, offset)| ChunkMove { blob, to: codec::chunk(pack, offset) };
                Record::MoveChunks { moves: moves.into_iter().map(moved).collect() }
            })
            .boxed(),
        MOVE_CONTENTS => (any::<u64>(), vec(any::<(u64, u64)>(), 0..5))
            .prop_map(|(file, moves)| {
                let moved = |(blob, offset)| ContentMove { blob, to: codec::in_log(file, offset) };
                Record::MoveContents { file: codec::log_file(file), moves: moves.into_iter().map(moved).collect() }
            })
            .boxed(),
        REPLACE_LOG => any::<(u64, u64, u64)>()
            .prop_map(|(file, first, last)| Record::ReplaceLog { file: codec::log_file(file), first, last })
            .boxed(),
        UPDATE_VERSION => (any::<(u64, u64)>(), bytes(), version_id(), attributes())
            .prop_map(|((bucket, version), key, version_id, attributes)| Record::UpdateVersion {
                bucket: BucketId(bucket),
                key,
                version_id,
                version,
                attributes,
            })
            .boxed(),
        _ => panic!("kind {kind} has no records to draw"),
    }
}
