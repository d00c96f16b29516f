//! Reads of all versions, the current ones in `heads` and all others in `history`. Of each key, the newest comes first.

use rusqlite::{Connection, Row};

use super::columns::{store_version_id, stored_int, stored_version};
use super::heads::{ListedRow, listed_row};
use crate::error::Result;
use crate::records::Stored;
use orcas_record::{BucketId, Sequence, VersionId};

/// The columns of a version that a listing shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRow<'a> {
    pub listed: ListedRow<'a>,
    pub version_id: VersionId,
    pub delete_marker: bool,
}

/// The place at which a scan of versions begins.
#[derive(Clone, Copy, Debug)]
pub enum VersionFrom<'a> {
    /// The newest version of this key or of a later one.
    Key(&'a [u8]),
    /// The newest version of a later key.
    AfterKey(&'a [u8]),
}

macro_rules! columns {
    () => {
        "SELECT key, sequence, modified_ms, size, etag, checksum, class, version_id, "
    };
}

/// SQLite merges both tables, whose primary keys have this order, and reads only what is fetched.
macro_rules! both {
    ($condition:literal, $order:literal) => {
        concat!(
            columns!(),
            "0 AS delete_marker FROM heads WHERE bucket = ?1 AND ",
            $condition,
            " UNION ALL ",
            columns!(),
            "delete_marker FROM history WHERE bucket = ?1 AND ",
            $condition,
            $order
        )
    };
}

pub(crate) const FROM: &str = both!("key >= ?2", " ORDER BY key, sequence DESC LIMIT ?3");
const AFTER: &str = both!("key > ?2", " ORDER BY key, sequence DESC LIMIT ?3");
/// Both tables backwards: of each key the oldest version first.
pub(crate) const OLDEST: &str = both!("key >= ?2", " ORDER BY key DESC, sequence LIMIT ?3");
pub(crate) const OF_KEY: &str = both!("key = ?2 AND sequence < ?4", " ORDER BY key, sequence DESC LIMIT ?3");
const EVERY: &str = both!("key >= ?2", "");
const IS_MARKER: &str = "SELECT delete_marker FROM history WHERE bucket = ?1 AND key = ?2 AND version_id IS ?3 \
     UNION ALL SELECT 0 FROM heads WHERE bucket = ?1 AND key = ?2 AND version_id IS ?3";
const RECORD: &str = "SELECT sequence, kind, record, update_record FROM versions WHERE sequence = ?1";

fn version_row<'r>(row: &'r Row<'_>) -> Result<VersionRow<'r>> {
    let id: Option<[u8; 16]> = row.get(7)?;
    let version_id = id.map_or(VersionId::Null, VersionId::Named);
    Ok(VersionRow { listed: listed_row(row)?, version_id, delete_marker: row.get(8)? })
}

fn visit_all(mut rows: rusqlite::Rows<'_>, visit: &mut dyn FnMut(VersionRow<'_>) -> bool) -> Result<()> {
    while let Some(row) = rows.next()? {
        if !visit(version_row(row)?) {
            break;
        }
    }
    Ok(())
}

fn limited(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Versions of a bucket by key.
pub(crate) fn scan(
    conn: &Connection,
    bucket: BucketId,
    from: VersionFrom<'_>,
    limit: usize,
    visit: &mut dyn FnMut(VersionRow<'_>) -> bool,
) -> Result<()> {
    let (sql, key) = match from {
        VersionFrom::Key(key) => (FROM, key),
        VersionFrom::AfterKey(key) => (AFTER, key),
    };
    let mut statement = conn.prepare_cached(sql)?;
    visit_all(statement.query((stored_int(bucket.0)?, key, limited(limit)))?, visit)
}

/// Versions of a bucket, those of the last key first, of each key the oldest first.
pub(crate) fn oldest(
    conn: &Connection,
    bucket: BucketId,
    limit: usize,
    visit: &mut dyn FnMut(VersionRow<'_>) -> bool,
) -> Result<()> {
    let mut statement = conn.prepare_cached(OLDEST)?;
    visit_all(statement.query((stored_int(bucket.0)?, &b""[..], limited(limit)))?, visit)
}

/// Versions of a key with sequences below `below`.
pub(crate) fn of_key(
    conn: &Connection,
    (bucket, key): (BucketId, &[u8]),
    below: Sequence,
    limit: usize,
    visit: &mut dyn FnMut(VersionRow<'_>) -> bool,
) -> Result<()> {
    let below = i64::try_from(below).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(OF_KEY)?;
    visit_all(statement.query((stored_int(bucket.0)?, key, limited(limit), below))?, visit)
}

/// Every version of a bucket, in no particular order: the current ones come first.
pub(crate) fn every(conn: &Connection, bucket: BucketId, visit: &mut dyn FnMut(VersionRow<'_>) -> bool) -> Result<()> {
    let mut statement = conn.prepare_cached(EVERY)?;
    visit_all(statement.query((stored_int(bucket.0)?, &b""[..]))?, visit)
}

/// Whether the version with this id is a delete marker; `None` if there is none.
pub(crate) fn is_marker(conn: &Connection, bucket: BucketId, key: &[u8], id: VersionId) -> Result<Option<bool>> {
    let mut statement = conn.prepare_cached(IS_MARKER)?;
    let mut rows = statement.query((stored_int(bucket.0)?, key, store_version_id(id)))?;
    rows.next()?.map(|row| Ok(row.get(0)?)).transpose()
}

/// The version that the record `sequence` added.
pub(crate) fn record(conn: &Connection, sequence: Sequence) -> Result<Option<Stored>> {
    let mut statement = conn.prepare_cached(RECORD)?;
    let mut rows = statement.query([stored_int(sequence)?])?;
    rows.next()?.map(stored_version).transpose()
}
