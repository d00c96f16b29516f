//! The checksum and the encryption of a body that becomes a part of something, which decides on both.

use std::sync::Arc;

use bytes::Bytes;

use super::problem::Problem;
use orcas_checksum::{ChecksumAlgorithm, ChecksumType};
use orcas_engine::Handle;
use orcas_record::{Bucket, BucketId, Encryption, UploadId};
use orcas_s3::ErrorCode;

/// How a body is encrypted: as the upload that it becomes a part of, else as it says itself. May block.
pub fn encryption_of(
    engine: &Handle,
    part: Option<&PartOf>,
    own: Option<Encryption>,
) -> Result<Option<Encryption>, Problem> {
    match part {
        Some(PartOf::Upload { bucket, key, upload }) => {
            let upload = engine.upload(*bucket, key, *upload)?.ok_or(ErrorCode::NoSuchUpload)?;
            Ok(upload.attributes.encryption)
        }
        Some(PartOf::Object { .. }) | None => Ok(own),
    }
}

/// What a body becomes a part of.
#[derive(Clone, Debug)]
pub enum PartOf {
    Upload {
        bucket: BucketId,
        key: Bytes,
        upload: UploadId,
    },
    /// The object that it is appended to, if it exists.
    Object {
        bucket: Arc<Bucket>,
        key: Bytes,
    },
}

impl PartOf {
    /// The algorithm in which the server computes the checksum of the body, whichever the client declares. `None` if that
    /// is up to the client: of a composite checksum, S3 computes no part by itself. May block.
    pub fn algorithm(&self, engine: &Handle) -> Result<Option<ChecksumAlgorithm>, Problem> {
        match self {
            Self::Upload { bucket, key, upload } => {
                let upload = engine.upload(*bucket, key, *upload)?.ok_or(ErrorCode::NoSuchUpload)?;
                Ok(match upload.checksum {
                    None => Some(ChecksumAlgorithm::DEFAULT),
                    Some((algorithm, ChecksumType::FullObject)) => Some(algorithm),
                    Some((_, ChecksumType::Composite)) => None,
                })
            }
            Self::Object { bucket, key } => {
                let whole = engine.object_in(bucket, key)?.and_then(|found| found.object.version.checksum);
                Ok(whole.map(|whole| whole.checksum.algorithm()).filter(|algorithm| algorithm.joins()))
            }
        }
    }
}
