//! Moving a prefix for the operator, who names buckets.

use bytes::Bytes;

use super::lane::Lane;
use super::problem::Problem;
use orcas_decide::MovePrefix;
use orcas_record::BucketId;
use orcas_s3::{ErrorCode, S3Error};

/// The keys of a bucket that begin with a prefix.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub bucket: &'a str,
    pub prefix: &'a str,
}

/// What a move did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedPrefix {
    pub objects: u64,
    /// Bytes that the objects have together.
    pub bytes: u64,
}

impl Lane {
    /// Moves all objects of one place to another, or none. `limit` is the number of objects that it may be. Blocks.
    pub fn move_prefix(
        &self,
        from: Place<'_>,
        to: Place<'_>,
        overwrite: bool,
        limit: usize,
    ) -> Result<MovedPrefix, Problem> {
        let (objects, bytes) = self.engine.move_prefix(&MovePrefix {
            from_bucket: self.bucket_called(from.bucket)?,
            from_prefix: Bytes::copy_from_slice(from.prefix.as_bytes()),
            bucket: self.bucket_called(to.bucket)?,
            prefix: Bytes::copy_from_slice(to.prefix.as_bytes()),
            overwrite,
            limit,
        })?;
        Ok(MovedPrefix { objects, bytes })
    }

    fn bucket_called(&self, name: &str) -> Result<BucketId, Problem> {
        let bucket = self.engine.bucket(name.as_bytes());
        Ok(bucket.ok_or_else(|| S3Error::with(ErrorCode::NoSuchBucket, format!("There is no bucket {name}.")))?.id)
    }
}
