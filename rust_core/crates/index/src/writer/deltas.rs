//! Changes of counts and sizes, added up in memory before they are written.

use crate::error::{Result, failure};

/// Changes of the reference count of one blob or segment, bucket by bucket.
#[derive(Default)]
pub(crate) struct BucketDeltas {
    /// (bucket, delta); unused while the delta is 0. Most blobs have references from one bucket, and need no vector.
    first: (i64, i64),
    rest: Vec<(i64, i64)>,
}

impl BucketDeltas {
    pub(crate) fn add(&mut self, bucket: i64, by: i64) {
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
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        std::iter::once(self.first).chain(self.rest.iter().copied()).filter(|(_, delta)| *delta != 0)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The bucket and its delta when only one bucket has any.
    pub(crate) fn only(&self) -> Option<(i64, i64)> {
        let mut all = self.iter();
        let only = all.next()?;
        all.next().is_none().then_some(only)
    }
}

/// Adds a delta to a count or size, which is never negative.
///
/// # Errors
/// `Index` when it would become negative: the value contradicted the rows.
pub(crate) fn apply_delta(value: &mut u64, by: i64) -> Result<()> {
    *value =
        value.checked_add_signed(by).ok_or_else(|| failure("a count or size of the index contradicts its rows"))?;
    Ok(())
}

/// Adds `by` to a delta.
///
/// # Errors
/// `Index` when the sum does not fit 63 bits.
pub(crate) fn add_delta(delta: &mut i64, by: i64) -> Result<()> {
    *delta = delta.checked_add(by).ok_or_else(|| failure("a number is too large for the index"))?;
    Ok(())
}

/// Changes of a pack's number of blobs and of its live and dead bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PackDelta {
    pub(crate) blobs: i64,
    pub(crate) live: i64,
    pub(crate) dead: i64,
}

impl PackDelta {
    pub(crate) fn add(&mut self, by: Self) -> Result<()> {
        add_delta(&mut self.blobs, by.blobs)?;
        add_delta(&mut self.live, by.live)?;
        add_delta(&mut self.dead, by.dead)
    }
}
