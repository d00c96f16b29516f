//! Changes of counts and sizes, added up in memory and written once.

use super::error::{Result, failure};

/// By how much the references of something change, bucket by bucket.
#[derive(Default)]
pub(super) struct BucketDeltas {
    /// Nearly everything is referred to by one bucket. Free while its delta is 0.
    first: (i64, i64),
    rest: Vec<(i64, i64)>,
}

impl BucketDeltas {
    pub(super) fn add(&mut self, bucket: i64, by: i64) {
        if self.first.0 == bucket && self.first.1 != 0 {
            self.first.1 += by;
        } else if let Some(other) = self.rest.iter_mut().find(|other| other.0 == bucket) {
            other.1 += by;
        } else if self.first.1 == 0 {
            self.first = (bucket, by);
        } else {
            self.rest.push((bucket, by));
        }
    }

    /// (bucket, delta) of every bucket with a delta.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        std::iter::once(self.first).chain(self.rest.iter().copied()).filter(|(_, delta)| *delta != 0)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The bucket and its delta when only one bucket has any.
    pub(super) fn only(&self) -> Option<(i64, i64)> {
        let mut all = self.iter();
        let only = all.next()?;
        all.next().is_none().then_some(only)
    }
}

/// Shifts a number of the index that is never negative.
///
/// # Errors
/// `Index` when it would be: then the number did not fit the rows.
pub(super) fn apply_delta(value: &mut u64, by: i64) -> Result<()> {
    *value = value.checked_add_signed(by).ok_or_else(|| failure("a number of the index does not fit its rows"))?;
    Ok(())
}

/// Adds to a delta.
///
/// # Errors
/// `Index` for what no store can hold.
pub(super) fn add_delta(delta: &mut i64, by: i64) -> Result<()> {
    *delta = delta.checked_add(by).ok_or_else(|| failure("a number is too large for the index"))?;
    Ok(())
}

/// By how much the numbers of a pack change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PackDelta {
    pub(super) blobs: i64,
    pub(super) live: i64,
    pub(super) dead: i64,
}

impl PackDelta {
    pub(super) fn add(&mut self, by: Self) -> Result<()> {
        add_delta(&mut self.blobs, by.blobs)?;
        add_delta(&mut self.live, by.live)?;
        add_delta(&mut self.dead, by.dead)
    }
}
