//! Configuration documents of buckets. A removal keeps its row, so that a bucket whose document was removed differs from
//! one that never had any.

use rusqlite::Connection;

use super::columns::{loaded_int, stored, stored_int};
use crate::error::Result;
use crate::records::{Applied, Stored};
use orcas_record::{BucketId, DocumentKind, Sequence};

pub(crate) fn all(conn: &Connection) -> Result<Vec<Stored>> {
    let mut statement =
        conn.prepare_cached("SELECT sequence, kind, record FROM documents ORDER BY bucket, document")?;
    let mut rows = statement.query([])?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        documents.push(stored(row, 0, row.get(1)?, 2)?);
    }
    Ok(documents)
}

pub(crate) fn sequence(conn: &Connection, bucket: BucketId, kind: DocumentKind) -> Result<Option<Sequence>> {
    let mut statement = conn.prepare_cached("SELECT sequence FROM documents WHERE bucket = ?1 AND document = ?2")?;
    let mut rows = statement.query((stored_int(bucket.0)?, kind.code()))?;
    rows.next()?.map(|row| loaded_int(row.get(0)?)).transpose()
}

/// The bucket exists.
pub(crate) fn put(conn: &Connection, applied: &Applied<'_>, bucket: BucketId, kind: DocumentKind) -> Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT OR REPLACE INTO documents (bucket, document, sequence, kind, record) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let (id, sequence) = (stored_int(bucket.0)?, stored_int(applied.sequence)?);
    insert.execute((id, kind.code(), sequence, applied.kind, &applied.payload[..]))?;
    Ok(())
}

pub(crate) fn delete_of_bucket(conn: &Connection, bucket: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM documents WHERE bucket = ?1")?.execute([bucket])?;
    Ok(())
}
