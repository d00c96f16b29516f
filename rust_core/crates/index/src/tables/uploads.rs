//! Uploads in progress, their parts, and the answers to requests that completed uploads. Uploads are ordered by key,
//! then time of initiation, then id, as in the answer to ListMultipartUploads.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row};

use super::columns::{
    StoredEtag, blob_bytes, load_checksum, load_etag, loaded_int, store_checksum, store_version_id, stored, stored_int,
};
use crate::error::{Result, failure};
use crate::records::{Applied, Stored};
use crate::writer::Changes;
use orcas_checksum::{Checksum, ChecksumType, Etag, ObjectChecksum};
use orcas_record::{self as record, BucketId, Part, Record, Sequence, Upload, UploadId, VersionId};

/// Answers kept for repeated CompleteMultipartUpload requests. A limit, because clients may complete any number of
/// uploads.
const COMPLETED_MAX: u64 = 10_000;

pub(crate) const SCAN: &str = "SELECT key, initiated_ms, id, sequence, kind, record FROM uploads \
     WHERE bucket = ?1 AND (key, initiated_ms, id) > (?2, ?3, ?4) ORDER BY key, initiated_ms, id LIMIT ?5";
pub(crate) const SCAN_UNTIL: &str = "SELECT key, initiated_ms, id, sequence, kind, record FROM uploads \
     WHERE bucket = ?1 AND (key, initiated_ms, id) > (?2, ?3, ?4) AND key < ?6 \
     ORDER BY key, initiated_ms, id LIMIT ?5";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRow {
    pub number: u16,
    /// The PutPart record.
    pub part: Stored,
}

/// The answer to a repeated CompleteMultipartUpload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    pub sequence: Sequence,
    /// Digest of the part list that completed the upload.
    pub request: [u8; 32],
    pub bucket: BucketId,
    pub key: Bytes,
    pub version_id: VersionId,
    pub etag: Etag,
    pub checksum: Option<ObjectChecksum>,
}

/// The place at which a scan of uploads begins.
#[derive(Clone, Copy, Debug)]
pub enum UploadFrom<'a> {
    /// The first upload of this key or a later one.
    Key(&'a [u8]),
    /// The first upload of a later key.
    AfterKey(&'a [u8]),
    /// The next upload, of the same key or a later one.
    AfterUpload { key: &'a [u8], initiated_ms: u64, id: UploadId },
}

#[derive(Clone, Copy, Debug)]
pub struct UploadRow<'a> {
    pub key: &'a [u8],
    pub initiated_ms: u64,
    pub id: UploadId,
    pub sequence: Sequence,
    pub kind: u8,
    /// Payload of the CreateUpload record.
    pub record: &'a [u8],
}

pub(crate) fn upload(conn: &Connection, upload: UploadId) -> Result<Option<Stored>> {
    let mut statement = conn.prepare_cached("SELECT sequence, kind, record FROM uploads WHERE id = ?1")?;
    let mut rows = statement.query([upload.0])?;
    rows.next()?.map(|row| stored(row, 0, row.get(1)?, 2)).transpose()
}

pub(crate) fn part(conn: &Connection, upload: UploadId, number: u16) -> Result<Option<PartRow>> {
    let mut statement =
        conn.prepare_cached("SELECT number, sequence, kind, record FROM parts WHERE upload = ?1 AND number = ?2")?;
    let mut rows = statement.query((upload.0, number))?;
    rows.next()?.map(part_row).transpose()
}

pub(crate) fn parts(conn: &Connection, upload: UploadId, after: u16, limit: usize) -> Result<Vec<PartRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT number, sequence, kind, record FROM parts WHERE upload = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
    )?;
    let mut rows = statement.query((upload.0, after, i64::try_from(limit).unwrap_or(i64::MAX)))?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next()? {
        parts.push(part_row(row)?);
    }
    Ok(parts)
}

fn part_row(row: &Row<'_>) -> Result<PartRow> {
    Ok(PartRow { number: row.get(0)?, part: stored(row, 1, row.get(2)?, 3)? })
}

pub(crate) fn completed(conn: &Connection, upload: UploadId) -> Result<Option<Completed>> {
    let mut statement = conn.prepare_cached(
        "SELECT sequence, request, bucket, key, version_id, etag, checksum, checksum_value \
         FROM completed_uploads WHERE upload = ?1",
    )?;
    let mut rows = statement.query([upload.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let etag = load_etag(&blob_bytes(row, 5)?)?;
    let checksum = match row.get::<_, Option<i64>>(6)? {
        None => None,
        Some(code) => {
            let (algorithm, kind) = load_checksum(code)?;
            let value = Checksum::from_bytes(algorithm, &blob_bytes(row, 7)?);
            let checksum = value.ok_or_else(|| failure("a checksum has the wrong length"))?;
            // A composite checksum covers as many parts as the ETag.
            Some(ObjectChecksum { checksum, parts: if kind == ChecksumType::Composite { etag.parts } else { 0 } })
        }
    };
    Ok(Some(Completed {
        sequence: loaded_int(row.get(0)?)?,
        request: row.get(1)?,
        bucket: BucketId(loaded_int(row.get(2)?)?),
        key: blob_bytes(row, 3)?,
        version_id: row.get::<_, Option<[u8; 16]>>(4)?.map_or(VersionId::Null, VersionId::Named),
        etag,
        checksum,
    }))
}

pub(crate) fn scan(
    conn: &Connection,
    bucket: BucketId,
    from: UploadFrom<'_>,
    until: Option<&[u8]>,
    limit: usize,
    visit: &mut dyn FnMut(UploadRow<'_>) -> bool,
) -> Result<()> {
    // Every start is "after (key, initiated, id)", with values below or above all others for the start or end of a key.
    let (key, initiated_ms, id) = match from {
        UploadFrom::Key(key) => (key, -1, [0; 16]),
        UploadFrom::AfterKey(key) => (key, i64::MAX, [0xff; 16]),
        UploadFrom::AfterUpload { key, initiated_ms, id } => (key, stored_int(initiated_ms)?, id.0),
    };
    let (bucket, limit) = (stored_int(bucket.0)?, i64::try_from(limit).unwrap_or(i64::MAX));
    let mut statement = conn.prepare_cached(if until.is_none() { SCAN } else { SCAN_UNTIL })?;
    let mut rows = match until {
        None => statement.query((bucket, key, initiated_ms, id, limit))?,
        Some(until) => statement.query((bucket, key, initiated_ms, id, limit, until))?,
    };
    while let Some(row) = rows.next()? {
        let upload = UploadRow {
            key: row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?,
            initiated_ms: loaded_int(row.get(1)?)?,
            id: UploadId(row.get(2)?),
            sequence: loaded_int(row.get(3)?)?,
            kind: row.get(4)?,
            record: row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?,
        };
        if !visit(upload) {
            break;
        }
    }
    Ok(())
}

pub(crate) fn create(conn: &Connection, applied: &Applied<'_>, upload: &Upload) -> Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO uploads (id, bucket, key, initiated_ms, sequence, kind, record) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let (bucket, initiated_ms) = (stored_int(upload.bucket.0)?, stored_int(upload.initiated_ms)?);
    let sequence = stored_int(applied.sequence)?;
    insert.execute((
        upload.id.0,
        bucket,
        &upload.key[..],
        initiated_ms,
        sequence,
        applied.kind,
        &applied.payload[..],
    ))?;
    Ok(())
}

/// Adds or replaces a part. The upload must exist, because a part without one would never be removed. A rebuild ignores
/// such a part: its upload has ended.
pub(crate) fn put_part(conn: &Connection, changes: &mut Changes, applied: &Applied<'_>, part: &Part) -> Result<()> {
    let mut find = conn.prepare_cached(
        "SELECT u.bucket, p.kind, p.record FROM uploads u LEFT JOIN parts p ON p.upload = u.id AND p.number = ?2 \
         WHERE u.id = ?1",
    )?;
    let mut rows = find.query((part.upload.0, part.number))?;
    let Some(row) = rows.next()? else {
        return absent(changes, "a record adds a part to an upload that does not exist");
    };
    let bucket: i64 = row.get(0)?;
    if row.get::<_, Option<u8>>(1)?.is_some() {
        changes.release(conn, bucket, &decoded(row, 1)?.manifest)?;
    }
    drop(rows);
    let mut insert = conn.prepare_cached(
        "INSERT OR REPLACE INTO parts (upload, number, sequence, kind, record) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let sequence = stored_int(applied.sequence)?;
    insert.execute((part.upload.0, part.number, sequence, applied.kind, &applied.payload[..]))?;
    changes.hold(conn, bucket, &part.manifest)
}

/// Fails with `reason`, except in a rebuild, where the record that created the upload may have been dropped.
fn absent(changes: &Changes, reason: &str) -> Result<()> {
    if changes.counters.rebuild.is_some() { Ok(()) } else { Err(failure(reason)) }
}

/// Reads the part whose kind and record are in the columns `first` and `first + 1` of a row.
fn decoded(row: &Row<'_>, first: usize) -> Result<Part> {
    match record::decode(row.get(first)?, &blob_bytes(row, first + 1)?) {
        Ok(Record::PutPart(part)) => Ok(part),
        _ => Err(failure("the record of a part cannot be read")),
    }
}

/// Removes an upload, its parts and their references.
pub(crate) fn delete(conn: &Connection, changes: &mut Changes, upload: UploadId) -> Result<()> {
    let mut delete = conn.prepare_cached("DELETE FROM uploads WHERE id = ?1 RETURNING bucket")?;
    let Some(bucket) = delete.query_row([upload.0], |row| row.get::<_, i64>(0)).optional()? else {
        return absent(changes, "a record ends an upload that does not exist");
    };
    let mut parts = conn.prepare_cached("SELECT kind, record FROM parts WHERE upload = ?1")?;
    let mut rows = parts.query([upload.0])?;
    while let Some(row) = rows.next()? {
        changes.release(conn, bucket, &decoded(row, 0)?.manifest)?;
    }
    drop(rows);
    conn.prepare_cached("DELETE FROM parts WHERE upload = ?1")?.execute([upload.0])?;
    Ok(())
}

pub(crate) fn delete_of_bucket(conn: &Connection, changes: &mut Changes, bucket: i64) -> Result<()> {
    let mut parts = conn.prepare_cached(
        "SELECT p.kind, p.record FROM uploads u CROSS JOIN parts p ON p.upload = u.id WHERE u.bucket = ?1",
    )?;
    let mut rows = parts.query([bucket])?;
    while let Some(row) = rows.next()? {
        changes.release(conn, bucket, &decoded(row, 0)?.manifest)?;
    }
    drop(rows);
    conn.prepare_cached("DELETE FROM parts WHERE upload IN (SELECT id FROM uploads WHERE bucket = ?1)")?
        .execute([bucket])?;
    conn.prepare_cached("DELETE FROM uploads WHERE bucket = ?1")?.execute([bucket])?;
    Ok(())
}

/// How many answers are kept.
pub(crate) fn completed_count(conn: &Connection) -> Result<u64> {
    loaded_int(conn.query_row("SELECT count(*) FROM completed_uploads", [], |row| row.get(0))?)
}

/// A row for `completed_uploads`.
pub(crate) struct NewCompletedUpload<'a> {
    pub(crate) sequence: Sequence,
    pub(crate) upload: UploadId,
    pub(crate) request: &'a [u8; 32],
    pub(crate) bucket: BucketId,
    pub(crate) key: &'a [u8],
    pub(crate) version_id: VersionId,
    pub(crate) etag: Etag,
    pub(crate) checksum: Option<&'a ObjectChecksum>,
}

/// Adds the answer of a completed upload, and removes the oldest one if there are too many. This is done for each
/// answer, so that the rows do not depend on how records are grouped. `kept` is the number of rows.
pub(crate) fn insert_completed(conn: &Connection, kept: &mut u64, completed: &NewCompletedUpload<'_>) -> Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO completed_uploads (sequence, upload, request, bucket, key, version_id, etag, checksum, \
         checksum_value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    insert.execute((
        stored_int(completed.sequence)?,
        completed.upload.0,
        completed.request,
        stored_int(completed.bucket.0)?,
        completed.key,
        store_version_id(completed.version_id),
        StoredEtag::new(completed.etag),
        completed.checksum.map(store_checksum),
        completed.checksum.map(|sum| sum.checksum.as_bytes()),
    ))?;
    *kept += 1;
    if *kept > COMPLETED_MAX {
        let oldest = "DELETE FROM completed_uploads WHERE sequence = (SELECT min(sequence) FROM completed_uploads)";
        conn.prepare_cached(oldest)?.execute([])?;
        *kept -= 1;
    }
    Ok(())
}
