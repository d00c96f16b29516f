//! The exact counts of buckets. A transaction keeps those that it changes in memory and writes them at its end, so that
//! a put costs no update of its bucket's row.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, Row};

use super::id_map::IdMap;
use crate::error::{Result, failure};
use crate::tables::{loaded_int, stored_int};
use orcas_record::BucketId;

/// The counts of what a bucket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys with a current version that is no delete marker.
    pub objects: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// Versions that are not current, and delete markers.
    pub history: u64,
    /// The sum of the lengths of all extents of its versions and of parts of its open uploads.
    pub logical: u64,
    /// Bytes of the distinct blobs that these refer to, and of inline content.
    pub stored: u64,
}

impl Counts {
    pub(crate) fn add_current(&mut self, size: u64) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(size);
    }

    pub(crate) fn remove_current(&mut self, size: u64) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }
}

/// `None` when the bucket does not exist.
pub(crate) fn stored_counts(conn: &Connection, bucket: i64) -> Result<Option<Counts>> {
    let mut statement =
        conn.prepare_cached("SELECT objects, bytes, history, logical, stored FROM buckets WHERE id = ?1")?;
    let mut rows = statement.query([bucket])?;
    rows.next()?.map(counts_of).transpose()
}

/// The counts of all buckets, by their ids.
pub(crate) fn all_counts(conn: &Connection) -> Result<HashMap<BucketId, Counts>> {
    let mut statement = conn.prepare_cached("SELECT objects, bytes, history, logical, stored, id FROM buckets")?;
    let mut rows = statement.query([])?;
    let mut all = HashMap::new();
    while let Some(row) = rows.next()? {
        all.insert(BucketId(loaded_int(row.get(5)?)?), counts_of(row)?);
    }
    Ok(all)
}

/// The counts in the first five columns of a row.
fn counts_of(row: &Row<'_>) -> Result<Counts> {
    Ok(Counts {
        objects: loaded_int(row.get(0)?)?,
        bytes: loaded_int(row.get(1)?)?,
        history: loaded_int(row.get(2)?)?,
        logical: loaded_int(row.get(3)?)?,
        stored: loaded_int(row.get(4)?)?,
    })
}

/// The counts of the buckets that a transaction has read or changed.
#[derive(Default)]
pub(crate) struct BucketCounts {
    cached: IdMap<Counts>,
}

impl BucketCounts {
    /// # Errors
    /// `Index` when the bucket does not exist: the index does not match the log.
    pub(crate) fn of(&mut self, conn: &Connection, bucket: i64) -> Result<&mut Counts> {
        self.find(conn, bucket)?.ok_or_else(|| failure("a record names a bucket that does not exist"))
    }

    /// `None` when the bucket does not exist.
    pub(crate) fn find(&mut self, conn: &Connection, bucket: i64) -> Result<Option<&mut Counts>> {
        match self.cached.entry(bucket) {
            Entry::Occupied(entry) => Ok(Some(entry.into_mut())),
            Entry::Vacant(entry) => Ok(stored_counts(conn, bucket)?.map(|counts| entry.insert(counts))),
        }
    }

    /// To be called when the bucket is deleted.
    pub(crate) fn forget(&mut self, bucket: i64) {
        self.cached.remove(&bucket);
    }

    /// Writes the counts; part of the transaction.
    pub(crate) fn write(&mut self, conn: &Connection) -> Result<()> {
        let mut update = conn.prepare_cached(
            "UPDATE buckets SET objects = ?2, bytes = ?3, history = ?4, logical = ?5, stored = ?6 WHERE id = ?1",
        )?;
        for (bucket, counts) in self.cached.drain() {
            let (objects, history) = (stored_int(counts.objects)?, stored_int(counts.history)?);
            let (logical, stored) = (stored_int(counts.logical)?, stored_int(counts.stored)?);
            update.execute((bucket, objects, stored_int(counts.bytes)?, history, logical, stored))?;
        }
        Ok(())
    }
}
