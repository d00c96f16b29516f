//! Versions by the SHA-256 of their bytes: what an instant upload is answered from. Only versions that keep one, and
//! only those of at least `INSTANT_SIZE_MIN` bytes. A row holds the beginning of the digest; the rest stands in the
//! version's record.

use rusqlite::Connection;

use super::columns::{beginning, decoded, stored_version};
use super::error::{Result, failure};
use super::records::Stored;
use orcas_record::{INSTANT_SIZE_MIN, Version};

/// What stands in `digests` for a version, if anything does.
fn tag_of(version: &Version) -> Option<i64> {
    version.sha256.filter(|_| version.size >= INSTANT_SIZE_MIN).map(|digest| beginning(&digest))
}

pub(super) fn add(conn: &Connection, sequence: i64, version: &Version) -> Result<()> {
    let Some(tag) = tag_of(version) else { return Ok(()) };
    conn.prepare_cached("INSERT INTO digests (tag, sequence) VALUES (?1, ?2)")?.execute((tag, sequence))?;
    Ok(())
}

pub(super) fn remove(conn: &Connection, sequence: i64, version: &Version) -> Result<()> {
    let Some(tag) = tag_of(version) else { return Ok(()) };
    let mut delete = conn.prepare_cached("DELETE FROM digests WHERE tag = ?1 AND sequence = ?2")?;
    if delete.execute((tag, sequence))? == 1 { Ok(()) } else { Err(failure("a version lacks its digest")) }
}

/// Ascending by sequence.
pub(super) fn find(conn: &Connection, sha256: &[u8; 32], limit: usize) -> Result<Vec<Stored>> {
    let mut select = conn.prepare_cached(
        "SELECT d.sequence, v.kind, v.record FROM digests d LEFT JOIN versions v ON v.sequence = d.sequence \
         WHERE d.tag = ?1 ORDER BY d.sequence",
    )?;
    let mut rows = select.query([beginning(sha256)])?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let stored = stored_version(row)?;
        // Eight bytes are a hint, the digest is what was asked for.
        if decoded(stored.kind, &stored.record)?.sha256.as_ref() == Some(sha256) {
            found.push(stored);
        }
    }
    Ok(found)
}
