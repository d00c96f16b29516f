//! CopyObject, UploadPartCopy, RenameObject and the move extension: metadata operations all of them. The source and
//! its conditions are looked at here for the right answer, and again when the copy is decided.

use std::sync::Arc;

use bytes::Bytes;

use super::answer::{Answer, HeaderBlock};
use super::conditions::{precondition, source_conditions};
use super::lane::Lane;
use super::problem::Problem;
use super::request::{Input, Request, Step};
use orcas_checksum::{ChecksumAlgorithm, Etag};
use orcas_decide::{Copy, Intent, Move, Outcome, Put};
use orcas_engine::{CopyPartRequest, CopyRequest, Found};
use orcas_record::{Bucket, ObjectHeaders, UploadId};
use orcas_s3::conditions::{ReadConditions, WriteCondition};
use orcas_s3::headers::uploaded;
use orcas_s3::range::copy_source_range;
use orcas_s3::target::CopySource;
use orcas_s3::xml::results;
use orcas_s3::{ErrorCode, Operation, S3Error};

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
}

impl CopyObject {
    fn execute(&self, lane: &Lane) -> Result<Outcome, Problem> {
        let (from, _) = self.source.find(lane)?;
        let copy = Copy {
            source: (from.id, self.source.key()),
            source_conditions: source_conditions(&self.source.conditions),
            bucket: self.bucket.id,
            key: self.key.clone(),
            precondition: precondition(&self.condition),
            headers: self.headers.clone(),
            checksum: None,
        };
        Ok(lane.engine.copy_object(&CopyRequest { copy, algorithm: self.algorithm })?)
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
}

impl UploadPartCopy {
    fn execute(&self, lane: &Lane) -> Result<Outcome, Problem> {
        let (from, found) = self.source.find(lane)?;
        let size = found.object.version.size;
        let request = CopyPartRequest {
            source: (from.id, self.source.key()),
            source_conditions: source_conditions(&self.source.conditions),
            range: self.range.as_ref().map(|value| copy_source_range(value, size)).transpose()?,
            bucket: self.bucket.id,
            key: self.key.clone(),
            upload: self.upload,
            number: self.number,
        };
        Ok(lane.engine.copy_part(&request)?)
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

impl Request {
    /// Blocks until the copy is decided: its digests may have to be computed from the source.
    pub(super) fn copy(&self) -> Result<Step, Problem> {
        let outcome = match &self.input {
            Input::CopyObject(copy) => copy.execute(&self.lane)?,
            Input::UploadPartCopy(copy) => copy.execute(&self.lane)?,
            _ => return Err(Problem::internal("a copy was lost")),
        };
        Ok(self.outcome(outcome)?.into())
    }

    pub(super) fn copied(&self, put: &Put) -> Answer {
        let document = results::copy_object(&put.etag, modified(put), put.checksum.as_ref());
        self.envelope.document(200, HeaderBlock::new(), document)
    }

    pub(super) fn copied_part(&self, put: &Put) -> Answer {
        let document = results::copy_part(&Etag::simple(put.etag.md5), modified(put), put.checksum.as_ref());
        self.envelope.document(200, HeaderBlock::new(), document)
    }

    /// RenameObject answers nothing. A move answers as a copy does, so that clients can send it as one.
    pub(super) fn moved(&self, put: &Put) -> Answer {
        if self.operation == Operation::RenameObject {
            return self.envelope.empty(200, HeaderBlock::new());
        }
        let mut headers = uploaded(&put.etag, put.checksum.as_ref(), false);
        headers.set_last_modified(modified(put));
        let document = results::copy_object(&put.etag, modified(put), put.checksum.as_ref());
        self.envelope.document(200, headers, document)
    }
}

fn modified(put: &Put) -> i64 {
    i64::try_from(put.modified_ms).unwrap_or(i64::MAX)
}
