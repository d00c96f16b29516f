//! A file of a log that may be damaged, and descriptions of gaps and faults.

use std::path::PathBuf;

use orcas_record::placement::codec;
use orcas_record::{LogFileId, LogLocation, Sequence};

use crate::chain::LogDirectory;
use crate::encoding::Header;
use crate::{LogPosition, place};

/// A file of the chain that may be damaged.
pub struct LogPiece {
    pub(crate) directory: LogDirectory,
    pub(crate) header: Header,
    /// The end of the file according to the next one. `None` if unknown, as for the last file.
    pub(crate) end: Option<LogPosition>,
    /// Whether the start position in the header is reliable.
    pub(crate) from_known: bool,
    /// The gap between the previous piece and this one, if bytes are missing there.
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
    pub fn file(&self) -> LogFileId {
        codec::log_file(self.header.number())
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path(self.header.number())
    }

    /// The last sequence before the first record of the file.
    pub fn after(&self) -> Sequence {
        self.header.from().sequence
    }
}

/// Damage in a log file.
#[derive(Clone, Debug)]
pub struct LogFault {
    pub path: PathBuf,
    /// 0 if it concerns the whole file.
    pub(crate) offset: u64,
    pub reason: &'static str,
    /// First and last sequence of the records that are lost. The last is `Sequence::MAX` if it is unknown.
    pub lost: Option<(Sequence, Sequence)>,
    /// The kind of the record that is lost, if its frame header can be read.
    pub kind: Option<u8>,
}

impl LogFault {
    /// Damage of a whole file.
    pub fn of_file(path: PathBuf, reason: &'static str, lost: Option<(Sequence, Sequence)>) -> Self {
        Self { path, offset: 0, reason, lost, kind: None }
    }

    /// Damage of the record at `at`.
    pub fn of_record(at: LogLocation, path: PathBuf, reason: &'static str, sequence: Sequence) -> Self {
        Self { path, offset: codec::in_log_parts(at).1, reason, lost: Some((sequence, sequence)), kind: None }
    }

    pub fn concerns_file(&self) -> bool {
        self.offset == 0
    }

    pub fn byte(&self) -> u64 {
        self.offset
    }

    /// The file and the byte, for messages.
    pub fn place(&self) -> String {
        place(&self.path, self.offset)
    }
}
