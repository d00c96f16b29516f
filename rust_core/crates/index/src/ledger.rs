//! The numbers that a transaction changes: of buckets, of packs, of the store. All are functions of the rows: whoever
//! changes what a row says about a blob tells the ledger in the same step.

use rusqlite::Connection;

use super::blobs::Placed;
use super::columns::loaded_int;
use super::error::Result;
use super::numbers::{PackDelta, gather, shift};
use super::packs::PackDeltas;
use super::rebuild::Rebuild;
use super::tallies::Tallies;

/// Numbers of the whole store, exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The sum of the lengths of all extents of versions and of parts of open uploads, bytes.
    pub logical: u64,
    /// Of distinct blobs that something refers to, and of inline content, bytes.
    pub stored: u64,
    /// Of blobs that nothing refers to and that are there yet, bytes.
    pub dead: u64,
}

#[derive(Default)]
pub(super) struct Ledger {
    pub(super) buckets: Tallies,
    pub(super) packs: PackDeltas,
    /// While a rebuild runs.
    pub(super) rebuild: Option<Rebuild>,
    logical: i64,
    stored: i64,
    dead: i64,
}

impl Ledger {
    /// A manifest of the bucket came (`by` 1) or went (−1): its length, and of that the inline bytes.
    pub(super) fn manifest(&mut self, conn: &Connection, bucket: i64, sizes: (i64, i64), by: i64) -> Result<()> {
        let (logical, inline) = (sizes.0 * by, sizes.1 * by);
        let counts = self.buckets.of(conn, bucket)?;
        shift(&mut counts.logical, logical)?;
        shift(&mut counts.stored, inline)?;
        gather(&mut self.logical, logical)?;
        gather(&mut self.stored, inline)
    }

    /// A bucket has its first reference to a blob (`by` 1), or lost its last one (−1).
    pub(super) fn holding(&mut self, conn: &Connection, bucket: i64, at: Placed, by: i64) -> Result<()> {
        shift(&mut self.buckets.of(conn, bucket)?.stored, i64::from(at.length) * by)
    }

    /// A blob came, with references or without.
    pub(super) fn blob_came(&mut self, at: Placed, referred: bool) -> Result<()> {
        self.blob(at, 1, if referred { (1, 0) } else { (0, 1) })
    }

    /// A blob went, which had references or not.
    pub(super) fn blob_went(&mut self, at: Placed, referred: bool) -> Result<()> {
        self.blob(at, -1, if referred { (-1, 0) } else { (0, -1) })
    }

    /// A blob got its first reference, or lost the last one.
    pub(super) fn blob_turned(&mut self, at: Placed, referred: bool) -> Result<()> {
        self.blob(at, 0, if referred { (1, -1) } else { (-1, 1) })
    }

    fn blob(&mut self, at: Placed, blobs: i64, (live, dead): (i64, i64)) -> Result<()> {
        let (live, dead) = (i64::from(at.length) * live, i64::from(at.length) * dead);
        gather(&mut self.stored, live)?;
        gather(&mut self.dead, dead)?;
        match at.pack() {
            Some(pack) => self.packs.gather(pack, PackDelta { blobs, live, dead }),
            None => Ok(()),
        }
    }

    /// A chunk stands in another pack now.
    pub(super) fn chunk_moved(&mut self, at: Placed, referred: bool, to: i64) -> Result<()> {
        let Some(from) = at.pack() else { return Ok(()) };
        let length = i64::from(at.length);
        let (live, dead) = if referred { (length, 0) } else { (0, length) };
        self.packs.gather(from, PackDelta { blobs: -1, live: -live, dead: -dead })?;
        self.packs.gather(to, PackDelta { blobs: 1, live, dead })
    }

    /// Writes everything; part of the transaction.
    pub(super) fn write(&mut self, conn: &Connection) -> Result<()> {
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

pub(super) fn totals(conn: &Connection) -> Result<Totals> {
    let mut statement = conn.prepare_cached("SELECT logical, stored, dead FROM totals")?;
    let (logical, stored, dead) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(Totals { logical: loaded_int(logical)?, stored: loaded_int(stored)?, dead: loaded_int(dead)? })
}
