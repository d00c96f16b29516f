//! Blobs (contents in the log, chunks in packs) with their locations, and segments. All are named by sequence.
//! `references` maintains their reference counts.

use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};

use super::columns::{loaded_int, short_hash_of, stored_int};
use crate::error::{Result, failure};
use orcas_record::placement::codec;
use orcas_record::{BlobLocation, Fingerprint, Seal, Sequence};

const PLACE_LOG: u8 = 0;
const PLACE_PACK: u8 = 1;

/// Rows that a scan of all blobs reads in one transaction.
const SCAN_ROWS: usize = 10_000;

pub(crate) const BY_TAG: &str = "SELECT sequence, length, identity FROM blobs WHERE tag = ?1 ORDER BY sequence DESC";
pub(crate) const DEAD: &str = "SELECT sequence, place, file, offset, length FROM blobs INDEXED BY blobs_dead \
     WHERE refs = 0 AND sequence > ?1 ORDER BY sequence LIMIT ?2";

/// A location as the columns of `blobs` hold it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredLocation {
    place: u8,
    pub(crate) file: i64,
    pub(crate) offset: i64,
    pub(crate) length: u32,
}

impl StoredLocation {
    pub(crate) fn new(location: BlobLocation) -> Result<Self> {
        let (place, (file, offset), length) = match location {
            BlobLocation::Log { at, length } => (PLACE_LOG, codec::in_log_parts(at), length),
            BlobLocation::Pack { at, length } => (PLACE_PACK, codec::chunk_parts(at), length),
        };
        Ok(Self { place, file: stored_int(file)?, offset: stored_int(offset)?, length })
    }

    /// Reads the columns place, file, offset and length from `first` on.
    pub(crate) fn load(row: &Row<'_>, first: usize) -> Result<Self> {
        Ok(Self {
            place: row.get(first)?,
            file: row.get(first + 1)?,
            offset: row.get(first + 2)?,
            length: row.get(first + 3)?,
        })
    }

    pub(crate) fn location(self) -> Result<BlobLocation> {
        let (file, offset, length) = (loaded_int(self.file)?, loaded_int(self.offset)?, self.length);
        match self.place {
            PLACE_LOG => Ok(BlobLocation::Log { at: codec::in_log(file, offset), length }),
            PLACE_PACK => Ok(BlobLocation::Pack { at: codec::chunk(file, offset), length }),
            _ => Err(failure("a blob has an unknown kind of location")),
        }
    }

    /// The blob's pack; `None` for a content.
    pub(crate) fn pack(self) -> Option<i64> {
        (self.place == PLACE_PACK).then_some(self.file)
    }
}

/// The values by which later content that is the same finds a blob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DedupKey {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) prefix_hash: u64,
}

/// The values by which a new blob is found and opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlobKeys {
    pub(crate) dedup: Option<DedupKey>,
    pub(crate) seal: Option<Seal>,
}

/// The place of a blob, and how it is sealed, if it is.
pub(crate) fn sealed_blob(conn: &Connection, blob: Sequence) -> Result<Option<(BlobLocation, Option<Seal>)>> {
    let sql = "SELECT place, file, offset, length, seal FROM blobs WHERE sequence = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([stored_int(blob)?])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let seal = match row.get_ref(4)?.as_blob_or_null().map_err(rusqlite::Error::from)? {
        None => None,
        Some(bytes) => Some(Seal::decode(bytes).ok_or_else(|| failure("a seal has the wrong length"))?),
    };
    Ok(Some((StoredLocation::load(row, 0)?.location()?, seal)))
}

pub(crate) fn blob(conn: &Connection, blob: Sequence) -> Result<Option<BlobLocation>> {
    let mut statement = conn.prepare_cached("SELECT place, file, offset, length FROM blobs WHERE sequence = ?1")?;
    let mut rows = statement.query([stored_int(blob)?])?;
    rows.next()?.map(|row| StoredLocation::load(row, 0)?.location()).transpose()
}

/// The newest shared blob with this fingerprint and its length; it may have no reference.
pub(crate) fn shared(conn: &Connection, fingerprint: &Fingerprint) -> Result<Option<(Sequence, u32)>> {
    let mut statement = conn.prepare_cached(BY_TAG)?;
    let mut rows = statement.query([short_hash_of(&fingerprint.0)])?;
    while let Some(row) = rows.next()? {
        if row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)? == fingerprint.0 {
            return Ok(Some((loaded_int(row.get(0)?)?, row.get(1)?)));
        }
    }
    Ok(None)
}

pub(crate) fn refs(conn: &Connection, blob: Sequence) -> Result<Option<u64>> {
    let mut statement = conn.prepare_cached("SELECT refs FROM blobs WHERE sequence = ?1")?;
    let mut rows = statement.query([stored_int(blob)?])?;
    rows.next()?.map(|row| loaded_int(row.get(0)?)).transpose()
}

pub(crate) fn fingerprint(conn: &Connection, blob: Sequence) -> Result<Option<Fingerprint>> {
    let mut statement = conn.prepare_cached("SELECT identity FROM blobs WHERE sequence = ?1")?;
    let mut rows = statement.query([stored_int(blob)?])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(row.get::<_, Option<[u8; 32]>>(0)?.map(Fingerprint))
}

/// Blobs without references, ascending.
pub(crate) fn dead(conn: &Connection, after: Sequence, limit: usize) -> Result<Vec<(Sequence, BlobLocation)>> {
    let mut statement = conn.prepare_cached(DEAD)?;
    let mut rows = statement.query((stored_int(after)?, i64::try_from(limit).unwrap_or(i64::MAX)))?;
    let mut dead = Vec::new();
    while let Some(row) = rows.next()? {
        dead.push((loaded_int(row.get(0)?)?, StoredLocation::load(row, 1)?.location()?));
    }
    Ok(dead)
}

/// Visits the prefix hashes of shared blobs in one page of rows. Returns where the next page begins, `None` at the end.
pub(crate) fn prefix_hashes_page(conn: &Connection, after: i64, visit: &mut dyn FnMut(u64)) -> Result<Option<i64>> {
    // The limit counts all rows, so that the transaction is short even where few blobs are shared.
    let mut statement =
        conn.prepare_cached("SELECT sequence, head FROM blobs WHERE sequence > ?1 ORDER BY sequence LIMIT ?2")?;
    let mut rows = statement.query((after, SCAN_ROWS as i64))?;
    let (mut last, mut seen) = (after, 0);
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        seen += 1;
        if let Some(prefix_hash) = row.get::<_, Option<i64>>(1)? {
            visit(prefix_hash.cast_unsigned());
        }
    }
    Ok((seen == SCAN_ROWS).then_some(last))
}

/// The columns of a row of `blobs` that `references` needs.
pub(crate) struct BlobRow {
    pub(crate) refs: i64,
    /// The smallest bucket that refers to the blob.
    pub(crate) home: Option<i64>,
    pub(crate) at: StoredLocation,
}

/// Reads and changes rows one after the other, with statements that are looked up once.
pub(crate) struct BlobRows<'c> {
    select: CachedStatement<'c>,
    update: CachedStatement<'c>,
}

impl<'c> BlobRows<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Result<Self> {
        Ok(Self {
            select: conn
                .prepare_cached("SELECT refs, bucket, place, file, offset, length FROM blobs WHERE sequence = ?1")?,
            update: conn.prepare_cached("UPDATE blobs SET refs = ?2, bucket = ?3 WHERE sequence = ?1")?,
        })
    }

    pub(crate) fn get(&mut self, blob: i64) -> Result<Option<BlobRow>> {
        let mut rows = self.select.query([blob])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(BlobRow { refs: row.get(0)?, home: row.get(1)?, at: StoredLocation::load(row, 2)? }))
    }

    pub(crate) fn set_refs(&mut self, blob: i64, refs: i64, home: Option<i64>) -> Result<()> {
        self.update.execute((blob, refs, home))?;
        Ok(())
    }
}

pub(crate) const INSERT: &str = "INSERT INTO blobs (sequence, place, file, offset, length, refs, bucket, tag, \
     identity, head, seal) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// Runs `INSERT`; `refs` and `home` are the values at the end of the transaction.
pub(crate) fn insert(
    statement: &mut CachedStatement<'_>,
    sequence: i64,
    at: StoredLocation,
    (refs, home): (i64, Option<i64>),
    keys: &BlobKeys,
) -> Result<()> {
    let dedup = keys.dedup.as_ref();
    let seal = keys.seal.as_ref().map(Seal::encode);
    let fingerprint = dedup.map(|dedup| &dedup.fingerprint.0[..]);
    let short = dedup.map(|dedup| short_hash_of(&dedup.fingerprint.0));
    let prefix_hash = dedup.map(|dedup| dedup.prefix_hash.cast_signed());
    statement.execute((
        sequence,
        at.place,
        at.file,
        at.offset,
        at.length,
        refs,
        home,
        short,
        fingerprint,
        prefix_hash,
        seal,
    ))?;
    Ok(())
}

pub(crate) fn set_place(conn: &Connection, blob: i64, file: i64, offset: i64) -> Result<()> {
    conn.prepare_cached("UPDATE blobs SET file = ?2, offset = ?3 WHERE sequence = ?1")?
        .execute((blob, file, offset))?;
    Ok(())
}

pub(crate) fn remove(conn: &Connection, blob: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM blobs WHERE sequence = ?1")?.execute([blob])?;
    Ok(())
}

pub(crate) fn segment(conn: &Connection, segment: Sequence) -> Result<Option<Bytes>> {
    let mut statement = conn.prepare_cached("SELECT record FROM segments WHERE sequence = ?1")?;
    let found =
        statement.query_row([stored_int(segment)?], |row| Ok(Bytes::copy_from_slice(row.get_ref(0)?.as_blob()?)));
    Ok(found.optional()?)
}

pub(crate) fn has_segment(conn: &Connection, segment: i64) -> Result<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM segments WHERE sequence = ?1")?.exists([segment])?)
}

pub(crate) fn put_segment(conn: &Connection, sequence: Sequence, record: &[u8]) -> Result<()> {
    let mut insert = conn.prepare_cached("INSERT INTO segments (sequence, record) VALUES (?1, ?2)")?;
    insert.execute((stored_int(sequence)?, record))?;
    Ok(())
}
