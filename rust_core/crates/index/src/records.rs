//! The types that the writer takes and reads return: records with their sequences.

use bytes::Bytes;

use orcas_record::{BlobLocation, Record, Sequence};

/// A record that the writer is to apply.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'a> {
    pub sequence: Sequence,
    /// The record's frame type, returned with its payload by reads.
    pub kind: u8,
    pub record: &'a Record,
    /// The encoded record; stored verbatim for buckets, segments, versions, uploads and parts.
    pub payload: &'a Bytes,
    /// The location of the bytes of a content; `None` for every other record (the record of a chunk holds its
    /// location).
    pub location: Option<BlobLocation>,
}

/// A record as the index keeps it: `record::decode(kind, &record)` reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub sequence: Sequence,
    pub kind: u8,
    pub record: Bytes,
    /// The newest UpdateVersion record that names the version, if the record is a version.
    pub update: Option<Bytes>,
}
