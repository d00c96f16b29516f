//! Numbers that rise, and histograms with fixed buckets. Relaxed atomics: nothing is ordered by them. A lock protects
//! exemplars only, which few values have.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The buckets of a histogram: upper bounds, ascending, and how many of their unit are one base unit.
#[derive(Debug)]
pub struct Scale {
    pub bounds: &'static [u64],
    pub per_unit: u64,
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

impl Scale {
    /// Durations in nanoseconds, from 100 µs to 30 s: requests and commits.
    pub const TIME: Self = Self {
        bounds: &[
            100 * MICROSECOND,
            250 * MICROSECOND,
            500 * MICROSECOND,
            MILLISECOND,
            2_500 * MICROSECOND,
            5 * MILLISECOND,
            10 * MILLISECOND,
            25 * MILLISECOND,
            50 * MILLISECOND,
            100 * MILLISECOND,
            250 * MILLISECOND,
            500 * MILLISECOND,
            SECOND,
            2_500 * MILLISECOND,
            5 * SECOND,
            10 * SECOND,
            30 * SECOND,
        ],
        per_unit: SECOND,
    };
    /// Durations in nanoseconds, from 1 µs to 1 s: work on bytes in memory.
    pub const SHORT_TIME: Self = Self {
        bounds: &[
            MICROSECOND,
            5 * MICROSECOND,
            25 * MICROSECOND,
            100 * MICROSECOND,
            500 * MICROSECOND,
            2_500 * MICROSECOND,
            10 * MILLISECOND,
            50 * MILLISECOND,
            250 * MILLISECOND,
            SECOND,
        ],
        per_unit: SECOND,
    };
    /// Numbers of things.
    pub const COUNT: Self = Self { bounds: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384], per_unit: 1 };
    /// Bytes, from 1 KiB to 64 MiB.
    pub const BYTES: Self = Self {
        bounds: &[1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26],
        per_unit: 1,
    };
}

/// A value of a histogram that can be looked at: that of a request with this trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    pub trace_id: [u8; 16],
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// An exemplar and its value, in the unit of the bounds.
type Shown = (u64, Exemplar);

/// How often a value fell between two bounds, and the sum of all values.
#[derive(Debug)]
pub struct Histogram {
    scale: &'static Scale,
    /// One more than there are bounds.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// The newest of each bucket. Absent until the first.
    exemplars: OnceLock<Mutex<Box<[Option<Shown>]>>>,
}

impl Histogram {
    pub fn new(scale: &'static Scale) -> Self {
        let counts = (0..=scale.bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { scale, counts, sum: AtomicU64::new(0), exemplars: OnceLock::new() }
    }

    /// Counts a value in the unit of the bounds.
    pub fn record(&self, value: u64) {
        if let Some(count) = self.counts.get(self.place(value)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// The bucket of a value.
    fn place(&self, value: u64) -> usize {
        self.scale.bounds.partition_point(|bound| *bound < value)
    }

    pub fn record_time(&self, time: Duration) {
        self.record(nanoseconds(time));
    }

    /// A value that was recorded is from now on the one that its bucket shows.
    pub fn show_time(&self, time: Duration, exemplar: Exemplar) {
        self.show(nanoseconds(time), exemplar);
    }

    fn show(&self, value: u64, exemplar: Exemplar) {
        let exemplars = self.exemplars.get_or_init(|| Mutex::new(vec![None; self.counts.len()].into()));
        let mut exemplars = exemplars.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = exemplars.get_mut(self.place(value));
        if let Some(shown) = shown.filter(|shown| shown.is_none_or(|(_, other)| other.at_ms <= exemplar.at_ms)) {
            *shown = Some((value, exemplar));
        }
    }

    /// The exemplars there are.
    fn shown(&self) -> Vec<Option<Shown>> {
        let exemplars = self.exemplars.get().map(|exemplars| exemplars.lock().unwrap_or_else(PoisonError::into_inner));
        exemplars.map_or_else(Vec::new, |exemplars| exemplars.to_vec())
    }

    /// Does `work` and records how long it took.
    pub fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        self.record_time(began.elapsed());
        done
    }

    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// Adds what another one of the same scale has counted.
    pub fn merge(&self, other: &Self) {
        for (count, more) in self.counts.iter().zip(&other.counts) {
            count.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.sum.fetch_add(other.sum.load(Ordering::Relaxed), Ordering::Relaxed);
        other.shown().into_iter().flatten().for_each(|(value, exemplar)| self.show(value, exemplar));
    }

    /// The exemplar of each bucket, with its value in base units. Empty if there is none at all.
    pub(super) fn exemplars(&self) -> Vec<Option<(f64, Exemplar)>> {
        let unit = self.scale.per_unit as f64;
        self.shown().into_iter().map(|shown| shown.map(|(value, exemplar)| (value as f64 / unit, exemplar))).collect()
    }

    /// Each bound in base units with the number of values up to it, then all values under infinity.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.scale.bounds.iter().map(|bound| *bound as f64 / self.scale.per_unit as f64);
        let mut total = 0;
        bounds.chain([f64::INFINITY]).zip(&self.counts).map(move |(bound, count)| {
            total += count.load(Ordering::Relaxed);
            (bound, total)
        })
    }

    /// The sum in base units.
    pub(super) fn sum(&self) -> f64 {
        self.sum.load(Ordering::Relaxed) as f64 / self.scale.per_unit as f64
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_shows_its_newest_exemplar() {
        let exemplar = |at_ms| Exemplar { trace_id: [at_ms as u8; 16], at_ms };
        let (one, other) = (Histogram::new(&Scale::COUNT), Histogram::new(&Scale::COUNT));
        assert!(one.exemplars().is_empty());
        for (value, at_ms) in [(1, 5), (3, 6), (4, 7), (3, 1), (99_999, 8)] {
            one.show(value, exemplar(at_ms));
        }
        other.show(4, exemplar(2));
        other.show(1, exemplar(9));
        one.merge(&other);
        let shown: Vec<_> = one.exemplars().into_iter().flatten().map(|(value, it)| (value, it.at_ms)).collect();
        assert_eq!(shown, [(1.0, 9), (4.0, 7), (99_999.0, 8)]);
        assert_eq!(one.exemplars().len(), Scale::COUNT.bounds.len() + 1);
    }

    #[test]
    fn a_value_is_counted_at_its_bound_and_above_all_bounds() {
        let histogram = Histogram::new(&Scale::COUNT);
        [0, 1, 2, 3, 16_384, 16_385, u64::from(u32::MAX)].into_iter().for_each(|value| histogram.record(value));
        let counts: Vec<u64> = histogram.cumulative().map(|(_, count)| count).collect();
        assert_eq!(counts[..4], [2, 3, 4, 4]);
        assert_eq!(counts[12..], [5, 7]);
        assert_eq!(histogram.cumulative().last().map(|(bound, _)| bound), Some(f64::INFINITY));
    }

    #[test]
    fn bounds_rise() {
        for scale in [&Scale::TIME, &Scale::SHORT_TIME, &Scale::COUNT, &Scale::BYTES] {
            assert!(scale.bounds.is_sorted_by(|low, high| low < high));
        }
    }

    #[test]
    fn merged_histograms_have_the_values_of_both() {
        let (one, other) = (Histogram::new(&Scale::TIME), Histogram::new(&Scale::TIME));
        one.record_time(Duration::from_millis(1));
        other.record_time(Duration::from_secs(2));
        one.merge(&other);
        assert_eq!(one.cumulative().last().map(|(_, count)| count), Some(2));
        assert!((one.sum() - 2.001).abs() < 1e-9 && !one.is_empty());
    }
}
