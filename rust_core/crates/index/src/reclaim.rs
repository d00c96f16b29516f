//! What reclamation does to the rows: blobs that are condemned, chunks and contents that stand elsewhere, packs that are
//! retired, log files that are replaced. In a normal apply each must fit the rows exactly; a rebuild, which sees a log
//! from which records were dropped, is told in `rebuild`.

use rusqlite::Connection;

use super::columns::{loaded_int, stored_int};
use super::error::{Result, failure};
use super::references::{self, Changes, Holders};
use super::{blobs, packs};
use orcas_record::{ChunkMove, ContentMove, Sequence};

/// A compacted log file in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFileRow {
    pub file: u64,
    /// It holds what counts of the records `first..=last`.
    pub first: Sequence,
    pub last: Sequence,
}

/// What still counts of a range of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// Contents that have a row, with references or without.
    pub contents: u64,
    pub content_bytes: u64,
    /// All other records that brought a row which is there. Those that took something away are not counted.
    pub records: u64,
    /// Of their payloads.
    pub record_bytes: u64,
}

/// One row a table: records and bytes of payload. The payload of a chunk has 61 bytes, that of a pack 8; that of a kept
/// answer is near 96 without its key.
pub(super) const USAGE: &str = "\
    SELECT count(*), ifnull(sum(length(record)), 0) FROM versions WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(record)), 0) FROM segments WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(record)), 0) FROM buckets WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(record)), 0) FROM uploads WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(record)), 0) FROM parts WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), count(*) * 61 FROM blobs WHERE place = 1 AND sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), count(*) * 8 FROM packs WHERE sequence BETWEEN ?1 AND ?2 \
    UNION ALL SELECT count(*), ifnull(sum(length(key) + 96), 0) FROM completed_uploads c \
        WHERE sequence BETWEEN ?1 AND ?2 AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.sequence = c.sequence)";

/// Removes blobs that nothing refers to.
pub(super) fn condemn(conn: &Connection, changes: &mut Changes, condemned: &[Sequence]) -> Result<()> {
    changes.write_references(conn)?;
    let counters = &mut changes.counters;
    for sequence in condemned {
        let blob = stored_int(*sequence)?;
        let Some(row) = blobs::row(conn, blob)? else {
            if counters.rebuild.is_some() {
                continue;
            }
            return Err(failure(&format!("a record condemns the blob {blob}, which is not there")));
        };
        if row.refs > 0 {
            if counters.rebuild.is_none() {
                return Err(failure(&format!("a record condemns the blob {blob}, which is referred to")));
            }
            // What refers to it goes later in the log.
            for (bucket, refs) in Holders::load(conn, blob, &row)?.0 {
                counters.holding(conn, bucket, row.at, -1)?;
                if let Some(rebuild) = &mut counters.rebuild {
                    rebuild.orphan_blob(blob, bucket, refs)?;
                }
            }
            references::remove_holdings(conn, blob)?;
        }
        blobs::remove(conn, blob)?;
        counters.blob_went(row.at, row.refs > 0)?;
    }
    Ok(())
}

/// Chunks stand in other packs now; those that are not there any more are passed over.
pub(super) fn move_chunks(conn: &Connection, changes: &mut Changes, moves: &[ChunkMove]) -> Result<()> {
    changes.write_references(conn)?;
    for moved in moves {
        let blob = stored_int(moved.blob)?;
        let Some(row) = blobs::row(conn, blob)? else { continue };
        let (pack, offset) = (stored_int(moved.pack)?, stored_int(moved.offset)?);
        if row.at.pack().is_none() {
            return Err(failure("a record moves a content as a chunk"));
        }
        if changes.counters.rebuild.is_none() && !packs::exists(conn, pack)? {
            return Err(failure("a record moves a chunk to a pack that is not there"));
        }
        blobs::set_place(conn, blob, pack, offset)?;
        changes.counters.chunk_moved(row.at, row.refs > 0, pack)?;
    }
    Ok(())
}

/// Contents stand in another log file now; those that are not there any more are passed over.
pub(super) fn move_contents(conn: &Connection, changes: &mut Changes, file: u64, moves: &[ContentMove]) -> Result<()> {
    changes.write_references(conn)?;
    let file = stored_int(file)?;
    for moved in moves {
        let blob = stored_int(moved.blob)?;
        let Some(row) = blobs::row(conn, blob)? else { continue };
        if row.at.pack().is_some() {
            return Err(failure("a record moves a chunk as a content"));
        }
        blobs::set_place(conn, blob, file, stored_int(moved.offset)?)?;
    }
    Ok(())
}

/// Removes a pack in which no blob is left.
pub(super) fn retire_pack(conn: &Connection, changes: &mut Changes, pack: u64) -> Result<()> {
    changes.write_references(conn)?;
    let pack = stored_int(pack)?;
    let counters = &mut changes.counters;
    counters.packs.write(conn, &mut counters.rebuild)?;
    match (packs::retire(conn, pack)?, &mut counters.rebuild) {
        (Some(left), Some(rebuild)) => rebuild.keep_pack(pack, left),
        (Some(left), None) if left.blobs != 0 => Err(failure("a record retires a pack with chunks in it")),
        (None, None) => Err(failure("a record retires a pack that is not there")),
        _ => Ok(()),
    }
}

/// The compacted file is in force for its records; compacted files that it stands for are not any more.
pub(super) fn replace_log(
    conn: &Connection,
    changes: &mut Changes,
    file: u64,
    (first, last): (Sequence, Sequence),
) -> Result<()> {
    changes.write_references(conn)?;
    let row = (stored_int(file)?, stored_int(first)?, stored_int(last)?);
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

/// Whether every content of the compacted file's records stands in it: the files that held them go.
fn verify_log_file(conn: &Connection, (file, first, last): (i64, i64, i64)) -> Result<()> {
    let elsewhere = "SELECT sequence FROM blobs WHERE sequence BETWEEN ?1 AND ?2 AND place = 0 AND file <> ?3 LIMIT 1";
    let mut select = conn.prepare_cached(elsewhere)?;
    let mut rows = select.query((first, last, file))?;
    let Some(row) = rows.next()? else { return Ok(()) };
    let blob: i64 = row.get(0)?;
    Err(failure(&format!("the content {blob} is not in the compacted log file {file} that stands for it")))
}

/// The same of every compacted file in force.
pub(super) fn verify_log_files(conn: &Connection) -> Result<()> {
    for row in log_files(conn)? {
        verify_log_file(conn, (stored_int(row.file)?, stored_int(row.first)?, stored_int(row.last)?))?;
    }
    Ok(())
}

/// Ascending by the records that they hold.
pub(super) fn log_files(conn: &Connection) -> Result<Vec<LogFileRow>> {
    let mut statement = conn.prepare_cached("SELECT file, first, last FROM log_files ORDER BY first, file")?;
    let mut rows = statement.query([])?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        let (file, first, last) = (loaded_int(row.get(0)?)?, loaded_int(row.get(1)?)?, loaded_int(row.get(2)?)?);
        files.push(LogFileRow { file, first, last });
    }
    Ok(files)
}

pub(super) fn log_usage(conn: &Connection, first: Sequence, last: Sequence) -> Result<LogUsage> {
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
