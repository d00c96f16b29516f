//! A histogram with a bounded relative error: 128 linear buckets for each power of two, as in Gil Tene's HdrHistogram.
//!
//! Invariant: a value and the middle of its bucket differ by at most 1/256 of the value. Pure.

/// Binary logarithm of the number of buckets for each power of two.
const PRECISION_BITS: u32 = 7;

/// Counts of values. Minimum, maximum and mean are exact.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Counts, as many as the largest value so far needs.
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// The bucket of a value. Up to 255 it is the value itself; above, it follows from the exponent and the 7 bits after the
/// leading one.
fn bucket_of(value: u64) -> usize {
    let shift = (64 - PRECISION_BITS - 1).saturating_sub(value.leading_zeros());
    ((u64::from(shift) << PRECISION_BITS) + (value >> shift)) as usize
}

/// The middle of a bucket.
fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    // The first 256 buckets hold one value each.
    let shift = (bucket >> PRECISION_BITS).saturating_sub(1);
    let leading = bucket - (shift << PRECISION_BITS);
    (leading << shift) + ((1 << shift) >> 1)
}

impl Histogram {
    pub fn record(&mut self, value: u64) {
        let bucket = bucket_of(value);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn min(&self) -> u64 {
        self.min
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The value at rank `ceil(quantile * count)`, with a relative error of at most 1/256; 0 if the histogram is empty.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle_of(bucket).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    fn error_times_256(found: u64, exact: u64) -> u64 {
        found.abs_diff(exact).saturating_mul(256)
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX - 1]);
        for value in edges {
            assert!(bucket_of(value + 1) - bucket_of(value) <= 1, "{value}");
            assert!(error_times_256(middle_of(bucket_of(value)), value) <= value, "{value}");
        }
        assert!((0..256).all(|value| middle_of(bucket_of(value)) == value), "small values are exact");
    }

    #[test]
    fn an_empty_histogram_is_all_zeros() {
        let mut empty = Histogram::default();
        empty.merge(&Histogram::default());
        assert_eq!((empty.count(), empty.min(), empty.max(), empty.quantile(0.5)), (0, 0, 0, 0));
        assert_eq!(empty.mean(), 0.0);
    }

    #[test]
    fn quantiles_of_known_values() {
        let histogram = filled(&(1..=100).collect::<Vec<_>>());
        let found = [0.0, 0.5, 0.9, 0.99, 0.999, 1.0].map(|quantile| histogram.quantile(quantile));
        assert_eq!(found, [1, 50, 90, 99, 100, 100]);
        assert_eq!(histogram.mean(), 50.5);
    }

    proptest! {
        #[test]
        fn quantiles_lie_within_the_bound(
            values in proptest::collection::vec(prop_oneof![0..1_000_000_000u64, any::<u64>(), 0..300u64], 1..400),
            quantile in 0.0..=1.0f64,
        ) {
            let histogram = filled(&values);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = sorted[rank - 1];
            prop_assert!(error_times_256(histogram.quantile(quantile), exact) <= exact);
            prop_assert_eq!((histogram.min(), histogram.max()), (sorted[0], sorted[values.len() - 1]));
        }

        #[test]
        fn merging_is_recording_together(
            left in proptest::collection::vec(any::<u64>(), 0..100), right in proptest::collection::vec(any::<u64>(), 0..100),
        ) {
            let mut merged = filled(&left);
            merged.merge(&filled(&right));
            let together = filled(&[left, right].concat());
            prop_assert_eq!(&merged.buckets, &together.buckets);
            prop_assert_eq!((merged.count, merged.sum), (together.count, together.sum));
            prop_assert_eq!((merged.min, merged.max), (together.min, together.max));
        }
    }
}
