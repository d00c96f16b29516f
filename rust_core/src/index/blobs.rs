//! Blobs (contents in the log, chunks in packs), segments, and the packs that exist. All are named by sequence; only
//! here stands where their bytes are.

use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::{failure, loaded_int, stored_int};
use crate::error::Result;
use crate::record::Sequence;

/// Where the bytes of a blob stand: a file, the offset of the frame in it, and the bytes of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlobLocation {
    Log { file: u64, offset: u64, length: u32 },
    Pack { pack: u64, offset: u64, length: u32 },
}

const PLACE_LOG: u8 = 0;
const PLACE_PACK: u8 = 1;

pub(super) fn blob(conn: &Connection, blob: Sequence) -> Result<Option<BlobLocation>> {
    let mut statement = conn.prepare_cached("SELECT place, file, offset, length FROM blobs WHERE sequence = ?1")?;
    let mut rows = statement.query([stored_int(blob)?])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (file, offset, length) = (loaded_int(row.get(1)?)?, loaded_int(row.get(2)?)?, row.get(3)?);
    match row.get(0)? {
        PLACE_LOG => Ok(Some(BlobLocation::Log { file, offset, length })),
        PLACE_PACK => Ok(Some(BlobLocation::Pack { pack: file, offset, length })),
        _ => Err(failure("a blob stands in an unknown place")),
    }
}

pub(super) fn segment(conn: &Connection, segment: Sequence) -> Result<Option<Bytes>> {
    let mut statement = conn.prepare_cached("SELECT record FROM segments WHERE sequence = ?1")?;
    let found =
        statement.query_row([stored_int(segment)?], |row| Ok(Bytes::copy_from_slice(row.get_ref(0)?.as_blob()?)));
    Ok(found.optional()?)
}

pub(super) fn packs(conn: &Connection) -> Result<Vec<u64>> {
    let mut statement = conn.prepare_cached("SELECT pack FROM packs ORDER BY pack")?;
    let mut rows = statement.query([])?;
    let mut packs = Vec::new();
    while let Some(row) = rows.next()? {
        packs.push(loaded_int(row.get(0)?)?);
    }
    Ok(packs)
}

pub(super) struct BlobWriter<'c> {
    conn: &'c Connection,
    insert: CachedStatement<'c>,
}

impl<'c> BlobWriter<'c> {
    pub(super) fn new(conn: &'c Connection) -> Result<Self> {
        let insert = conn
            .prepare_cached("INSERT INTO blobs (sequence, place, file, offset, length) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        Ok(Self { conn, insert })
    }

    pub(super) fn put(&mut self, sequence: Sequence, location: BlobLocation) -> Result<()> {
        let (place, file, offset, length) = match location {
            BlobLocation::Log { file, offset, length } => (PLACE_LOG, file, offset, length),
            BlobLocation::Pack { pack, offset, length } => (PLACE_PACK, pack, offset, length),
        };
        self.insert.execute((stored_int(sequence)?, place, stored_int(file)?, stored_int(offset)?, length))?;
        Ok(())
    }

    pub(super) fn put_segment(&self, sequence: Sequence, record: &[u8]) -> Result<()> {
        let mut insert = self.conn.prepare_cached("INSERT INTO segments (sequence, record) VALUES (?1, ?2)")?;
        insert.execute((stored_int(sequence)?, record))?;
        Ok(())
    }

    pub(super) fn create_pack(&self, sequence: Sequence, pack: u64) -> Result<()> {
        let mut insert = self.conn.prepare_cached("INSERT INTO packs (pack, sequence) VALUES (?1, ?2)")?;
        insert.execute((stored_int(pack)?, stored_int(sequence)?))?;
        Ok(())
    }
}
