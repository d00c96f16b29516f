//! Sample records of every kind. Together they have every value of every code, and every optional field both ways.

use std::num::NonZeroU8;
use std::sync::Arc;

use super::placement::codec;
use super::*;
use orcas_checksum::Hasher;

/// All values of an enum. A new value does not compile until it is listed.
macro_rules! every {
    ($type:ident: $($value:ident),*) => {{
        let _listed = |value: $type| match value { $($type::$value => ()),* };
        vec![$($type::$value),*]
    }};
}

/// `None`, then each value.
fn or_none<T>(values: Vec<T>) -> impl Iterator<Item = Option<T>> {
    std::iter::once(None).chain(values.into_iter().map(Some))
}

/// Each kind of cause.
pub fn causes() -> [Cause; 4] {
    let request = RequestCause { operation: NonZeroU8::MIN, request: 0x0123_4567_89ab_cdef, principal: [7; 32] };
    [Cause::Engine, Cause::Lifecycle, Cause::Sealing, Cause::Request(request)]
}

fn text(bytes: &'static str) -> Bytes {
    Bytes::from_static(bytes.as_bytes())
}

fn algorithms() -> Vec<ChecksumAlgorithm> {
    every!(ChecksumAlgorithm: Crc32, Crc32c, Crc64Nvme, Sha1, Sha256, Sha512, Md5, XxHash64, XxHash3, XxHash128)
}

fn checksums() -> impl Iterator<Item = Option<Checksum>> {
    or_none(algorithms()).map(|algorithm| algorithm.map(|algorithm| Hasher::digest(algorithm, b"x")))
}

fn extents() -> Vec<Extent> {
    let all = vec![
        Extent::Inline(text("x")),
        Extent::Blob { blob: 4, start: 1, length: 2 },
        Extent::Segment { segment: 8, length: 1 << 40 },
    ];
    for extent in &all {
        // A new one does not compile until it is listed above and here.
        match extent {
            Extent::Inline(_) | Extent::Blob { .. } | Extent::Segment { .. } => {}
        }
    }
    all
}

fn headers() -> ObjectHeaders {
    ObjectHeaders {
        content_type: Some(text("text/plain")),
        content_encoding: Some(text("gzip")),
        content_disposition: Some(text("inline")),
        content_language: Some(text("en")),
        cache_control: Some(text("no-store")),
        expires: Some(text("never")),
        website_redirect: Some(text("/other")),
        storage_class: Some(text("GLACIER_IR")),
        user: vec![(text("n"), Bytes::new()), (text("color"), text("blue"))],
        sealed: None,
    }
}

/// As an encrypted object has them.
fn sealed_headers() -> ObjectHeaders {
    let seal = Seal { data_key: [4; 16], id: [5; 32], algorithm: 2 };
    let sealed = SealedHeaders { seal, bytes: text("sealed, then its tag") };
    ObjectHeaders { sealed: Some(Box::new(sealed)), ..headers().split().1 }
}

fn attributes(mode: RetentionMode) -> Attributes {
    let retention = Some(Retention { mode, until_ms: 1_900_000_000_000 });
    Attributes {
        tags: vec![(text("project"), text("blue")), (text("t"), Bytes::new())],
        retention,
        legal_hold: Some(true),
        annotations: Annotations::default(),
        encryption: Some(Encryption::Managed),
        acl: Some(text("<AccessControlPolicy/>")),
    }
}

fn encryptions() -> Vec<Encryption> {
    let all = vec![
        Encryption::Managed,
        Encryption::Named(Arc::new(NamedKey { id: [1; 16], context: Bytes::new(), bucket_key: false })),
        Encryption::Named(Arc::new(NamedKey { id: [2; 16], context: text("{\"a\": \"b\"}"), bucket_key: true })),
        Encryption::Customer(Arc::new(KeyCheck { salt: [3; 16], mac: [4; 32] })),
    ];
    for encryption in &all {
        // A new one does not compile until it is listed above and here.
        match encryption {
            Encryption::Managed | Encryption::Named(_) | Encryption::Customer(_) => {}
        }
    }
    all
}

fn annotated() -> Attributes {
    let annotation = |name: &str, checksum, text| Annotation {
        name: Bytes::copy_from_slice(name.as_bytes()),
        modified_ms: 1_800_000_000_000,
        md5: [3; 16],
        checksum,
        text,
    };
    let inline = annotation("état", None, Extent::Inline(text("vu")));
    let checksum = Checksum::from_bytes(ChecksumAlgorithm::Crc32c, &[1, 2, 3, 4]);
    let large = annotation("a.b", checksum, Extent::Blob { blob: 8, start: 0, length: 300 });
    Attributes { annotations: Annotations::from_sorted(vec![large, inline]).unwrap(), ..Attributes::default() }
}

pub fn version() -> Version {
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
        headers: headers(),
        attributes: attributes(RetentionMode::Governance),
        parts: checksums().zip(1..).map(|(checksum, number)| CompletedPart { number, size: 9, checksum }).collect(),
        manifest: extents(),
    }
}

fn small_version() -> Version {
    Version {
        version_id: VersionId::Null,
        delete_marker: true,
        sha256: None,
        checksum: None,
        headers: ObjectHeaders { cache_control: Some(text("no-store")), ..ObjectHeaders::default() },
        attributes: Attributes::default(),
        parts: vec![],
        manifest: vec![],
        ..version()
    }
}

fn bucket() -> Bucket {
    Bucket {
        id: BucketId(7),
        name: text("photos"),
        owner: text("root"),
        created_ms: 1,
        location: text("eu-west-1"),
        versioning: Versioning::Suspended,
        object_lock: None,
        settings: BucketSettings {
            chunk_size: Some(65_536),
            durability: Some(Durability::Interval),
            ref_level: Some(RefLevel::Fast),
            chunking: Some(Chunking::ContentDefined),
            keep_sha256: true,
        },
        role: BucketRole::Bucket,
        layers: vec![BucketId(9), BucketId(7)],
    }
}

fn buckets() -> Vec<Record> {
    let of = |versioning, settings| Record::CreateBucket(Bucket { versioning, settings, ..bucket() });
    let mut records = vec![Record::CreateBucket(bucket()), Record::UpdateBucket(bucket())];
    let none = BucketSettings::default();
    records.extend(every!(Versioning: Unversioned, Enabled, Suspended).into_iter().map(|state| of(state, none)));
    let settings = or_none(every!(Durability: UnsafeNone, Buffered, Interval, Sync))
        .map(|durability| BucketSettings { durability, ..none })
        .chain(or_none(every!(RefLevel: Off, Full, Fast)).map(|ref_level| BucketSettings { ref_level, ..none }))
        .chain(or_none(every!(Chunking: Fixed, ContentDefined)).map(|chunking| BucketSettings { chunking, ..none }));
    records.extend(settings.map(|settings| of(Versioning::Enabled, settings)));
    let locked = |default| {
        let object_lock = Some(ObjectLock { default });
        Record::UpdateBucket(Bucket { versioning: Versioning::Enabled, object_lock, ..bucket() })
    };
    records.push(locked(None));
    let roles = every!(BucketRole: Bucket, Layer, Snapshot, Dropped, Amendments).into_iter();
    records.extend(roles.map(|role| Record::CreateBucket(Bucket { role, layers: vec![], ..bucket() })));
    let modes = every!(RetentionMode: Governance, Compliance);
    for (mode, period) in modes.into_iter().zip([Period::Days(30), Period::Years(7)]) {
        records.push(locked(Some(DefaultRetention { mode, period })));
    }
    records
}

fn documents() -> Vec<Record> {
    let kinds = every!(
        DocumentKind: Cors, Tagging, RequestPayment, OwnershipControls, Accelerate, PublicAccessBlock, Lifecycle,
        Website, Encryption, Notification, Logging, Quota, Policy, Acl, Replication
    );
    kinds.into_iter().map(|kind| Record::PutDocument { bucket: BucketId(7), kind, document: text("<A/>") }).collect()
}

fn uploads() -> Vec<Record> {
    let upload = UploadId([5; 16]);
    let create = |checksum| {
        let id = upload;
        Record::CreateUpload(Upload {
            id,
            bucket: BucketId(7),
            key: text("k"),
            initiated_ms: 2,
            headers: headers(),
            attributes: attributes(RetentionMode::Compliance),
            checksum,
        })
    };
    let mut records = vec![create(None)];
    for kind in every!(ChecksumType: FullObject, Composite) {
        records.extend(algorithms().into_iter().map(|algorithm| create(Some((algorithm, kind)))));
    }
    records.extend(checksums().map(|checksum| {
        Record::PutPart(Part {
            upload,
            number: 10_000,
            size: 1,
            md5: [2; 16],
            modified_ms: 3,
            checksum,
            manifest: extents(),
        })
    }));
    let remember = |checksum: Option<Checksum>| Record::RememberUpload {
        upload,
        request: [4; 32],
        bucket: BucketId(7),
        key: text("k"),
        version_id: VersionId::Null,
        etag: Etag { md5: [3; 16], parts: 2 },
        checksum: checksum.map(|checksum| ObjectChecksum { checksum, parts: 2 }),
    };
    records.extend(checksums().map(remember));
    let Record::CreateUpload(open) = create(None) else { unreachable!("an upload") };
    records.push(Record::CreateUpload(Upload { headers: sealed_headers(), ..open }));
    records.push(Record::AbortUpload { upload });
    records.push(Record::CompleteUpload { upload, request: [4; 32], version: version() });
    records
}

pub fn samples() -> Vec<Record> {
    let (bucket, key) = (BucketId(7), text("k"));
    let content =
        |shared| Record::Content { fingerprint: Fingerprint([1; 32]), shared, bytes: text("body"), seal: None };
    let seal = Seal { data_key: [4; 16], id: [5; 32], algorithm: 1 };
    let sealed = Bytes::from([&b"body"[..], &seal.encode()].concat());
    let fingerprint = Fingerprint([1; 32]);
    let chunk =
        |shared, seal| Record::Chunk { fingerprint, shared, prefix_hash: 6, at: codec::chunk(1, 2), length: 3, seal };
    let mut records = vec![
        Record::DeleteBucket { bucket },
        Record::CreatePack { pack: codec::pack(3) },
        content(true),
        content(false),
        Record::Content { fingerprint, shared: true, bytes: sealed.clone(), seal: Some(seal) },
        Record::Content { fingerprint, shared: false, bytes: sealed, seal: Some(seal) },
        chunk(true, None),
        chunk(false, Some(seal)),
        Record::Segment { extents: extents() },
        Record::PutVersion(version()),
        Record::PutVersion(small_version()),
        Record::PutVersion(Version { headers: sealed_headers(), ..version() }),
        Record::DeleteVersion { bucket, key: key.clone(), version_id: VersionId::Null },
        Record::MoveVersion { from_bucket: bucket, from_key: key, version: version() },
        Record::CondemnBlobs { blobs: vec![3, 9] },
        Record::MoveChunks { moves: vec![ChunkMove { blob: 3, to: codec::chunk(2, 4096) }] },
        Record::RetirePack { pack: codec::pack(2) },
        Record::MoveContents {
            file: codec::log_file(4),
            moves: vec![ContentMove { blob: 3, to: codec::in_log(4, 4096) }],
        },
        Record::ReplaceLog { file: codec::log_file(4), first: 1, last: 99 },
    ];
    records.extend(buckets());
    records.extend(documents());
    records.extend(uploads());
    let tagged = Attributes { retention: None, legal_hold: Some(false), ..attributes(RetentionMode::Governance) };
    let encrypted =
        encryptions().into_iter().map(|encryption| Attributes { encryption: Some(encryption), ..tagged.clone() });
    let plain = [Attributes::default(), tagged.clone(), attributes(RetentionMode::Compliance), annotated()];
    for attributes in plain.into_iter().chain(encrypted) {
        let (key, version_id) = (text("k"), VersionId::Named([9; 16]));
        records.push(Record::UpdateVersion { bucket, key, version_id, version: 9, attributes });
    }
    records
}
