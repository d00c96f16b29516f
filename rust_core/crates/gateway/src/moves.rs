//! Moving a prefix for the operator, who names buckets.

use bytes::Bytes;

use crate::gateway::Gateway;
use orcas_bodies::problem::Problem;
use orcas_decide::{Failure, MovePrefix, Refusal};
use orcas_record::BucketId;
use orcas_s3::{ErrorCode, S3Error};

/// The keys of a bucket that begin with a prefix.
#[derive(Clone, Copy, Debug)]
pub struct BucketPrefix<'a> {
    pub bucket: &'a str,
    pub prefix: &'a str,
}

/// The result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedPrefix {
    pub objects: u64,
    /// Bytes that the objects have together.
    pub bytes: u64,
}

impl Gateway {
    /// Moves all objects of one place to another, or none. `limit` is the number of objects that it may be. Blocks.
    pub fn move_prefix(
        &self,
        from: BucketPrefix<'_>,
        to: BucketPrefix<'_>,
        overwrite: bool,
        limit: usize,
    ) -> Result<MovedPrefix, Problem> {
        let moved = self.engine.move_prefix(&MovePrefix {
            from_bucket: self.bucket_called(from.bucket)?,
            from_prefix: Bytes::copy_from_slice(from.prefix.as_bytes()),
            bucket: self.bucket_called(to.bucket)?,
            prefix: Bytes::copy_from_slice(to.prefix.as_bytes()),
            overwrite,
            limit,
        });
        match moved {
            Ok((objects, bytes)) => Ok(MovedPrefix { objects, bytes }),
            Err(Failure::Refused(Refusal::NoSuchKey)) => Err(nothing_to_move(from).into()),
            Err(failure) => Err(failure.into()),
        }
    }

    fn bucket_called(&self, name: &str) -> Result<BucketId, Problem> {
        let bucket = self.engine.bucket(name.as_bytes());
        Ok(bucket.ok_or_else(|| S3Error::with(ErrorCode::NoSuchBucket, format!("There is no bucket {name}.")))?.id)
    }
}

/// The error for a place without objects.
fn nothing_to_move(from: BucketPrefix<'_>) -> S3Error {
    let BucketPrefix { bucket, prefix } = from;
    let message = match prefix {
        "" => format!("The bucket {bucket} has no objects to move."),
        _ => format!("No key of {bucket} begins with {prefix}, so there is nothing to move."),
    };
    S3Error::with(ErrorCode::NoSuchKey, message)
}
