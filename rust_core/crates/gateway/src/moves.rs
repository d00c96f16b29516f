//! Moving a prefix, and copying several objects together, for callers in this process, who name buckets.

use bytes::Bytes;

use crate::gateway::Gateway;
use orcas_bodies::problem::Problem;
use orcas_checksum::Etag;
use orcas_decide::{CopyEntry, Failure, MovePrefix, Refusal};
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

/// An object that is copied together with others: its key and its ETag, the key of the copy, and the ETag of the object
/// which that takes the place of, unless there must be none.
pub type CopiedObject = (String, String, String, Option<String>);

impl Gateway {
    /// Copies objects of a bucket into another one, or within it: all, or none. Blocks.
    ///
    /// # Errors
    /// `NoSuchBucket`, `NoSuchKey`, `PreconditionFailed`, and `InvalidRequest` for more than `COPIES_MAX` of them, for
    /// buckets of two owners, for an ETag that is none, and for what a key of a client encrypts; `KMS.…` for a named key
    /// that cannot be used.
    pub fn copy_objects(&self, source: &str, bucket: &str, copies: Vec<CopiedObject>) -> Result<(), Problem> {
        let entry = |(from, etag, key, replaces): CopiedObject| {
            let replaces = replaces.map(|etag| etag_of(&etag)).transpose()?;
            Ok(CopyEntry { from: from.into(), etag: etag_of(&etag)?, key: key.into(), replaces })
        };
        let entries = copies.into_iter().map(entry).collect::<Result<_, S3Error>>()?;
        let (source, bucket) = (self.bucket_called(source)?, self.bucket_called(bucket)?);
        self.engine.copy_objects(source, bucket, entries)?;
        Ok(())
    }

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

fn etag_of(text: &str) -> Result<Etag, S3Error> {
    let refused = || S3Error::with(ErrorCode::InvalidRequest, format!("{text} is no ETag."));
    Etag::parse(text.as_bytes()).ok_or_else(refused)
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
