//! The counts and sizes of buckets, packs and the store, as a transaction changes them. All of them follow from the
//! rows: code that changes the row of a blob updates the counters in the same step.

use rusqlite::Connection;

use super::bucket_counts::BucketCounts;
use super::deltas::{PackDelta, add_delta, apply_delta};
use super::rebuild::Rebuild;
use crate::error::Result;
use crate::tables::blobs::StoredLocation;
use crate::tables::loaded_int;
use crate::tables::packs::PackDeltas;

/// Sizes of the whole store, exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The sum of the lengths of all extents of versions and of parts of open uploads, bytes.
    pub logical: u64,
    /// The sum of the lengths of all blobs with references, each counted once, and of inline content, bytes.
    pub stored: u64,
    /// The sum of the lengths of blobs that have no references but were not removed yet, bytes.
    pub dead: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) buckets: BucketCounts,
    pub(crate) packs: PackDeltas,
    /// The rebuild that is running, if there is one.
    pub(crate) rebuild: Option<Rebuild>,
    logical: i64,
    stored: i64,
    dead: i64,
}

impl Counters {
    /// A manifest was added to the bucket (`by` 1) or removed from it (−1). `sizes`: its length and its inline bytes.
    pub(crate) fn manifest_changed(
        &mut self,
        conn: &Connection,
        bucket: i64,
        sizes: (i64, i64),
        by: i64,
    ) -> Result<()> {
        let (logical, inline) = (sizes.0 * by, sizes.1 * by);
        let counts = self.buckets.of(conn, bucket)?;
        apply_delta(&mut counts.logical, logical)?;
        apply_delta(&mut counts.stored, inline)?;
        add_delta(&mut self.logical, logical)?;
        add_delta(&mut self.stored, inline)
    }

    /// A bucket got its first reference to a blob (`by` 1), or lost its last one (−1).
    pub(crate) fn holding_changed(
        &mut self,
        conn: &Connection,
        bucket: i64,
        at: StoredLocation,
        by: i64,
    ) -> Result<()> {
        apply_delta(&mut self.buckets.of(conn, bucket)?.stored, i64::from(at.length) * by)
    }

    /// A blob was added; `is_live` if it has references.
    pub(crate) fn blob_added(&mut self, at: StoredLocation, is_live: bool) -> Result<()> {
        self.blob_changed(at, 1, if is_live { (1, 0) } else { (0, 1) })
    }

    /// A blob was removed; `is_live` if it had references.
    pub(crate) fn blob_removed(&mut self, at: StoredLocation, is_live: bool) -> Result<()> {
        self.blob_changed(at, -1, if is_live { (-1, 0) } else { (0, -1) })
    }

    /// A blob got its first reference (`is_live`), or lost its last one.
    pub(crate) fn blob_liveness_changed(&mut self, at: StoredLocation, is_live: bool) -> Result<()> {
        self.blob_changed(at, 0, if is_live { (1, -1) } else { (-1, 1) })
    }

    fn blob_changed(&mut self, at: StoredLocation, blobs: i64, (live, dead): (i64, i64)) -> Result<()> {
        let (live, dead) = (i64::from(at.length) * live, i64::from(at.length) * dead);
        add_delta(&mut self.stored, live)?;
        add_delta(&mut self.dead, dead)?;
        match at.pack() {
            Some(pack) => self.packs.add(pack, PackDelta { blobs, live, dead }),
            None => Ok(()),
        }
    }

    /// A chunk was moved from `at` to the pack `to`.
    pub(crate) fn chunk_moved(&mut self, at: StoredLocation, is_live: bool, to: i64) -> Result<()> {
        let Some(from) = at.pack() else { return Ok(()) };
        let length = i64::from(at.length);
        let (live, dead) = if is_live { (length, 0) } else { (0, length) };
        self.packs.add(from, PackDelta { blobs: -1, live: -live, dead: -dead })?;
        self.packs.add(to, PackDelta { blobs: 1, live, dead })
    }

    /// Writes everything; part of the transaction.
    pub(crate) fn write(&mut self, conn: &Connection) -> Result<()> {
        self.packs.write(conn, &mut self.rebuild)?;
        self.buckets.write(conn)?;
        if (self.logical, self.stored, self.dead) != (0, 0, 0) {
            let update = "UPDATE totals SET logical = logical + ?1, stored = stored + ?2, dead = dead + ?3";
            conn.prepare_cached(update)?.execute((self.logical, self.stored, self.dead))?;
            (self.logical, self.stored, self.dead) = (0, 0, 0);
        }
        Ok(())
    }
}

pub(crate) fn totals(conn: &Connection) -> Result<Totals> {
    let mut statement = conn.prepare_cached("SELECT logical, stored, dead FROM totals")?;
    let (logical, stored, dead) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(Totals { logical: loaded_int(logical)?, stored: loaded_int(stored)?, dead: loaded_int(dead)? })
}
