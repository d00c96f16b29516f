//! Records of requests to logged buckets, on their way to objects in the target buckets. They wait in bounded memory
//! until they are old or many enough; a record that finds no room is dropped and counted. Whoever takes them stores
//! them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use orcas_http::hex;
use orcas_s3::bucket_logging::{BucketLogging, Delivered};

/// Bytes of records of all buckets that may wait.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of records of one bucket that may wait, so that requests to it cannot push out the records of others.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Buckets, days and targets that may wait: what each of them needs besides its records is small.
const BATCHES_MAX: usize = 4096;

#[derive(Default)]
pub struct Deliveries {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    batches: HashMap<Destination, Batch>,
    bytes: usize,
    dropped: u64,
}

/// The bucket that records are about, and where they go.
#[derive(PartialEq, Eq, Hash)]
pub struct Destination {
    pub bucket: String,
    pub owner: String,
    pub region: String,
    pub logging: BucketLogging,
    /// The beginning of the day of the events, if that is a part of the key.
    pub day_ms: Option<i64>,
}

struct Batch {
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

/// The rule by which batches are due.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// How long records may wait.
    pub age: Duration,
    /// Bytes after which they wait no longer.
    pub size: usize,
}

impl Deliveries {
    /// Adds a record, with its end. Never waits.
    pub fn add(&self, destination: Destination, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        let held = waiting.batches.get(&destination).map(|batch| batch.lines.len());
        let crowded = held.is_none() && waiting.batches.len() >= BATCHES_MAX;
        if crowded || waiting.bytes + line.len() > BYTES_MAX || held.unwrap_or(0) + line.len() > BATCH_BYTES_MAX {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes += line.len();
        let new = || Batch { since: Instant::now(), lines: Vec::new() };
        waiting.batches.entry(destination).or_insert_with(new).lines.extend_from_slice(line);
    }

    /// Counts records that could not be stored.
    pub fn add_dropped(&self, records: u64) {
        self.waiting.lock().dropped += records;
    }

    /// Records that were never stored.
    pub fn dropped(&self) -> u64 {
        self.waiting.lock().dropped
    }

    /// The objects that are due at `now`, which is `time_ms` milliseconds since 1970.
    pub fn take(&self, due: Due, now: Instant, time_ms: i64) -> Vec<LogObject> {
        let mut waiting = self.waiting.lock();
        let is_due = |_: &Destination, batch: &mut Batch| {
            now.saturating_duration_since(batch.since) >= due.age || batch.lines.len() >= due.size
        };
        let taken: Vec<_> = waiting.batches.extract_if(is_due).collect();
        waiting.bytes -= taken.iter().map(|(_, batch)| batch.lines.len()).sum::<usize>();
        drop(waiting);
        taken.into_iter().map(|(destination, batch)| destination.object(batch.lines, time_ms)).collect()
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
        let line = vec![b'x'; BATCH_BYTES_MAX];
        (0..2).for_each(|_| deliveries.add(destination("a", None), &line));
        assert_eq!(deliveries.dropped(), 1);
        ["b", "c", "d", "e"].into_iter().for_each(|bucket| deliveries.add(destination(bucket, None), &line));
        assert_eq!((deliveries.dropped(), deliveries.waiting.lock().bytes), (2, BYTES_MAX));
        let deliveries = Deliveries::default();
        (0..=BATCHES_MAX).for_each(|day| deliveries.add(destination("a", Some(day as i64)), b"x"));
        deliveries.add_dropped(1);
        assert_eq!(deliveries.dropped(), 2);
    }
}
