//! Buckets: their records and counts.

use rusqlite::Connection;

use super::columns::{loaded_int, stored, stored_int};
use super::{documents, uploads};
use crate::error::{Result, failure};
use crate::records::{Applied, Stored};
use crate::writer::{Changes, Counts, stored_counts};
use orcas_record::{Bucket, BucketId, Sequence};

pub(crate) fn all(conn: &Connection) -> Result<Vec<Stored>> {
    let mut statement = conn.prepare_cached("SELECT sequence, kind, record FROM buckets ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut buckets = Vec::new();
    while let Some(row) = rows.next()? {
        buckets.push(stored(row, 0, row.get(1)?, 2)?);
    }
    Ok(buckets)
}

pub(crate) fn counts(conn: &Connection, bucket: BucketId) -> Result<Option<Counts>> {
    stored_counts(conn, stored_int(bucket.0)?)
}

pub(crate) fn sequence(conn: &Connection, bucket: BucketId) -> Result<Option<Sequence>> {
    let mut statement = conn.prepare_cached("SELECT sequence FROM buckets WHERE id = ?1")?;
    let mut rows = statement.query([stored_int(bucket.0)?])?;
    rows.next()?.map(|row| loaded_int(row.get(0)?)).transpose()
}

pub(crate) fn create(conn: &Connection, applied: &Applied<'_>, bucket: &Bucket) -> Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO buckets (id, name, sequence, kind, record, objects, bytes, history, logical, stored) \
         VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0, 0, 0)",
    )?;
    let (id, sequence) = (stored_int(bucket.id.0)?, stored_int(applied.sequence)?);
    insert.execute((id, &bucket.name[..], sequence, applied.kind, &applied.payload[..]))?;
    Ok(())
}

/// Replaces the record of a bucket; its name stays.
pub(crate) fn update(conn: &Connection, applied: &Applied<'_>, bucket: &Bucket) -> Result<()> {
    let mut update =
        conn.prepare_cached("UPDATE buckets SET sequence = ?3, kind = ?4, record = ?5 WHERE id = ?1 AND name = ?2")?;
    let (id, sequence) = (stored_int(bucket.id.0)?, stored_int(applied.sequence)?);
    match update.execute((id, &bucket.name[..], sequence, applied.kind, &applied.payload[..]))? {
        1 => Ok(()),
        _ => Err(failure("a record updates a bucket that does not exist")),
    }
}

/// Replaces the record and the name of a bucket, whatever they were.
pub(crate) fn replace(conn: &Connection, applied: &Applied<'_>, bucket: &Bucket) -> Result<()> {
    let mut update =
        conn.prepare_cached("UPDATE buckets SET name = ?2, sequence = ?3, kind = ?4, record = ?5 WHERE id = ?1")?;
    let (id, sequence) = (stored_int(bucket.id.0)?, stored_int(applied.sequence)?);
    update.execute((id, &bucket.name[..], sequence, applied.kind, &applied.payload[..]))?;
    Ok(())
}

/// Ends a bucket of which the versions stay: its name, its documents, its uploads and their parts go.
pub(crate) fn make_layer(
    conn: &Connection,
    changes: &mut Changes,
    applied: &Applied<'_>,
    bucket: &Bucket,
) -> Result<()> {
    let id = stored_int(bucket.id.0)?;
    uploads::delete_of_bucket(conn, changes, id)?;
    documents::delete_of_bucket(conn, id)?;
    replace(conn, applied, bucket)
}

/// Removes an empty bucket with its documents, its uploads and their parts.
pub(crate) fn delete(conn: &Connection, changes: &mut Changes, bucket: BucketId) -> Result<()> {
    let id = stored_int(bucket.0)?;
    let counts = *changes.counters.buckets.of(conn, id)?;
    if counts.objects > 0 || counts.history > 0 {
        return Err(failure("a record deletes a bucket that is not empty"));
    }
    uploads::delete_of_bucket(conn, changes, id)?;
    documents::delete_of_bucket(conn, id)?;
    // Otherwise the pending changes would name a bucket that no longer exists.
    changes.write_references(conn)?;
    changes.counters.buckets.forget(id);
    conn.prepare_cached("DELETE FROM buckets WHERE id = ?1")?.execute([id])?;
    Ok(())
}
