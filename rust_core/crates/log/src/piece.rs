//! A file of a log that may be damaged, and descriptions of gaps and faults.

use std::path::PathBuf;

use orcas_record::Sequence;

use super::LogPosition;
use super::directory::LogDirectory;
use super::header::Header;

/// A file of the chain that may be damaged.
pub struct LogPiece {
    pub(super) directory: LogDirectory,
    pub(super) header: Header,
    /// The end of the file according to the next one. `None` if unknown, as for the last file.
    pub(super) end: Option<LogPosition>,
    /// Whether the start position in the header is reliable.
    pub(super) from_known: bool,
    /// What is missing between the previous piece and this one.
    pub gap: Option<LogGap>,
    /// Bytes to read.
    pub bytes: u64,
}

/// Records up to `until` that no file contains.
#[derive(Clone, Debug)]
pub struct LogGap {
    pub path: PathBuf,
    pub until: Sequence,
    pub reason: &'static str,
}

impl LogPiece {
    pub fn file(&self) -> u64 {
        self.header.number()
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path(self.file())
    }

    /// The last sequence before the first record of the file.
    pub fn after(&self) -> Sequence {
        self.header.from().sequence
    }
}

/// Damage in a log file.
#[derive(Clone, Debug)]
pub struct LogFault {
    pub file: u64,
    pub path: PathBuf,
    pub offset: u64,
    pub reason: &'static str,
    /// First and last sequence of the records that are lost. The last is `Sequence::MAX` if it is unknown.
    pub lost: Option<(Sequence, Sequence)>,
}
