//! Finds versions by the SHA-256 of their content, for instant uploads. Only versions that have a SHA-256 and at least
//! `INSTANT_SIZE_MIN` bytes have a row. It holds the short hash of the digest; the whole digest is in the version's record.

use rusqlite::Connection;

use super::columns::{decoded, short_hash_of, stored_version};
use crate::error::{Result, failure};
use crate::records::Stored;
use orcas_record::{INSTANT_SIZE_MIN, Version};

/// The short hash under which a version has a row in `digests`; `None` if it has none.
fn version_short_hash(version: &Version) -> Option<i64> {
    version.sha256.filter(|_| version.size >= INSTANT_SIZE_MIN).map(|digest| short_hash_of(&digest))
}

pub(crate) fn add(conn: &Connection, sequence: i64, version: &Version) -> Result<()> {
    let Some(short) = version_short_hash(version) else { return Ok(()) };
    conn.prepare_cached("INSERT INTO digests (tag, sequence) VALUES (?1, ?2)")?.execute((short, sequence))?;
    Ok(())
}

pub(crate) fn remove(conn: &Connection, sequence: i64, version: &Version) -> Result<()> {
    let Some(short) = version_short_hash(version) else { return Ok(()) };
    let mut delete = conn.prepare_cached("DELETE FROM digests WHERE tag = ?1 AND sequence = ?2")?;
    if delete.execute((short, sequence))? == 1 { Ok(()) } else { Err(failure("a version lacks its digest")) }
}

/// Ascending by sequence.
pub(crate) fn find(conn: &Connection, sha256: &[u8; 32], limit: usize) -> Result<Vec<Stored>> {
    let mut select = conn.prepare_cached(
        "SELECT d.sequence, v.kind, v.record, v.update_record FROM digests d \
         LEFT JOIN versions v ON v.sequence = d.sequence WHERE d.tag = ?1 ORDER BY d.sequence",
    )?;
    let mut rows = select.query([short_hash_of(sha256)])?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let stored = stored_version(row)?;
        // Different digests may have the same short hash.
        if decoded(stored.kind, &stored.record)?.sha256.as_ref() == Some(sha256) {
            found.push(stored);
        }
    }
    Ok(found)
}
