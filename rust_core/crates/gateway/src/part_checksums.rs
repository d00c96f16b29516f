//! The checksum that is stored with a part. Its upload decides on the algorithm.

use bytes::Bytes;

use super::problem::Problem;
use orcas_checksum::{ChecksumAlgorithm, ChecksumType};
use orcas_engine::Handle;
use orcas_record::{BucketId, UploadId};
use orcas_s3::ErrorCode;

/// The upload that a body is a part of.
#[derive(Clone, Debug)]
pub struct PartOf {
    pub bucket: BucketId,
    pub key: Bytes,
    pub upload: UploadId,
}

impl PartOf {
    /// The algorithm in which the server computes the checksum of a part, whichever the client declares. `None` if the
    /// client has to declare it: of a composite checksum, S3 computes no part by itself. May block.
    pub fn algorithm(&self, engine: &Handle) -> Result<Option<ChecksumAlgorithm>, Problem> {
        let upload = engine.upload(self.bucket, &self.key, self.upload)?.ok_or(ErrorCode::NoSuchUpload)?;
        Ok(match upload.checksum {
            None => Some(ChecksumAlgorithm::DEFAULT),
            Some((algorithm, ChecksumType::FullObject)) => Some(algorithm),
            Some((_, ChecksumType::Composite)) => None,
        })
    }
}
