//! Versions: the current one of each key, the earlier ones, and their records.
//!
//! The newest version of a key is in `heads` unless it is a delete marker; all others are in `history`. So a bucket
//! that was never versioned has no rows in `history`, and no cost for it. `versions` holds the record of each version
//! that is in either table, and the newest record of its attributes; `removals` removes them.

use std::ops::Bound;

use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::columns::{loaded_int, present_version, store_version_id, stored_int, stored_version};
use super::digests;
use super::heads::{self, ListedColumns};
use crate::error::{Result, failure};
use crate::records::{Applied, Stored};
use crate::writer::Changes;
use orcas_record::{Attributes, BucketId, Sequence, Version, VersionId};

const OBJECT: &str = "SELECT h.sequence, v.kind, v.record, v.update_record FROM heads h \
     LEFT JOIN versions v ON v.sequence = h.sequence WHERE h.bucket = ?1 AND h.key = ?2";
const OBJECTS_FROM: &str = "SELECT h.sequence, v.kind, v.record, v.update_record FROM heads h \
     LEFT JOIN versions v ON v.sequence = h.sequence WHERE h.bucket = ?1 AND h.key >= ?2 ORDER BY h.key LIMIT ?3";
const OBJECTS_AFTER: &str = "SELECT h.sequence, v.kind, v.record, v.update_record FROM heads h \
     LEFT JOIN versions v ON v.sequence = h.sequence WHERE h.bucket = ?1 AND h.key > ?2 ORDER BY h.key LIMIT ?3";
const VERSION: &str = "SELECT h.sequence, v.kind, v.record, v.update_record FROM heads h LEFT JOIN versions v \
     ON v.sequence = h.sequence WHERE h.bucket = ?1 AND h.key = ?2 AND h.version_id IS ?3 \
     UNION ALL SELECT h.sequence, v.kind, v.record, v.update_record FROM history h LEFT JOIN versions v \
     ON v.sequence = h.sequence WHERE h.bucket = ?1 AND h.key = ?2 AND h.version_id IS ?3";

const COLUMNS: &str = "bucket, key, sequence, modified_ms, size, etag, checksum, class, version_id";

pub(crate) fn object(conn: &Connection, bucket: BucketId, key: &[u8]) -> Result<Option<Stored>> {
    let mut statement = conn.prepare_cached(OBJECT)?;
    let mut rows = statement.query((stored_int(bucket.0)?, key))?;
    rows.next()?.map(stored_version).transpose()
}

/// The records of current versions from a key on, in the order of the keys.
pub(crate) fn objects(conn: &Connection, bucket: BucketId, from: Bound<&[u8]>, limit: usize) -> Result<Vec<Stored>> {
    let (sql, key) = match from {
        Bound::Included(key) => (OBJECTS_FROM, key),
        Bound::Excluded(key) => (OBJECTS_AFTER, key),
        Bound::Unbounded => (OBJECTS_FROM, &b""[..]),
    };
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query((stored_int(bucket.0)?, key, i64::try_from(limit).unwrap_or(i64::MAX)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(stored_version(row)?);
    }
    Ok(found)
}

pub(crate) fn version(conn: &Connection, bucket: BucketId, key: &[u8], id: VersionId) -> Result<Option<Stored>> {
    let mut statement = conn.prepare_cached(VERSION)?;
    let mut rows = statement.query((stored_int(bucket.0)?, key, store_version_id(id)))?;
    rows.next()?.map(stored_version).transpose()
}

pub(crate) fn exists(conn: &Connection, sequence: Sequence) -> Result<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM versions WHERE sequence = ?1")?.exists([stored_int(sequence)?])?)
}

/// The sequence of the newest UpdateVersion record of a version, if it exists and has one.
pub(crate) fn updated(conn: &Connection, version: Sequence) -> Result<Option<Sequence>> {
    let mut select = conn.prepare_cached("SELECT updated FROM versions WHERE sequence = ?1")?;
    let found: Option<Option<i64>> = select.query_row([stored_int(version)?], |row| row.get(0)).optional()?;
    found.flatten().map(loaded_int).transpose()
}

/// Writes versions. Holds the statements that every small put needs, so that they are looked up once per transaction.
pub(crate) struct VersionWriter<'c> {
    conn: &'c Connection,
    insert_current: CachedStatement<'c>,
    insert_version: CachedStatement<'c>,
    /// The statement that finds the current version when one is removed.
    find_current: Option<CachedStatement<'c>>,
    remove_current: Option<CachedStatement<'c>>,
}

/// A row of `heads` or `history` that was removed or is to be replaced.
struct Former {
    sequence: i64,
    size: u64,
    version_id: Option<[u8; 16]>,
}

impl<'c> VersionWriter<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Result<Self> {
        Ok(Self {
            conn,
            insert_current: conn.prepare_cached(
                "INSERT INTO heads (bucket, key, sequence, modified_ms, size, etag, checksum, class, version_id) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
            )?,
            insert_version: conn.prepare_cached("INSERT INTO versions (sequence, kind, record) VALUES (?1, ?2, ?3)")?,
            find_current: None,
            remove_current: None,
        })
    }

    /// Adds a version as the newest of its key. It replaces one with the same id.
    pub(crate) fn put(&mut self, changes: &mut Changes, applied: &Applied<'_>, version: &Version) -> Result<()> {
        let row = heads::columns(version, applied.sequence)?;
        if version.delete_marker || changes.counters.buckets.of(self.conn, row.bucket)?.history > 0 {
            self.put_with_history(changes, &row, version)?;
        } else if self.insert_current.execute(&row.bind()[..])? == 1 {
            // The common case, a new key, costs one descent of the tree, because the insert itself detects a conflict.
            changes.counters.buckets.of(self.conn, row.bucket)?.add_current(version.size);
        } else {
            self.replace_current(changes, &row, version)?;
        }
        self.insert_version.execute((row.sequence, applied.kind, &applied.payload[..]))?;
        digests::add(self.conn, row.sequence, version)?;
        changes.hold(self.conn, row.bucket, &version.manifest)?;
        changes.hold(self.conn, row.bucket, version.attributes.annotations.extents())
    }

    /// For a key with a current row in a bucket without history: replaces the row, or moves it to the history.
    fn replace_current(&mut self, changes: &mut Changes, row: &ListedColumns<'_>, version: &Version) -> Result<()> {
        let former = self
            .find_current(row.bucket, row.key)?
            .ok_or_else(|| failure("a current row is both present and absent"))?;
        if former.version_id == row.version_id {
            changes.remove_version(row.bucket, former.sequence);
            let counts = changes.counters.buckets.of(self.conn, row.bucket)?;
            counts.remove_current(former.size);
            counts.add_current(version.size);
            let mut update = self.conn.prepare_cached(
                "UPDATE heads SET sequence = ?3, modified_ms = ?4, size = ?5, etag = ?6, checksum = ?7, \
                 class = ?8, version_id = ?9 WHERE bucket = ?1 AND key = ?2",
            )?;
            update.execute(&row.bind()[..])?;
            return Ok(());
        }
        self.put_with_history(changes, row, version)
    }

    /// The general case, for buckets with versions or delete markers.
    fn put_with_history(&mut self, changes: &mut Changes, row: &ListedColumns<'_>, version: &Version) -> Result<()> {
        self.take(changes, row.bucket, row.key, row.version_id)?;
        self.archive_current(changes, row.bucket, row.key)?;
        if version.delete_marker {
            let mut insert = self.conn.prepare_cached(
                "INSERT INTO history (bucket, key, sequence, modified_ms, size, etag, checksum, class, \
                 version_id, delete_marker) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1)",
            )?;
            insert.execute(&row.bind()[..])?;
            changes.counters.buckets.of(self.conn, row.bucket)?.history += 1;
        } else {
            self.insert_current.execute(&row.bind()[..])?;
            changes.counters.buckets.of(self.conn, row.bucket)?.add_current(version.size);
        }
        Ok(())
    }

    /// Sets the newest UpdateVersion record of a version, whose annotations replace those that it had. In a rebuild, one
    /// whose version is gone is passed over.
    pub(crate) fn update(
        &mut self,
        changes: &mut Changes,
        applied: &Applied<'_>,
        version: Sequence,
        attributes: &Attributes,
    ) -> Result<()> {
        let mut select =
            self.conn.prepare_cached("SELECT kind, record, update_record FROM versions WHERE sequence = ?1")?;
        let mut rows = select.query([stored_int(version)?])?;
        let removed = changes.is_removed(stored_int(version)?);
        let Some(row) = rows.next()?.filter(|_| !removed) else {
            return match changes.counters.rebuild {
                Some(_) => Ok(()),
                None => Err(failure("a record updates a version that does not exist")),
            };
        };
        let before = present_version(row)?;
        drop(rows);
        let mut update =
            self.conn.prepare_cached("UPDATE versions SET updated = ?2, update_record = ?3 WHERE sequence = ?1")?;
        update.execute((stored_int(version)?, stored_int(applied.sequence)?, &applied.payload[..]))?;
        let bucket = stored_int(before.bucket.0)?;
        changes.hold(self.conn, bucket, attributes.annotations.extents())?;
        changes.release(self.conn, bucket, before.attributes.annotations.extents())
    }

    /// Removes one version, if it exists. The newest remaining one becomes the current one.
    pub(crate) fn delete(&mut self, changes: &mut Changes, bucket: BucketId, key: &[u8], id: VersionId) -> Result<()> {
        let bucket = stored_int(bucket.0)?;
        self.take(changes, bucket, key, store_version_id(id))?;
        self.promote(changes, bucket, key)
    }

    /// Removes every version of a bucket.
    pub(crate) fn clear(&mut self, changes: &mut Changes, bucket: BucketId) -> Result<()> {
        let bucket = stored_int(bucket.0)?;
        let mut select = self.conn.prepare_cached(
            "SELECT key, version_id FROM heads WHERE bucket = ?1 \
             UNION ALL SELECT key, version_id FROM history WHERE bucket = ?1 LIMIT 1000",
        )?;
        loop {
            let rows = select.query_map([bucket], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?)))?;
            let page: Vec<(Vec<u8>, Option<[u8; 16]>)> = rows.collect::<Result<_, _>>()?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, id) in page {
                self.take(changes, bucket, &key, id)?;
            }
        }
    }

    /// Removes the version with this id from `heads` or `history`, and its record.
    fn take(&mut self, changes: &mut Changes, bucket: i64, key: &[u8], id: Option<[u8; 16]>) -> Result<()> {
        if let Some(row) = self.find_current(bucket, key)?.filter(|row| row.version_id == id) {
            self.remove_current(bucket, key)?;
            changes.counters.buckets.of(self.conn, bucket)?.remove_current(row.size);
            changes.remove_version(bucket, row.sequence);
            return Ok(());
        }
        if changes.counters.buckets.of(self.conn, bucket)?.history == 0 {
            return Ok(());
        }
        let mut from_history = self.conn.prepare_cached(
            "DELETE FROM history WHERE bucket = ?1 AND key = ?2 AND version_id IS ?3 \
             RETURNING sequence, size, version_id",
        )?;
        if let Some(former) = first_former(&mut from_history, (bucket, key, id))? {
            changes.counters.buckets.of(self.conn, bucket)?.history -= 1;
            changes.remove_version(bucket, former.sequence);
        }
        Ok(())
    }

    fn archive_current(&mut self, changes: &mut Changes, bucket: i64, key: &[u8]) -> Result<()> {
        let Some(former) = self.find_current(bucket, key)? else { return Ok(()) };
        let copy = format!("INSERT INTO history SELECT {COLUMNS}, 0 FROM heads WHERE bucket = ?1 AND key = ?2");
        self.conn.prepare_cached(&copy)?.execute((bucket, key))?;
        self.remove_current(bucket, key)?;
        let counts = changes.counters.buckets.of(self.conn, bucket)?;
        counts.remove_current(former.size);
        counts.history += 1;
        Ok(())
    }

    /// Makes the newest version in the history of a key without a current version the current one, unless that is a
    /// delete marker.
    fn promote(&mut self, changes: &mut Changes, bucket: i64, key: &[u8]) -> Result<()> {
        if changes.counters.buckets.of(self.conn, bucket)?.history == 0 || self.find_current(bucket, key)?.is_some() {
            return Ok(());
        }
        let mut newest = self.conn.prepare_cached(
            "SELECT sequence, size, delete_marker FROM history WHERE bucket = ?1 AND key = ?2 \
             ORDER BY sequence DESC LIMIT 1",
        )?;
        let found = newest
            .query_row((bucket, key), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, bool>(2)?)))
            .optional()?;
        let Some((sequence, size, false)) = found else { return Ok(()) };
        let copy =
            format!("INSERT INTO heads SELECT {COLUMNS} FROM history WHERE bucket = ?1 AND key = ?2 AND sequence = ?3");
        self.conn.prepare_cached(&copy)?.execute((bucket, key, sequence))?;
        let mut remove =
            self.conn.prepare_cached("DELETE FROM history WHERE bucket = ?1 AND key = ?2 AND sequence = ?3")?;
        remove.execute((bucket, key, sequence))?;
        let counts = changes.counters.buckets.of(self.conn, bucket)?;
        counts.history -= 1;
        counts.add_current(loaded_int(size)?);
        Ok(())
    }

    fn find_current(&mut self, bucket: i64, key: &[u8]) -> Result<Option<Former>> {
        let find = "SELECT sequence, size, version_id FROM heads WHERE bucket = ?1 AND key = ?2";
        first_former(once(self.conn, &mut self.find_current, find)?, (bucket, key))
    }

    fn remove_current(&mut self, bucket: i64, key: &[u8]) -> Result<()> {
        let remove = "DELETE FROM heads WHERE bucket = ?1 AND key = ?2";
        once(self.conn, &mut self.remove_current, remove)?.execute((bucket, key))?;
        Ok(())
    }
}

/// A statement that is looked up when it is needed for the first time.
fn once<'s, 'c>(
    conn: &'c Connection,
    statement: &'s mut Option<CachedStatement<'c>>,
    sql: &str,
) -> Result<&'s mut CachedStatement<'c>> {
    match statement {
        Some(statement) => Ok(statement),
        none => Ok(none.insert(conn.prepare_cached(sql)?)),
    }
}

/// The first row of (sequence, size, version id).
fn first_former(statement: &mut CachedStatement<'_>, params: impl rusqlite::Params) -> Result<Option<Former>> {
    let mut rows = statement.query(params)?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Former { sequence: row.get(0)?, size: loaded_int(row.get(1)?)?, version_id: row.get(2)? }))
}
