//! The log: files written by one writer and chained by keyed BLAKE3. It is the source of truth of the store.
//!
//! Invariants: a batch counts only if its commit record continues the chain. Only the last file can have a tail that is
//! not durable, because the header of the next file names the durable end of the one before. After a failed write or
//! sync, everything after the last good batch of that file is void. A compacted file replaces a run of closed files;
//! the records say which are in force, so no file is removed before `Log::keep`. Frames are opaque: this crate must not
//! know record types, packs, the index or the engine. `docs/format.md` specifies every byte.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files directly"))]

mod chain;
mod compaction;
mod damaged;
mod encoding;
mod reader;
mod recovery;
mod scan;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

pub use chain::{ClosedLog, CompactedLog, Continuation, LogFiles, SpareMaker, check_formats, files_up_to, size_at};
pub use compaction::LogCompaction;
pub use damaged::{
    Counted, Examined, Inspection, LogFault, LogGap, LogPiece, LogRewrite, LogSalvage, OtherLog, SET_ASIDE, Salvaged,
    Seen, inspect, set_aside_before, store_ids,
};
pub use encoding::{Batch, BatchFrame, FRAME_PAYLOAD_MAX, FileContext};
pub use reader::LogReader;
pub use recovery::{RecoverError, Recovered, follow, recover};
pub use writer::{Appended, BatchLocation, Log};

use orcas_base::error::Error;
use orcas_fs::Random;
use orcas_record::placement::codec;
use orcas_record::{LogFileId, LogLocation, Sequence};

/// Bytes that a log file is created with: large enough that this is rare, small enough that deletions soon empty a whole
/// file and free its space.
pub const FILE_SIZE: u64 = 16 << 20;

/// Bytes of the fingerprint, which precedes the content in the payload of a content record.
pub const CONTENT_PREFIX: usize = 32;

#[derive(Clone)]
pub struct LogOptions {
    pub dir: PathBuf,
    pub store_id: [u8; 16],
    /// Secret of the store. Without it nobody can forge a commit record.
    pub commit_key: [u8; 32],
    /// Bytes of a file. One is larger only if a single batch is.
    pub file_size: u64,
    /// Whether the store has had a log. Then a missing log is an error.
    pub established: bool,
    pub random: Arc<dyn Random>,
}

/// A position between two batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    file: u64,
    /// End of the commit record of the batch before.
    offset: u64,
    /// Chain value of that commit record.
    chain: [u8; 32],
    /// Last sequence of the batch before.
    pub sequence: Sequence,
}

impl LogPosition {
    pub const ENCODED: usize = 56;

    /// Before the first batch of a store.
    pub const ORIGIN: Self = Self { file: 0, offset: 0, chain: [0; 32], sequence: 0 };

    /// Before the first batch, with the sequence of a last record, for an index that follows no log.
    pub fn detached(sequence: Sequence) -> Self {
        Self { sequence, ..Self::ORIGIN }
    }

    pub fn file(&self) -> LogFileId {
        codec::log_file(self.file)
    }

    /// Bytes of its file before it.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// Whether the same batches come before both, in whichever files.
    pub fn same_chain(&self, other: &Self) -> bool {
        self.chain == other.chain
    }

    /// Whether the bytes that end at `end` are in the same file and before this position.
    pub fn is_behind(&self, end: LogLocation) -> bool {
        let (file, offset) = codec::in_log_parts(end);
        file == self.file && offset <= self.offset
    }

    /// Format: file u64 | offset u64 | sequence u64 | chain 32 bytes, little-endian.
    pub fn encode(&self) -> [u8; Self::ENCODED] {
        let mut out = [0; Self::ENCODED];
        out[0..8].copy_from_slice(&self.file.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..56].copy_from_slice(&self.chain);
        out
    }

    /// `None` unless there are exactly `ENCODED` bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::decode_whole)
    }

    fn decode_whole(bytes: &[u8; Self::ENCODED]) -> Self {
        let number = |at| u64::from_le_bytes(orcas_base::block::field(bytes, at));
        Self { file: number(0), offset: number(8), sequence: number(16), chain: orcas_base::block::field(bytes, 24) }
    }
}

/// A batch as recovery found it, or at its new position if recovery appended it again.
#[derive(Clone, Debug)]
pub struct RecoveredBatch {
    pub position: LogPosition,
    pub records: Vec<RecoveredRecord>,
}

#[derive(Clone, Debug)]
pub struct RecoveredRecord {
    pub sequence: Sequence,
    pub kind: u8,
    /// A slice of a block of several MiB. Copy it to keep it for long.
    pub payload: Bytes,
    pub at: LogLocation,
}

impl RecoveredRecord {
    /// The offset at which the frame begins in its file.
    pub fn byte(&self) -> u64 {
        codec::in_log_parts(self.at).1
    }

    /// The error for a record that cannot be decoded, in the log at `dir`.
    pub fn corrupt(&self, dir: &Path) -> Error {
        Error::corrupt(dir, codec::in_log_parts(self.at).1, "a record cannot be read")
    }
}

impl LogOptions {
    /// The path of a file.
    pub fn path(&self, file: LogFileId) -> PathBuf {
        file_path(&self.dir, codec::log_file_number(file))
    }

    /// The file and the byte, for messages.
    pub fn place(&self, at: LogLocation) -> String {
        let (file, offset) = codec::in_log_parts(at);
        place(&file_path(&self.dir, file), offset)
    }
}

fn place(path: &Path, offset: u64) -> String {
    format!("{}, byte {offset}", path.display())
}

fn file_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}.log"))
}

/// The log file that has this name; `None` for names that no log file has.
pub fn log_named(name: &str) -> Option<LogFileId> {
    file_number(name).map(codec::log_file)
}

/// The number in the name of a log file. `None` for any other name.
fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|number| *number > 0)
}
