//! Conversions between columns of several tables and values: numbers, records, version ids, ETags and checksums.

use bytes::Bytes;
use rusqlite::{Row, ToSql};

use crate::error::{Result, failure};
use crate::records::Stored;
use orcas_checksum::{ChecksumAlgorithm, ChecksumType, Etag, ObjectChecksum};
use orcas_record::{self as record, Record, Version, VersionId, short_hash};

/// A number as SQLite stores it. The log has no number above `i64::MAX`; if it had, this would fail rather than wrap.
pub(crate) fn stored_int(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| failure("a number is too large for the index"))
}

/// A number as SQLite returns it.
pub(crate) fn loaded_int(value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| failure("a row holds a negative number"))
}

/// Reads a record from a row whose sequence and payload are in these columns.
pub(crate) fn stored(row: &Row<'_>, sequence: usize, kind: u8, record: usize) -> Result<Stored> {
    Ok(Stored { sequence: loaded_int(row.get(sequence)?)?, kind, record: blob_bytes(row, record)?, update: None })
}

/// The short hash of a fingerprint or digest, by which tables find it.
pub(crate) fn short_hash_of(hash: &[u8; 32]) -> i64 {
    short_hash(hash).cast_signed()
}

pub(crate) fn blob_bytes(row: &Row<'_>, column: usize) -> Result<Bytes> {
    Ok(Bytes::copy_from_slice(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?))
}

/// NULL for the null version.
pub(crate) fn store_version_id(id: VersionId) -> Option<[u8; 16]> {
    match id {
        VersionId::Null => None,
        VersionId::Named(bytes) => Some(bytes),
    }
}

/// The MD5 alone, followed by the number of parts (two bytes, little-endian) where there are parts.
pub(crate) struct StoredEtag {
    bytes: [u8; 18],
    length: usize,
}

impl StoredEtag {
    pub(crate) fn new(etag: Etag) -> Self {
        let mut bytes = [0; 18];
        bytes[..16].copy_from_slice(&etag.md5);
        bytes[16..].copy_from_slice(&etag.parts.to_le_bytes());
        Self { bytes, length: if etag.parts == 0 { 16 } else { 18 } }
    }
}

impl ToSql for StoredEtag {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(self.bytes[..self.length].into())
    }
}

pub(crate) fn load_etag(bytes: &[u8]) -> Result<Etag> {
    let (md5, parts) = bytes.split_first_chunk::<16>().ok_or_else(|| failure("an ETag in a row is too short"))?;
    let parts = match parts {
        [] => 0,
        [low, high] => u16::from_le_bytes([*low, *high]),
        _ => return Err(failure("an ETag in a row is too long")),
    };
    Ok(Etag { md5: *md5, parts })
}

/// Format: the algorithm's code in the upper byte; below it 0 for a full object, 1 for a composite checksum.
pub(crate) fn store_checksum(checksum: &ObjectChecksum) -> i64 {
    let composite = checksum.kind() == ChecksumType::Composite;
    i64::from(checksum.checksum.algorithm().code()) << 8 | i64::from(composite)
}

pub(crate) fn load_checksum(stored: i64) -> Result<(ChecksumAlgorithm, ChecksumType)> {
    let [algorithm, kind] =
        u16::try_from(stored).map_err(|_| failure("a row holds an unknown checksum code"))?.to_be_bytes();
    let algorithm = ChecksumAlgorithm::from_code(algorithm);
    let algorithm = algorithm.ok_or_else(|| failure("a row holds an unknown checksum algorithm"))?;
    match kind {
        0 => Ok((algorithm, ChecksumType::FullObject)),
        1 => Ok((algorithm, ChecksumType::Composite)),
        _ => Err(failure("a row holds an unknown checksum type")),
    }
}

/// Reads a version from a row of (sequence, kind, record, update_record).
pub(crate) fn stored_version(row: &Row<'_>) -> Result<Stored> {
    // A current row without its record is damage. If it were reported as absent, nobody would notice that an object is lost.
    let kind: Option<u8> = row.get(1)?;
    let kind = kind.ok_or_else(|| failure("a version lacks its record"))?;
    with_update(row, kind)
}

/// Reads a version that has its record from a row of (sequence, kind, record, update_record).
pub(crate) fn with_update(row: &Row<'_>, kind: u8) -> Result<Stored> {
    let update = row.get_ref(3)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
    Ok(Stored { update: update.map(Bytes::copy_from_slice), ..stored(row, 0, kind, 2)? })
}

/// The version in a record of the table `versions`.
pub(crate) fn decoded(kind: u8, record: &Bytes) -> Result<Version> {
    match record::decode(kind, record) {
        Ok(
            Record::PutVersion(version) | Record::MoveVersion { version, .. } | Record::CompleteUpload { version, .. },
        ) => Ok(version),
        _ => Err(failure("the record of a version cannot be read")),
    }
}

/// The version of a row of (kind, record, update_record), with its present attributes.
pub(crate) fn present_version(row: &Row<'_>) -> Result<Version> {
    let version = decoded(row.get(0)?, &blob_bytes(row, 1)?)?;
    let Some(update) = row.get_ref(2)?.as_blob_or_null().map_err(rusqlite::Error::from)? else { return Ok(version) };
    match record::decode(record::UPDATE_VERSION, &Bytes::copy_from_slice(update)) {
        Ok(Record::UpdateVersion { attributes, .. }) => Ok(Version { attributes, ..version }),
        _ => Err(failure("the record of an update cannot be read")),
    }
}
