//! Buckets and their exact numbers. A transaction keeps the numbers in memory and writes them back at its end, so that
//! a put does not pay for them.

use std::collections::hash_map::Entry;

use rusqlite::Connection;

use super::error::Result;
use super::numbers::NumberMap;
use super::references::Gathered;
use super::{Applied, Stored, failure, loaded_int, stored_int};
use orcas_record::{Bucket, BucketId, Sequence};

/// What a bucket holds.
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
    /// Of the distinct blobs that these refer to, and of inline content, bytes.
    pub stored: u64,
}

impl Counts {
    pub(super) fn add_head(&mut self, size: u64) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(size);
    }

    pub(super) fn remove_head(&mut self, size: u64) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }
}

pub(super) fn all(conn: &Connection) -> Result<Vec<Stored>> {
    let mut statement = conn.prepare_cached("SELECT sequence, kind, record FROM buckets ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut buckets = Vec::new();
    while let Some(row) = rows.next()? {
        buckets.push(super::stored(row, 0, row.get(1)?, 2)?);
    }
    Ok(buckets)
}

pub(super) fn counts(conn: &Connection, bucket: BucketId) -> Result<Option<Counts>> {
    stored_counts(conn, stored_int(bucket.0)?)
}

fn stored_counts(conn: &Connection, bucket: i64) -> Result<Option<Counts>> {
    let mut statement =
        conn.prepare_cached("SELECT objects, bytes, history, logical, stored FROM buckets WHERE id = ?1")?;
    let mut rows = statement.query([bucket])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Counts {
        objects: loaded_int(row.get(0)?)?,
        bytes: loaded_int(row.get(1)?)?,
        history: loaded_int(row.get(2)?)?,
        logical: loaded_int(row.get(3)?)?,
        stored: loaded_int(row.get(4)?)?,
    }))
}

pub(super) fn sequence(conn: &Connection, bucket: BucketId) -> Result<Option<Sequence>> {
    let mut statement = conn.prepare_cached("SELECT sequence FROM buckets WHERE id = ?1")?;
    let mut rows = statement.query([stored_int(bucket.0)?])?;
    rows.next()?.map(|row| loaded_int(row.get(0)?)).transpose()
}

/// The numbers of the buckets that a transaction touched.
#[derive(Default)]
pub(super) struct Tallies {
    touched: NumberMap<Counts>,
}

impl Tallies {
    /// # Errors
    /// `Index` when the bucket does not exist: then the index does not fit the log.
    pub(super) fn of(&mut self, conn: &Connection, bucket: i64) -> Result<&mut Counts> {
        self.find(conn, bucket)?.ok_or_else(|| failure("a record names a bucket that is not there"))
    }

    /// `None` when the bucket does not exist.
    pub(super) fn find(&mut self, conn: &Connection, bucket: i64) -> Result<Option<&mut Counts>> {
        match self.touched.entry(bucket) {
            Entry::Occupied(entry) => Ok(Some(entry.into_mut())),
            Entry::Vacant(entry) => Ok(stored_counts(conn, bucket)?.map(|counts| entry.insert(counts))),
        }
    }

    /// Writes the numbers back; part of the transaction.
    pub(super) fn write(&mut self, conn: &Connection) -> Result<()> {
        let mut update = conn.prepare_cached(
            "UPDATE buckets SET objects = ?2, bytes = ?3, history = ?4, logical = ?5, stored = ?6 WHERE id = ?1",
        )?;
        for (bucket, counts) in self.touched.drain() {
            let (objects, history) = (stored_int(counts.objects)?, stored_int(counts.history)?);
            let (logical, stored) = (stored_int(counts.logical)?, stored_int(counts.stored)?);
            update.execute((bucket, objects, stored_int(counts.bytes)?, history, logical, stored))?;
        }
        Ok(())
    }
}

pub(super) fn create(conn: &Connection, applied: &Applied<'_>, bucket: &Bucket) -> Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO buckets (id, name, sequence, kind, record, objects, bytes, history, logical, stored) \
         VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0, 0, 0)",
    )?;
    let (id, sequence) = (stored_int(bucket.id.0)?, stored_int(applied.sequence)?);
    insert.execute((id, &bucket.name[..], sequence, applied.kind, &applied.payload[..]))?;
    Ok(())
}

/// Replaces the record of a bucket; its name stays.
pub(super) fn update(conn: &Connection, applied: &Applied<'_>, bucket: &Bucket) -> Result<()> {
    let mut update =
        conn.prepare_cached("UPDATE buckets SET sequence = ?3, kind = ?4, record = ?5 WHERE id = ?1 AND name = ?2")?;
    let (id, sequence) = (stored_int(bucket.id.0)?, stored_int(applied.sequence)?);
    match update.execute((id, &bucket.name[..], sequence, applied.kind, &applied.payload[..]))? {
        1 => Ok(()),
        _ => Err(failure("a record updates a bucket that is not there")),
    }
}

/// Replaces the record and the name of a bucket, whatever they were: a salvage may have had to make them up.
pub(super) fn replace(conn: &Connection, applied: &Applied<'_>, bucket: &Bucket) -> Result<()> {
    let mut update =
        conn.prepare_cached("UPDATE buckets SET name = ?2, sequence = ?3, kind = ?4, record = ?5 WHERE id = ?1")?;
    let (id, sequence) = (stored_int(bucket.id.0)?, stored_int(applied.sequence)?);
    update.execute((id, &bucket.name[..], sequence, applied.kind, &applied.payload[..]))?;
    Ok(())
}

/// Removes an empty bucket with its uploads and their parts.
pub(super) fn delete(conn: &Connection, gathered: &mut Gathered, bucket: BucketId) -> Result<()> {
    let id = stored_int(bucket.0)?;
    let counts = *gathered.ledger.buckets.of(conn, id)?;
    if counts.objects > 0 || counts.history > 0 {
        return Err(failure("a record deletes a bucket that is not empty"));
    }
    super::uploads::delete_of_bucket(conn, gathered, id)?;
    // Nothing may be gathered for a bucket that is gone.
    gathered.write_references(conn)?;
    gathered.ledger.buckets.touched.remove(&id);
    conn.prepare_cached("DELETE FROM buckets WHERE id = ?1")?.execute([id])?;
    Ok(())
}
