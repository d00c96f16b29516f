//! Reads of whole tables in pages, for checks: blobs, and everything that refers to them. Each page is a read of its
//! own. A page of records ends at 4 MiB as well: records may have hundreds of KiB, as those of many annotations do.

use bytes::Bytes;
use rusqlite::{Connection, Row};

use super::error::{self, failure};
use super::reader::Reader;
use super::records::Stored;
use super::tables::blobs::StoredLocation;
use super::tables::packs::first_offset;
use super::tables::uploads::PartRow;
use super::tables::{blob_bytes, loaded_int, stored, stored_int, with_update};
use orcas_base::error::Result;
use orcas_record::placement::codec;
use orcas_record::{BlobLocation, BucketId, ChunkLocation, Fingerprint, PackId, Sequence, UploadId};

/// A row of `blobs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobEntry {
    pub sequence: Sequence,
    pub location: BlobLocation,
    pub refs: u64,
    /// The smallest bucket that refers to it.
    pub home: Option<BucketId>,
    /// `None` for a blob that is not shared.
    pub fingerprint: Option<Fingerprint>,
    /// Then the fingerprint is of what only the data key opens.
    pub sealed: bool,
}

/// A part of an open upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPart {
    pub upload: UploadId,
    pub bucket: BucketId,
    pub key: Bytes,
    pub part: PartRow,
}

/// The counts of a bucket as its rows in `heads` and `history` add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    pub objects: u64,
    pub bytes: u64,
    pub history: u64,
}

/// Bytes of records after which a page ends.
const PAGE_LEN_MAX: usize = 4 << 20;

const BLOB: &str = "SELECT sequence, place, file, offset, length, refs, bucket, identity, seal IS NOT NULL FROM blobs";

fn blob_entry(row: &Row<'_>) -> error::Result<BlobEntry> {
    let home: Option<i64> = row.get(6)?;
    let fingerprint: Option<Vec<u8>> = row.get(7)?;
    let fingerprint =
        fingerprint.map(<[u8; 32]>::try_from).transpose().map_err(|_| failure("a fingerprint has the wrong length"))?;
    Ok(BlobEntry {
        sequence: loaded_int(row.get(0)?)?,
        location: StoredLocation::load(row, 1)?.location()?,
        refs: loaded_int(row.get(5)?)?,
        home: home.map(loaded_int).transpose()?.map(BucketId),
        fingerprint: fingerprint.map(Fingerprint),
        sealed: row.get(8)?,
    })
}

fn page<T>(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> error::Result<T>,
) -> error::Result<Vec<T>> {
    page_of_records(conn, sql, params, read, |_| 0)
}

/// Ends with the row that makes the page as long as it may be.
fn page_of_records<T>(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> error::Result<T>,
    len: impl Fn(&T) -> usize,
) -> error::Result<Vec<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let (mut found, mut total) = (Vec::new(), 0);
    while let Some(row) = rows.next()?.filter(|_| total < PAGE_LEN_MAX) {
        let row = read(row)?;
        total += len(&row);
        found.push(row);
    }
    Ok(found)
}

fn limited(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

impl Reader<'_> {
    /// Blobs after `after`, ascending.
    pub fn blobs_after(&self, after: Sequence, limit: usize) -> Result<Vec<BlobEntry>> {
        let sql = format!("{BLOB} WHERE sequence > ?1 ORDER BY sequence LIMIT ?2");
        self.with(|conn| page(conn, &sql, (stored_int(after)?, limited(limit)), blob_entry))
    }

    pub fn blob_entry(&self, blob: Sequence) -> Result<Option<BlobEntry>> {
        let sql = format!("{BLOB} WHERE sequence = ?1");
        let Ok(blob) = stored_int(blob) else { return Ok(None) };
        Ok(self.with(|conn| page(conn, &sql, [blob], blob_entry))?.pop())
    }

    /// Chunks of a pack in their order in it, from the first or the one after `after` on.
    pub fn chunks_after(&self, pack: PackId, after: Option<ChunkLocation>, limit: usize) -> Result<Vec<BlobEntry>> {
        let pack = codec::pack_number(pack);
        let sql = format!("{BLOB} WHERE place = 1 AND file = ?1 AND offset >= ?2 ORDER BY offset LIMIT ?3");
        self.with(|conn| page(conn, &sql, (stored_int(pack)?, first_offset(after)?, limited(limit)), blob_entry))
    }

    /// Records of versions after `after`, ascending, at most `limit`, and fewer if they are long.
    pub fn versions_after(&self, after: Sequence, limit: usize) -> Result<Vec<Stored>> {
        let sql = "SELECT sequence, kind, record, update_record FROM versions WHERE sequence > ?1 \
             ORDER BY sequence LIMIT ?2";
        let read = |row: &Row<'_>| with_update(row, row.get(1)?);
        let len = |stored: &Stored| stored.record.len() + stored.update.as_ref().map_or(0, Bytes::len);
        self.with(|conn| page_of_records(conn, sql, (stored_int(after)?, limited(limit)), read, len))
    }

    /// The newest UpdateVersion record of each version, those after `after`, with their sequences, ascending, at most
    /// `limit`, and fewer if they are long.
    pub fn updates_after(&self, after: Sequence, limit: usize) -> Result<Vec<(Sequence, Bytes)>> {
        let sql = "SELECT updated, update_record FROM versions WHERE updated > ?1 ORDER BY updated LIMIT ?2";
        let read = |row: &Row<'_>| Ok((loaded_int(row.get(0)?)?, blob_bytes(row, 1)?));
        let len = |(_, record): &(Sequence, Bytes)| record.len();
        self.with(|conn| page_of_records(conn, sql, (stored_int(after)?, limited(limit)), read, len))
    }

    /// Parts of open uploads after this one, at most `limit`, and fewer if they are long.
    pub fn parts_after(&self, after: Option<(UploadId, u16)>, limit: usize) -> Result<Vec<UploadPart>> {
        let sql = "SELECT p.upload, u.bucket, u.key, p.number, p.sequence, p.kind, p.record \
             FROM parts p JOIN uploads u ON u.id = p.upload WHERE (p.upload, p.number) > (?1, ?2) \
             ORDER BY p.upload, p.number LIMIT ?3";
        let (upload, number) =
            after.map_or((Vec::new(), -1), |(upload, number)| (upload.0.to_vec(), i64::from(number)));
        let read = |row: &Row<'_>| {
            let part = PartRow { number: row.get(3)?, part: stored(row, 4, row.get(5)?, 6)? };
            let (upload, bucket) = (UploadId(row.get(0)?), BucketId(loaded_int(row.get(1)?)?));
            Ok(UploadPart { upload, bucket, key: blob_bytes(row, 2)?, part })
        };
        let len = |found: &UploadPart| found.key.len() + found.part.part.record.len();
        self.with(|conn| page_of_records(conn, sql, (upload, number, limited(limit)), read, len))
    }

    /// Payloads of segments after `after`, ascending, at most `limit`, and fewer if they are long.
    pub fn segments_after(&self, after: Sequence, limit: usize) -> Result<Vec<(Sequence, Bytes)>> {
        let sql = "SELECT sequence, record FROM segments WHERE sequence > ?1 ORDER BY sequence LIMIT ?2";
        let read = |row: &Row<'_>| Ok((loaded_int(row.get(0)?)?, blob_bytes(row, 1)?));
        let len = |(_, record): &(Sequence, Bytes)| record.len();
        self.with(|conn| page_of_records(conn, sql, (stored_int(after)?, limited(limit)), read, len))
    }

    /// Totals of the rows of `heads` and `history`, by bucket, and the number of rows in `versions`.
    pub fn row_counts(&self) -> Result<(Vec<(BucketId, RowCounts)>, u64)> {
        let sql = "SELECT bucket, sum(objects), sum(bytes), sum(history) FROM ( \
             SELECT bucket, count(*) AS objects, sum(size) AS bytes, 0 AS history FROM heads GROUP BY bucket \
             UNION ALL SELECT bucket, 0, 0, count(*) FROM history GROUP BY bucket) GROUP BY bucket ORDER BY bucket";
        let read = |row: &Row<'_>| {
            let (objects, bytes) = (loaded_int(row.get(1)?)?, loaded_int(row.get(2)?)?);
            Ok((BucketId(loaded_int(row.get(0)?)?), RowCounts { objects, bytes, history: loaded_int(row.get(3)?)? }))
        };
        self.with(|conn| {
            let records = conn.query_row("SELECT count(*) FROM versions", [], |row| row.get(0))?;
            Ok((page(conn, sql, [], read)?, loaded_int(records)?))
        })
    }
}
