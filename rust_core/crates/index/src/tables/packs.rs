//! The packs that exist, with their number of blobs and their live and dead bytes. A transaction adds up the changes of
//! these numbers in memory, like those of buckets.

use rusqlite::{Connection, OptionalExtension};

use super::columns::{loaded_int, stored_int};
use crate::error::{Result, failure};
use crate::writer::rebuild::Rebuild;
use crate::writer::{IdMap, PackDelta};
use orcas_record::placement::codec;
use orcas_record::{ChunkLocation, PackId, Sequence};

/// A chunk in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedBlob {
    pub sequence: Sequence,
    pub at: ChunkLocation,
    /// The length of the content in bytes.
    pub length: u32,
    pub refs: u64,
}

/// The usage of a pack, in bytes of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackUsage {
    pub pack: PackId,
    pub blobs: u64,
    /// Bytes of blobs with references.
    pub live_bytes: u64,
    /// Bytes of blobs without references that were not removed yet.
    pub dead_bytes: u64,
}

pub(crate) const BLOBS: &str = "SELECT sequence, offset, length, refs FROM blobs INDEXED BY blobs_in_packs \
     WHERE place = 1 AND file = ?1 AND offset >= ?2 ORDER BY offset LIMIT ?3";

pub(crate) fn blobs(
    conn: &Connection,
    pack: PackId,
    after: Option<ChunkLocation>,
    limit: usize,
) -> Result<Vec<PackedBlob>> {
    let pack = codec::pack_number(pack);
    let mut statement = conn.prepare_cached(BLOBS)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query((stored_int(pack)?, first_offset(after)?, limit))?;
    let mut blobs = Vec::new();
    while let Some(row) = rows.next()? {
        blobs.push(PackedBlob {
            sequence: loaded_int(row.get(0)?)?,
            at: codec::chunk(pack, loaded_int(row.get(1)?)?),
            length: row.get(2)?,
            refs: loaded_int(row.get(3)?)?,
        });
    }
    Ok(blobs)
}

/// The smallest offset of a chunk after this one.
pub(crate) fn first_offset(after: Option<ChunkLocation>) -> Result<i64> {
    after.map_or(Ok(0), |at| stored_int(codec::chunk_parts(at).1 + 1))
}

/// Location and length of content of the last chunk.
pub(crate) fn last_chunk(conn: &Connection, pack: PackId) -> Result<Option<(ChunkLocation, u32)>> {
    let pack = codec::pack_number(pack);
    let mut statement = conn.prepare_cached(
        "SELECT offset, length FROM blobs INDEXED BY blobs_in_packs WHERE place = 1 AND file = ?1 \
         ORDER BY offset DESC LIMIT 1",
    )?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?));
    let found = statement.query_row([stored_int(pack)?], read).optional()?;
    found.map(|(offset, length)| Ok((codec::chunk(pack, loaded_int(offset)?), length))).transpose()
}

/// Every pack that exists, ascending.
pub(crate) fn usage(conn: &Connection) -> Result<Vec<PackUsage>> {
    let mut statement = conn.prepare_cached("SELECT pack, blobs, live, dead FROM packs ORDER BY pack")?;
    let mut rows = statement.query([])?;
    let mut packs = Vec::new();
    while let Some(row) = rows.next()? {
        packs.push(PackUsage {
            pack: codec::pack(loaded_int(row.get(0)?)?),
            blobs: loaded_int(row.get(1)?)?,
            live_bytes: loaded_int(row.get(2)?)?,
            dead_bytes: loaded_int(row.get(3)?)?,
        });
    }
    Ok(packs)
}

pub(crate) fn all(conn: &Connection) -> Result<Vec<PackId>> {
    let mut statement = conn.prepare_cached("SELECT pack FROM packs ORDER BY pack")?;
    let mut rows = statement.query([])?;
    let mut packs = Vec::new();
    while let Some(row) = rows.next()? {
        packs.push(codec::pack(loaded_int(row.get(0)?)?));
    }
    Ok(packs)
}

pub(crate) fn exists(conn: &Connection, pack: i64) -> Result<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM packs WHERE pack = ?1")?.exists([pack])?)
}

/// The changes of a transaction.
#[derive(Default)]
pub(crate) struct PackDeltas {
    touched: IdMap<PackDelta>,
}

impl PackDeltas {
    pub(crate) fn add(&mut self, pack: i64, by: PackDelta) -> Result<()> {
        self.touched.entry(pack).or_default().add(by)
    }

    /// Writes the changes; part of the transaction.
    ///
    /// # Errors
    /// `Index` when a pack does not exist, unless in a rebuild, which keeps the change for later.
    pub(crate) fn write(&mut self, conn: &Connection, rebuild: &mut Option<Rebuild>) -> Result<()> {
        let mut update = conn.prepare_cached(
            "UPDATE packs SET blobs = blobs + ?2, live = live + ?3, dead = dead + ?4 WHERE pack = ?1",
        )?;
        for (pack, delta) in self.touched.drain() {
            if delta == PackDelta::default() || update.execute((pack, delta.blobs, delta.live, delta.dead))? == 1 {
                continue;
            }
            match rebuild {
                Some(rebuild) => rebuild.keep_pack(pack, delta)?,
                None => return Err(failure("a chunk is in a pack that does not exist")),
            }
        }
        Ok(())
    }
}

pub(crate) fn create(conn: &Connection, rebuild: &mut Option<Rebuild>, sequence: Sequence, pack: PackId) -> Result<()> {
    let pack = stored_int(codec::pack_number(pack))?;
    let kept = rebuild.as_mut().map(|rebuild| rebuild.take_pack(pack)).unwrap_or_default();
    let mut insert =
        conn.prepare_cached("INSERT INTO packs (pack, sequence, blobs, live, dead) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    insert.execute((pack, stored_int(sequence)?, kept.blobs, kept.live, kept.dead))?;
    note_number(conn, pack)
}

/// Records the highest number that a pack ever had. It outlives the pack, because numbers are never reused.
fn note_number(conn: &Connection, pack: i64) -> Result<()> {
    let mut set = conn.prepare_cached(
        "INSERT INTO meta (name, value) VALUES ('highest pack', ?1) \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value < excluded.value",
    )?;
    set.execute([pack.to_be_bytes()])?;
    Ok(())
}

/// The pack with the highest number, retired or not; `None` when there was none.
pub(crate) fn highest(conn: &Connection) -> Result<Option<PackId>> {
    let mut select = conn.prepare_cached("SELECT value FROM meta WHERE name = 'highest pack'")?;
    let stored: Option<[u8; 8]> = select.query_row([], |row| row.get(0)).optional()?;
    stored.map(|stored| Ok(codec::pack(loaded_int(i64::from_be_bytes(stored))?))).transpose()
}

/// Removes a pack and returns what it held; `None` when it does not exist. Changes of packs must have been written.
pub(crate) fn retire(conn: &Connection, pack: i64) -> Result<Option<PackDelta>> {
    let mut delete = conn.prepare_cached("DELETE FROM packs WHERE pack = ?1 RETURNING blobs, live, dead")?;
    note_number(conn, pack)?;
    let gone =
        delete.query_row([pack], |row| Ok(PackDelta { blobs: row.get(0)?, live: row.get(1)?, dead: row.get(2)? }));
    Ok(gone.optional()?)
}
