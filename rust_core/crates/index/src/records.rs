//! What the writer takes and reads return: records with their sequences, and the location of a blob.

use bytes::Bytes;

use orcas_record::{Record, Sequence};

/// A record that the writer is to apply.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'a> {
    pub sequence: Sequence,
    /// The record's frame type, returned with its payload by reads.
    pub kind: u8,
    pub record: &'a Record,
    /// The encoded record; stored verbatim for buckets, segments, versions, uploads and parts.
    pub payload: &'a Bytes,
    /// Where the bytes of a content are; `None` for every other record (the record of a chunk holds its location).
    pub location: Option<BlobLocation>,
}

/// A record as the index keeps it: `record::decode(kind, &record)` reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub sequence: Sequence,
    pub kind: u8,
    pub record: Bytes,
    /// Of a version: the newest UpdateVersion record that names it.
    pub update: Option<Bytes>,
}

/// Where the bytes of a blob are: a file, the offset of the frame in it, and the length of the content in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlobLocation {
    Log { file: u64, offset: u64, length: u32 },
    Pack { pack: u64, offset: u64, length: u32 },
}
