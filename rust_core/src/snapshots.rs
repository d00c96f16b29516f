//! Snapshots, forks and restores of buckets, as the admin API asks for them.

use bytes::Bytes;
use pyo3::prelude::*;

use super::errors::store_error;
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

/// Status, code and message of a refusal.
pub type Refused = (u16, &'static str, String);

/// None if it was done.
type Asked = PyResult<Option<Refused>>;

pub fn create(engine: &Handle, bucket: &str, name: &str) -> Asked {
    change(engine, bucket, |bucket| Intent::CreateSnapshot { bucket, name: owned(name) })
}

/// None if there is no such bucket.
pub fn list(engine: &Handle, bucket: &str) -> Option<Vec<Snapshot>> {
    let bucket = engine.bucket(bucket.as_bytes())?;
    Some(engine.snapshots(&bucket.name).iter().map(|snapshot| Snapshot::new(snapshot)).collect())
}

pub fn delete(engine: &Handle, bucket: &str, name: &str) -> Asked {
    change(engine, bucket, |bucket| Intent::DeleteSnapshot { bucket, name: owned(name) })
}

pub fn fork(engine: &Handle, bucket: &str, snapshot: Option<&str>, name: &str) -> Asked {
    if !valid_bucket_name(name) {
        return Ok(Some(in_words(&S3Error::with(ErrorCode::InvalidBucketName, BUCKET_NAME_RULE))));
    }
    change(engine, bucket, |bucket| Intent::ForkBucket { bucket, snapshot: snapshot.map(owned), name: owned(name) })
}

pub fn restore(engine: &Handle, bucket: &str, snapshot: &str) -> Asked {
    change(engine, bucket, |bucket| Intent::RestoreBucket { bucket, snapshot: owned(snapshot) })
}

fn owned(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

pub fn change(engine: &Handle, bucket: &str, intent: impl FnOnce(BucketId) -> Intent) -> Asked {
    let Some(bucket) = engine.bucket(bucket.as_bytes()) else { return Ok(Some(refused(&Refusal::NoSuchBucket))) };
    match engine.execute(intent(bucket.id)) {
        Ok(_) => Ok(None),
        Err(Failure::Refused(refusal)) => Ok(Some(refused(&refusal))),
        Err(Failure::Engine(error)) => Err(store_error(error)),
    }
}

fn refused(refusal: &Refusal) -> Refused {
    let (status, code, message) = in_words(&orcas_bodies::problem::refused(refusal));
    match refusal {
        Refusal::NoSuchSnapshot => (404, "NoSuchSnapshot", message),
        Refusal::SnapshotAlreadyExists => (409, "SnapshotAlreadyExists", message),
        _ => (status, code, message),
    }
}

fn in_words(error: &S3Error) -> Refused {
    (error.code.status(), error.code.as_str(), error.message.to_string())
}
