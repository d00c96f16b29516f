//! Which requests are recorded for which bucket, and which targets are accepted. Documents are looked up in memory.

use std::time::Instant;

use super::parcels::{Destination, Due, LogObject};
use super::record::AccessRecord;
use crate::lane::{Lane, now_ms};
use crate::pages::name_of;
use crate::problem::Problem;
use orcas_record::{Bucket, DocumentKind};
use orcas_s3::bucket_logging::{BucketLogging, invalid_target};
use orcas_s3::{ErrorCode, S3Error};

const DAY_MS: i64 = 86_400_000;

impl Lane {
    /// Whether requests to the bucket with this name are logged.
    pub fn is_logged(&self, bucket: &str) -> bool {
        let bucket = self.engine.bucket(bucket.as_bytes());
        bucket.is_some_and(|bucket| self.engine.document(bucket.id, DocumentKind::Logging).is_some())
    }

    /// Keeps the record if its bucket is logged.
    pub fn log_to_bucket(&self, record: &AccessRecord<'_>) {
        let Some(bucket) = record.bucket.as_deref().and_then(|name| self.engine.bucket(name.as_bytes())) else {
            return;
        };
        let Some(logging) = self.logging(&bucket) else { return };
        let owner = String::from_utf8_lossy(&bucket.owner).into_owned();
        let line = record.server_log_line(&owner, &self.host_id);
        let day_ms = logging.by_event().then(|| record.began_ms - record.began_ms.rem_euclid(DAY_MS));
        let region = self.region_of(&bucket).to_owned();
        let destination = Destination { bucket: name_of(&bucket).to_owned(), owner, region, logging, day_ms };
        self.deliveries.add(destination, line.as_bytes());
    }

    fn logging(&self, bucket: &Bucket) -> Option<BucketLogging> {
        let document = self.engine.document(bucket.id, DocumentKind::Logging)?;
        let parsed = document.parsed(|bytes| BucketLogging::parse(bytes).ok().flatten());
        parsed.and_then(|logging| Option::clone(&logging))
    }

    /// Checks the target that a logging document of `bucket` names.
    ///
    /// # Errors
    /// `InvalidTargetBucketForLogging`; `AccessControlListNotSupported` and `NotImplemented` for grants; those of the
    /// document.
    pub fn check_log_target(&self, bucket: &Bucket, body: &[u8]) -> Result<(), Problem> {
        let Some(logging) = BucketLogging::parse(body)? else { return Ok(()) };
        let name = &logging.bucket;
        let Some(target) = self.engine.bucket(name.as_bytes()) else {
            return Err(invalid_target("The target bucket for logging does not exist", name).into());
        };
        if target.owner != bucket.owner {
            let message = "The owner for the bucket to be logged and the target bucket must be the same.";
            return Err(invalid_target(message, name).into());
        }
        if logging.grants {
            let disabled = self.disables_acls(target.id);
            let code = if disabled { ErrorCode::AccessControlListNotSupported } else { ErrorCode::NotImplemented };
            return Err(S3Error::from(code).into());
        }
        Ok(())
    }

    /// The objects of records that have waited long enough.
    pub fn due_logs(&self, due: Due) -> Vec<LogObject> {
        self.deliveries.take(due, Instant::now(), now_ms())
    }
}
