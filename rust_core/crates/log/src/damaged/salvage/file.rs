//! A file of a damaged log, and the records that it covers.

use orcas_record::Sequence;

use crate::encoding::{FileContext, Header};

/// A file of a damaged log.
pub struct SalvagedFile {
    pub number: u64,
    pub context: FileContext,
    /// Present if its checksum matches and this store wrote it.
    pub header: Option<Header>,
    /// Bytes from here on are void.
    pub limit: u64,
    /// The last sequence that the file covers, if known.
    pub until: Option<Sequence>,
    /// Sequence of the first readable record.
    pub first: Sequence,
    /// A compacted file without damage. It replaces other forms of the records that it covers.
    pub whole: bool,
}

/// A compacted file without damage. It covers the records after `from` up to `end`.
pub struct Whole {
    pub number: u64,
    pub from: Sequence,
    pub end: Sequence,
}

impl Whole {
    /// Whether this file has a newer copy of a record of an older file.
    pub fn replaces(&self, file: u64, sequence: Sequence) -> bool {
        file < self.number && self.from < sequence && sequence <= self.end
    }
}

impl SalvagedFile {
    pub fn is_compacted(&self) -> bool {
        matches!(self.header, Some(Header::Compacted(_)))
    }

    pub fn stands_for(&self) -> Option<Whole> {
        match &self.header {
            Some(Header::Compacted(header)) if self.whole => {
                Some(Whole { number: self.number, from: header.from.sequence, end: header.end.sequence })
            }
            _ => None,
        }
    }
}
