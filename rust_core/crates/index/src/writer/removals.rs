//! Versions that a transaction removes. They leave `heads` and `history` at once, but their records are removed
//! together, in the order of the table: keys come in any order, and each page of records is then read and written once,
//! however small the page cache is. A record releases the references of its manifest and of its annotations.

use rusqlite::Connection;

use super::counters::Counters;
use super::id_map::IdMap;
use super::references::{CHANGES_MAX, ReferenceChanges};
use crate::error::{Result, failure};
use crate::tables::{digests, present_version};

/// The bucket of each removed version, keyed by sequence.
#[derive(Default)]
pub(crate) struct Removals(IdMap<i64>);

impl Removals {
    pub(crate) fn add(&mut self, bucket: i64, sequence: i64) {
        self.0.insert(sequence, bucket);
    }

    pub(crate) fn has(&self, sequence: i64) -> bool {
        !self.0.is_empty() && self.0.contains_key(&sequence)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the records, and releases what they refer to.
    pub(crate) fn write(
        &mut self,
        conn: &Connection,
        counters: &mut Counters,
        references: &mut ReferenceChanges,
    ) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut removed: Vec<_> = self.0.drain().collect();
        removed.sort_unstable();
        // DELETE … RETURNING would fill a temporary table for each row.
        let mut select = conn.prepare_cached("SELECT kind, record, update_record FROM versions WHERE sequence = ?1")?;
        let mut delete = conn.prepare_cached("DELETE FROM versions WHERE sequence = ?1")?;
        for (sequence, bucket) in removed {
            let mut rows = select.query([sequence])?;
            let version = present_version(rows.next()?.ok_or_else(|| failure("a version lacks its record"))?)?;
            drop(rows);
            delete.execute([sequence])?;
            digests::remove(conn, sequence, &version)?;
            references.count(conn, counters, bucket, &version.manifest, -1)?;
            references.count(conn, counters, bucket, version.attributes.annotations.extents(), -1)?;
            if references.len() >= CHANGES_MAX {
                references.write(conn, counters)?;
            }
        }
        Ok(())
    }
}
