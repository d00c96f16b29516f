//! A file of a log as far as it can be read, and what it stands for.

use orcas_record::Sequence;

use super::super::format::FileSeal;
use super::super::header::Header;

/// A file as far as it can be read.
pub struct SalvagedFile {
    pub number: u64,
    pub seal: FileSeal,
    /// Its checksum holds, and this store made it.
    pub header: Option<Header>,
    /// Bytes beyond are void.
    pub limit: u64,
    /// The last sequence that the file stands for, where that is known.
    pub until: Option<Sequence>,
    /// Of the first record that can be read.
    pub first: Sequence,
    /// A compacted file in which everything is as it was written: what else is there for its records counts no more.
    pub whole: bool,
}

/// A whole compacted file, and the records that it stands for: behind `from`, up to `end`.
pub struct Whole {
    pub number: u64,
    pub from: Sequence,
    pub end: Sequence,
}

impl Whole {
    /// Whether it has everything that still counts of an older file's record.
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
