//! What a rebuild keeps aside. Log compaction drops records that no longer count, so that in the middle of a replay from
//! the beginning a manifest may name a blob that is not there: its record was dropped, because something later in the log
//! takes the reference away again. Such references are orphans; at the end of the rebuild there must be none.
//!
//! Orphans live in memory alone. So an index in the middle of a rebuild says so in `meta`, and is refused when it is
//! opened: a rebuild that stopped begins anew.

use rusqlite::{Connection, OptionalExtension};

use super::deltas::{PackDelta, add_delta};
use super::error::{Result, failure};
use super::id_map::{IdMap, IdPairMap};

#[derive(Default)]
pub(super) struct Rebuild {
    /// Of a log that lacks records which count: what a record ends is ended even if what led to that is not there.
    pub(super) salvage: bool,
    /// ReferenceChanges of a bucket to a blob that is not there; never 0.
    blobs: IdPairMap<i64>,
    /// The same of segments.
    segments: IdPairMap<i64>,
    /// What stands in packs that are not there; never all 0.
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
    pub(super) fn orphan_blob(&mut self, blob: i64, bucket: i64, by: i64) -> Result<()> {
        orphan(&mut self.blobs, (blob, bucket), by)
    }

    pub(super) fn orphan_segment(&mut self, segment: i64, bucket: i64, by: i64) -> Result<()> {
        orphan(&mut self.segments, (segment, bucket), by)
    }

    /// Keeps what stands in a pack that was retired, or is not made yet.
    pub(super) fn keep_pack(&mut self, pack: i64, by: PackDelta) -> Result<()> {
        let kept = self.packs.entry(pack).or_default();
        kept.add(by)?;
        if *kept == PackDelta::default() {
            self.packs.remove(&pack);
        }
        Ok(())
    }

    pub(super) fn take_pack(&mut self, pack: i64) -> PackDelta {
        self.packs.remove(&pack).unwrap_or_default()
    }

    /// Whether everything that is named is there, and stands where something is.
    ///
    /// # Errors
    /// `Index` with the first finding.
    pub(super) fn verify(&self) -> Result<()> {
        if let Some((blob, bucket)) = self.blobs.keys().min() {
            return Err(failure(&format!("a manifest of bucket {bucket} names the blob {blob}, which is not there")));
        }
        if let Some((segment, bucket)) = self.segments.keys().min() {
            return Err(failure(&format!(
                "a manifest of bucket {bucket} names the segment {segment}, which is not there"
            )));
        }
        if let Some(pack) = self.packs.keys().min() {
            return Err(failure(&format!("chunks stand in the pack {pack}, which is not there")));
        }
        Ok(())
    }
}

/// Marks the index as unfinished; part of the first transaction of a rebuild.
pub(super) fn mark(conn: &Connection) -> Result<()> {
    conn.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('rebuilding', x'')", [])?;
    Ok(())
}

/// Takes the mark away; part of the last transaction.
pub(super) fn unmark(conn: &Connection) -> Result<()> {
    conn.execute("DELETE FROM meta WHERE name = 'rebuilding'", [])?;
    Ok(())
}

/// # Errors
/// `Index` when a rebuild did not come to its end.
pub(super) fn refuse_unfinished(conn: &Connection) -> Result<()> {
    let select = "SELECT 1 FROM meta WHERE name = 'rebuilding'";
    let marked: Option<i64> = conn.query_row(select, [], |row| row.get(0)).optional()?;
    if marked.is_some() { Err(failure("a rebuild of the index did not come to its end")) } else { Ok(()) }
}
