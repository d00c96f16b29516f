//! CopyObject, UploadPartCopy, RenameObject and the move extension: sources, their conditions, and the digests that a
//! copy needs of bytes it does not move.
//!
//! A digest is computed from the source as it was; the decision refuses it when the source has changed since, and the
//! copy starts again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;

use super::answer::{Answer, HeaderList, push};
use super::conditions::{precondition, source_conditions};
use super::lane::Lane;
use super::problem::Problem;
use super::request::{Input, Request, Step};
use crate::checksum::{Checksum, ChecksumAlgorithm, Etag, Hasher, Md5Hasher};
use crate::decide::{Copy, CopyPart, Failure, Intent, Move, Put, Refusal};
use crate::engine::Found;
use crate::record::{Bucket, Object, ObjectHeaders, UploadId};
use crate::s3::conditions::{ReadConditions, WriteCondition};
use crate::s3::headers::uploaded;
use crate::s3::range::copy_source_range;
use crate::s3::target::CopySource;
use crate::s3::xml::results;
use crate::s3::{ErrorCode, Operation, S3Error};

/// How often a copy starts again because its source was replaced while it was read.
const ATTEMPTS_MAX: u8 = 4;
/// Bytes read at once while a digest is computed.
const READ_LEN: usize = 256 * 1024;

/// Where a copy or move reads.
pub struct Source {
    pub name: CopySource,
    pub conditions: ReadConditions,
    /// `x-amz-source-expected-bucket-owner`
    pub expected_owner: Option<Vec<u8>>,
}

impl Source {
    fn bucket(&self, lane: &Lane) -> Result<Arc<Bucket>, Problem> {
        let bucket = lane.engine.bucket(self.name.bucket.as_bytes());
        let bucket = bucket
            .ok_or_else(|| S3Error::new(ErrorCode::NoSuchBucket).field("BucketName", self.name.bucket.as_bytes()))?;
        match &self.expected_owner {
            Some(expected) if *expected != bucket.owner => Err(ErrorCode::AccessDenied.into()),
            _ => Ok(bucket),
        }
    }

    fn key(&self) -> Bytes {
        Bytes::copy_from_slice(&self.name.key)
    }

    /// The source as it is now; its conditions are judged here and again when the copy is decided.
    fn find(&self, lane: &Lane) -> Result<(Arc<Bucket>, Found), Problem> {
        let bucket = self.bucket(lane)?;
        let found = lane.engine.object(bucket.id, &self.key())?;
        let found = found.ok_or_else(|| S3Error::new(ErrorCode::NoSuchKey).field("Key", self.name.key.clone()))?;
        let version = &found.object.version;
        self.conditions.judge_source(&version.etag, i64::try_from(version.modified_ms).unwrap_or(i64::MAX))?;
        Ok((bucket, found))
    }
}

pub struct CopyObject {
    pub source: Source,
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    pub condition: WriteCondition,
    /// In place of the source's, for the directive REPLACE.
    pub headers: Option<ObjectHeaders>,
    pub algorithm: Option<ChecksumAlgorithm>,
    pub attempts: AtomicU8,
}

impl CopyObject {
    fn intent(&self, lane: &Lane) -> Result<Intent, Problem> {
        let (from, found) = self.source.find(lane)?;
        let object = &found.object;
        let held = object.version.checksum.filter(|held| held.parts == 0).map(|held| held.checksum.algorithm());
        let checksum = match self.algorithm {
            Some(algorithm) if held != Some(algorithm) => {
                let (_, checksum) = digests(lane, object, None, Some(algorithm), false)?;
                checksum.map(|checksum| (object.sequence, checksum))
            }
            _ => None,
        };
        Ok(Intent::CopyObject(Box::new(Copy {
            source: (from.id, self.source.key()),
            source_conditions: source_conditions(&self.source.conditions),
            bucket: self.bucket.id,
            key: self.key.clone(),
            precondition: precondition(&self.condition),
            headers: self.headers.clone(),
            checksum,
        })))
    }
}

pub struct UploadPartCopy {
    pub source: Source,
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    pub upload: UploadId,
    pub number: u16,
    /// `x-amz-copy-source-range`
    pub range: Option<Vec<u8>>,
    pub attempts: AtomicU8,
}

impl UploadPartCopy {
    fn intent(&self, lane: &Lane) -> Result<Intent, Problem> {
        let upload = lane.engine.upload(self.bucket.id, &self.key, self.upload)?.ok_or(ErrorCode::NoSuchUpload)?;
        let (from, found) = self.source.find(lane)?;
        let object = &found.object;
        let range = self.range.as_ref().map(|value| copy_source_range(value, object.version.size)).transpose()?;
        let algorithm = upload.checksum.map(|(algorithm, _)| algorithm);
        let (md5, checksum) = digests(lane, object, range, algorithm, true)?;
        Ok(Intent::CopyPart(Box::new(CopyPart {
            source: (from.id, self.source.key()),
            source_sequence: object.sequence,
            source_conditions: source_conditions(&self.source.conditions),
            range,
            bucket: self.bucket.id,
            key: self.key.clone(),
            upload: self.upload,
            number: self.number,
            md5,
            checksum,
        })))
    }
}

/// RenameObject and MoveObject.
pub struct MoveObject {
    pub source: Source,
    pub bucket: Arc<Bucket>,
    pub key: Bytes,
    pub condition: WriteCondition,
}

impl MoveObject {
    pub fn intent(&self, lane: &Lane) -> Result<Intent, Problem> {
        let from = self.source.bucket(lane)?;
        Ok(Intent::MoveObject(Box::new(Move {
            from_bucket: from.id,
            from_key: self.source.key(),
            from_conditions: source_conditions(&self.source.conditions),
            bucket: self.bucket.id,
            key: self.key.clone(),
            precondition: precondition(&self.condition),
        })))
    }
}

/// MD5 (zeroes unless asked for) and checksum of a range of an object, by reading it. Blocks.
fn digests(
    lane: &Lane,
    object: &Object,
    range: Option<(u64, u64)>,
    algorithm: Option<ChecksumAlgorithm>,
    wants_md5: bool,
) -> Result<([u8; 16], Option<Checksum>), Problem> {
    let size = object.version.size;
    let mut md5 = wants_md5.then(Md5Hasher::new);
    let mut checksum = algorithm.map(Hasher::new);
    if size > 0 {
        let (first, last) = range.unwrap_or((0, size - 1));
        let mut reader = lane.engine.reader(object, first, last);
        let mut buffer = vec![0; READ_LEN];
        loop {
            let length = reader.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            if let Some(md5) = &mut md5 {
                md5.update(&buffer[..length]);
            }
            if let Some(checksum) = &mut checksum {
                checksum.update(&buffer[..length]);
            }
        }
    }
    Ok((md5.map_or([0; 16], Md5Hasher::finish), checksum.map(Hasher::finish)))
}

impl Request {
    /// Reads what the copy needs of its source and submits it. Blocks.
    pub(super) fn copy(self: &Arc<Self>, slot: u32) -> Result<Step, Problem> {
        let intent = match &self.input {
            Input::CopyObject(copy) => copy.intent(&self.lane)?,
            Input::UploadPartCopy(copy) => copy.intent(&self.lane)?,
            _ => return Err(Problem::internal("a copy was lost")),
        };
        self.submit_step(intent, slot)
    }

    /// Whether the decision refused a copy only because its source changed, and it was started again.
    pub(super) fn copies_again(self: &Arc<Self>, failure: &Failure, slot: u32) -> bool {
        let attempts = match &self.input {
            Input::CopyObject(copy) => &copy.attempts,
            Input::UploadPartCopy(copy) => &copy.attempts,
            _ => return false,
        };
        if !matches!(failure, Failure::Refused(Refusal::SourceChanged)) {
            return false;
        }
        if attempts.fetch_add(1, Ordering::Relaxed) + 1 >= ATTEMPTS_MAX {
            return false;
        }
        self.on_worker(slot, |request, slot| request.copy(slot));
        true
    }

    pub(super) fn copied(&self, put: &Put) -> Answer {
        let document = results::copy_object(&put.etag, modified(put), put.checksum.as_ref());
        self.envelope.document(200, HeaderList::new(), document)
    }

    pub(super) fn copied_part(&self, put: &Put) -> Answer {
        let document = results::copy_part(&Etag::simple(put.etag.md5), modified(put), put.checksum.as_ref());
        self.envelope.document(200, HeaderList::new(), document)
    }

    /// RenameObject answers nothing. A move answers as a copy does, so that clients can send it as one.
    pub(super) fn moved(&self, put: &Put) -> Answer {
        if self.operation == Operation::RenameObject {
            return self.envelope.empty(200, HeaderList::new());
        }
        let mut headers = uploaded(&put.etag, put.checksum.as_ref(), false);
        push(&mut headers, "last-modified", crate::s3::headers::http_date(modified(put)).into_bytes());
        let document = results::copy_object(&put.etag, modified(put), put.checksum.as_ref());
        self.envelope.document(200, headers, document)
    }
}

fn modified(put: &Put) -> i64 {
    i64::try_from(put.modified_ms).unwrap_or(i64::MAX)
}
