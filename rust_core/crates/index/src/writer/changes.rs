//! All changes of a transaction that are added up in memory before they are written: counters, references and removed
//! versions. They are written at the end of the transaction or earlier, whenever the rows have to be current.

use rusqlite::Connection;

use super::counters::Counters;
use super::references::{CHANGES_MAX, OnSegmentRemoval, ReferenceChanges};
use super::removals::Removals;
use crate::error::Result;
use crate::tables::blobs::{BlobKeys, StoredLocation};
use orcas_record::Extent;

/// All changes of a transaction that are not written yet.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) counters: Counters,
    references: ReferenceChanges,
    removals: Removals,
}

impl Changes {
    /// Adds a new blob, which has no references yet.
    pub(crate) fn add_blob(&mut self, sequence: i64, at: StoredLocation, keys: BlobKeys) -> Result<()> {
        self.references.add_blob(sequence, at, keys)
    }

    /// Adds the references of a manifest, or of annotations, that were added to the bucket.
    pub(crate) fn hold<'e>(
        &mut self,
        conn: &Connection,
        bucket: i64,
        extents: impl IntoIterator<Item = &'e Extent>,
    ) -> Result<()> {
        self.references.count(conn, &mut self.counters, bucket, extents, 1)
    }

    /// Removes the references of a manifest, or of annotations, that were removed from the bucket.
    pub(crate) fn release<'e>(
        &mut self,
        conn: &Connection,
        bucket: i64,
        extents: impl IntoIterator<Item = &'e Extent>,
    ) -> Result<()> {
        self.references.count(conn, &mut self.counters, bucket, extents, -1)
    }

    /// Removes the record of a version, and with it the references of its manifest and of its annotations.
    pub(crate) fn remove_version(&mut self, bucket: i64, sequence: i64) {
        self.removals.add(bucket, sequence);
    }

    /// Whether the version is removed, though it may still have its row.
    pub(crate) fn is_removed(&self, sequence: i64) -> bool {
        self.removals.has(sequence)
    }

    pub(crate) fn on_segment_removal(&mut self, callback: OnSegmentRemoval) {
        self.references.on_segment_removal(callback);
    }

    /// Drops all changes, because the transaction was rolled back.
    pub(crate) fn discard(&mut self) {
        self.references.discard();
        (self.counters, self.removals) = Default::default();
    }

    /// Whether the changes take so much memory that they should be written.
    pub(crate) fn is_full(&self) -> bool {
        self.references.len() + self.removals.len() >= CHANGES_MAX
    }

    /// Writes the removals and the reference counts, so that the rows of versions, blobs and segments are current.
    pub(crate) fn write_references(&mut self, conn: &Connection) -> Result<()> {
        self.removals.write(conn, &mut self.counters, &mut self.references)?;
        self.references.write(conn, &mut self.counters)
    }

    /// Writes everything; part of the transaction.
    pub(crate) fn write(&mut self, conn: &Connection) -> Result<()> {
        self.write_references(conn)?;
        self.counters.write(conn)
    }
}
