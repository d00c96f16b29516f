//! Requests counted for billing: by access key, bucket and UTC day. Counting adds to one row of its group of threads, under
//! a lock that only a reader also takes, for a moment. The rows wait in bounded memory until they are taken to be stored.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use orcas_admission::senders::identities::Requester;
use orcas_base::per_thread::PerThread;
use orcas_record::Bucket;
use orcas_s3::RequestClass;

const DAY_MS: i64 = 86_400_000;
/// Rows that may wait, of all groups of threads together. Requests that need another one are counted in the row of nobody.
const ROWS_MAX: usize = 16_384;
/// Days that may wait. Requests of more days are counted in the newest of them.
const DAYS_MAX: usize = 366;

/// A request that is done.
pub struct Billed<'a> {
    pub requester: &'a Arc<Requester>,
    /// The bucket; `None` if the request was about none that exists.
    pub bucket: Option<&'a Arc<Bucket>>,
    pub class: RequestClass,
    /// Bytes of the bodies.
    pub received: u64,
    pub sent: u64,
    pub ended: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    pub writes: u64,
    pub reads: u64,
    pub free: u64,
    pub received: u64,
    pub sent: u64,
}

/// The prices of usage, in any currency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// 2^30 bytes for a month.
    pub gb_month: f64,
    /// A thousand requests.
    pub writes_1000: f64,
    pub reads_1000: f64,
    /// 2^30 bytes.
    pub gb_in: f64,
    pub gb_out: f64,
}

impl Prices {
    pub fn cost(&self, counts: &RequestCounts, gb_months: f64) -> f64 {
        const THOUSANDTH: f64 = 1.0 / 1000.0;
        const PER_GB: f64 = 1.0 / (1u64 << 30) as f64;
        let requests = counts.writes as f64 * self.writes_1000 + counts.reads as f64 * self.reads_1000;
        let bytes = counts.received as f64 * self.gb_in + counts.sent as f64 * self.gb_out;
        gb_months * self.gb_month + requests * THOUSANDTH + bytes * PER_GB
    }
}

/// The requests of one day by one access key to one bucket. Names are empty where there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestUsage {
    /// Days since 1970, UTC.
    pub day: i64,
    /// The owner who pays: that of the bucket; without a bucket, that of the access key.
    pub owner: String,
    pub access_key: String,
    pub bucket: String,
    pub counts: RequestCounts,
}

/// By the address of the requester, which its row keeps alive, and the id of the bucket.
type UsageRows = HashMap<(usize, Option<u64>), UsageRow>;

struct UsageRow {
    requester: Arc<Requester>,
    bucket: Option<Arc<Bucket>>,
    counts: RequestCounts,
}

#[derive(Default)]
struct Day {
    number: i64,
    rows: UsageRows,
    nobody: RequestCounts,
}

struct Counting {
    /// Never empty; the last one is open.
    days: Vec<Day>,
    /// When the open day ends.
    ends: Instant,
}

/// Counts nothing without rows to count in, that is when it is off.
pub struct UsageMeter {
    counting: Option<PerThread<Mutex<Counting>>>,
    /// Rows that wait.
    rows: AtomicUsize,
    now_ms: fn() -> i64,
}

impl UsageMeter {
    /// `now_ms`: milliseconds since 1970.
    pub fn new(enabled: bool, now_ms: fn() -> i64) -> Self {
        let counting = || PerThread::new(|| Mutex::new(Counting::beginning(now_ms(), Instant::now())));
        Self { counting: enabled.then(counting), rows: AtomicUsize::new(0), now_ms }
    }

    pub fn count(&self, request: &Billed<'_>) {
        let Some(counting) = &self.counting else { return };
        let mine = counting.mine();
        let mut counting = mine.lock();
        if request.ended >= counting.ends {
            counting.turn((self.now_ms)(), Instant::now());
        }
        counting.row(request, &self.rows).add(request);
    }

    /// The usage since the last call. Each group of threads has rows of its own.
    pub fn take(&self) -> Vec<RequestUsage> {
        let Some(counting) = &self.counting else { return Vec::new() };
        let mut usage = Vec::new();
        for counting in counting.all() {
            let begun = Counting::beginning((self.now_ms)(), Instant::now());
            let taken = std::mem::replace(&mut *counting.lock(), begun);
            let rows = taken.days.iter().map(|day| day.rows.len()).sum();
            self.rows.fetch_sub(rows, Ordering::Relaxed);
            usage.extend(taken.days.into_iter().flat_map(Day::usage));
        }
        usage
    }
}

impl Counting {
    fn beginning(now_ms: i64, now: Instant) -> Self {
        let number = now_ms.div_euclid(DAY_MS);
        Self { days: vec![Day { number, ..Day::default() }], ends: end_of(number, now_ms, now) }
    }

    /// The open day is over, unless the clock was set back.
    fn turn(&mut self, now_ms: i64, now: Instant) {
        let number = now_ms.div_euclid(DAY_MS);
        let is_new = self.days.last().is_some_and(|day| day.number != number);
        if is_new && self.days.len() < DAYS_MAX {
            self.days.push(Day { number, ..Day::default() });
        }
        self.ends = end_of(number, now_ms, now);
    }

    /// `rows`: how many there are of all groups of threads.
    fn row(&mut self, request: &Billed<'_>, rows: &AtomicUsize) -> &mut RequestCounts {
        let days = &mut self.days;
        if days.is_empty() {
            days.push(Day::default());
        }
        let last = days.len() - 1;
        let day = &mut days[last];
        let key = (Arc::as_ptr(request.requester) as usize, request.bucket.map(|bucket| bucket.id.0));
        match day.rows.entry(key) {
            Entry::Occupied(row) => &mut row.into_mut().counts,
            Entry::Vacant(_) if rows.load(Ordering::Relaxed) >= ROWS_MAX => &mut day.nobody,
            Entry::Vacant(place) => {
                rows.fetch_add(1, Ordering::Relaxed);
                let (requester, bucket) = (Arc::clone(request.requester), request.bucket.cloned());
                &mut place.insert(UsageRow { requester, bucket, counts: RequestCounts::default() }).counts
            }
        }
    }
}

fn end_of(day: i64, now_ms: i64, now: Instant) -> Instant {
    now + Duration::from_millis(((day + 1) * DAY_MS - now_ms).max(1).unsigned_abs())
}

impl RequestCounts {
    fn add(&mut self, request: &Billed<'_>) {
        match request.class {
            RequestClass::Write => self.writes += 1,
            RequestClass::Read => self.reads += 1,
            RequestClass::Free => self.free += 1,
        }
        self.received += request.received;
        self.sent += request.sent;
    }
}

impl Day {
    fn usage(self) -> impl Iterator<Item = RequestUsage> {
        let day = self.number;
        let nobody = RequestUsage {
            day,
            owner: String::new(),
            access_key: String::new(),
            bucket: String::new(),
            counts: self.nobody,
        };
        let nobody = Some(nobody).filter(|nobody| nobody.counts != RequestCounts::default());
        let of = move |UsageRow { requester, bucket, counts }| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (owner, name) = match bucket {
                Some(bucket) => (text(&bucket.owner), text(&bucket.name)),
                None => (requester.owner.clone(), String::new()),
            };
            RequestUsage { day, owner, access_key: requester.access_key.clone(), bucket: name, counts }
        };
        self.rows.into_values().map(of).chain(nobody)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_admission::senders::identities::{Identities, IdentityTables};
    use orcas_record::{BucketId, BucketRole, BucketSettings, Versioning};

    const SECOND: Duration = Duration::from_secs(1);

    fn bucket(id: u64) -> Arc<Bucket> {
        Arc::new(Bucket {
            id: BucketId(id),
            name: format!("bucket-{id}").into(),
            owner: "payer".into(),
            created_ms: 0,
            location: Default::default(),
            versioning: Versioning::Unversioned,
            object_lock: None,
            settings: BucketSettings::default(),
            role: BucketRole::Bucket,
            layers: Vec::new(),
        })
    }

    fn requester() -> Arc<Requester> {
        let identities = Identities::new(IdentityTables::of_root("sender", &[("key", "secret")])).unwrap();
        Arc::clone(identities.requester("key").unwrap())
    }

    fn billed<'a>(
        requester: &'a Arc<Requester>,
        bucket: Option<&'a Arc<Bucket>>,
        class: RequestClass,
        ended: Instant,
    ) -> Billed<'a> {
        Billed { requester, bucket, class, received: 10, sent: 1, ended }
    }

    #[test]
    fn requests_are_counted_by_key_bucket_and_class_until_they_are_taken() {
        let (meter, requester, bucket, now) = (UsageMeter::new(true, || 0), requester(), bucket(1), Instant::now());
        for class in [RequestClass::Write, RequestClass::Read, RequestClass::Read, RequestClass::Free] {
            meter.count(&billed(&requester, Some(&bucket), class, now));
        }
        meter.count(&billed(&requester, None, RequestClass::Write, now));
        let mut taken = meter.take();
        taken.sort_by(|one, other| one.bucket.cmp(&other.bucket));
        let [service, of_bucket] = taken.try_into().unwrap();
        assert_eq!((&*service.owner, &*service.access_key, &*service.bucket), ("sender", "key", ""));
        assert_eq!((&*of_bucket.owner, &*of_bucket.bucket), ("payer", "bucket-1"));
        let counts = RequestCounts { writes: 1, reads: 2, free: 1, received: 40, sent: 4 };
        assert_eq!(of_bucket.counts, counts);
        assert_eq!(meter.take(), []);
        let off = UsageMeter::new(false, || 0);
        off.count(&billed(&requester, None, RequestClass::Write, now));
        assert_eq!(off.take(), []);
    }

    #[test]
    fn each_unit_has_its_price() {
        let prices = Prices { gb_month: 0.5, writes_1000: 4.0, reads_1000: 2.0, gb_in: 8.0, gb_out: 16.0 };
        let counts = RequestCounts { writes: 500, reads: 250, free: 9_999, received: 1 << 29, sent: 1 << 28 };
        assert_eq!(prices.cost(&counts, 3.0), 1.5 + 2.0 + 0.5 + 4.0 + 4.0);
        assert_eq!(Prices::default().cost(&counts, 3.0), 0.0);
    }

    #[test]
    fn a_request_counts_on_the_day_on_which_it_ended() {
        let (requester, now) = (requester(), Instant::now());
        let (mut counting, rows) = (Counting::beginning(DAY_MS - 2000, now), AtomicUsize::new(0));
        let late = billed(&requester, None, RequestClass::Read, now + SECOND);
        assert!(late.ended < counting.ends);
        counting.row(&late, &rows).add(&late);
        let next = billed(&requester, None, RequestClass::Read, now + 2 * SECOND);
        assert!(next.ended >= counting.ends);
        counting.turn(DAY_MS, now + 2 * SECOND);
        counting.row(&next, &rows).add(&next);
        let days: Vec<_> =
            counting.days.into_iter().flat_map(Day::usage).map(|row| (row.day, row.counts.reads)).collect();
        assert_eq!(days, [(0, 1), (1, 1)]);
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let (meter, requester, now) = (UsageMeter::new(true, || 0), requester(), Instant::now());
        for id in 0..ROWS_MAX as u64 + 5 {
            meter.count(&billed(&requester, Some(&bucket(id)), RequestClass::Write, now));
        }
        let taken = meter.take();
        assert_eq!(taken.len(), ROWS_MAX + 1);
        let nobody = taken.iter().find(|row| row.bucket.is_empty()).unwrap();
        assert_eq!((nobody.counts.writes, &*nobody.access_key), (5, ""));
        // What was taken makes room.
        meter.count(&billed(&requester, Some(&bucket(1)), RequestClass::Write, now));
        assert_eq!(meter.take().first().map(|row| row.bucket.clone()), Some("bucket-1".into()));
    }

    #[test]
    fn what_many_threads_count_is_taken_once() {
        let (meter, requester, bucket, now) = (UsageMeter::new(true, || 0), requester(), bucket(1), Instant::now());
        let (mut writes, taking) = (0, || meter.take().iter().map(|row| row.counts.writes).sum::<u64>());
        std::thread::scope(|scope| {
            let count = || {
                (0..1000).for_each(|_| meter.count(&billed(&requester, Some(&bucket), RequestClass::Write, now)));
            };
            let running: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            while running.iter().any(|thread| !thread.is_finished()) {
                writes += taking();
            }
        });
        assert_eq!((writes + taking(), meter.rows.load(Ordering::Relaxed)), (4000, 0));
    }
}
