//! A file of a log that may be damaged, and what is missing or wrong there.

use std::path::PathBuf;

use orcas_record::Sequence;

use super::LogPosition;
use super::directory::LogDirectory;
use super::header::Header;

/// A file of the chain, or what is left of it.
pub struct LogPiece {
    pub(super) directory: LogDirectory,
    pub(super) header: Header,
    /// Where the next file says this one ends; `None` when that is not known, as of the file that was written last.
    pub(super) end: Option<LogPosition>,
    /// Whether where the file begins in the chain can be believed.
    pub(super) from_known: bool,
    /// What is missing between the piece before and this one.
    pub gap: Option<LogGap>,
    /// Bytes to read.
    pub bytes: u64,
}

/// Records up to `until` that no file holds.
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

    /// Last sequence before the file's first record.
    pub fn after(&self) -> Sequence {
        self.header.from().sequence
    }
}

/// Something in a log file that is not as it was written.
#[derive(Clone, Debug)]
pub struct LogFault {
    pub file: u64,
    pub path: PathBuf,
    pub offset: u64,
    pub reason: &'static str,
    /// First and last of the records that cannot be read because of it. The last is `Sequence::MAX` when nobody knows.
    pub lost: Option<(Sequence, Sequence)>,
}
