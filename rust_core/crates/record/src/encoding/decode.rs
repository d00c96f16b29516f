//! Decodes the payloads of records. Although the checksum of the frame matched, a wrong length or code is an error and not
//! a panic.

mod attributes;

use std::num::NonZeroU8;

use super::kinds::*;
use crate::placement::codec;
use crate::*;
use orcas_base::error::{Error, Result};

/// Decodes the payload of a frame of type `kind`. Byte strings of the result are slices of `payload`.
///
/// # Errors
/// [`Error::Record`] for an unknown type, a payload that is too short or too long, or a value out of range.
pub fn decode(kind: u8, payload: &Bytes) -> Result<Record> {
    decode_caused(kind, payload).map(|(record, _)| record)
}

/// As `decode`, with who caused the record: the engine if the record does not keep it.
///
/// # Errors
/// As of `decode`.
pub fn decode_caused(kind: u8, payload: &Bytes) -> Result<(Record, Cause)> {
    let mut input = Input { rest: payload.clone() };
    let record = match kind {
        CREATE_BUCKET => Record::CreateBucket(input.bucket()?),
        UPDATE_BUCKET => Record::UpdateBucket(input.bucket()?),
        DELETE_BUCKET => Record::DeleteBucket { bucket: BucketId(input.u64()?) },
        PUT_DOCUMENT => Record::PutDocument {
            bucket: BucketId(input.u64()?),
            kind: DocumentKind::from_code(input.u8()?).ok_or(Error::Record { reason: "unknown kind of document" })?,
            document: input.long_bytes()?,
        },
        CREATE_PACK => Record::CreatePack { pack: codec::pack(input.u64()?) },
        CONTENT | UNSHARED_CONTENT => Record::Content {
            fingerprint: Fingerprint(input.array()?),
            shared: kind == CONTENT,
            bytes: input.take(input.rest.len())?,
            seal: None,
        },
        SEALED_CONTENT | UNSHARED_SEALED_CONTENT => {
            let fingerprint = Fingerprint(input.array()?);
            let bytes = input.take(input.rest.len())?;
            let seal = Seal::at_end_of(&bytes).ok_or(Error::Record { reason: "a sealed content has no seal" })?;
            Record::Content { fingerprint, shared: kind == SEALED_CONTENT, bytes, seal: Some(seal) }
        }
        CHUNK => Record::Chunk {
            fingerprint: Fingerprint(input.array()?),
            shared: input.flag()?,
            prefix_hash: input.u64()?,
            at: input.chunk_location()?,
            length: input.u32()?,
            seal: None,
        },
        SEALED_CHUNK => Record::Chunk {
            fingerprint: Fingerprint(input.array()?),
            shared: input.flag()?,
            prefix_hash: input.u64()?,
            at: input.chunk_location()?,
            length: input.u32()?,
            seal: Some(Seal { data_key: input.array()?, id: input.array()?, algorithm: input.u8()? }),
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
        REMEMBER_UPLOAD => Record::RememberUpload {
            upload: UploadId(input.array()?),
            request: input.array()?,
            bucket: BucketId(input.u64()?),
            key: input.bytes()?,
            version_id: input.version_id()?,
            etag: input.etag()?,
            checksum: input.object_checksum()?,
        },
        CONDEMN_BLOBS => Record::CondemnBlobs { blobs: input.list(8, Input::u64)? },
        MOVE_CHUNKS => Record::MoveChunks {
            moves: input.list(24, |input| Ok(ChunkMove { blob: input.u64()?, to: input.chunk_location()? }))?,
        },
        RETIRE_PACK => Record::RetirePack { pack: codec::pack(input.u64()?) },
        MOVE_CONTENTS => {
            let file = input.u64()?;
            let moved =
                |input: &mut Input| Ok(ContentMove { blob: input.u64()?, to: codec::in_log(file, input.u64()?) });
            Record::MoveContents { file: codec::log_file(file), moves: input.list(16, moved)? }
        }
        REPLACE_LOG => {
            Record::ReplaceLog { file: codec::log_file(input.u64()?), first: input.u64()?, last: input.u64()? }
        }
        UPDATE_VERSION => Record::UpdateVersion {
            bucket: BucketId(input.u64()?),
            key: input.bytes()?,
            version_id: input.version_id()?,
            version: input.u64()?,
            attributes: match input.attributes()? {
                (attributes, None) => attributes,
                (_, Some(_)) => return Err(Error::Record { reason: "an update of a version has headers" }),
            },
        },
        _ => return Err(Error::Record { reason: "unknown record type" }),
    };
    let cause = if keeps_cause(kind) { input.cause()? } else { Cause::Engine };
    input.end()?;
    Ok((record, cause))
}

/// The bucket and key that the beginning of a damaged payload seems to name. Only a hint: any byte may be wrong.
pub fn named_in(kind: u8, beginning: &Bytes) -> Option<(BucketId, Bytes)> {
    if !begins_with_key(kind) {
        return None;
    }
    let mut input = Input { rest: beginning.clone() };
    Some((BucketId(input.u64().ok()?), input.bytes().ok()?))
}

/// # Errors
/// [`Error::Record`] when `payload` is not exactly one list of extents.
pub fn decode_extents(payload: &Bytes) -> Result<Vec<Extent>> {
    let mut input = Input { rest: payload.clone() };
    let extents = input.extents()?;
    input.end()?;
    Ok(extents)
}

/// Headers that were sealed.
///
/// # Errors
/// [`Error::Record`] when `bytes` are not exactly the encoding of headers that an encrypted object seals.
pub fn decode_headers(bytes: &Bytes) -> Result<ObjectHeaders> {
    let mut input = Input { rest: bytes.clone() };
    let (sealed, visible) = input.headers()?.split();
    input.end()?;
    if visible != ObjectHeaders::default() {
        return Err(Error::Record { reason: "headers are sealed that never are" });
    }
    Ok(sealed)
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

    fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::Record { reason: "a flag is neither 0 nor 1" }),
        }
    }

    /// A counted list of entries of `length` bytes.
    fn list<T>(&mut self, length: usize, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.rest.len() / length {
            return Err(Error::Record { reason: "more entries than the payload can hold" });
        }
        (0..count).map(|_| read(self)).collect()
    }

    fn cause(&mut self) -> Result<Cause> {
        let Some(operation) = NonZeroU8::new(self.u8()?) else { return Ok(Cause::Engine) };
        let request = RequestCause { operation, request: self.u64()?, principal: self.array()? };
        match request {
            LIFECYCLE => Ok(Cause::Lifecycle),
            SEALING => Ok(Cause::Sealing),
            RequestCause { operation, .. } if [LIFECYCLE, SEALING].iter().any(|it| it.operation == operation) => {
                Err(Error::Record { reason: "a cause that is neither a request nor the server itself" })
            }
            request => Ok(Cause::Request(request)),
        }
    }

    fn etag(&mut self) -> Result<Etag> {
        Ok(Etag { md5: self.array()?, parts: self.u16()? })
    }

    fn sha256(&mut self) -> Result<Option<[u8; 32]>> {
        if self.flag()? { self.array().map(Some) } else { Ok(None) }
    }

    fn bytes(&mut self) -> Result<Bytes> {
        let length = usize::from(self.u16()?);
        self.take(length)
    }

    fn long_bytes(&mut self) -> Result<Bytes> {
        let length = self.u32()? as usize;
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
        if checksum.is_none() && parts != 0 {
            return Err(Error::Record { reason: "a number of parts without a checksum" });
        }
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

    fn chunk_location(&mut self) -> Result<ChunkLocation> {
        Ok(codec::chunk(self.u64()?, self.u64()?))
    }

    fn object_lock(&mut self) -> Result<Option<ObjectLock>> {
        match self.u8()? {
            0 => Ok(None),
            1 => Ok(Some(ObjectLock { default: None })),
            3 => {
                let mode = self.mode()?;
                let (unit, length) = (self.u8()?, self.u32()?);
                let period = match unit {
                    0 => Period::Days(length),
                    1 => Period::Years(length),
                    _ => return Err(Error::Record { reason: "unknown unit of a period" }),
                };
                Ok(Some(ObjectLock { default: Some(DefaultRetention { mode, period }) }))
            }
            _ => Err(Error::Record { reason: "unknown state of Object Lock" }),
        }
    }

    fn extents(&mut self) -> Result<Vec<Extent>> {
        let count = self.u32()? as usize;
        // The smallest extent has three bytes. A larger count is wrong and must not allocate memory.
        if count > self.rest.len() / 3 {
            return Err(Error::Record { reason: "more extents than the payload can hold" });
        }
        let mut extents = Vec::with_capacity(count);
        for _ in 0..count {
            extents.push(self.extent()?);
        }
        Ok(extents)
    }

    fn extent(&mut self) -> Result<Extent> {
        match self.u8()? {
            0 => Ok(Extent::Inline(self.bytes()?)),
            1 => Ok(Extent::Blob { blob: self.u64()?, start: self.u32()?, length: self.u32()? }),
            2 => Ok(Extent::Segment { segment: self.u64()?, length: self.u64()? }),
            _ => Err(Error::Record { reason: "unknown kind of extent" }),
        }
    }

    fn version(&mut self) -> Result<Version> {
        let (bucket, key, version_id) = (BucketId(self.u64()?), self.bytes()?, self.version_id()?);
        let (delete_marker, modified_ms, size) = (self.flag()?, self.u64()?, self.u64()?);
        let (etag, sha256, checksum) = (self.etag()?, self.sha256()?, self.object_checksum()?);
        let (headers, attributes) = self.headers_and_attributes()?;
        Ok(Version {
            bucket,
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
            object_lock: self.object_lock()?,
            settings: self.settings()?,
            role: match self.u8()? {
                0 => BucketRole::Bucket,
                1 => BucketRole::Layer,
                2 => BucketRole::Snapshot,
                3 => BucketRole::Dropped,
                4 => BucketRole::Amendments,
                _ => return Err(Error::Record { reason: "unknown role of a bucket" }),
            },
            layers: (0..self.u16()?).map(|_| Ok(BucketId(self.u64()?))).collect::<Result<_>>()?,
        })
    }

    fn settings(&mut self) -> Result<BucketSettings> {
        Ok(BucketSettings {
            chunk_size: Some(self.u32()?).filter(|&size| size != 0),
            durability: match self.u8()? {
                0 => None,
                1 => Some(Durability::UnsafeNone),
                2 => Some(Durability::Buffered),
                3 => Some(Durability::Interval),
                4 => Some(Durability::Sync),
                _ => return Err(Error::Record { reason: "unknown durability" }),
            },
            ref_level: match self.u8()? {
                0 => None,
                1 => Some(RefLevel::Off),
                2 => Some(RefLevel::Full),
                3 => Some(RefLevel::Fast),
                _ => return Err(Error::Record { reason: "unknown reference level" }),
            },
            chunking: match self.u8()? {
                0 => None,
                1 => Some(Chunking::Fixed),
                2 => Some(Chunking::ContentDefined),
                _ => return Err(Error::Record { reason: "unknown chunking" }),
            },
            keep_sha256: self.flag()?,
        })
    }

    fn upload(&mut self) -> Result<Upload> {
        let (id, bucket, key, initiated_ms) =
            (UploadId(self.array()?), BucketId(self.u64()?), self.bytes()?, self.u64()?);
        let (headers, attributes) = self.headers_and_attributes()?;
        Ok(Upload { id, bucket, key, initiated_ms, headers, attributes, checksum: self.upload_checksum()? })
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
