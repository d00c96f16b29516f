//! Dangling references during a rebuild. Log compaction drops records that are no longer needed. So in the middle of a
//! replay from the beginning, a manifest may name a blob whose record was dropped, because a later record removes that
//! manifest. Such references are orphans; at the end of the rebuild there must be none.
//!
//! Orphans are kept in memory only. Therefore an index is marked in `meta` as unfinished while it is rebuilt. An index
//! with the mark is refused when it is opened, and the rebuild starts over.

use rusqlite::{Connection, OptionalExtension};

use super::deltas::{PackDelta, add_delta};
use super::id_map::{IdMap, IdPairMap};
use crate::error::{Result, failure};

#[derive(Default)]
pub(crate) struct Rebuild {
    /// Whether the log may lack records that are needed: a record takes effect even if earlier ones are missing.
    pub(crate) salvage: bool,
    /// Number of references of a bucket to a blob that does not exist; never 0.
    blobs: IdPairMap<i64>,
    /// The number of references of a bucket to a segment that does not exist; never 0.
    segments: IdPairMap<i64>,
    /// Blobs and bytes of packs that do not exist; never all 0.
    packs: IdMap<PackDelta>,
}

fn orphan(orphans: &mut IdPairMap<i64>, name: (i64, i64), by: i64) -> Result<()> {
    let refs = orphans.entry(name).or_default();
    add_delta(refs, by)?;
    if *refs == 0 {
        orphans.remove(&name);
    }
    Ok(())
}

impl Rebuild {
    pub(crate) fn orphan_blob(&mut self, blob: i64, bucket: i64, by: i64) -> Result<()> {
        orphan(&mut self.blobs, (blob, bucket), by)
    }

    pub(crate) fn orphan_segment(&mut self, segment: i64, bucket: i64, by: i64) -> Result<()> {
        orphan(&mut self.segments, (segment, bucket), by)
    }

    /// Adds to what a pack holds that was retired or is not created yet.
    pub(crate) fn keep_pack(&mut self, pack: i64, by: PackDelta) -> Result<()> {
        let kept = self.packs.entry(pack).or_default();
        kept.add(by)?;
        if *kept == PackDelta::default() {
            self.packs.remove(&pack);
        }
        Ok(())
    }

    pub(crate) fn take_pack(&mut self, pack: i64) -> PackDelta {
        self.packs.remove(&pack).unwrap_or_default()
    }

    /// Checks that all blobs, segments and packs that records name exist.
    ///
    /// # Errors
    /// `Index` with the first one that is missing.
    pub(crate) fn verify(&self) -> Result<()> {
        if let Some((blob, bucket)) = self.blobs.keys().min() {
            return Err(failure(&format!("a manifest of bucket {bucket} names the blob {blob}, which does not exist")));
        }
        if let Some((segment, bucket)) = self.segments.keys().min() {
            return Err(failure(&format!(
                "a manifest of bucket {bucket} names the segment {segment}, which does not exist"
            )));
        }
        if let Some(pack) = self.packs.keys().min() {
            return Err(failure(&format!("chunks are in the pack {pack}, which does not exist")));
        }
        Ok(())
    }
}

/// Marks the index as unfinished; part of the first transaction of a rebuild.
pub(crate) fn mark(conn: &Connection) -> Result<()> {
    conn.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('rebuilding', x'')", [])?;
    Ok(())
}

/// Removes the mark; part of the last transaction.
pub(crate) fn unmark(conn: &Connection) -> Result<()> {
    conn.execute("DELETE FROM meta WHERE name = 'rebuilding'", [])?;
    Ok(())
}

/// # Errors
/// `Index` when a rebuild was interrupted.
pub(crate) fn refuse_unfinished(conn: &Connection) -> Result<()> {
    let select = "SELECT 1 FROM meta WHERE name = 'rebuilding'";
    let marked: Option<i64> = conn.query_row(select, [], |row| row.get(0)).optional()?;
    if marked.is_some() { Err(failure("a rebuild of the index was interrupted")) } else { Ok(()) }
}
