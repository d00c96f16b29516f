//! Snapshots, forks and restores of buckets, as the admin API asks for them.

use bytes::Bytes;
use pyo3::prelude::*;

use crate::errors::{refusal, refusal_of, store_error};
use orcas_decide::{Failure, Intent, Refusal};
use orcas_engine::Handle;
use orcas_record::{Bucket, BucketId};
use orcas_s3::target::{BUCKET_NAME_RULE, valid_bucket_name};
use orcas_s3::{ErrorCode, S3Error};

/// A snapshot as the admin API shows it.
#[derive(IntoPyObject)]
pub struct Snapshot {
    bucket: String,
    name: String,
    /// Milliseconds since the Unix epoch.
    created_ms: u64,
}

impl Snapshot {
    fn new(snapshot: &Bucket) -> Self {
        let full_name = String::from_utf8_lossy(&snapshot.name);
        let (bucket, name) = full_name.split_once('@').unwrap_or((&full_name, ""));
        Self { bucket: bucket.to_owned(), name: name.to_owned(), created_ms: snapshot.created_ms }
    }
}

pub fn create(engine: &Handle, bucket: &str, name: &str) -> PyResult<()> {
    change(engine, bucket, |bucket| Intent::CreateSnapshot { bucket, name: owned(name) })
}

/// None if there is no such bucket.
pub fn list(engine: &Handle, bucket: &str) -> Option<Vec<Snapshot>> {
    let bucket = engine.bucket(bucket.as_bytes())?;
    Some(engine.snapshots(&bucket.name).iter().map(|snapshot| Snapshot::new(snapshot)).collect())
}

pub fn delete(engine: &Handle, bucket: &str, name: &str) -> PyResult<()> {
    change(engine, bucket, |bucket| Intent::DeleteSnapshot { bucket, name: owned(name) })
}

pub fn fork(engine: &Handle, bucket: &str, snapshot: Option<&str>, name: &str) -> PyResult<()> {
    if !valid_bucket_name(name) {
        return Err(refusal_of(S3Error::with(ErrorCode::InvalidBucketName, BUCKET_NAME_RULE)));
    }
    change(engine, bucket, |bucket| Intent::ForkBucket { bucket, snapshot: snapshot.map(owned), name: owned(name) })
}

pub fn restore(engine: &Handle, bucket: &str, snapshot: &str) -> PyResult<()> {
    change(engine, bucket, |bucket| Intent::RestoreBucket { bucket, snapshot: owned(snapshot) })
}

/// Deletes a bucket with all that it has.
pub fn drop_bucket(engine: &Handle, bucket: &str) -> PyResult<()> {
    change(engine, bucket, |bucket| Intent::DropBucket { bucket })
}

fn owned(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

pub fn change(engine: &Handle, bucket: &str, intent: impl FnOnce(BucketId) -> Intent) -> PyResult<()> {
    let Some(bucket) = engine.bucket(bucket.as_bytes()) else { return Err(refused(&Refusal::NoSuchBucket)) };
    match engine.execute(intent(bucket.id)) {
        Ok(_) => Ok(()),
        Err(Failure::Refused(refusal)) => Err(refused(&refusal)),
        Err(Failure::Engine(error)) => Err(store_error(error)),
    }
}

fn refused(reason: &Refusal) -> PyErr {
    let error = orcas_bodies::problem::refused(reason);
    match reason {
        Refusal::NoSuchSnapshot => refusal(404, "NoSuchSnapshot", error.message.into_owned()),
        Refusal::SnapshotAlreadyExists => refusal(409, "SnapshotAlreadyExists", error.message.into_owned()),
        _ => refusal_of(error),
    }
}
