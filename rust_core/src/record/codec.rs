//! Record payloads: bytes of `docs/format.md`, both directions. Decoding trusts nothing: it is given frames whose
//! checksum held, yet a wrong length or code is an error, never a panic. Integers are little-endian; byte strings
//! stand behind their length.

use super::*;
use crate::error::{Error, Result};

const CREATE_BUCKET: u8 = 1;
const DELETE_BUCKET: u8 = 2;
const CREATE_PACK: u8 = 3;
/// The frame type of [`Record::Content`], whose payload the log takes in two pieces.
pub const CONTENT: u8 = 4;
const CHUNK: u8 = 5;
const SEGMENT: u8 = 6;
const PUT_VERSION: u8 = 7;
const DELETE_VERSION: u8 = 8;
const MOVE_VERSION: u8 = 9;
const CREATE_UPLOAD: u8 = 10;
const PUT_PART: u8 = 11;
const ABORT_UPLOAD: u8 = 12;
const COMPLETE_UPLOAD: u8 = 13;

/// Appends the payload of `record` and returns its frame type.
pub fn encode(record: &Record, out: &mut Vec<u8>) -> u8 {
    match record {
        Record::CreateBucket(bucket) => {
            put_bucket(bucket, out);
            CREATE_BUCKET
        }
        Record::DeleteBucket { bucket } => {
            put_u64(out, bucket.0);
            DELETE_BUCKET
        }
        Record::CreatePack { pack } => {
            put_u64(out, *pack);
            CREATE_PACK
        }
        Record::Content { identity, bytes } => {
            out.extend_from_slice(&identity.0);
            out.extend_from_slice(bytes);
            CONTENT
        }
        Record::Chunk { identity, pack, offset, length } => {
            out.extend_from_slice(&identity.0);
            put_u64(out, *pack);
            put_u64(out, *offset);
            put_u32(out, *length);
            CHUNK
        }
        Record::Segment { extents } => {
            encode_extents(extents, out);
            SEGMENT
        }
        Record::PutVersion(version) => {
            put_version(version, out);
            PUT_VERSION
        }
        Record::DeleteVersion { bucket, key, version_id } => {
            put_u64(out, bucket.0);
            put_bytes(out, key);
            put_version_id(*version_id, out);
            DELETE_VERSION
        }
        Record::MoveVersion { from_bucket, from_key, version } => {
            put_version(version, out);
            put_u64(out, from_bucket.0);
            put_bytes(out, from_key);
            MOVE_VERSION
        }
        Record::CreateUpload(upload) => {
            put_upload(upload, out);
            CREATE_UPLOAD
        }
        Record::PutPart(part) => {
            put_part(part, out);
            PUT_PART
        }
        Record::AbortUpload { upload } => {
            out.extend_from_slice(&upload.0);
            ABORT_UPLOAD
        }
        Record::CompleteUpload { upload, request, version } => {
            put_version(version, out);
            out.extend_from_slice(&upload.0);
            out.extend_from_slice(request);
            COMPLETE_UPLOAD
        }
    }
}

/// Reads the payload of a frame of type `kind`; byte strings of the result are slices of `payload`.
///
/// # Errors
/// [`Error::Record`] for an unknown type, a cut or overlong payload, or a value out of its range.
pub fn decode(kind: u8, payload: &Bytes) -> Result<Record> {
    let mut input = Input { rest: payload.clone() };
    let record = match kind {
        CREATE_BUCKET => Record::CreateBucket(input.bucket()?),
        DELETE_BUCKET => Record::DeleteBucket { bucket: BucketId(input.u64()?) },
        CREATE_PACK => Record::CreatePack { pack: input.u64()? },
        CONTENT => Record::Content { identity: Identity(input.array()?), bytes: input.take(input.rest.len())? },
        CHUNK => Record::Chunk {
            identity: Identity(input.array()?),
            pack: input.u64()?,
            offset: input.u64()?,
            length: input.u32()?,
        },
        SEGMENT => Record::Segment { extents: input.extents()? },
        PUT_VERSION => Record::PutVersion(input.version()?),
        DELETE_VERSION => Record::DeleteVersion {
            bucket: BucketId(input.u64()?),
            key: input.bytes()?,
            version_id: input.version_id()?,
        },
        MOVE_VERSION => {
            let version = input.version()?;
            Record::MoveVersion { from_bucket: BucketId(input.u64()?), from_key: input.bytes()?, version }
        }
        CREATE_UPLOAD => Record::CreateUpload(input.upload()?),
        PUT_PART => Record::PutPart(input.part()?),
        ABORT_UPLOAD => Record::AbortUpload { upload: UploadId(input.array()?) },
        COMPLETE_UPLOAD => {
            let version = input.version()?;
            Record::CompleteUpload { upload: UploadId(input.array()?), request: input.array()?, version }
        }
        _ => return Err(Error::Record { reason: "unknown record type" }),
    };
    input.end()?;
    Ok(record)
}

/// The payload of a segment record, also used for manifests.
pub fn encode_extents(extents: &[Extent], out: &mut Vec<u8>) {
    put_u32(out, extents.len() as u32);
    for extent in extents {
        match extent {
            Extent::Inline(bytes) => {
                out.push(0);
                put_bytes(out, bytes);
            }
            Extent::Blob { blob, start, length } => {
                out.push(1);
                put_u64(out, *blob);
                put_u32(out, *start);
                put_u32(out, *length);
            }
            Extent::Segment { segment, length } => {
                out.push(2);
                put_u64(out, *segment);
                put_u64(out, *length);
            }
        }
    }
}

/// # Errors
/// [`Error::Record`] when `payload` is not exactly one list of extents.
pub fn decode_extents(payload: &Bytes) -> Result<Vec<Extent>> {
    let mut input = Input { rest: payload.clone() };
    let extents = input.extents()?;
    input.end()?;
    Ok(extents)
}

fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Every byte string of a record is bounded far below 64 KiB by the limits of S3 (keys 1 KiB, headers 8 KiB).
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u16::MAX));
    put_u16(out, bytes.len() as u16);
    out.extend_from_slice(bytes);
}

fn put_version_id(id: VersionId, out: &mut Vec<u8>) {
    match id {
        VersionId::Null => out.push(0),
        VersionId::Named(bytes) => {
            out.push(1);
            out.extend_from_slice(&bytes);
        }
    }
}

fn put_checksum(checksum: Option<&Checksum>, out: &mut Vec<u8>) {
    match checksum {
        None => out.push(0),
        Some(checksum) => {
            out.push(checksum.algorithm().code());
            out.extend_from_slice(checksum.as_bytes());
        }
    }
}

fn put_headers(headers: &ObjectHeaders, out: &mut Vec<u8>) {
    let single = singles(headers);
    let mask = single.iter().enumerate().fold(0u8, |mask, (bit, value)| mask | u8::from(value.is_some()) << bit);
    out.push(mask);
    for value in single.into_iter().flatten() {
        put_bytes(out, value);
    }
    put_u16(out, headers.user.len() as u16);
    for (name, value) in &headers.user {
        put_bytes(out, name);
        put_bytes(out, value);
    }
}

fn singles(headers: &ObjectHeaders) -> [Option<&Bytes>; 6] {
    [
        headers.content_type.as_ref(),
        headers.content_encoding.as_ref(),
        headers.content_disposition.as_ref(),
        headers.content_language.as_ref(),
        headers.cache_control.as_ref(),
        headers.expires.as_ref(),
    ]
}

fn put_version(version: &Version, out: &mut Vec<u8>) {
    put_u64(out, version.bucket.0);
    put_bytes(out, &version.key);
    put_version_id(version.version_id, out);
    out.push(u8::from(version.delete_marker));
    put_u64(out, version.modified_ms);
    put_u64(out, version.size);
    out.extend_from_slice(&version.etag.md5);
    put_u16(out, version.etag.parts);
    put_checksum(version.checksum.as_ref().map(|whole| &whole.checksum), out);
    put_u16(out, version.checksum.map_or(0, |whole| whole.parts));
    put_headers(&version.headers, out);
    put_u16(out, version.parts.len() as u16);
    for part in &version.parts {
        put_u16(out, part.number);
        put_u64(out, part.size);
        put_checksum(part.checksum.as_ref(), out);
    }
    encode_extents(&version.manifest, out);
}

fn put_bucket(bucket: &Bucket, out: &mut Vec<u8>) {
    put_u64(out, bucket.id.0);
    put_bytes(out, &bucket.name);
    put_bytes(out, &bucket.owner);
    put_u64(out, bucket.created_ms);
    put_bytes(out, &bucket.location);
    out.push(match bucket.versioning {
        Versioning::Unversioned => 0,
        Versioning::Enabled => 1,
        Versioning::Suspended => 2,
    });
    put_u32(out, bucket.chunk_size.unwrap_or(0));
    out.push(match bucket.durability {
        None => 0,
        Some(Durability::UnsafeNone) => 1,
        Some(Durability::Buffered) => 2,
        Some(Durability::Interval) => 3,
        Some(Durability::Sync) => 4,
    });
    out.push(bucket.ref_level.map_or(0, |level| level + 1));
}

fn put_upload(upload: &Upload, out: &mut Vec<u8>) {
    out.extend_from_slice(&upload.id.0);
    put_u64(out, upload.bucket.0);
    put_bytes(out, &upload.key);
    put_u64(out, upload.initiated_ms);
    put_headers(&upload.headers, out);
    match upload.checksum {
        None => out.push(0),
        Some((algorithm, kind)) => {
            out.push(algorithm.code());
            out.push(match kind {
                ChecksumType::FullObject => 0,
                ChecksumType::Composite => 1,
            });
        }
    }
}

fn put_part(part: &Part, out: &mut Vec<u8>) {
    out.extend_from_slice(&part.upload.0);
    put_u16(out, part.number);
    put_u64(out, part.size);
    out.extend_from_slice(&part.md5);
    put_u64(out, part.modified_ms);
    put_checksum(part.checksum.as_ref(), out);
    encode_extents(&part.manifest, out);
}

struct Input {
    rest: Bytes,
}

impl Input {
    fn take(&mut self, length: usize) -> Result<Bytes> {
        if length > self.rest.len() {
            return Err(Error::Record { reason: "payload ends early" });
        }
        Ok(self.rest.split_to(length))
    }

    fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::Record { reason: "payload has bytes after its end" }) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some(array) = self.rest.first_chunk::<N>().copied() else {
            return Err(Error::Record { reason: "payload ends early" });
        };
        bytes::Buf::advance(&mut self.rest, N);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self) -> Result<Bytes> {
        let length = usize::from(self.u16()?);
        self.take(length)
    }

    fn version_id(&mut self) -> Result<VersionId> {
        match self.u8()? {
            0 => Ok(VersionId::Null),
            1 => Ok(VersionId::Named(self.array()?)),
            _ => Err(Error::Record { reason: "unknown kind of version id" }),
        }
    }

    fn algorithm(&mut self) -> Result<Option<ChecksumAlgorithm>> {
        match self.u8()? {
            0 => Ok(None),
            code => ChecksumAlgorithm::from_code(code)
                .map(Some)
                .ok_or(Error::Record { reason: "unknown checksum algorithm" }),
        }
    }

    fn checksum(&mut self) -> Result<Option<Checksum>> {
        let Some(algorithm) = self.algorithm()? else { return Ok(None) };
        let digest = self.take(algorithm.digest_len())?;
        Ok(Checksum::from_bytes(algorithm, &digest))
    }

    fn object_checksum(&mut self) -> Result<Option<ObjectChecksum>> {
        let checksum = self.checksum()?;
        let parts = self.u16()?;
        Ok(checksum.map(|checksum| ObjectChecksum { checksum, parts }))
    }

    fn upload_checksum(&mut self) -> Result<Option<(ChecksumAlgorithm, ChecksumType)>> {
        let Some(algorithm) = self.algorithm()? else { return Ok(None) };
        match self.u8()? {
            0 => Ok(Some((algorithm, ChecksumType::FullObject))),
            1 => Ok(Some((algorithm, ChecksumType::Composite))),
            _ => Err(Error::Record { reason: "unknown checksum type" }),
        }
    }

    fn headers(&mut self) -> Result<ObjectHeaders> {
        let mask = self.u8()?;
        let mut single = |bit: u8| if mask >> bit & 1 == 1 { self.bytes().map(Some) } else { Ok(None) };
        let mut headers = ObjectHeaders {
            content_type: single(0)?,
            content_encoding: single(1)?,
            content_disposition: single(2)?,
            content_language: single(3)?,
            cache_control: single(4)?,
            expires: single(5)?,
            user: Vec::new(),
        };
        for _ in 0..self.u16()? {
            headers.user.push((self.bytes()?, self.bytes()?));
        }
        Ok(headers)
    }

    fn extents(&mut self) -> Result<Vec<Extent>> {
        let count = self.u32()? as usize;
        // The smallest extent takes three bytes: a count beyond that cannot be true and must not reserve memory.
        if count > self.rest.len() / 3 {
            return Err(Error::Record { reason: "more extents than the payload can hold" });
        }
        let mut extents = Vec::with_capacity(count);
        for _ in 0..count {
            extents.push(match self.u8()? {
                0 => Extent::Inline(self.bytes()?),
                1 => Extent::Blob { blob: self.u64()?, start: self.u32()?, length: self.u32()? },
                2 => Extent::Segment { segment: self.u64()?, length: self.u64()? },
                _ => return Err(Error::Record { reason: "unknown kind of extent" }),
            });
        }
        Ok(extents)
    }

    fn version(&mut self) -> Result<Version> {
        Ok(Version {
            bucket: BucketId(self.u64()?),
            key: self.bytes()?,
            version_id: self.version_id()?,
            delete_marker: self.u8()? != 0,
            modified_ms: self.u64()?,
            size: self.u64()?,
            etag: Etag { md5: self.array()?, parts: self.u16()? },
            checksum: self.object_checksum()?,
            headers: self.headers()?,
            parts: self.completed_parts()?,
            manifest: self.extents()?,
        })
    }

    fn completed_parts(&mut self) -> Result<Vec<CompletedPart>> {
        (0..self.u16()?)
            .map(|_| Ok(CompletedPart { number: self.u16()?, size: self.u64()?, checksum: self.checksum()? }))
            .collect()
    }

    fn bucket(&mut self) -> Result<Bucket> {
        Ok(Bucket {
            id: BucketId(self.u64()?),
            name: self.bytes()?,
            owner: self.bytes()?,
            created_ms: self.u64()?,
            location: self.bytes()?,
            versioning: match self.u8()? {
                0 => Versioning::Unversioned,
                1 => Versioning::Enabled,
                2 => Versioning::Suspended,
                _ => return Err(Error::Record { reason: "unknown versioning state" }),
            },
            chunk_size: Some(self.u32()?).filter(|&size| size != 0),
            durability: match self.u8()? {
                0 => None,
                1 => Some(Durability::UnsafeNone),
                2 => Some(Durability::Buffered),
                3 => Some(Durability::Interval),
                4 => Some(Durability::Sync),
                _ => return Err(Error::Record { reason: "unknown durability" }),
            },
            ref_level: self.u8()?.checked_sub(1),
        })
    }

    fn upload(&mut self) -> Result<Upload> {
        Ok(Upload {
            id: UploadId(self.array()?),
            bucket: BucketId(self.u64()?),
            key: self.bytes()?,
            initiated_ms: self.u64()?,
            headers: self.headers()?,
            checksum: self.upload_checksum()?,
        })
    }

    fn part(&mut self) -> Result<Part> {
        Ok(Part {
            upload: UploadId(self.array()?),
            number: self.u16()?,
            size: self.u64()?,
            md5: self.array()?,
            modified_ms: self.u64()?,
            checksum: self.checksum()?,
            manifest: self.extents()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Hasher;
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
                chunk_size: Some(65_536),
                durability: Some(Durability::Interval),
                ref_level: Some(0),
            }),
            Record::DeleteBucket { bucket },
            Record::CreatePack { pack: 3 },
            Record::Content { identity: Identity([1; 32]), bytes: Bytes::from_static(b"body") },
            Record::Chunk { identity: Identity([1; 32]), pack: 1, offset: 2, length: 3 },
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
        fn any_bytes_are_read_without_a_panic(kind in 0u8..20, payload in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(kind, &Bytes::from(payload));
        }
    }
}
