//! Records of requests to buckets that are logged, on their way to objects in their target buckets. They wait in bounded
//! memory until they are old or many enough; what finds no room is dropped and counted. Who takes them stores them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::record::AccessRecord;
use crate::lane::{Lane, now_ms};
use crate::pages::name_of;
use crate::problem::Problem;
use orcas_http::hex;
use orcas_record::{Bucket, DocumentKind};
use orcas_s3::bucket_logging::{BucketLogging, Delivered, invalid_target};
use orcas_s3::{ErrorCode, S3Error};

/// Bytes of records of all buckets that may wait.
const BYTES_MAX: usize = 16 << 20;
/// Buckets, days and targets that may wait: what each of them needs besides its records is small.
const PARCELS_MAX: usize = 4096;
const DAY_MS: i64 = 86_400_000;

#[derive(Default)]
pub struct Deliveries {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    parcels: HashMap<Destination, Parcel>,
    bytes: usize,
    dropped: u64,
}

#[derive(PartialEq, Eq, Hash)]
struct Destination {
    bucket: String,
    owner: String,
    region: String,
    logging: BucketLogging,
    /// The beginning of the day of the events, if that is a part of the key.
    day_ms: Option<i64>,
}

struct Parcel {
    since: Instant,
    lines: Vec<u8>,
}

/// An object that is to be stored.
#[derive(Debug, PartialEq, Eq)]
pub struct LogObject {
    /// The bucket whose requests it is about.
    pub source: String,
    pub bucket: String,
    pub key: String,
    pub content: Vec<u8>,
}

/// What is taken now.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// How long records may wait.
    pub age: Duration,
    /// Bytes after which they wait no longer.
    pub size: usize,
}

impl Lane {
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

impl Deliveries {
    fn add(&self, destination: Destination, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        let known = waiting.parcels.contains_key(&destination);
        if waiting.bytes + line.len() > BYTES_MAX || !known && waiting.parcels.len() >= PARCELS_MAX {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes += line.len();
        let new = || Parcel { since: Instant::now(), lines: Vec::new() };
        waiting.parcels.entry(destination).or_insert_with(new).lines.extend_from_slice(line);
    }

    /// Counts records that could not be stored.
    pub fn add_dropped(&self, records: u64) {
        self.waiting.lock().dropped += records;
    }

    /// Records that were never stored.
    pub fn dropped(&self) -> u64 {
        self.waiting.lock().dropped
    }

    fn take(&self, due: Due, now: Instant, time_ms: i64) -> Vec<LogObject> {
        let mut waiting = self.waiting.lock();
        let is_due = |_: &Destination, parcel: &mut Parcel| {
            now.saturating_duration_since(parcel.since) >= due.age || parcel.lines.len() >= due.size
        };
        let taken: Vec<_> = waiting.parcels.extract_if(is_due).collect();
        waiting.bytes -= taken.iter().map(|(_, parcel)| parcel.lines.len()).sum::<usize>();
        drop(waiting);
        taken.into_iter().map(|(destination, parcel)| destination.object(parcel.lines, time_ms)).collect()
    }
}

impl Destination {
    fn object(self, content: Vec<u8>, time_ms: i64) -> LogObject {
        let mut unique = [0; 8];
        // Without randomness, the time in nanoseconds of two deliveries still differs.
        if getrandom::fill(&mut unique).is_err() {
            unique = time_ms.to_be_bytes();
        }
        let unique = hex(&unique).to_ascii_uppercase();
        let key = self.logging.key(&Delivered {
            account: &self.owner,
            region: &self.region,
            bucket: &self.bucket,
            time_ms: self.day_ms.unwrap_or(time_ms),
            unique: &unique,
        });
        LogObject { source: self.bucket, bucket: self.logging.bucket, key, content }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(bucket: &str, day_ms: Option<i64>) -> Destination {
        let logging = BucketLogging { bucket: "logs".into(), prefix: "p/".into(), format: None, grants: false };
        Destination { bucket: bucket.into(), owner: "0f".into(), region: "r".into(), logging, day_ms }
    }

    #[test]
    fn records_wait_until_they_are_old_or_many() {
        let deliveries = Deliveries::default();
        deliveries.add(destination("a", None), b"1\n");
        deliveries.add(destination("a", None), b"2\n");
        deliveries.add(destination("b", None), b"a longer line\n");
        let due = Due { age: Duration::from_secs(60), size: 10 };
        let now = Instant::now();
        let [b] = deliveries.take(due, now, 0).try_into().unwrap();
        assert_eq!((b.source.as_str(), &b.content[..]), ("b", &b"a longer line\n"[..]));
        assert!(b.bucket == "logs" && b.key.starts_with("p/1970-01-01-00-00-00-"));
        assert_eq!(deliveries.take(due, now, 0), []);
        let [a] = deliveries.take(due, now + Duration::from_secs(61), 0).try_into().unwrap();
        assert_eq!((a.source.as_str(), &a.content[..]), ("a", &b"1\n2\n"[..]));
        assert_eq!(deliveries.waiting.lock().bytes, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let deliveries = Deliveries::default();
        let line = vec![b'x'; BYTES_MAX / 4];
        (0..5).for_each(|_| deliveries.add(destination("a", None), &line));
        assert_eq!(deliveries.dropped(), 1);
        let deliveries = Deliveries::default();
        (0..=PARCELS_MAX).for_each(|day| deliveries.add(destination("a", Some(day as i64)), b"x"));
        deliveries.add_dropped(1);
        assert_eq!(deliveries.dropped(), 2);
    }
}
