//! Current rows: one narrow row for each key with a current version that is no delete marker, clustered by (bucket, key), so
//! that a listing page is one range scan. Keys compare as bytes. `versions` decides which version is the current one.

use std::borrow::Cow;

use rusqlite::{Connection, Row, ToSql};

use super::columns::{StoredEtag, load_checksum, load_etag, loaded_int, store_checksum, store_version_id, stored_int};
use crate::error::Result;
use orcas_checksum::{ChecksumAlgorithm, ChecksumType, Etag};
use orcas_record::{BucketId, Sequence, StorageClass, Version};

/// The columns of an object that a listing shows. Rows of a scan borrow their key from the page; others own it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRow<'a> {
    pub key: Cow<'a, [u8]>,
    /// The record that holds the version.
    pub sequence: Sequence,
    /// Milliseconds since the Unix epoch.
    pub modified_ms: u64,
    /// Bytes.
    pub size: u64,
    pub etag: Etag,
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The storage class; `None` for `STANDARD`.
    pub class: Option<StorageClass>,
}

impl ListedRow<'_> {
    fn into_owned(self) -> ListedRow<'static> {
        ListedRow { key: Cow::Owned(self.key.into_owned()), ..self }
    }
}

const BY_KEY: &str =
    "SELECT key, sequence, modified_ms, size, etag, checksum, class FROM heads WHERE bucket = ?1 AND key = ?2";
pub(crate) const FROM: &str = "SELECT key, sequence, modified_ms, size, etag, checksum, class FROM heads \
     WHERE bucket = ?1 AND key >= ?2 ORDER BY key LIMIT ?3";
const AFTER: &str = "SELECT key, sequence, modified_ms, size, etag, checksum, class FROM heads \
     WHERE bucket = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
pub(crate) const FROM_UNTIL: &str = "SELECT key, sequence, modified_ms, size, etag, checksum, class FROM heads \
     WHERE bucket = ?1 AND key >= ?2 AND key < ?4 ORDER BY key LIMIT ?3";
const AFTER_UNTIL: &str = "SELECT key, sequence, modified_ms, size, etag, checksum, class FROM heads \
     WHERE bucket = ?1 AND key > ?2 AND key < ?4 ORDER BY key LIMIT ?3";

pub(crate) fn current(conn: &Connection, bucket: BucketId, key: &[u8]) -> Result<Option<ListedRow<'static>>> {
    let mut statement = conn.prepare_cached(BY_KEY)?;
    let mut rows = statement.query((stored_int(bucket.0)?, key))?;
    rows.next()?.map(|row| Ok(listed_row(row)?.into_owned())).transpose()
}

pub(crate) fn scan(
    conn: &Connection,
    bucket: BucketId,
    from: &[u8],
    inclusive: bool,
    until: Option<&[u8]>,
    limit: usize,
    visit: &mut dyn FnMut(ListedRow<'_>) -> bool,
) -> Result<()> {
    let mut statement = conn.prepare_cached(match (inclusive, until) {
        (true, None) => FROM,
        (false, None) => AFTER,
        (true, Some(_)) => FROM_UNTIL,
        (false, Some(_)) => AFTER_UNTIL,
    })?;
    let (bucket, limit) = (stored_int(bucket.0)?, i64::try_from(limit).unwrap_or(i64::MAX));
    let mut rows = match &until {
        None => statement.query((bucket, from, limit))?,
        Some(until) => statement.query((bucket, from, limit, until))?,
    };
    while let Some(row) = rows.next()? {
        if !visit(listed_row(row)?) {
            break;
        }
    }
    Ok(())
}

pub(crate) fn listed_row<'r>(row: &'r Row<'_>) -> Result<ListedRow<'r>> {
    Ok(ListedRow {
        key: Cow::Borrowed(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?),
        sequence: loaded_int(row.get(1)?)?,
        modified_ms: loaded_int(row.get(2)?)?,
        size: loaded_int(row.get(3)?)?,
        etag: load_etag(row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?)?,
        checksum: row.get::<_, Option<i64>>(5)?.map(load_checksum).transpose()?,
        class: row.get::<_, Option<u8>>(6)?.and_then(StorageClass::from_code),
    })
}

/// The columns that `heads` and `history` share, ready to bind.
pub(crate) struct ListedColumns<'v> {
    pub(crate) bucket: i64,
    pub(crate) key: &'v [u8],
    pub(crate) sequence: i64,
    pub(crate) modified_ms: i64,
    pub(crate) size: i64,
    pub(crate) etag: StoredEtag,
    pub(crate) checksum: Option<i64>,
    pub(crate) class: Option<u8>,
    pub(crate) version_id: Option<[u8; 16]>,
}

impl ListedColumns<'_> {
    pub(crate) fn bind(&self) -> [&dyn ToSql; 9] {
        [
            &self.bucket,
            &self.key,
            &self.sequence,
            &self.modified_ms,
            &self.size,
            &self.etag,
            &self.checksum,
            &self.class,
            &self.version_id,
        ]
    }
}

pub(crate) fn columns(version: &Version, sequence: Sequence) -> Result<ListedColumns<'_>> {
    Ok(ListedColumns {
        bucket: stored_int(version.bucket.0)?,
        key: &version.key,
        sequence: stored_int(sequence)?,
        modified_ms: stored_int(version.modified_ms)?,
        size: stored_int(version.size)?,
        etag: StoredEtag::new(version.etag),
        checksum: version.checksum.as_ref().map(store_checksum),
        class: version.headers.storage_class.as_deref().and_then(StorageClass::from_name).map(StorageClass::code),
        version_id: store_version_id(version.version_id),
    })
}
