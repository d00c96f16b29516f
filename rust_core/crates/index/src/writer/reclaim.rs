//! The records of reclamation: condemned blobs, moved chunks and contents, retired packs, replaced log files. In a
//! normal apply each must match the rows exactly. In a rebuild, whose log may lack dropped records, what does not match
//! is left to `rebuild`.

use rusqlite::Connection;

use super::changes::Changes;
use super::references::{self, Holders};
use crate::error::{Result, failure};
use crate::tables::blobs::{self, BlobRows};
use crate::tables::{loaded_int, packs, stored_int};
use orcas_record::placement::codec;
use orcas_record::{ChunkMove, ContentMove, LogFileId, PackId, Sequence};

/// A compacted log file in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFileRow {
    pub file: LogFileId,
    /// The file holds those of the records `first..=last` that are still needed.
    pub first: Sequence,
    pub last: Sequence,
}

/// How many records of a range are still needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// Contents that have a row, with references or without.
    pub contents: u64,
    pub content_bytes: u64,
    /// All other records whose row exists. Records that only removed something are not counted.
    pub records: u64,
    /// Bytes of their payloads.
    pub record_bytes: u64,
}

/// One row for each table: number of records, and bytes of their payloads. The payload of a chunk has 61 bytes, that of
/// a pack 8, and that of a completed upload about 96 without its key.
pub(crate) const USAGE: &str = "\
    SELECT count(*), ifnull(sum(length(record)), 0) FROM versions WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(update_record)), 0) FROM versions WHERE updated BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(record)), 0) FROM segments WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(record)), 0) FROM buckets WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(record)), 0) FROM documents WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(record)), 0) FROM uploads WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(record)), 0) FROM parts WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), count(*) * 61 FROM blobs WHERE place = 1 AND sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), count(*) * 8 FROM packs WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(key) + 96), 0) FROM completed_uploads c \
        WHERE sequence BETWEEN ?1 AND ?2 AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.sequence = c.sequence)";

/// Removes blobs without references.
pub(crate) fn condemn(conn: &Connection, changes: &mut Changes, condemned: &[Sequence]) -> Result<()> {
    changes.write_references(conn)?;
    let counters = &mut changes.counters;
    let mut rows = BlobRows::new(conn)?;
    for sequence in condemned {
        let blob = stored_int(*sequence)?;
        let Some(row) = rows.get(blob)? else {
            if counters.rebuild.is_some() {
                continue;
            }
            return Err(failure(&format!("a record condemns the blob {blob}, which does not exist")));
        };
        if row.refs > 0 {
            if counters.rebuild.is_none() {
                return Err(failure(&format!("a record condemns the blob {blob}, which has references")));
            }
            // Later records of the log remove these references.
            for (bucket, refs) in Holders::load(conn, blob, &row)?.0 {
                counters.holding_changed(conn, bucket, row.at, -1)?;
                if let Some(rebuild) = &mut counters.rebuild {
                    rebuild.orphan_blob(blob, bucket, refs)?;
                }
            }
            references::remove_holdings(conn, blob)?;
        }
        blobs::remove(conn, blob)?;
        counters.blob_removed(row.at, row.refs > 0)?;
    }
    Ok(())
}

/// Sets the new locations of moved chunks. Chunks that no longer exist are skipped.
pub(crate) fn move_chunks(conn: &Connection, changes: &mut Changes, moves: &[ChunkMove]) -> Result<()> {
    changes.write_references(conn)?;
    let mut rows = BlobRows::new(conn)?;
    for moved in moves {
        let blob = stored_int(moved.blob)?;
        let Some(row) = rows.get(blob)? else { continue };
        let (pack, offset) = codec::chunk_parts(moved.to);
        let (pack, offset) = (stored_int(pack)?, stored_int(offset)?);
        if row.at.pack().is_none() {
            return Err(failure("a record moves a content as a chunk"));
        }
        if changes.counters.rebuild.is_none() && !packs::exists(conn, pack)? {
            return Err(failure("a record moves a chunk to a pack that does not exist"));
        }
        blobs::set_place(conn, blob, pack, offset)?;
        changes.counters.chunk_moved(row.at, row.refs > 0, pack)?;
    }
    Ok(())
}

/// Sets the new locations of moved contents. Contents that no longer exist are skipped.
pub(crate) fn move_contents(conn: &Connection, changes: &mut Changes, moves: &[ContentMove]) -> Result<()> {
    changes.write_references(conn)?;
    let mut rows = BlobRows::new(conn)?;
    for moved in moves {
        let blob = stored_int(moved.blob)?;
        let Some(row) = rows.get(blob)? else { continue };
        if row.at.pack().is_some() {
            return Err(failure("a record moves a chunk as a content"));
        }
        let (file, offset) = codec::in_log_parts(moved.to);
        blobs::set_place(conn, blob, stored_int(file)?, stored_int(offset)?)?;
    }
    Ok(())
}

/// Removes an empty pack.
pub(crate) fn retire_pack(conn: &Connection, changes: &mut Changes, pack: PackId) -> Result<()> {
    changes.write_references(conn)?;
    let pack = stored_int(codec::pack_number(pack))?;
    let counters = &mut changes.counters;
    counters.packs.write(conn, &mut counters.rebuild)?;
    match (packs::retire(conn, pack)?, &mut counters.rebuild) {
        (Some(left), Some(rebuild)) => rebuild.keep_pack(pack, left),
        (Some(left), None) if left.blobs != 0 => Err(failure("a record retires a pack with chunks in it")),
        (None, None) => Err(failure("a record retires a pack that does not exist")),
        _ => Ok(()),
    }
}

/// Puts a compacted file in force, in place of those that it contains.
pub(crate) fn replace_log(
    conn: &Connection,
    changes: &mut Changes,
    file: LogFileId,
    (first, last): (Sequence, Sequence),
) -> Result<()> {
    changes.write_references(conn)?;
    let row = (stored_int(codec::log_file_number(file))?, stored_int(first)?, stored_int(last)?);
    if changes.counters.rebuild.is_none() {
        verify_log_file(conn, row)?;
    }
    let contained = "DELETE FROM log_files WHERE first >= ?1 AND last <= ?2";
    conn.prepare_cached(contained)?.execute((row.1, row.2))?;
    let mut overlapping = conn.prepare_cached("SELECT 1 FROM log_files WHERE first <= ?2 AND last >= ?1")?;
    if overlapping.exists((row.1, row.2))? {
        return Err(failure("a record replaces a part of a compacted log file"));
    }
    conn.prepare_cached("INSERT INTO log_files (file, first, last) VALUES (?1, ?2, ?3)")?.execute(row)?;
    Ok(())
}

/// Checks that the compacted file holds every content of its records, because the files that held them are deleted.
fn verify_log_file(conn: &Connection, (file, first, last): (i64, i64, i64)) -> Result<()> {
    let elsewhere = "SELECT sequence FROM blobs WHERE sequence BETWEEN ?1 AND ?2 AND place = 0 AND file <> ?3 LIMIT 1";
    let mut select = conn.prepare_cached(elsewhere)?;
    let mut rows = select.query((first, last, file))?;
    let Some(row) = rows.next()? else { return Ok(()) };
    let blob: i64 = row.get(0)?;
    Err(failure(&format!("the content {blob} is not in the compacted log file {file} that replaces its file")))
}

/// Checks every compacted file in force.
pub(crate) fn verify_log_files(conn: &Connection) -> Result<()> {
    for row in log_files(conn)? {
        verify_log_file(
            conn,
            (stored_int(codec::log_file_number(row.file))?, stored_int(row.first)?, stored_int(row.last)?),
        )?;
    }
    Ok(())
}

/// Ascending by first record.
pub(crate) fn log_files(conn: &Connection) -> Result<Vec<LogFileRow>> {
    let mut statement = conn.prepare_cached("SELECT file, first, last FROM log_files ORDER BY first, file")?;
    let mut rows = statement.query([])?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        let (file, first, last) = (loaded_int(row.get(0)?)?, loaded_int(row.get(1)?)?, loaded_int(row.get(2)?)?);
        files.push(LogFileRow { file: codec::log_file(file), first, last });
    }
    Ok(files)
}

pub(crate) fn log_usage(conn: &Connection, first: Sequence, last: Sequence) -> Result<LogUsage> {
    let range = (stored_int(first)?, i64::try_from(last).unwrap_or(i64::MAX));
    let contents = "SELECT count(*), ifnull(sum(length), 0) FROM blobs WHERE place = 0 AND sequence BETWEEN ?1 AND ?2";
    let (contents, content_bytes): (i64, i64) =
        conn.prepare_cached(contents)?.query_row(range, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut usage =
        LogUsage { contents: loaded_int(contents)?, content_bytes: loaded_int(content_bytes)?, ..LogUsage::default() };
    let mut statement = conn.prepare_cached(USAGE)?;
    let mut rows = statement.query(range)?;
    while let Some(row) = rows.next()? {
        usage.records += loaded_int(row.get(0)?)?;
        usage.record_bytes += loaded_int(row.get(1)?)?;
    }
    Ok(usage)
}
